"""Which agents a process runs under: real processes with the agents' names, and the tables of other systems."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.ancestors import Ancestors

from cems.core.service import ancestry
from cems.core.service.ancestry import AGENTS, PEER, agent_of, agents_above, listed, with_agents
from cems.core.service.caller import Typist, caller_from, typist

LOOK = "import sys; sys.path.insert(0, {source!r}); from cems.core.service.ancestry import agents_above; import os; print(*agents_above(os.getpid()))"
REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = str(REPOSITORY / "src")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are not looked at on Windows")


@pytest.fixture
def above(tmp_path: Path) -> Ancestors:
    return Ancestors(tmp_path / "programs")


def seen(above: Ancestors, *names: str) -> list[str]:
    """What a Python process under programs of these names, outermost first, finds above itself (and above us)."""
    code = LOOK.format(source=SOURCE)
    done = subprocess.run(above.command(*names, run=[sys.executable, "-c", code]), capture_output=True, check=True)
    ours = agents_above(os.getpid()) or ()
    found = done.stdout.decode().split()
    return found[: len(found) - len(ours)]


@pytest.mark.parametrize(
    ("names", "agents"),
    [
        ((), []),
        (("claude",), ["claude-code"]),
        (("sh", "codex", "sh", "make"), ["codex"]),
        (("codex", "claude"), ["claude-code", "codex"]),
        (("cursor",), []),
        (("cursor", "cursor-agent"), ["cursor"]),
        (("goosed", "copilot", "gemini", "opencode", "pi"), ["pi", "opencode", "gemini", "copilot", "goose"]),
    ],
)
def test_real_processes_are_known_by_their_names(above: Ancestors, names: tuple[str, ...], agents: list[str]) -> None:
    assert seen(above, *names) == agents


def _codex(*words: str) -> tuple[str, ...]:
    return ("/opt/codex/bin/codex", *words)


DAEMON = _codex("app-server", "--listen", "unix://", "--analytics-default-enabled", "--managed-daemon")


@pytest.mark.parametrize(
    ("line", "agents"),
    [
        # What `codex` at a terminal starts for all its screens has a process group of its own.
        ([DAEMON, _codex()], ("codex",)),
        ([DAEMON, _codex("--model", "gpt-5.5", "fix the tests")], ("codex",)),
        # Its screen was closed.
        ([DAEMON], ("codex",)),
        # What a model starts in its shell is another agent, whatever it is.
        ([_codex("exec", "/remember x"), DAEMON, _codex()], ("codex", "codex")),
        ([_codex(), DAEMON, _codex()], ("codex", "codex")),
        ([DAEMON, _codex(), DAEMON, _codex()], ("codex", "codex")),
        ([DAEMON, DAEMON, _codex()], ("codex", "codex")),
        ([DAEMON, _codex("exec", "say hi")], ("codex", "codex")),
        ([_codex("app-server"), _codex()], ("codex", "codex")),
    ],
)
def test_the_server_of_codexs_screens_is_no_second_agent(
    line: list[tuple[str, ...]], agents: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{number} {number + 1} {number} codex" for number in range(10, 10 + len(line))]
    table = "\n".join([*rows, f"{10 + len(line)} 0 1 init"])
    monkeypatch.setattr(ancestry, "_lookup", lambda: listed(table, lambda pid: " ".join(line[pid - 10])))
    assert agents_above(10) == agents


def test_an_agent_in_an_agents_shell_counts_twice_and_its_own_helper_once(above: Ancestors) -> None:
    assert seen(above, "claude", "claude") == ["claude-code"]
    assert seen(above, "claude", "sh", "claude") == ["claude-code", "claude-code"]
    # `exec claude` in a shell that has a process group of its own, as the agents give each of their shells.
    assert seen(above, "claude", "setsid", "claude") == ["claude-code", "claude-code"]


def test_a_variable_that_is_taken_out_changes_nothing(above: Ancestors) -> None:
    code = LOOK.format(source=SOURCE)
    command = above.command("claude", run=["env", "-i", sys.executable, "-c", code])
    assert b"claude-code" in subprocess.run(command, capture_output=True, check=True).stdout


def test_a_process_that_is_gone_or_nobody_is_unknown() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert agents_above(gone.pid) is None
    assert agents_above(0) is None
    assert agents_above(os.getpid()) is not None


@pytest.mark.skipif(sys.platform != "linux", reason="compares /proc with ps")
def test_ps_tells_the_same_as_proc(above: Ancestors, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper = subprocess.Popen(above.command("codex", "sh", "claude", run=["sleep", "30"]))
    try:
        pid = above.innermost(sleeper.pid, named="sleep")
        by_proc = agents_above(pid)
        assert by_proc is not None
        assert by_proc[:2] == ("claude-code", "codex")
        monkeypatch.setattr(sys, "platform", "darwin")
        assert agents_above(pid) == by_proc
    finally:
        above.end(sleeper)


@pytest.mark.parametrize(
    ("command", "agent"),
    [
        (("node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"), "claude-code"),
        (("node", "/u/x/node_modules/@anthropic-ai/claude-agent-sdk/cli.js", "-p"), "claude-code"),
        (("/usr/bin/node", "--max-old-space-size=8192", "/u/n/@google/gemini-cli/dist/index.js"), "gemini"),
        (("node", "/usr/local/bin/gemini"), "gemini"),
        (("node", "/u/n/bin/codex.js", "exec"), "codex"),
        (("node", "/u/n/@earendil-works/pi-coding-agent/dist/cli.js"), "pi"),
        (("bun", "run", "/u/n/node_modules/opencode-ai/bin/opencode"), "opencode"),
        (("/u/.local/share/cursor-agent/versions/2026.09.02/node", "index.js"), "cursor"),
        (("C:\\n\\claude.exe",), "claude-code"),
        (("node", "/srv/codex/server.js"), ""),
        (("node", "server.js", "--name", "claude"), ""),
        (("node", "-r", "/u/claude/versions/x.js", "server.js"), ""),
        (("python3", "/srv/gemini"), ""),
        (("vim", "claude"), ""),
        (("/home/claude/bin/zsh", "-l"), ""),
        (("bash",), ""),
    ],
)
def test_a_program_is_known_by_its_file_or_its_script_and_not_by_what_it_works_on(
    command: tuple[str, ...], agent: str
) -> None:
    assert agent_of(command[0], command[0], command) == agent


def test_cursors_own_process_counts_where_it_runs_what_its_agent_asks_for() -> None:
    assert agent_of("cursor", "/usr/share/cursor/cursor", ("/usr/share/cursor/cursor", "--type=utility")) == ""
    assert agent_of("Cursor Helper", "", ("Cursor Helper (Plugin): extension-host (agent-exec) [1-2]",)) == "cursor"


TABLE = """
    1     0     1 /sbin/launchd
  200     1   200 /Applications/Terminal App.app/Contents/MacOS/Terminal
  201   200   201 -zsh
  210   201   210 /opt/homebrew/bin/node
  211   210   210 /Users/u/.local/bin/claude
  212   211   212 /bin/zsh
  213   212   212 /usr/bin/python3
garbage
"""


def test_the_table_of_another_system_is_read_and_command_lines_only_where_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def command(pid: int) -> str:
        asked.append(pid)
        return "node /opt/homebrew/lib/node_modules/@openai/codex/bin/codex.js"

    monkeypatch.setattr(ancestry, "_lookup", lambda: listed(TABLE, command))
    assert agents_above(213) == ("claude-code", "codex")
    assert asked == [210]
    assert agents_above(201) == ()
    assert agents_above(999) is None


def endless(pid: int) -> ancestry.Process:
    return ancestry.Process(pid + 1, 1, "")


def test_the_walk_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ancestry, "_lookup", lambda: endless)
    assert agents_above(2) is None


def test_another_users_process_that_is_hidden_ends_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = {30: ancestry.Process(20, 30, ""), 20: ancestry.Process(10, 20, "codex")}
    monkeypatch.setattr(ancestry, "_lookup", lambda: mine.get)
    assert agents_above(30) == ("codex",)


def test_a_parent_that_ends_while_we_look_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def lookups() -> Iterator[Callable[[int], ancestry.Process | None]]:
        parents = iter([20, 1, 1])
        yield lambda pid: {
            30: lambda: ancestry.Process(next(parents), 30, ""),
            1: lambda: ancestry.Process(0, 1, ""),
        }.get(pid, lambda: None)()

    look = next(lookups())
    monkeypatch.setattr(ancestry, "_lookup", lambda: look)
    assert agents_above(30) == ()


# -- these tests -------------------------------------------------------------------------------------------------------


def test_no_agent_is_above_the_tests_whoever_runs_them(above: Ancestors) -> None:
    assert ancestry.ancestor_agent() == ""
    if "CEMS_TEST_NESTED" in os.environ:
        pytest.exit("as wanted", 7)
    environment = {**os.environ, "CEMS_TEST_NESTED": "1", "PYTHONPATH": f"{SOURCE}:{REPOSITORY}"}
    environment.pop("CEMS_TEST_ROOT", None)
    environment.pop("PYTEST_XDIST_WORKER", None)
    this = f"{__file__}::{test_no_agent_is_above_the_tests_whoever_runs_them.__name__}"
    pytest_itself = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(REPOSITORY), this]
    command = above.command("claude", run=pytest_itself)
    done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 7, done.stdout + done.stderr
    assert "as wanted" in done.stdout


# -- what follows from it ----------------------------------------------------------------------------------------------

CLI = {"client": "cli", "cwd": "/x", "tty": "1"}
INTERACTIVE = {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli"}
PRINT = {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}


def test_the_command_line_under_an_agent_is_that_agents(above: Ancestors) -> None:
    assert caller_from(CLI | {AGENTS: ""}).person
    for context in ({AGENTS: "codex"}, {"ancestor_agent": "codex"}, {AGENTS: "codex claude-code"}):
        caller = caller_from(CLI | context)
        assert (caller.person, caller.agent) == (False, "codex")


def test_a_caller_that_left_before_it_was_looked_at_is_no_person() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert caller_from(CLI | {PEER: str(gone.pid)}).agent == "unknown"
    assert with_agents({PEER: str(gone.pid)}) == {PEER: str(gone.pid)}
    assert AGENTS in with_agents({PEER: str(os.getpid())})


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (INTERACTIVE | {AGENTS: "claude-code"}, Typist("", True)),
        (PRINT | {AGENTS: "claude-code"}, Typist("", False)),
        (PRINT | {AGENTS: ""}, Typist("", False)),
        (PRINT | {AGENTS: "claude-code claude-code"}, Typist("claude-code", False)),
        (INTERACTIVE | {AGENTS: "claude-code claude-code"}, Typist("claude-code", False)),
        (PRINT | {AGENTS: "claude-code codex"}, Typist("codex", False)),
        (INTERACTIVE | {AGENTS: "claude-code", "CODEX_SANDBOX": "seatbelt"}, Typist("codex", False)),
        (INTERACTIVE | {AGENTS: "claude-code", "AI_AGENT": "pi"}, Typist("pi", False)),
        (INTERACTIVE | {AGENTS: "claude-code", "AI_AGENT": "claude-code_2"}, Typist("", True)),
        (INTERACTIVE | {AGENTS: "claude-code", "CURSOR_TRACE_ID": "x"}, Typist("", True)),
        (INTERACTIVE, Typist("", True)),
        (PRINT, Typist("unknown", False)),
        (INTERACTIVE | {PEER: "4194304"}, Typist("unknown", False)),
    ],
)
def test_only_the_person_types_as_the_person(context: dict[str, str], expected: Typist) -> None:
    assert typist("claude-code", context) == expected
