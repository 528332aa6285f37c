"""Goose's adapter: what no recording shows, the block in its AGENTS.md, and the start by `cems run`."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cems.adapters.goose.agent import AGENT, MESSAGE_FILE, SCRIPTS
from cems.adapters.goose.standing import write_standing
from cems.adapters.marked_block import BEGIN, END
from cems.core.agent_env import CONTEXT_PID
from cems.core.agent_launch import make_context_file
from cems.core.paths import Home

PROMPT = {"event": "UserPromptSubmit", "session_id": "20261129_1", "matcher_context": "hi", "message": "hi"}
posix = pytest.mark.skipif(os.name == "nt", reason="a program cannot become another one on Windows")


@pytest.mark.parametrize(
    "payload",
    [
        {"event": "UserPromptSubmit", "session_id": "s"},
        {**PROMPT, "session_id": ""},
        {**PROMPT, "event": 3},
        {**PROMPT, "hook_event_name": "UserPromptSubmit"},
        {},
    ],
)
def test_another_form_of_input_is_not_gooses(payload: dict[str, Any]) -> None:
    assert not AGENT.recognises({"GOOSE_TERMINAL": "1"}, payload)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from([*PROMPT, "tool_name", "tool_input", "working_dir", "last_assistant_message"]),
        st.one_of(st.none(), st.integers(), st.text(), st.lists(st.text()), st.just("UserPromptSubmit")),
    )
)
def test_no_input_makes_it_fail(payload: dict[str, Any]) -> None:
    for script in [*SCRIPTS, "cems_unknown", ""]:
        event = AGENT.parse(script, payload)
        assert event is None or event.session.startswith("goose:")
    AGENT.recognises({}, payload)


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("shell", "Bash"),
        ("developer__shell", "Bash"),
        ("edit", "Edit"),
        ("write", "Write"),
        ("cems__memory_add", "mcp__cems__memory_add"),
        ("my__odd__tool", "mcp__my__odd__tool"),
        ("delegate", "Agent"),
        ("todo", "todo"),
        ("__x", "__x"),
    ],
)
def test_tools_have_one_name_whatever_the_agent(name: str, tool: str) -> None:
    event = AGENT.parse("cems_pre_tool_use", {**PROMPT, "event": "PreToolUse", "tool_name": name, "tool_input": {}})
    assert event is not None
    assert event.tool == tool


def test_a_purge_looks_at_all_that_goose_keeps(tmp_path: Path) -> None:
    usual = AGENT.transcript_folders(tmp_path, {})
    assert tmp_path / ".local/share/goose/sessions" in usual
    assert tmp_path / ".local/state/goose/logs" in usual
    assert tmp_path / ".config/goose/AGENTS.md" in usual
    moved = AGENT.transcript_folders(tmp_path, {"XDG_DATA_HOME": "/data", "XDG_CONFIG_HOME": "relative"})
    assert Path("/data/goose/sessions") in moved
    assert tmp_path / ".config/goose/AGENTS.md" in moved
    rooted = AGENT.transcript_folders(tmp_path, {"GOOSE_PATH_ROOT": "/root-of-it", "XDG_DATA_HOME": "/data"})
    assert {path.parts[1] for path in rooted} == {"root-of-it"}
    assert Path("/root-of-it/data/sessions") in rooted


# -- the block in AGENTS.md

THEIRS = b"# My rules\r\n\r\nUse tabs."


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "cems")
    made.create()
    return made


def set_up(home: Home, *paths: Path, entries: tuple[str, ...] = ("block AGENTS.md",), agent: str = "goose") -> None:
    files = [{"path": str(path), "digest": "0"} for path in paths]
    home.install_conf.write_text(json.dumps({"agents": [{"agent": agent, "entries": entries, "files": files}]}))


def with_block(content: str = "") -> bytes:
    return THEIRS + f"\r\n\r\n{BEGIN}\r\n{content}{END}".encode()


def test_only_what_is_between_the_markers_is_written(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_bytes(with_block("old\r\n"))
    file.chmod(0o640)
    set_up(home, file, tmp_path / "config.yaml")
    assert write_standing(home, "one\ntwo")
    assert file.read_bytes() == with_block("one\r\ntwo\r\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    inode = file.stat().st_ino
    assert write_standing(home, "one\ntwo")
    assert file.stat().st_ino == inode
    assert write_standing(home, "")
    assert file.read_bytes() == with_block()
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["AGENTS.md"]


@pytest.mark.parametrize("content", [THEIRS, with_block().replace(END.encode(), b""), b"\xff\xfe"])
def test_a_block_that_was_taken_out_or_broken_stays_so(home: Home, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_bytes(content)
    set_up(home, file)
    assert not write_standing(home, "text")
    assert file.read_bytes() == content


def test_a_file_that_setup_has_not_written_is_nobodys_of_ours(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_bytes(with_block())
    assert not write_standing(home, "text")
    for record in ({"agent": "codex"}, {"entries": ()}):
        set_up(home, file, **record)
        assert not write_standing(home, "text")
    home.install_conf.write_text('{"agents": 3}')
    assert not write_standing(home, "text")
    assert file.read_bytes() == with_block()


@posix
def test_a_link_stays_a_link_and_a_read_only_file_stays_as_it_is(home: Home, tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.md", tmp_path / "AGENTS.md"
    real.write_bytes(with_block())
    link.symlink_to(real)
    set_up(home, link)
    assert write_standing(home, "text")
    assert link.is_symlink()
    assert real.read_bytes() == with_block("text\r\n")
    real.chmod(0o444)
    with pytest.raises(PermissionError):
        write_standing(home, "other")
    assert real.read_bytes() == with_block("text\r\n")


def test_no_file_is_named_to_goose_by_what_a_memory_says(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_bytes(with_block())
    set_up(home, file)
    assert write_standing(home, "@/etc/passwd and @types/node (@secret.md) me@example.org @ five")
    assert b"\\@/etc/passwd and \\@types/node (\\@secret.md) me@example.org @ five\r\n" in file.read_bytes()


# -- cems run goose


@pytest.fixture
def goose(tmp_path: Path) -> Path:
    """A program named `goose` that says how it was started."""
    program = tmp_path / "bin" / "goose"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        f"names = ({MESSAGE_FILE!r}, {CONTEXT_PID!r})\n"
        "said = {'words': sys.argv[1:], 'pid': os.getpid(), 'env': {name: os.environ.get(name) for name in names}}\n"
        "print(json.dumps(said))\n"
        "sys.exit(7)\n"
    )
    program.chmod(0o755)
    return program


def start(home: Home, goose: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    source = Path(__file__).parents[2] / "src"
    code = f"import sys; sys.path.insert(0, {str(source)!r}); from cems.core.cli.main import main; sys.exit(main(sys.argv[1:]))"
    environ = {
        "PATH": f"{goose.parent}:/usr/bin:/bin",
        "HOME": str(home.root.parent),
        "CEMS_HOME": str(home.root),
        **env,
    }
    return subprocess.run(
        [sys.executable, "-c", code, "run", *words], env=environ, capture_output=True, text=True, check=False
    )


@posix
def test_the_agent_takes_our_place_with_its_words_its_code_and_a_file_of_its_own(home: Home, goose: Path) -> None:
    done = start(home, goose, "goose", "run", "-t", "a b", "--json", "--help")
    assert (done.returncode, done.stderr) == (7, "")
    said = json.loads(done.stdout)
    assert said["words"] == ["run", "-t", "a b", "--json", "--help"]
    file = Path(said["env"][MESSAGE_FILE])
    assert said["env"][CONTEXT_PID] == str(said["pid"])
    assert file == home.run / f"context-{said['pid']}"
    assert file.read_bytes() == b""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.run.stat().st_mode) == 0o700
    # The next one finds it dead.
    other = json.loads(start(home, goose, "goose").stdout)
    assert {path.name for path in home.run.iterdir()} == {f"context-{other['pid']}"}


@posix
def test_a_broken_pipe_ends_the_agent_as_it_ends_any_program(home: Home, goose: Path) -> None:
    goose.write_text("#!/bin/sh\nkill -PIPE $$\necho it is ignored\n")
    done = start(home, goose, "goose")
    assert (done.returncode, done.stdout) == (-signal.SIGPIPE, "")


@posix
def test_a_file_of_the_persons_own_is_left_to_goose(home: Home, goose: Path) -> None:
    done = start(home, goose, "goose", **{MESSAGE_FILE: "/home/dev/moim.txt"})
    assert json.loads(done.stdout)["env"][MESSAGE_FILE] == "/home/dev/moim.txt"
    assert "names a file of yours" in done.stderr
    # One of ours, from the Goose in whose shell this one is started, gives way.
    nested = start(home, goose, "goose", **{MESSAGE_FILE: str(home.run / "context-1"), CONTEXT_PID: "1"})
    assert json.loads(nested.stdout)["env"][MESSAGE_FILE] != str(home.run / "context-1")
    assert nested.stderr == ""


@posix
def test_goose_runs_also_where_its_file_cannot_be_made(home: Home, goose: Path) -> None:
    home.run.write_text("not a folder")
    done = start(home, goose, "goose", "x")
    assert (done.returncode, json.loads(done.stdout)["words"]) == (7, ["x"])
    assert json.loads(done.stdout)["env"][CONTEXT_PID] is None
    assert "gets no memories with a prompt" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["claude-code"], 2, "needs no help"),
        (["nobody"], 2, "there is no agent named 'nobody'"),
        ([], 2, "missing argument"),
    ],
)
def test_what_cannot_be_started_is_said_in_a_line(
    home: Home, goose: Path, words: list[str], code: int, said: str
) -> None:
    done = start(home, goose, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_program_that_is_not_there_is_said(home: Home, goose: Path) -> None:
    goose.unlink()
    done = start(home, goose, "goose")
    assert done.returncode == 1
    assert done.stderr.startswith("cems: the program of Goose was not found")


@posix
def test_a_file_left_by_a_process_of_our_pid_is_made_anew(home: Home) -> None:
    path = make_context_file(home)
    path.write_text("old")
    assert make_context_file(home) == path
    assert path.read_bytes() == b""
