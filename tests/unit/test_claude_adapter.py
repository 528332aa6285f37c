"""Claude Code's adapter: which hooks are its own, what they mean, and the one answer Claude accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cems.adapters.base import AgentRecord, ConfigUnreadable, FileEdit, Launchers, Machine, Wiring, Wish
from cems.adapters.claude_code.agent import AGENT, CONTEXT_LIMIT, SCRIPTS
from cems.adapters.claude_code.config import HOOKS, RULES
from cems.core.events import EventKind, HookEvent

# A busy machine is no reason to fail.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

PROMPT = {
    "session_id": "s-1",
    "transcript_path": "/home/dev/.claude/projects/-x/s-1.jsonl",
    "cwd": "/home/dev/x",
    "prompt_id": "p-1",
    "hook_event_name": "UserPromptSubmit",
    "prompt": "which port?",
}
CLAUDE = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s-1", "CLAUDE_PROJECT_DIR": "/home/dev/x"}


@pytest.mark.parametrize(
    ("variables", "payload", "ours"),
    [
        (CLAUDE, {}, True),
        ({"CLAUDECODE": "1"}, {}, True),
        ({}, {}, True),
        ({**CLAUDE, "CURSOR_TRACE_ID": "in a terminal of Cursor"}, {}, True),
        ({**CLAUDE, "CODEX_SANDBOX": "Claude was started by Codex"}, {}, True),
        ({"CLAUDECODE": "1", "CURSOR_VERSION": "2.0", "CURSOR_PROJECT_DIR": "/x"}, {}, False),
        ({"CLAUDE_PROJECT_DIR": "/x", "COPILOT_CLI": "1"}, {}, False),
        ({"CLAUDECODE": "1"}, {"cursor_version": "2.0"}, False),
        # Codex, started from Claude's shell: the variables are Claude's, the session is not.
        (CLAUDE, {"session_id": "c-9", "transcript_path": "/home/dev/.codex/sessions/c-9.jsonl"}, False),
        (CLAUDE, {"session_id": "c-9", "transcript_path": None}, False),
        ({}, {"transcript_path": "/home/dev/.codex/sessions/s-1.jsonl"}, False),
        ({}, {"session_id": ""}, False),
    ],
)
def test_it_knows_its_own_hooks(variables: dict[str, str], payload: dict[str, Any], ours: bool) -> None:
    assert AGENT.recognises(variables, {**PROMPT, **payload}) is ours


def test_a_prompt_is_read() -> None:
    assert AGENT.parse("cems_user_prompts_submit", PROMPT) == HookEvent(
        agent="claude-code",
        kind="prompt",
        session="s-1",
        cwd="/home/dev/x",
        prompt="which port?",
        turn="p-1",
        transcript="/home/dev/.claude/projects/-x/s-1.jsonl",
    )


@pytest.mark.parametrize("script", [name for name in SCRIPTS if name != "cems_user_prompts_submit"])
def test_a_script_run_for_another_event_reads_nothing(script: str) -> None:
    assert AGENT.parse(script, PROMPT) is None


@UNHURRIED
@given(
    st.dictionaries(
        st.sampled_from([*PROMPT, "source", "reason", "trigger", "tool_name"]),
        st.one_of(st.none(), st.integers(), st.text(), st.lists(st.text()), st.just("UserPromptSubmit")),
    )
)
def test_no_input_makes_it_fail(payload: dict[str, Any]) -> None:
    for script in [*SCRIPTS, "cems_unknown", ""]:
        event = AGENT.parse(script, payload)
        assert event is None or event.session
    AGENT.recognises({}, payload)


@pytest.mark.parametrize(
    ("prompt", "source", "machine"),
    [
        ("<task-notification>\n<task-id>a</task-id>", "", True),
        ("  <command-name>/compact</command-name>", "", True),
        ("<local-command-stdout></local-command-stdout>", "", True),
        ("<system-reminder>x</system-reminder>", "", True),
        ("anything", "system", True),
        ("anything", "user", False),
        ("anything", "sdk", False),
        ("why does <command-name> appear in my log?", "", False),
        ("/recall ports", "", False),
    ],
)
def test_machine_turns_are_told_from_peoples(prompt: str, source: str, machine: bool) -> None:
    event = AGENT.parse("cems_user_prompts_submit", {**PROMPT, "prompt": prompt, "source": source})
    assert event is not None
    assert event.machine_turn is machine


def _event(kind: EventKind) -> HookEvent:
    return HookEvent("claude-code", kind, "s", "/x")


KINDS: tuple[EventKind, ...] = tuple(kind for kind, _ in SCRIPTS.values())


@pytest.mark.parametrize("kind", KINDS)
def test_only_events_that_may_carry_context_do(kind: EventKind) -> None:
    names = {"session_start": "SessionStart", "prompt": "UserPromptSubmit", "subagent_start": "SubagentStart"}
    answer = AGENT.render(_event(kind), "remember")
    if kind in names:
        inner = {"hookEventName": names[kind], "additionalContext": "remember"}
        assert json.loads(answer) == {"hookSpecificOutput": inner}
        assert AGENT.context_limit(_event(kind)) == CONTEXT_LIMIT < 10_000
    else:
        assert answer == b""
        assert AGENT.context_limit(_event(kind)) == 0


def test_no_context_is_no_output() -> None:
    assert AGENT.render(_event("prompt"), "") == b""


@UNHURRIED
@given(st.text(st.characters(codec=None), min_size=1))
def test_what_is_rendered_is_ascii_and_well_formed_unicode(context: str) -> None:
    answer = AGENT.render(_event("prompt"), context)
    assert answer.isascii()
    assert b"\n" not in answer
    read = json.loads(answer)["hookSpecificOutput"]["additionalContext"]
    read.encode()
    if not any("\ud800" <= character <= "\udfff" for character in context):
        assert read == context


def test_halves_of_a_character_are_joined_or_replaced() -> None:
    answer = json.loads(AGENT.render(_event("prompt"), "\ud83d\ude00 \ud83d!"))
    assert answer["hookSpecificOutput"]["additionalContext"] == "😀 \ufffd!"


# -- wiring


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"PATH": "/nowhere"})


LAUNCHERS = Launchers(Path("/home/dev/.cems/bin/cems-hook"), Path("/home/dev/.cems/bin/cems-mcp"))


def _write(wiring: Wiring) -> None:
    _make(wiring.edits)


def _make(edits: tuple[FileEdit, ...]) -> None:
    for edit in edits:
        edit.path.parent.mkdir(parents=True, exist_ok=True)
        if edit.after is None:
            edit.path.unlink()
        else:
            edit.path.write_bytes(edit.after)


def _record(wiring: Wiring) -> AgentRecord:
    return AgentRecord("claude-code", wiring.config_dir, wiring.entries, wiring.removed)


def _settings(machine: Machine) -> Any:
    return json.loads((machine.home / ".claude/settings.json").read_bytes())


def test_it_is_not_found_on_an_empty_machine_and_says_where_it_looked(machine: Machine) -> None:
    detection = AGENT.detect(machine)
    assert not detection.found
    assert detection.config_dir == machine.home / ".claude"
    assert "`claude` on PATH" in detection.looked_for[0]
    assert list(machine.home.iterdir()) == []


def test_it_is_found_by_its_program_and_the_version_read_without_running_it(machine: Machine) -> None:
    program = machine.home / ".local/share/claude/versions/2.1.332"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    (machine.home / ".local/bin").mkdir()
    (machine.home / ".local/bin/claude").symlink_to(program)
    detection = AGENT.detect(machine)
    assert (detection.found, detection.version) == (True, "2.1.332")


def test_every_time_limit_is_outside_the_hooks_own_deadline() -> None:
    assert all(hook.timeout > 1 for hook in HOOKS)
    assert {hook.script for hook in HOOKS} <= set(SCRIPTS)
    assert all(hook.event in SCRIPTS[hook.script][1] for hook in HOOKS)


def test_the_files_say_what_claude_reads(machine: Machine) -> None:
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    _write(wiring)
    command = "/home/dev/.cems/bin/cems-hook cems_user_prompts_submit"
    hook = {"type": "command", "command": command, "timeout": 10}
    assert _settings(machine)["hooks"]["UserPromptSubmit"] == [{"hooks": [hook]}]
    assert sorted(_settings(machine)["hooks"]) == sorted(hook.event for hook in HOOKS)
    assert _settings(machine)["permissions"] == {"allow": list(RULES)}
    assert "mcp__cems__memory_forget" not in RULES
    servers = json.loads((machine.home / ".claude.json").read_bytes())["mcpServers"]
    server = {"type": "stdio", "command": str(LAUNCHERS.mcp), "args": [], "env": {}, "alwaysLoad": True}
    assert servers == {"cems": server}
    assert AGENT.wire(machine, LAUNCHERS, Wish(_record(wiring))).edits == ()
    assert AGENT.wire(machine, LAUNCHERS, Wish()).edits == ()


def test_a_named_configuration_folder_holds_both_files(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"CLAUDE_CONFIG_DIR": str(tmp_path / "work profile")})
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    paths = {edit.path for edit in wiring.edits if edit.path.suffix == ".json"}
    assert paths == {tmp_path / "work profile/settings.json", tmp_path / "work profile/.claude.json"}
    # Taken out later, from a shell that does not name the folder.
    _write(wiring)
    edits = AGENT.unwire(Machine(tmp_path), LAUNCHERS, _record(wiring))
    assert {edit.path for edit in edits if edit.path.suffix == ".json"} == paths


def test_a_path_with_a_space_is_quoted(machine: Machine) -> None:
    launchers = Launchers(Path("/home/ü dev/bin/cems-hook"), Path("/home/ü dev/bin/cems-mcp"))
    _write(AGENT.wire(machine, launchers, Wish()))
    hook = _settings(machine)["hooks"]["Stop"][0]["hooks"][0]
    assert hook["command"] == "'/home/ü dev/bin/cems-hook' cems_stop"
    assert AGENT.wire(machine, launchers, Wish()).edits == ()


FOREIGN = {
    "model": "opus",
    "hooks": {
        "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "theirs prompt"}]}],
        "PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "theirs tool"}]}],
    },
    "permissions": {"allow": ["Bash(ls)"], "deny": ["WebFetch"]},
}


def test_foreign_entries_are_kept_and_come_first(machine: Machine) -> None:
    settings = machine.home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps(FOREIGN, indent=4))
    _write(AGENT.wire(machine, LAUNCHERS, Wish()))
    now = _settings(machine)
    assert now["hooks"]["UserPromptSubmit"][0] == FOREIGN["hooks"]["UserPromptSubmit"][0]  # type: ignore[index]
    assert len(now["hooks"]["UserPromptSubmit"]) == 2
    assert now["hooks"]["PostToolUse"] == FOREIGN["hooks"]["PostToolUse"]  # type: ignore[index]
    assert now["permissions"]["allow"][0] == "Bash(ls)"
    assert now["permissions"]["deny"] == ["WebFetch"]


def test_our_entries_are_found_after_the_agent_has_written_the_file_anew(machine: Machine) -> None:
    settings = machine.home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps(FOREIGN, indent=4))
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    _write(wiring)
    # Sorted, spread, with our hook moved into the person's group and its time limit changed.
    now = _settings(machine)
    ours = now["hooks"]["UserPromptSubmit"].pop()["hooks"][0]
    now["hooks"]["UserPromptSubmit"][0]["hooks"].append({**ours, "timeout": 3})
    settings.write_text(json.dumps(now, sort_keys=True))
    assert AGENT.wire(machine, LAUNCHERS, Wish(_record(wiring))).edits == ()
    _make(AGENT.unwire(machine, LAUNCHERS, _record(wiring)))
    assert _settings(machine) == FOREIGN


def test_what_the_person_takes_out_stays_out_until_asked_for(machine: Machine) -> None:
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    _write(wiring)
    settings = machine.home / ".claude/settings.json"
    now = _settings(machine)
    del now["hooks"]["Stop"]
    now["permissions"]["allow"].remove("mcp__cems__memory_add")
    settings.write_text(json.dumps(now))
    again = AGENT.wire(machine, LAUNCHERS, Wish(_record(wiring)))
    assert again.edits == ()
    assert set(again.removed) == {"hook Stop", "allow mcp__cems__memory_add"}
    assert any("taken out by you" in note for note in again.notes)
    # It stays known as removed, also the time after next.
    third = AGENT.wire(machine, LAUNCHERS, Wish(_record(again)))
    assert (third.edits, third.removed) == ((), again.removed)
    repaired = AGENT.wire(machine, LAUNCHERS, Wish(_record(third), repair=True))
    assert repaired.removed == ()
    _write(repaired)
    assert set(_settings(machine)["permissions"]["allow"]) == set(RULES)
    assert "Stop" in _settings(machine)["hooks"]


def test_another_programs_server_of_our_name_is_left_alone(machine: Machine) -> None:
    state = machine.home / ".claude.json"
    state.write_text('{"mcpServers": {"cems": {"command": "other"}}}')
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    assert state not in {edit.path for edit in wiring.edits}
    assert not any(name.startswith(("tools", "allow")) for name in wiring.entries)
    assert any("runs something else" in note for note in wiring.notes)


def test_rules_the_person_had_before_are_not_ours_to_remove(machine: Machine) -> None:
    settings = machine.home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"permissions": {"allow": ["mcp__cems__memory_get", "mcp__cems__memory_add"]}}')
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    _write(wiring)
    _make(AGENT.unwire(machine, LAUNCHERS, _record(wiring)))
    assert _settings(machine)["permissions"]["allow"] == ["mcp__cems__memory_get", "mcp__cems__memory_add"]


def test_a_rule_for_the_whole_server_is_enough(machine: Machine) -> None:
    settings = machine.home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"permissions": {"allow": ["mcp__cems__*"]}}')
    _write(AGENT.wire(machine, LAUNCHERS, Wish()))
    assert _settings(machine)["permissions"]["allow"] == ["mcp__cems__*"]


def test_without_permissions_no_rule_is_added(machine: Machine) -> None:
    wiring = AGENT.wire(machine, LAUNCHERS, Wish(permissions=False))
    _write(wiring)
    assert "permissions" not in _settings(machine)
    assert not any(name.startswith("allow") for name in wiring.entries)


@pytest.mark.parametrize(
    ("text", "line"),
    [('{\n  "model": "x",\n}\n', 3), ('{\n  // mine\n  "model": "x"\n}', 2), ('{\n  "hooks": []\n}', 2), ("[]", 1)],
)
def test_a_file_claude_would_ignore_is_refused_with_its_line(machine: Machine, text: str, line: int) -> None:
    settings = machine.home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text(text)
    with pytest.raises(ConfigUnreadable) as refused:
        AGENT.wire(machine, LAUNCHERS, Wish())
    assert refused.value.line in (line, line - 1)
    assert str(settings) in str(refused.value)


def test_a_blank_file_is_no_configuration_yet(machine: Machine) -> None:
    settings = machine.home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text("\n")
    _write(AGENT.wire(machine, LAUNCHERS, Wish()))
    assert "Stop" in _settings(machine)["hooks"]


def test_hooks_switched_off_are_pointed_out(machine: Machine) -> None:
    settings = machine.home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"disableAllHooks": true}')
    assert any("disableAllHooks" in note for note in AGENT.wire(machine, LAUNCHERS, Wish()).notes)


def test_the_doctor_sees_hooks_of_a_folder_that_is_gone(machine: Machine) -> None:
    gone = Launchers(machine.home / "old/bin/cems-hook", machine.home / "old/bin/cems-mcp")
    _write(AGENT.wire(machine, gone, Wish()))
    state = AGENT.wired(machine, LAUNCHERS, AgentRecord("claude-code", machine.home / ".claude"))
    assert any("old/bin/cems-hook, which is not there" in problem for problem in state.problems)
