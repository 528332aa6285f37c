"""What Codex 0.171.0 was recorded to send, and what its own schemas say it accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from cems.adapters.codex.agent import AGENT, SCRIPTS
from cems.core.events import HookEvent, Verdict
from cems.core.service.adapters import load_agents, packaged_agents

FIXTURES = Path(__file__).parents[1] / "fixtures"
SAMPLES = FIXTURES / "codex"
HOOKS = sorted((SAMPLES / "hook_stdin").glob("*.json"))
OF_OTHERS = sorted(path for path in FIXTURES.glob("*/hook_stdin/*.json") if path.parents[1] != SAMPLES)

SCRIPT_OF = {name: (script, kind) for script, (kind, name) in SCRIPTS.items()}
TOOLS = {
    "PreToolUse_Bash": ("Bash", "echo hello-from-tool"),
    # A patch comes through the shell or by itself; a rule on files means both.
    "PreToolUse_Bash_patch": ("Edit", "notes.txt"),
    "PreToolUse_apply_patch": ("Edit", "src/new.txt"),
    "PreToolUse_view_image": ("Read", "a.png"),
    "PreToolUse_spawn_agent": ("Agent", '{"message":"count files","agent_type":"default"}'),
    "PreToolUse_mcp__mem__recall": ("mcp__mem__recall", '{"query":"abc"}'),
}
SOURCES = {
    "SessionStart_startup": "startup",
    "SessionStart_ephemeral_startup": "startup",
    "SessionStart_resume": "resume",
    "SessionStart_clear": "clear",
    "SessionStart_compact": "compact",
    "SessionEnd": "other",
    "SessionEnd_ephemeral": "other",
    "PreCompact_manual": "manual",
}
# What an outer agent's shell leaves in the environment of everything that runs in it.
INHERITED: tuple[dict[str, str], ...] = (
    {},
    {"CLAUDECODE": "1"},
    {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "another", "CLAUDE_PROJECT_DIR": "/home/dev/code/proj"},
    {"CURSOR_TRACE_ID": "x"},
    {"CURSOR_AGENT": "1", "CLAUDE_PROJECT_DIR": "/home/dev/code/proj"},
    {"GEMINI_CLI": "1"},
    {"COPILOT_CLI": "1", "COPILOT_AGENT_SESSION_ID": "another"},
    {"GOOSE_TERMINAL": "1"},
    {"OPENCODE": "1"},
    {"CODEX_MANAGED_BY_NPM": "1", "CODEX_SANDBOX": "seatbelt", "CODEX_THREAD_ID": "another"},
)


def schema(event: str, side: str) -> Draft7Validator:
    """Codex's own schema of what an event's hook gets, or may print."""
    name = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in event).lstrip("-")
    return Draft7Validator(json.loads((SAMPLES / "schemas" / f"{name}.command.{side}.schema.json").read_bytes()))


def sample(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_bytes())
    assert isinstance(found, dict)
    return found


def test_there_is_a_sample_of_every_event_that_is_read() -> None:
    assert len(HOOKS) >= 26
    assert {sample(path)["hook_event_name"] for path in HOOKS} == set(SCRIPT_OF)


@pytest.mark.parametrize("path", HOOKS, ids=lambda path: path.stem)
def test_every_recorded_input_is_what_codex_says_it_sends(path: Path) -> None:
    payload = sample(path)
    schema(payload["hook_event_name"], "input").validate(payload)


@pytest.mark.parametrize("path", HOOKS, ids=lambda path: path.stem)
def test_every_recorded_input_is_codex_s_and_nobody_else_s_wherever_it_was_started(path: Path) -> None:
    payload = sample(path)
    agents = load_agents(packaged_agents())
    for variables in INHERITED:
        taken = [name for name, agent in agents.items() if agent.recognises(variables, payload)]
        assert taken == ["codex"], variables


@pytest.mark.parametrize("path", OF_OTHERS, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_no_other_agent_s_recorded_input_is_codex_s(path: Path) -> None:
    for variables in INHERITED:
        assert not AGENT.recognises(variables, sample(path))


@pytest.mark.parametrize("path", HOOKS, ids=lambda path: path.stem)
def test_every_recorded_input_is_read_by_its_script_only(path: Path) -> None:
    payload = sample(path)
    script, kind = SCRIPT_OF[payload["hook_event_name"]]
    for name in SCRIPTS:
        event = AGENT.parse(name, payload)
        if name != script:
            assert event is None
            continue
        assert event is not None
        assert (event.agent, event.kind) == ("codex", kind)
        assert (event.session, event.cwd) == (payload["session_id"], payload["cwd"])
        assert event.transcript == (payload["transcript_path"] or "")
        assert event.turn == payload.get("turn_id", "")
        assert event.source == SOURCES.get(path.stem, "")
        assert event.last_message == payload.get("last_assistant_message", "")
        assert event.replayed is (path.stem == "SessionStart_resume")
        assert event.machine_turn is (path.stem == "UserPromptSubmit_of_a_subagent")
        if path.stem in TOOLS:
            assert (event.tool, event.subject) == TOOLS[path.stem]


def test_a_skill_of_ours_that_a_person_names_is_read_as_the_command() -> None:
    event = AGENT.parse("cems_user_prompts_submit", sample(SAMPLES / "hook_stdin" / "UserPromptSubmit_skill.json"))
    assert event is not None
    assert event.prompt == "/remember we deploy with make ship"


@pytest.mark.parametrize("path", HOOKS, ids=lambda path: path.stem)
def test_every_answer_is_one_that_codex_accepts(path: Path) -> None:
    payload = sample(path)
    name = payload["hook_event_name"]
    event = AGENT.parse(SCRIPT_OF[name][0], payload)
    assert event is not None
    answer = AGENT.render(event, "the port is 4817 — it was “free” \U0001f600 \ud800")
    if AGENT.context_limit(event) == 0:
        assert answer == b""
        return
    document = json.loads(answer)
    schema(name, "output").validate(document)
    assert document["hookSpecificOutput"]["hookEventName"] == name
    assert set(document["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}


def test_events_that_codex_takes_no_context_from_get_none() -> None:
    for path in (SAMPLES / "schemas").glob("*.output.schema.json"):
        rules = json.loads(path.read_bytes())
        takes = any("additionalContext" in each.get("properties", {}) for each in rules.get("definitions", {}).values())
        title = "".join(word.capitalize() for word in path.name.partition(".")[0].split("-"))
        event = HookEvent("codex", SCRIPT_OF[title][1], "s", "/x")
        assert (AGENT.context_limit(event) > 0) is takes, title


def test_the_golden_answer() -> None:
    event = HookEvent("codex", "prompt", "s", "/x")
    assert AGENT.render(event, 'a "b"\n\u00e9') == (
        b'{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"a \\"b\\"\\n\\u00e9"}}'
    )


def test_verdicts_are_what_codex_accepts_and_nothing_it_would_let_pass() -> None:
    event = HookEvent("codex", "pre_tool", "s", "/x", tool="Bash", subject="git push --force")
    validator = schema("PreToolUse", "output")
    warned = json.loads(AGENT.render_verdict(event, Verdict("warn", "mind the branch")))
    validator.validate(warned)
    inner = warned["hookSpecificOutput"]
    assert inner == {"hookEventName": "PreToolUse", "additionalContext": "mind the branch"}
    assert AGENT.render_verdict(event, Verdict("block", "never")) == (
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"never"}}'
    )
    asked = json.loads(AGENT.render_verdict(event, Verdict("confirm", "the person wants to be asked")))
    validator.validate(asked)
    inner = asked["hookSpecificOutput"]
    # `ask` is in the schema, and the program fails the hook for it and runs the tool.
    assert inner["permissionDecision"] == "deny"
    assert inner["permissionDecisionReason"].startswith("the person wants to be asked\n")
    assert "Run it again only after they answered yes" in inner["permissionDecisionReason"]
