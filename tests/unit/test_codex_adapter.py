"""Codex's adapter: which hooks are its own, what a person typed, what is written, and whether it is trusted."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cems.adapters.base import (
    AgentRecord,
    ConfigUnreadable,
    FileEdit,
    FileRecord,
    Launchers,
    Machine,
    NeedsTrust,
    Wiring,
    Wish,
    digest,
)
from cems.adapters.codex import trust as hook_trust
from cems.adapters.codex.agent import AGENT, CONTEXT_LIMIT, CONTEXT_TOKENS, SCRIPTS
from cems.adapters.codex.config import HOOKS

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])

FIXTURES = Path(__file__).parents[1] / "fixtures" / "codex"
LAUNCHERS = Launchers(Path("/home/dev/.cems/bin/cems-hook"), Path("/home/dev/.cems/bin/cems-mcp"))
ROLLOUT = "/home/dev/.codex/sessions/2026/11/29/rollout-2026-11-29T22-49-55-s-1.jsonl"
PROMPT = {
    "session_id": "s-1",
    "turn_id": "t-1",
    "transcript_path": ROLLOUT,
    "cwd": "/home/dev/x",
    "hook_event_name": "UserPromptSubmit",
    "model": "gpt-5.5",
    "permission_mode": "default",
    "prompt": "which port?",
}
START = {"hook_event_name": "SessionStart", "source": "startup"}


# -- hooks


@pytest.mark.parametrize(
    ("variables", "payload", "ours"),
    [
        ({}, {}, True),
        # CODEX_HOME may be anywhere, and Codex may be started from another agent's shell.
        ({"CLAUDECODE": "1"}, {"transcript_path": "D:\\work\\codex\\sessions\\rollout-1.jsonl"}, True),
        ({}, {"transcript_path": None}, True),
        ({"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "other"}, {"transcript_path": None}, True),
        ({}, {"transcript_path": None, "turn_id": None}, False),
        ({}, {"transcript_path": None, **START}, True),
        ({}, {"transcript_path": None, **START, "source": None}, False),
        ({}, {"transcript_path": "/home/dev/.claude/projects/-x/s-1.jsonl"}, False),
        ({"CLAUDE_CODE_SESSION_ID": "s-1"}, {}, False),
        ({}, {"cursor_version": "3.2"}, False),
        ({}, {"transcript_path": None, "timestamp": "2026-11-29"}, False),
        ({}, {"session_id": ""}, False),
        ({}, {"transcript_path": 7}, False),
    ],
)
def test_it_knows_its_own_hooks(variables: dict[str, str], payload: dict[str, Any], ours: bool) -> None:
    assert AGENT.recognises(variables, {**PROMPT, **payload}) is ours


def test_an_input_without_a_word_on_its_transcript_is_nobody_s() -> None:
    assert not AGENT.recognises({}, {key: value for key, value in PROMPT.items() if key != "transcript_path"})


@UNHURRIED
@given(
    st.dictionaries(
        st.sampled_from([*PROMPT, "source", "reason", "agent_id", "tool_name", "tool_input"]),
        st.one_of(st.none(), st.integers(), st.text(), st.lists(st.text()), st.sampled_from(["PreToolUse", "Bash"])),
    )
)
def test_no_input_makes_it_fail(payload: dict[str, Any]) -> None:
    for script in [*SCRIPTS, "cems_unknown", ""]:
        event = AGENT.parse(script, payload)
        assert event is None or event.session
    AGENT.recognises({}, payload)


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("$remember we deploy with make ship", "/remember we deploy with make ship"),
        ("  $forget m_12ab34cd", "/forget m_12ab34cd"),
        ("$recall how do we deploy?\nplease", "/recall how do we deploy?\nplease"),
        ("$share m_12ab34cd user", "/share m_12ab34cd user"),
        ("$context", "/context"),
        ("$context useful m_12ab34cd", "/context useful m_12ab34cd"),
        ("/remember typed in `codex exec`", "/remember typed in `codex exec`"),
        # Variables and other skills of the person's.
        ("$context is empty in this template, why?", "$context is empty in this template, why?"),
        ("$share = $recall * 2 gives NaN", "$share = $recall * 2 gives NaN"),
        ("$forget", "$forget"),
        ("$remembered what?", "$remembered what?"),
        ("why is $remember ignored?", "why is $remember ignored?"),
        ("$memory-guide", "$memory-guide"),
    ],
)
def test_a_skill_named_with_its_words_is_the_person_s_command(typed: str, read: str) -> None:
    event = AGENT.parse("cems_user_prompts_submit", {**PROMPT, "prompt": typed})
    assert event is not None
    assert event.prompt == read


@pytest.mark.parametrize(
    ("payload", "machine"),
    [
        ({}, False),
        ({"agent_id": "a-1", "agent_type": "default"}, True),
        ({"prompt": "Continue working toward the active thread goal.\nUse the current …"}, True),
        ({"prompt": "## Memory Writing Agent: Phase 2 (Consolidation)"}, True),
        ({"cwd": "/home/dev/.codex/memories"}, True),
        ({"cwd": "/home/dev/.codex/memories/rollouts"}, True),
        ({"cwd": "/home/dev/work/memories"}, False),
        ({"cwd": "/home/dev/.codex"}, False),
        ({"prompt": "<task-notification>\n</task-notification>"}, True),
        ({"prompt": "why does <turn_aborted> stand in my log?"}, False),
    ],
)
def test_machine_turns_are_told_from_peoples(payload: dict[str, Any], machine: bool) -> None:
    event = AGENT.parse("cems_user_prompts_submit", {**PROMPT, **payload})
    assert event is not None
    assert event.machine_turn is machine


PATCH = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n"


@pytest.mark.parametrize(
    ("command", "files"),
    [
        (f"apply_patch <<'EOF'\n{PATCH.format('a/b.py')}EOF\n", "a/b.py"),
        (f"applypatch <<EOF\n{PATCH.format('a/b.py')}EOF", "a/b.py"),
        (f"cd src && apply_patch <<PATCH\n{PATCH.format('n')}PATCH\n\n", "src/n"),
        (f"cd 'my src' && apply_patch <<\"PATCH\"\n{PATCH.format('n')}PATCH", "my src/n"),
        # With more in it, it is a command like any other: a rule on commands has to see it.
        (f"apply_patch <<EOF\n{PATCH.format('n')}EOF\ngit push --force", None),
        (f"apply_patch <<EOF\n{PATCH.format('n')}EOF\ngit push --force\ncat <<EOF\n*** End Patch\nEOF", None),
        (f"apply_patch <<EOF\n{PATCH.format('$(git push --force)')}EOF", None),
        (f"apply_patch <<EOF\n{PATCH.format('`git push --force`')}EOF", None),
        (f"cd $(git push --force) && apply_patch <<'EOF'\n{PATCH.format('n')}EOF", None),
        (f"cd a; git push --force && apply_patch <<'EOF'\n{PATCH.format('n')}EOF", None),
        (f"apply_patch <<'EOF'\n{PATCH.format('n')}", None),
        ("apply_patch <<'EOF'\ngit push --force\nEOF", None),
        ("git push --force # apply_patch <<EOF", None),
    ],
)
def test_a_patch_in_the_shell_is_an_edit_only_where_it_is_all(command: str, files: str | None) -> None:
    payload = {**PROMPT, "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}}
    event = AGENT.parse("cems_pre_tool_use", payload)
    assert event is not None
    assert (event.tool, event.subject) == (("Bash", command) if files is None else ("Edit", files))


def test_the_longest_context_stays_below_the_limit_our_hooks_ask_for() -> None:
    """Codex counts bytes of UTF-8 by four; what is longer it cuts, and leaves in a file for everybody to read."""
    longest = max(
        (len(chr(code).encode()) / len(chr(code).encode("utf-16-le")) * 2) for code in (0x7F, 0x7FF, 0x6F22, 0x1F600)
    )
    assert CONTEXT_LIMIT * longest / 4 < CONTEXT_TOKENS
    with_context = {hook.event for hook in HOOKS if hook.more.get("additionalContextLimit") == CONTEXT_TOKENS}
    event_of = {name: kind for kind, name in SCRIPTS.values()}
    event = AGENT.parse("cems_user_prompts_submit", PROMPT)
    assert event is not None
    answered = {hook.event for hook in HOOKS if AGENT.context_limit(replace(event, kind=event_of[hook.event]))}
    assert with_context == answered


def test_setup_s_proof_goes_codex_s_way(tmp_path: Path) -> None:
    call = AGENT.prompt_call("which port?", tmp_path, "s-2", "t-2")
    payload = dict(call.payload)
    assert AGENT.recognises({"CLAUDECODE": "1", **call.variables}, payload)
    event = AGENT.parse(call.script, payload)
    assert event is not None
    assert (event.prompt, event.session, event.turn, event.machine_turn) == ("which port?", "s-2", "t-2", False)
    assert AGENT.context_in(AGENT.render(event, "port 4817")) == "port 4817"
    assert AGENT.context_in(b"") == AGENT.context_in(b"plain") == AGENT.context_in(b"[]") == ""
    more = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "x", "more": 1}}
    assert AGENT.context_in(json.dumps(more).encode()) == ""


# -- wiring


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"PATH": "/nowhere"})


def _make(edits: tuple[FileEdit, ...]) -> None:
    for edit in edits:
        edit.path.parent.mkdir(parents=True, exist_ok=True)
        if edit.after is None:
            edit.path.unlink()
        else:
            edit.path.write_bytes(edit.after)


def _record(wiring: Wiring) -> AgentRecord:
    files = tuple(
        FileRecord(edit.path, digest(edit.after or b""), digest(edit.before) if edit.before else "", edit.containers)
        for edit in wiring.edits
    )
    return AgentRecord("codex", wiring.config_dir, wiring.entries, wiring.removed, files, forms=wiring.forms)


def _set_up(machine: Machine) -> AgentRecord:
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    _make(wiring.edits)
    return _record(wiring)


def _hooks(machine: Machine) -> Any:
    return json.loads((machine.home / ".codex/hooks.json").read_bytes())["hooks"]


def test_it_is_not_found_on_an_empty_machine_and_says_where_it_looked(machine: Machine) -> None:
    detection = AGENT.detect(machine)
    assert (detection.found, detection.version) == (Path("/usr/local/bin/codex").is_file(), detection.version)
    assert detection.config_dir == machine.home / ".codex"
    assert "`codex` on PATH" in detection.looked_for[0]
    assert list(machine.home.iterdir()) == []


@pytest.mark.parametrize("kind", ["standalone", "npm"])
def test_it_is_found_by_its_program_and_the_version_read_without_running_it(machine: Machine, kind: str) -> None:
    folder = machine.home / "opt/codex"
    program = folder / "bin" / ("codex" if kind == "standalone" else "codex.js")
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    if kind == "standalone":
        (folder / "codex-package.json").write_text('{"layoutVersion": 1, "version": "0.171.0"}')
    else:
        (folder / "package.json").write_text('{"name": "@openai/codex", "version": "0.171.0-linux-x64"}')
    (machine.home / ".local/bin").mkdir(parents=True)
    (machine.home / ".local/bin/codex").symlink_to(program)
    detection = AGENT.detect(machine)
    assert (detection.found, detection.version) == (True, "0.171.0")


def test_the_files_say_what_codex_reads(machine: Machine) -> None:
    record = _set_up(machine)
    command = "/home/dev/.cems/bin/cems-hook cems_user_prompts_submit"
    hook = {"type": "command", "command": command, "timeout": 10, "additionalContextLimit": 8000}
    assert _hooks(machine)["UserPromptSubmit"] == [{"hooks": [hook]}]
    assert list(_hooks(machine)) == [hook.event for hook in HOOKS]
    config = (machine.home / ".codex/config.toml").read_text()
    assert tomllib.loads(config)["mcp_servers"] == {
        "cems": {"command": str(LAUNCHERS.mcp), "args": [], "startup_timeout_sec": 20, "tool_timeout_sec": 60}
    }
    assert config.startswith("[mcp_servers.cems]\n")
    assert AGENT.wire(machine, LAUNCHERS, Wish(record)).edits == ()
    assert AGENT.wire(machine, LAUNCHERS, Wish()).edits == ()


def test_what_a_person_trusts_of_a_hook_never_changes(machine: Machine) -> None:
    """Each of these is in the digest a person trusts: another value, and Codex skips the hook until they trust it again.
    Change one only for a reason worth asking every person again."""
    _set_up(machine)
    pinned = {
        "SessionStart": ("cems_session_start", 10, 8000),
        "UserPromptSubmit": ("cems_user_prompts_submit", 10, 8000),
        "PreToolUse": ("cems_pre_tool_use", 5, 8000),
        "Stop": ("cems_stop", 5, None),
        "SessionEnd": ("cems_session_end", 3, None),
    }
    hooks = _hooks(machine)
    assert set(hooks) == set(pinned)
    for event, (script, timeout, limit) in pinned.items():
        entry: dict[str, Any] = {
            "type": "command",
            "command": f"/home/dev/.cems/bin/cems-hook {script}",
            "timeout": timeout,
        }
        entry |= {"additionalContextLimit": limit} if limit else {}
        assert hooks[event] == [{"hooks": [entry]}]


FOREIGN = json.dumps(
    {
        "hooks": {
            "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "theirs prompt"}]}],
            "PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "theirs tool"}]}],
        }
    },
    indent=1,
)
CONFIG = (
    b'\xef\xbb\xbf# mine\r\nmodel = "x" # keep\r\n\r\n[mcp_servers.other]\r\ncommand = "y"\r\n[projects."/home/dev/x"]\r\n'
    b'trust_level = "trusted"'
)


def _person_s(machine: Machine) -> tuple[Path, Path]:
    folder = machine.home / ".codex"
    folder.mkdir()
    (folder / "hooks.json").write_text(FOREIGN)
    (folder / "config.toml").write_bytes(CONFIG)
    return folder / "hooks.json", folder / "config.toml"


def test_foreign_groups_keep_their_numbers_and_every_byte_comes_back(machine: Machine) -> None:
    events, config = _person_s(machine)
    record = _set_up(machine)
    now = _hooks(machine)
    assert now["UserPromptSubmit"][0] == {"hooks": [{"type": "command", "command": "theirs prompt"}]}
    assert len(now["UserPromptSubmit"]) == 2
    assert tomllib.loads(config.read_bytes().decode("utf-8-sig"))["mcp_servers"]["other"] == {"command": "y"}
    _make(AGENT.unwire(machine, LAUNCHERS, record))
    assert (events.read_text(), config.read_bytes()) == (FOREIGN, CONFIG)


def test_an_upgrade_changes_our_hook_in_its_place(machine: Machine) -> None:
    """What a person trusts of others is kept by their place: ours is rewritten where it stands, though theirs follow it."""
    events, _ = _person_s(machine)
    record = _set_up(machine)
    now = json.loads(events.read_bytes())
    ours = now["hooks"]["UserPromptSubmit"].pop()
    # As an older version wrote it, with a group of the person's behind.
    older = {"hooks": [{**ours["hooks"][0], "timeout": 7}]}
    now["hooks"]["UserPromptSubmit"] += [older, {"hooks": [{"type": "command", "command": "theirs too"}]}]
    events.write_text(json.dumps(now))
    forms = {**record.forms, "hook UserPromptSubmit": json.dumps(older, sort_keys=True, separators=(",", ":"))}
    wiring = AGENT.wire(machine, LAUNCHERS, Wish(replace(record, forms=forms)))
    _make(wiring.edits)
    groups = _hooks(machine)["UserPromptSubmit"]
    commands = [group["hooks"][0]["command"].split()[0] for group in groups]
    assert commands == ["theirs", "/home/dev/.cems/bin/cems-hook", "theirs"]
    assert groups[1] == ours


def test_files_of_ours_alone_go_again(machine: Machine) -> None:
    record = _set_up(machine)
    _make(AGENT.unwire(machine, LAUNCHERS, record))
    assert list((machine.home / ".codex").iterdir()) == []


def test_codex_home_is_honoured_and_found_again_without_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"CODEX_HOME": str(tmp_path / "work codex"), "PATH": "/nowhere"})
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    paths = {edit.path for edit in wiring.edits}
    assert paths == {tmp_path / "work codex/hooks.json", tmp_path / "work codex/config.toml"}
    _make(wiring.edits)
    assert {edit.path for edit in AGENT.unwire(Machine(tmp_path), LAUNCHERS, _record(wiring))} == paths
    assert set(AGENT.wired(Machine(tmp_path), LAUNCHERS, _record(wiring)).present) == set(wiring.entries)


def test_what_the_person_takes_out_stays_out_until_asked_for(machine: Machine) -> None:
    record = _set_up(machine)
    config = machine.home / ".codex/config.toml"
    config.write_text("")
    again = AGENT.wire(machine, LAUNCHERS, Wish(record))
    assert (again.edits, again.removed) == ((), ("tools cems",))
    _make(AGENT.wire(machine, LAUNCHERS, Wish(record, repair=True)).edits)
    assert "cems" in tomllib.loads(config.read_text())["mcp_servers"]


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("config.toml", 'model = "x"\n[mcp_servers\n', 2),
        ("config.toml", "\nmcp_servers = 3\n", 2),
        ("hooks.json", '{\n  // mine\n  "hooks": {}\n}', 2),
        ("hooks.json", '{\n  "hooks": []\n}', 2),
    ],
)
def test_a_file_that_codex_could_not_read_is_refused_with_its_line(
    machine: Machine, file: str, text: str, line: int
) -> None:
    path = machine.home / ".codex" / file
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ConfigUnreadable) as refused:
        AGENT.wire(machine, LAUNCHERS, Wish())
    assert refused.value.line == line
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[features]\nhooks = false\n", "features.hooks"),
        ("[features]\ncodex_hooks = false\n", "features.hooks"),
        ('[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "x"\n', "two places"),
        ('[mcp_servers.cems]\ncommand = "other"\n', "runs something else"),
    ],
)
def test_what_keeps_ours_from_working_is_said(machine: Machine, config: str, said: str) -> None:
    (machine.home / ".codex").mkdir()
    (machine.home / ".codex/config.toml").write_text(config)
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    assert any(said in note for note in wiring.notes)
    _make(wiring.edits)
    assert any(said in problem for problem in AGENT.wired(machine, LAUNCHERS, _record(wiring)).problems)


def test_a_state_of_trust_alone_is_no_second_place_of_hooks(machine: Machine) -> None:
    (machine.home / ".codex").mkdir()
    (machine.home / ".codex/config.toml").write_text('[hooks.state."x:stop:0:0"]\ntrusted_hash = "sha256:0"\n')
    assert AGENT.wire(machine, LAUNCHERS, Wish()).notes == ()


# -- trust


def _trust_all(machine: Machine, home: str = "", **more: Any) -> None:
    """What Codex writes when a person chooses "Trust all and continue"."""
    events = machine.home / ".codex/hooks.json"
    lines = []
    for event, groups in _hooks(machine).items():
        for group, each in enumerate(groups):
            for place, hook in enumerate(each["hooks"]):
                key = f"{home or events}:{hook_trust.label(event)}:{group}:{place}"
                state = {"trusted_hash": hook_trust.digest_of(event, each.get("matcher"), hook), **more}
                values = "".join(f"{name} = {json.dumps(value)}\n" for name, value in state.items())
                lines.append(f"\n[hooks.state.{json.dumps(key)}]\n{values}")
    with (machine.home / ".codex/config.toml").open("a") as config:
        config.write("".join(lines))


@pytest.mark.parametrize(
    "recorded", json.loads((FIXTURES / "hook_digests.json").read_bytes()), ids=lambda each: each["event"]
)
def test_digests_are_those_codex_gives(recorded: dict[str, Any]) -> None:
    """What `hooks/list` of Codex 0.171.0 said of these hooks."""
    assert hook_trust.digest_of(recorded["event"], recorded["matcher"], recorded["hook"]) == recorded["digest"]


def test_hooks_nobody_has_trusted_are_said_to_be_so(machine: Machine) -> None:
    assert isinstance(AGENT, NeedsTrust)
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    assert wiring.todo == hook_trust.HOW
    _make(wiring.edits)
    told = AGENT.trust(machine, LAUNCHERS, _record(wiring))
    assert told.state == "untrusted"
    assert "/hooks" in told.advice


def test_once_trusted_nothing_is_asked_for_any_more(machine: Machine) -> None:
    record = _set_up(machine)
    _trust_all(machine)
    assert AGENT.trust(machine, LAUNCHERS, record).state == "trusted"
    again = AGENT.wire(machine, LAUNCHERS, Wish(record))
    assert (again.edits, again.notes, again.todo) == ((), (), "")
    # An entry that is written anew is not the one they trusted.
    events = machine.home / ".codex/hooks.json"
    events.write_text(events.read_text().replace('"timeout": 3', '"timeout": 2'))
    assert AGENT.wire(machine, LAUNCHERS, Wish(record, repair=True)).todo == hook_trust.HOW


def test_a_home_behind_a_link_is_the_same_home(machine: Machine) -> None:
    record = _set_up(machine)
    (machine.home / "link").symlink_to(machine.home / ".codex")
    _trust_all(machine, home=str(machine.home / "link/hooks.json"))
    assert AGENT.trust(machine, LAUNCHERS, record).state == "trusted"


def test_trust_in_another_file_s_hooks_is_none_in_ours(machine: Machine) -> None:
    record = _set_up(machine)
    _trust_all(machine, home="/home/dev/x/.codex/hooks.json")
    assert AGENT.trust(machine, LAUNCHERS, record).state == "untrusted"


def test_a_hook_that_was_changed_since_is_said_to_be_so(machine: Machine) -> None:
    record = _set_up(machine)
    _trust_all(machine)
    events = machine.home / ".codex/hooks.json"
    events.write_text(events.read_text().replace('"timeout": 3', '"timeout": 2'))
    assert AGENT.trust(machine, LAUNCHERS, record).state == "modified"


def test_a_hook_that_is_new_is_not_trusted_though_the_others_are(machine: Machine) -> None:
    record = _set_up(machine)
    events = machine.home / ".codex/hooks.json"
    whole = events.read_text()
    without = json.loads(whole)
    del without["hooks"]["Stop"]
    events.write_text(json.dumps(without))
    _trust_all(machine)
    events.write_text(whole)
    assert AGENT.trust(machine, LAUNCHERS, record).state == "untrusted"


def test_a_hook_that_was_switched_off_is_to_be_switched_on_again(machine: Machine) -> None:
    record = _set_up(machine)
    _trust_all(machine, enabled=False)
    told = AGENT.trust(machine, LAUNCHERS, record)
    assert told.state == "untrusted"
    assert "switch" in told.advice


def test_without_hooks_of_ours_there_is_nothing_to_trust(machine: Machine) -> None:
    record = _set_up(machine)
    (machine.home / ".codex/hooks.json").unlink()
    assert AGENT.trust(machine, LAUNCHERS, record).state == "not needed"


_PROGRAM = """\
#!{python}
import json, os, pathlib, sys, time
home = pathlib.Path(os.environ["CODEX_HOME"])
assert sys.argv[1:] == ["app-server"] and "SECRET" not in os.environ and home != pathlib.Path({codex!r})
hooks = json.loads((home / "hooks.json").read_text())["hooks"]
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "hooks/list":
        {answer}
        found = [
            {{"key": f"{{home}}/hooks.json:{{name}}:0:0", "source": "user", "currentHash": "sha256:" + name}}
            for name in ("session_start", "user_prompt_submit", "pre_tool_use", "stop", "session_end")
        ]
        print(json.dumps({{"id": asked["id"], "result": {{"data": [{{"hooks": found}}]}}}}), flush=True)
    elif "id" in asked:
        print(json.dumps({{"method": "configWarning", "params": {{}}}}), flush=True)
        print(json.dumps({{"id": asked["id"], "result": {{}}}}), flush=True)
"""


def _newer_codex(machine: Machine, answer: str = "pass") -> Machine:
    """A Codex whose digests are not those of 0.171, and a machine that has it."""
    program = machine.home / "newer/bin/codex"
    program.parent.mkdir(parents=True)
    program.write_text(_PROGRAM.format(python=sys.executable, codex=str(machine.home / ".codex"), answer=answer))
    program.chmod(0o755)
    (machine.home / "newer/codex-package.json").write_text('{"version": "0.190.0"}')
    return Machine(machine.home, {"PATH": str(program.parent)})


def test_another_version_s_own_word_counts(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    newer = _newer_codex(machine)
    record = _set_up(newer)
    _trust_all(newer)
    assert AGENT.trust(newer, LAUNCHERS, record).state == "modified"
    config = machine.home / ".codex/config.toml"
    config.write_text("")
    keys = ("session_start", "user_prompt_submit", "pre_tool_use", "stop", "session_end")
    states = (
        f'[hooks.state."{machine.home}/.codex/hooks.json:{key}:0:0"]\ntrusted_hash = "sha256:{key}"\n' for key in keys
    )
    config.write_text("".join(states))
    assert AGENT.trust(newer, LAUNCHERS, record).state == "trusted"


def test_a_program_that_does_not_answer_is_not_waited_for(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_trust, "_SECONDS", 0.5)
    newer = _newer_codex(
        machine, answer=f"(pathlib.Path({str(machine.home)!r}) / 'pid').write_text(str(os.getpid())); time.sleep(60)"
    )
    record = _set_up(newer)
    _trust_all(newer)
    assert AGENT.trust(newer, LAUNCHERS, record).state == "unknown"
    with pytest.raises(ProcessLookupError):
        os.kill(int((machine.home / "pid").read_text()), 0)


def test_purge_looks_where_codex_keeps_what_was_said(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/state_5.sqlite").touch()
    names = {path.name for path in AGENT.transcript_folders(tmp_path, {})}
    assert {"sessions", "archived_sessions", "history.jsonl", "state_5.sqlite"} <= names
    named = AGENT.transcript_folders(tmp_path, {"CODEX_HOME": str(tmp_path / "elsewhere")})
    assert all(path.parent == tmp_path / "elsewhere" for path in named)
