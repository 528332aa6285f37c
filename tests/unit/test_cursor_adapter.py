"""Cursor's adapter: whose hook it is, what a version can do, and our part of its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cems.adapters.base import AgentRecord, ConfigUnreadable, FileEdit, FileRecord, Launchers, Machine, Wiring, Wish
from cems.adapters.claude_code.config import HOOKS as CLAUDES_HOOKS
from cems.adapters.cursor.agent import AGENT, SCRIPTS
from cems.adapters.cursor.config import HOOKS
from cems.adapters.cursor.versions import knows_the_events, takes_prompt_context, takes_start_context
from cems.core.events import HookEvent

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
PROMPT = {
    "conversation_id": "c-1",
    "generation_id": "g-1",
    "session_id": "c-1",
    "hook_event_name": "beforeSubmitPrompt",
    "cursor_version": "3.20.17",
    "workspace_roots": ["/home/dev/x"],
    "transcript_path": None,
    "prompt": "which port?",
}
HOOK = {"CURSOR_VERSION": "3.20.17", "CURSOR_PROJECT_DIR": "/home/dev/x", "CLAUDE_PROJECT_DIR": "/home/dev/x"}
CLAUDES = {"hook_event_name": "UserPromptSubmit", "session_id": "c-1", "prompt": "which port?", "cwd": "/home/dev/x"}


@pytest.mark.parametrize(
    ("variables", "payload", "ours"),
    [
        ({}, PROMPT, True),
        (HOOK, CLAUDES, True),
        (HOOK, {**CLAUDES, "transcript_path": "/home/dev/.cursor/projects/x/agent-transcripts/c-1/c-1.jsonl"}, True),
        (HOOK, {**CLAUDES, "transcript_path": "/home/dev/.codex/sessions/c-1.jsonl"}, False),
        (HOOK, {**CLAUDES, "timestamp": "2026-11-29T23:12:30.639Z"}, False),
        (HOOK, {**CLAUDES, "turn_id": "t"}, False),
        # A terminal in Cursor, in which Claude was started.
        ({"CURSOR_TRACE_ID": "x", "CURSOR_AGENT": "1"}, CLAUDES, False),
        ({}, CLAUDES, False),
        ({}, {**PROMPT, "hook_event_name": ""}, False),
    ],
)
def test_it_knows_its_own_hooks(variables: dict[str, str], payload: dict[str, Any], ours: bool) -> None:
    assert AGENT.recognises(variables, payload) is ours


def parsed(script: str, **payload: Any) -> HookEvent:
    event = AGENT.parse(script, {**PROMPT, **payload})
    assert event is not None
    return event


def test_a_turn_is_a_generation_and_its_prompt() -> None:
    def turn(**payload: Any) -> str:
        return parsed("cems_user_prompts_submit", **payload).turn

    assert turn() == turn()
    assert turn(generation_id="g-2") != turn()
    assert turn(prompt="another with the same generation") != turn()
    # None, and what stands for none.
    assert turn(generation_id="") == turn(generation_id="c-1") == ""


def test_the_project_is_the_windows_first_folder() -> None:
    assert parsed("cems_user_prompts_submit", workspace_roots=["/a", "/b"], cwd="/b/src").cwd == "/a"
    assert parsed("cems_user_prompts_submit", workspace_roots=[], cwd="/b/src").cwd == "/b/src"
    # The hook runs in ~/.cursor, which must not become the project.
    assert parsed("cems_user_prompts_submit", workspace_roots=[]).cwd == "/"
    assert parsed("cems_user_prompts_submit", workspace_roots="x").cwd == "/"


@pytest.mark.parametrize(
    ("version", "events", "prompt", "start"),
    [
        ("2.3.41", False, False, False),
        ("2.4.7", False, False, False),
        ("2.5.0", True, False, False),
        ("3.12.17", True, False, False),
        ("3.20.16", True, False, False),
        ("3.20.17", True, True, True),
        ("3.24.18", True, True, True),
        ("4.0", True, True, True),
        ("2026.01.09-1a2b3c4", False, False, False),
        ("2026.07.16-1a2b3c4", True, False, False),
        ("2026.07.17-1a2b3c4", True, False, True),
        ("2026.09.02-4057e58", True, False, True),
        ("1.0.0", False, False, False),
        ("", True, False, False),
        ("nightly", True, False, False),
    ],
)
def test_what_a_version_can_do(version: str, events: bool, prompt: bool, start: bool) -> None:
    assert knows_the_events(version) is events
    assert takes_prompt_context(version) is prompt
    assert takes_start_context(version) is start
    assert parsed("cems_user_prompts_submit", cursor_version=version).held is not prompt
    begun = parsed("cems_session_start", hook_event_name="sessionStart", cursor_version=version)
    assert (begun.held, begun.replayed) == (not start, True)
    compacted = parsed("cems_pre_compact", hook_event_name="preCompact", cursor_version=version, trigger="auto")
    assert (compacted.source, compacted.held, compacted.replayed) == ("compact", False, start)


@UNHURRIED
@given(
    st.dictionaries(
        st.sampled_from([*PROMPT, "tool_name", "tool_input", "text", "parent_tool_call_id"]),
        st.one_of(st.none(), st.integers(), st.text(), st.lists(st.text()), st.just("stop"), st.just("preToolUse")),
    )
)
def test_no_input_makes_it_fail(payload: dict[str, Any]) -> None:
    for script in [*SCRIPTS, "cems_unknown", ""]:
        event = AGENT.parse(script, payload)
        assert event is None or event.session
    AGENT.recognises(HOOK, payload)


@UNHURRIED
@given(st.text(st.characters(codec=None), min_size=1))
def test_what_is_rendered_is_ascii_and_well_formed_unicode(context: str) -> None:
    answer = AGENT.render(HookEvent("cursor", "prompt", "s", "/x"), context)
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
    files = tuple(FileRecord(edit.path, "", "theirs" if edit.before else "", edit.containers) for edit in wiring.edits)
    return AgentRecord("cursor", wiring.config_dir, wiring.entries, wiring.removed, files, forms=wiring.forms)


def hooks_file(machine: Machine) -> Path:
    path = machine.home / ".cursor/hooks.json"
    path.parent.mkdir(exist_ok=True)
    return path


def app_of(machine: Machine, version: str) -> None:
    app = machine.home / "Applications/Cursor.app/Contents/Resources/app"
    app.mkdir(parents=True)
    (app / "package.json").write_text(json.dumps({"name": "Cursor", "version": version}))


def test_it_is_found_by_its_folder_its_application_or_a_program(machine: Machine) -> None:
    assert not AGENT.detect(machine).found
    program = machine.home / ".local/share/cursor-agent/versions/2026.09.02-4057e58/cursor-agent"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    (machine.home / ".local/bin").mkdir()
    (machine.home / ".local/bin/cursor-agent").symlink_to(program)
    detection = AGENT.detect(machine)
    assert (detection.found, detection.version) == (True, "2026.09.02-4057e58")
    app_of(machine, "3.20.17")
    assert AGENT.detect(machine).version == "3.20.17"
    (machine.home / ".local/bin/cursor-agent").unlink()
    assert AGENT.detect(machine).found


def test_the_files_say_what_cursor_reads_in_claudes_very_words(machine: Machine) -> None:
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    make(wiring.edits)
    hooks = json.loads(hooks_file(machine).read_bytes())
    assert hooks["version"] == 1
    assert list(hooks["hooks"]) == [hook.event for hook in HOOKS]
    command = "/home/dev/.cems/bin/cems-hook cems_user_prompts_submit"
    entry = {"type": "command", "command": command, "timeout": 10, "failClosed": False}
    assert hooks["hooks"]["beforeSubmitPrompt"] == [entry]
    servers = json.loads((machine.home / ".cursor/mcp.json").read_bytes())["mcpServers"]
    assert servers == {"cems": {"command": str(LAUNCHERS.mcp), "args": [], "env": {}}}
    assert AGENT.wire(machine, LAUNCHERS, Wish(recorded(wiring))).edits == ()
    # Cursor drops a hook of Claude's only where the same event has the same command.
    scripts = {hook.event: hook.script for hook in HOOKS}
    theirs = {name: event for _, (event, *claudes) in SCRIPTS.values() for name in claudes}
    assert all(scripts[theirs[hook.event]] == hook.script for hook in CLAUDES_HOOKS)


def test_every_time_limit_is_outside_the_hooks_own_deadline_and_every_script_is_there() -> None:
    folder = Path(__file__).parents[2] / "adapters" / "cursor" / "hooks"
    assert all(hook.timeout > 1 and hook.event in SCRIPTS[hook.script][1] for hook in HOOKS)
    assert {path.stem for path in folder.glob("cems_*.py")} == set(SCRIPTS)


COMMENTED = """{
  // mine
  "version": 1,
  "hooks": {
    "stop": [{ "command": "theirs" }] /* keep */
  }
}
"""


def test_comments_and_foreign_hooks_stay_and_come_back_to_the_byte(machine: Machine) -> None:
    hooks_file(machine).write_text(COMMENTED)
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    make(wiring.edits)
    now = hooks_file(machine).read_text()
    assert "// mine" in now
    assert "/* keep */" in now
    assert now.index("theirs") < now.index("cems_stop")
    make(AGENT.unwire(machine, LAUNCHERS, recorded(wiring)))
    assert hooks_file(machine).read_text() == COMMENTED


def test_a_version_that_others_need_by_now_stays(machine: Machine) -> None:
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    make(wiring.edits)
    hooks = json.loads(hooks_file(machine).read_bytes())
    hooks["hooks"]["stop"].append({"command": "theirs"})
    hooks_file(machine).write_text(json.dumps(hooks))
    make(AGENT.unwire(machine, LAUNCHERS, recorded(wiring)))
    assert json.loads(hooks_file(machine).read_bytes()) == {"version": 1, "hooks": {"stop": [{"command": "theirs"}]}}


def test_a_file_that_only_we_needed_is_removed(machine: Machine) -> None:
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    make(wiring.edits)
    hooks = json.loads(hooks_file(machine).read_bytes())
    hooks_file(machine).write_text(json.dumps(hooks, sort_keys=True))
    make(AGENT.unwire(machine, LAUNCHERS, recorded(wiring)))
    assert not hooks_file(machine).exists()


def test_a_version_that_may_not_know_our_events_gets_no_hooks_and_says_why(machine: Machine) -> None:
    app_of(machine, "2.3.41")
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    assert [edit.path.name for edit in wiring.edits] == ["mcp.json"]
    assert any("2.3.41" in note and "Update Cursor" in note for note in wiring.notes)
    assert wiring.removed == ()


def test_a_file_that_cursor_itself_cannot_read_is_pointed_out(machine: Machine) -> None:
    hooks_file(machine).write_text('{"version": 1, "hooks": {"stop": [{"command": "curl https://x"}]}}')
    assert any("inside a string" in note for note in AGENT.wire(machine, LAUNCHERS, Wish()).notes)


@pytest.mark.parametrize(("text", "line"), [('{\n  "version": 1,\n}\n', 3), ('{\n  "hooks": []\n}', 2), ("[]", 1)])
def test_a_broken_file_is_refused_with_its_line(machine: Machine, text: str, line: int) -> None:
    hooks_file(machine).write_text(text)
    with pytest.raises(ConfigUnreadable) as refused:
        AGENT.wire(machine, LAUNCHERS, Wish())
    assert refused.value.line in (line, line - 1)


def test_a_project_rule_comes_when_asked_for_stays_known_and_goes(machine: Machine, tmp_path: Path) -> None:
    project = tmp_path / "work" / "shop"
    project.mkdir(parents=True)
    rule = project / ".cursor/rules/cems.mdc"
    plain = AGENT.wire(machine, LAUNCHERS, Wish())
    make(plain.edits)
    assert not rule.exists()
    asked = AGENT.wire(machine, LAUNCHERS, Wish(recorded(plain), project=project))
    assert [edit.path for edit in asked.edits] == [rule]
    make(asked.edits)
    assert rule.read_text().startswith("---\ndescription: ")
    assert len(rule.read_text()) < 1_000
    # A later setup, without the word: the rule stays, and what is taken out by hand stays out.
    again = AGENT.wire(machine, LAUNCHERS, Wish(recorded(asked)))
    assert again.edits == ()
    assert f"rule {project}" in again.entries
    rule.unlink()
    gone = AGENT.wire(machine, LAUNCHERS, Wish(recorded(again)))
    assert (gone.edits, gone.removed) == ((), (f"rule {project}",))
    back = AGENT.wire(machine, LAUNCHERS, Wish(recorded(gone), repair=True))
    make(back.edits)
    assert rule.exists()
    make(AGENT.unwire(machine, LAUNCHERS, recorded(back)))
    assert not rule.exists()


def test_the_persons_own_rule_of_that_name_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    rule = tmp_path / ".cursor/rules/cems.mdc"
    rule.parent.mkdir(parents=True)
    rule.write_text("mine")
    wiring = AGENT.wire(machine, LAUNCHERS, Wish(project=tmp_path))
    make(wiring.edits)
    assert rule.read_text() == "mine"
    assert any("somebody else's" in note for note in wiring.notes)
    make(AGENT.unwire(machine, LAUNCHERS, recorded(wiring)))
    assert rule.read_text() == "mine"
