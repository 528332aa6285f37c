"""Copilot's adapter: whose hook it is, and our part of its two files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cems.adapters.base import AgentRecord, ConfigUnreadable, FileEdit, FileRecord, Launchers, Machine, Wiring, Wish
from cems.adapters.copilot.agent import AGENT, SCRIPTS
from cems.adapters.copilot.config import HOOKS
from cems.core.events import HookEvent

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
PROMPT = {
    "hook_event_name": "UserPromptSubmit",
    "session_id": "s-1",
    "timestamp": "2026-11-29T23:12:30.639Z",
    "cwd": "/home/dev/x",
    "prompt": "which port?",
}


@pytest.mark.parametrize(
    ("payload", "ours"),
    [
        ({}, True),
        ({"transcript_path": "/home/dev/.copilot/session-state/s-1/events.jsonl"}, True),
        ({"transcript_path": "/home/dev/.gemini/tmp/x/chats/session.jsonl"}, False),
        ({"transcript_path": "/home/dev/.claude/projects/x/s-1.jsonl"}, False),
        ({"transcript_path": None}, False),
        ({"turn_id": "t"}, False),
        ({"cursor_version": "3.20"}, False),
        ({"conversation_id": "c"}, False),
        ({"session_id": ""}, False),
    ],
)
def test_it_knows_its_own_hooks(payload: dict[str, Any], ours: bool) -> None:
    assert AGENT.recognises({"COPILOT_CLI": "1", "CLAUDECODE": "1"}, {**PROMPT, **payload}) is ours
    assert not AGENT.recognises({"COPILOT_CLI": "1"}, {k: v for k, v in PROMPT.items() if k != "timestamp"})


def test_a_prompt_is_read() -> None:
    assert AGENT.parse("cems_user_prompts_submit", PROMPT) == HookEvent(
        agent="copilot", kind="prompt", session="s-1", cwd="/home/dev/x", prompt="which port?"
    )


@pytest.mark.parametrize("more", [{"agent_id": "s-1"}, {"prompt": " <system_reminder>x</system_reminder>"}])
def test_a_subagents_task_and_the_programs_own_words_are_no_persons(more: dict[str, str]) -> None:
    event = AGENT.parse("cems_user_prompts_submit", {**PROMPT, **more})
    assert event is not None
    assert event.machine_turn


def test_nothing_but_the_event_before_it_tells_of_compaction() -> None:
    payload = {**PROMPT, "hook_event_name": "PreCompact", "trigger": "auto"}
    event = AGENT.parse("cems_pre_compact", payload)
    assert event is not None
    assert event.source == "compact"


def test_a_tool_has_claudes_name() -> None:
    def read(name: str, given: Any) -> tuple[str, str]:
        payload = {**PROMPT, "hook_event_name": "PreToolUse", "tool_name": name, "tool_input": given}
        event = AGENT.parse("cems_pre_tool_use", payload)
        assert event is not None
        return event.tool, event.subject

    assert read("Bash", {"command": "git push", "mode": "sync"}) == ("Bash", "git push")
    assert read("Edit", {"path": "/x/a.py", "old_str": "1", "new_str": "2"}) == ("Edit", "/x/a.py")
    assert read("create", {"path": "/x/a.py", "file_text": "1"}) == ("Write", "/x/a.py")
    assert read("Agent", {"prompt": "x"})[0] == "Agent"
    assert read("github-mcp-server-get_issue", {"n": 1}) == ("mcp__github-mcp-server__get_issue", '{"n":1}')
    assert read("cems-memory_add", {"content": "x"}) == ("mcp__cems__memory_add", '{"content":"x"}')


@UNHURRIED
@given(
    st.dictionaries(
        st.sampled_from([*PROMPT, "source", "agent_id", "transcript_path", "tool_name", "tool_input"]),
        st.one_of(st.none(), st.integers(), st.text(), st.lists(st.text()), st.just("Stop"), st.just("PreToolUse")),
    )
)
def test_no_input_makes_it_fail(payload: dict[str, Any]) -> None:
    for script in [*SCRIPTS, "cems_unknown", ""]:
        event = AGENT.parse(script, payload)
        assert event is None or event.session
    AGENT.recognises({}, payload)


@UNHURRIED
@given(st.text(st.characters(codec=None), min_size=1))
def test_what_is_rendered_is_ascii_and_well_formed_unicode(context: str) -> None:
    answer = AGENT.render(HookEvent("copilot", "prompt", "s", "/x"), context)
    assert answer.isascii()
    AGENT.context_in(answer).encode()


# -- wiring


LAUNCHERS = Launchers(Path("/home/dev/.cems/bin/cems-hook"), Path("/home/dev/.cems/bin/cems-mcp"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"PATH": "/nowhere"})


def make(edits: tuple[FileEdit, ...]) -> None:
    for edit in edits:
        edit.path.parent.mkdir(parents=True, exist_ok=True)
        if edit.after is None:
            edit.path.unlink()
        else:
            edit.path.write_bytes(edit.after)


def recorded(wiring: Wiring) -> AgentRecord:
    files = tuple(FileRecord(edit.path, "", containers=edit.containers) for edit in wiring.edits)
    return AgentRecord("copilot", wiring.config_dir, wiring.entries, wiring.removed, files, forms=wiring.forms)


def test_it_is_found_by_its_folder_or_by_githubs_program_not_by_any_copilot(machine: Machine) -> None:
    assert not AGENT.detect(machine).found
    other = machine.home / "bin" / "copilot"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    on_path = Machine(machine.home, {"PATH": str(other.parent)})
    assert not AGENT.detect(on_path).found
    package = machine.home / "lib/node_modules/@github/copilot"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "@github/copilot", "version": "1.0.102"}')
    (package / "npm-loader.js").write_text("")
    (package / "npm-loader.js").chmod(0o755)
    other.unlink()
    other.symlink_to(package / "npm-loader.js")
    detection = AGENT.detect(on_path)
    assert (detection.found, detection.version, detection.program) == (True, "1.0.102", other)
    other.unlink()
    (machine.home / ".copilot").mkdir()
    assert AGENT.detect(machine).found


def test_the_files_say_what_copilot_reads(machine: Machine) -> None:
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    make(wiring.edits)
    hooks = json.loads((machine.home / ".copilot/hooks/cems.json").read_bytes())
    assert hooks["version"] == 1
    assert list(hooks["hooks"]) == [hook.event for hook in HOOKS]
    command = "/home/dev/.cems/bin/cems-hook cems_user_prompts_submit"
    assert hooks["hooks"]["UserPromptSubmit"] == [{"type": "command", "command": command, "timeout": 10}]
    servers = json.loads((machine.home / ".copilot/mcp-config.json").read_bytes())["mcpServers"]
    assert servers == {"cems": {"type": "local", "command": str(LAUNCHERS.mcp), "args": [], "tools": ["*"]}}
    assert AGENT.wire(machine, LAUNCHERS, Wish(recorded(wiring))).edits == ()
    assert all(edit.after is None for edit in AGENT.unwire(machine, LAUNCHERS, recorded(wiring)))


def test_every_time_limit_is_outside_the_hooks_own_deadline_and_every_script_is_there() -> None:
    folder = Path(__file__).parents[2] / "adapters" / "copilot" / "hooks"
    assert all(hook.timeout > 1 and SCRIPTS[hook.script][1] == hook.event for hook in HOOKS)
    assert {path.stem for path in folder.glob("cems_*.py")} == set(SCRIPTS)


def test_a_named_home_is_honoured_and_remembered(machine: Machine) -> None:
    named = Machine(machine.home, {"COPILOT_HOME": str(machine.home / "work profile")})
    wiring = AGENT.wire(named, LAUNCHERS, Wish())
    make(wiring.edits)
    assert {edit.path.parts[-2] for edit in wiring.edits} == {"hooks", "work profile"}
    assert {edit.path for edit in AGENT.unwire(machine, LAUNCHERS, recorded(wiring))} == {
        edit.path for edit in wiring.edits
    }
    assert set(AGENT.wired(machine, LAUNCHERS, recorded(wiring)).present) == set(wiring.entries)


def test_a_hook_the_person_took_out_stays_out_until_asked_for(machine: Machine) -> None:
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    make(wiring.edits)
    path = machine.home / ".copilot/hooks/cems.json"
    hooks = json.loads(path.read_bytes())
    del hooks["hooks"]["Stop"]
    path.write_text(json.dumps(hooks))
    again = AGENT.wire(machine, LAUNCHERS, Wish(recorded(wiring)))
    assert (again.edits, again.removed) == ((), ("hook Stop",))
    make(AGENT.wire(machine, LAUNCHERS, Wish(recorded(again), repair=True)).edits)
    assert "Stop" in json.loads(path.read_bytes())["hooks"]


def test_an_older_form_becomes_this_ones_and_what_the_person_changed_stays(machine: Machine) -> None:
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    make(wiring.edits)
    path = machine.home / ".copilot/hooks/cems.json"
    hooks = json.loads(path.read_bytes())
    older = {**hooks["hooks"]["Stop"][0], "timeout": 30}
    hooks["hooks"]["Stop"] = [older]
    path.write_text(json.dumps(hooks))
    known = recorded(wiring)
    kept = AGENT.wire(machine, LAUNCHERS, Wish(known))
    assert kept.edits == ()
    assert any("changed by you" in note for note in kept.notes)
    forms = {**known.forms, "hook Stop": json.dumps(older, sort_keys=True, separators=(",", ":"))}
    written = AgentRecord("copilot", known.config_dir, known.entries, (), known.files, forms=forms)
    make(AGENT.wire(machine, LAUNCHERS, Wish(written)).edits)
    assert json.loads(path.read_bytes())["hooks"]["Stop"][0]["timeout"] == 5


def test_hooks_of_others_in_our_file_and_their_version_outlive_us(machine: Machine) -> None:
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    make(wiring.edits)
    path = machine.home / ".copilot/hooks/cems.json"
    hooks = json.loads(path.read_bytes())
    theirs = {"type": "command", "command": "theirs"}
    hooks["hooks"]["Stop"].append(theirs)
    path.write_text(json.dumps(hooks))
    make(AGENT.unwire(machine, LAUNCHERS, recorded(wiring)))
    assert json.loads(path.read_bytes()) == {"version": 1, "hooks": {"Stop": [theirs]}}


def test_another_programs_server_of_our_name_is_left_alone(machine: Machine) -> None:
    servers = machine.home / ".copilot/mcp-config.json"
    servers.parent.mkdir()
    servers.write_text('{"mcpServers": {"cems": {"command": "other"}}}')
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    assert servers not in {edit.path for edit in wiring.edits}
    assert any("runs something else" in note for note in wiring.notes)


def test_a_hooks_file_that_is_switched_off_is_pointed_out(machine: Machine) -> None:
    path = machine.home / ".copilot/hooks/cems.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"disableAllHooks": true}')
    assert any("disableAllHooks" in note for note in AGENT.wire(machine, LAUNCHERS, Wish()).notes)


def test_the_doctor_sees_hooks_of_a_folder_that_is_gone(machine: Machine) -> None:
    gone = Launchers(machine.home / "old/bin/cems-hook", machine.home / "old/bin/cems-mcp")
    make(AGENT.wire(machine, gone, Wish()).edits)
    state = AGENT.wired(machine, LAUNCHERS, AgentRecord("copilot", machine.home / ".copilot"))
    assert any("old/bin/cems-hook, which is not there" in problem for problem in state.problems)


def test_a_broken_file_is_refused_with_its_line(machine: Machine) -> None:
    path = machine.home / ".copilot/mcp-config.json"
    path.parent.mkdir()
    path.write_text('{\n  "mcpServers": []\n}\n')
    with pytest.raises(ConfigUnreadable) as refused:
        AGENT.wire(machine, LAUNCHERS, Wish())
    assert refused.value.line == 2
