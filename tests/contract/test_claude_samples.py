"""What Claude Code was recorded to send, and what it was recorded to accept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from cems.adapters.claude_code.agent import AGENT, SCRIPTS
from cems.core.events import HookEvent, Verdict

SAMPLES = Path(__file__).parents[1] / "fixtures" / "claude_code"
HOOKS = sorted((SAMPLES / "hook_stdin").glob("*.json"))
TRANSCRIPTS = sorted((SAMPLES / "transcripts").glob("*.jsonl"))

# Claude's event -> the script that is run for it and what it is to us. All others are none of our business.
READ = {
    "SessionStart": ("cems_session_start", "session_start"),
    "UserPromptSubmit": ("cems_user_prompts_submit", "prompt"),
    "PreToolUse": ("cems_pre_tool_use", "pre_tool"),
    "PostToolUse": ("cems_post_tool_use", "post_tool"),
    "PostToolUseFailure": ("cems_post_tool_use", "post_tool"),
    "Stop": ("cems_stop", "stop"),
    "SessionEnd": ("cems_session_end", "session_end"),
    "PreCompact": ("cems_pre_compact", "pre_compact"),
    "SubagentStart": ("cems_subagent_start", "subagent_start"),
}
SOURCES = {
    "SessionStart_startup": "startup",
    "SessionStart_resume": "resume",
    "SessionStart_clear": "clear",
    "SessionStart_compact": "compact",
    "SessionStart_fork": "fork",
    "SessionEnd_clear": "clear",
    "SessionEnd_other": "other",
    "PreCompact": "manual",
}

# As strict as the program: a wrong event name drops the output, and text before the JSON would be injected whole.
OUTPUT = Draft202012Validator(
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["hookSpecificOutput"],
        "properties": {
            "hookSpecificOutput": {
                "type": "object",
                "additionalProperties": False,
                "required": ["hookEventName", "additionalContext"],
                "properties": {
                    "hookEventName": {"enum": ["SessionStart", "UserPromptSubmit", "SubagentStart"]},
                    "additionalContext": {"type": "string", "minLength": 1, "maxLength": 10_000},
                },
            }
        },
    }
)


def _sample(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_bytes())
    assert isinstance(found, dict)
    return found


def test_there_are_samples() -> None:
    assert len(HOOKS) >= 39
    assert len(TRANSCRIPTS) >= 3


@pytest.mark.parametrize("path", HOOKS, ids=lambda path: path.stem)
def test_every_recorded_input_is_recognised_and_read_by_its_script_only(path: Path) -> None:
    payload = _sample(path)
    assert AGENT.recognises({}, payload)
    script, kind = READ.get(payload["hook_event_name"], ("", ""))
    for name in SCRIPTS:
        event = AGENT.parse(name, payload)
        if name != script:
            assert event is None
            continue
        assert event is not None
        assert (event.agent, event.kind) == ("claude-code", kind)
        assert (event.session, event.cwd) == (payload["session_id"], payload["cwd"])
        assert event.transcript == payload["transcript_path"]
        assert event.prompt == payload.get("prompt", "")
        assert event.tool == payload.get("tool_name", "")
        assert event.turn == payload.get("prompt_id", "")
        assert event.source == SOURCES.get(path.stem, event.source)
        assert event.machine_turn == payload.get("prompt", "").startswith("<task-notification>")


@pytest.mark.parametrize("path", HOOKS, ids=lambda path: path.stem)
def test_every_answer_is_one_that_claude_accepts(path: Path) -> None:
    payload = _sample(path)
    for script in SCRIPTS:
        event = AGENT.parse(script, payload)
        if event is None:
            continue
        answer = AGENT.render(event, "the port is 4817 — it was “free” \U0001f600")
        if payload["hook_event_name"] in ("SessionStart", "UserPromptSubmit", "SubagentStart"):
            document = json.loads(answer)
            OUTPUT.validate(document)
            assert document["hookSpecificOutput"]["hookEventName"] == payload["hook_event_name"]
        else:
            assert answer == b""


def test_the_golden_answer() -> None:
    event = HookEvent("claude-code", "prompt", "s", "/x")
    assert AGENT.render(event, 'a "b"\n\u00e9') == (
        b'{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"a \\"b\\"\\n\\u00e9"}}'
    )


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_recorded_transcripts_are_lines_of_json_with_a_type(path: Path) -> None:
    lines = path.read_bytes().splitlines()
    assert lines
    for line in lines:
        assert isinstance(json.loads(line)["type"], str)


def test_a_recorded_configuration_takes_our_server_and_gives_it_back() -> None:
    from cems.adapters.json_edit import JsonText

    data = (SAMPLES / "dot_claude_json_after_mcp_add.json").read_bytes()
    before = JsonText.parse(data)
    after = before.with_member(("mcpServers",), "cems", {"command": "/x"})
    assert set(after.get(("mcpServers",))) == {*before.get(("mcpServers",)), "cems"}
    assert bytes(after.without(("mcpServers", "cems"))) == data


@pytest.mark.parametrize(
    ("sample", "tool", "subject"),
    [
        ("PreToolUse_Bash", "Bash", "echo hi"),
        ("PreToolUse_mcp__mem__recall", "mcp__mem__recall", '{"query":"q1"}'),
    ],
)
def test_what_a_tool_is_about_to_work_on_is_read(sample: str, tool: str, subject: str) -> None:
    event = AGENT.parse("cems_pre_tool_use", json.loads((SAMPLES / "hook_stdin" / f"{sample}.json").read_bytes()))
    assert event is not None
    assert (event.tool, event.subject) == (tool, subject)


@pytest.mark.parametrize(
    ("verdict", "answer"),
    [
        (
            Verdict("block", "no — é"),
            b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",'
            b'"permissionDecisionReason":"no \\u2014 \\u00e9"}}',
        ),
        (
            Verdict("confirm", "ask"),
            b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"ask"}}',
        ),
        (
            Verdict("warn", "slow"),
            b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"slow"}}',
        ),
    ],
)
def test_a_verdict_is_the_answer_that_claude_was_seen_to_take(verdict: Verdict, answer: bytes) -> None:
    event = HookEvent("claude-code", "pre_tool", "s", "/x", tool="Bash")
    assert AGENT.render_verdict(event, verdict) == answer
    assert AGENT.render_verdict(HookEvent("claude-code", "post_tool", "s", "/x"), verdict) == b""
