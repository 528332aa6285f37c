"""What Gemini CLI 0.61.0 really sent to hooks: read by the right script only, and answered as it accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cems.adapters.gemini.agent import AGENT, SCRIPTS
from cems.core.events import HookEvent, Verdict

SAMPLES = sorted((Path(__file__).parents[1] / "fixtures" / "gemini" / "hook_stdin").glob("*.json"))
EVENTS = {name: (script, kind) for script, (kind, name) in SCRIPTS.items()}


def _sample(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_bytes())
    assert isinstance(found, dict)
    return found


def test_there_are_samples() -> None:
    assert {_sample(path)["hook_event_name"] for path in SAMPLES} >= {*EVENTS, "AfterTool", "PreCompress"}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_recorded_input_is_recognised_and_read_by_its_script_only(path: Path) -> None:
    payload = _sample(path)
    assert AGENT.recognises({}, payload)
    assert AGENT.recognises({"GEMINI_SESSION_ID": payload["session_id"]}, payload)
    # Another program that a Gemini of another session has started.
    assert not AGENT.recognises({"GEMINI_SESSION_ID": "another"}, payload)
    script, kind = EVENTS.get(payload["hook_event_name"], ("", ""))
    for name in SCRIPTS:
        event = AGENT.parse(name, payload)
        assert (event is not None) == (name == script)
        if event is None:
            continue
        assert (event.agent, event.kind, event.session) == ("gemini", kind, payload["session_id"])
        assert (event.cwd, event.transcript) == (payload["cwd"], payload["transcript_path"])
        assert event.source == payload.get("source", payload.get("reason", ""))
        assert event.last_message == payload.get("prompt_response", "")


def test_a_prompt_is_what_the_person_typed_without_what_the_sessions_start_was_given() -> None:
    payload = _sample(next(path for path in SAMPLES if path.stem == "BeforeAgent"))
    assert payload["prompt"] == "<hook_context>MARK-SESSIONSTART-11</hook_context>\n\nsay hi"
    event = AGENT.parse("cems_user_prompts_submit", payload)
    assert event is not None
    assert event.prompt == "say hi"
    own = "why does <hook_context>x</hook_context> stand here?"
    event = AGENT.parse("cems_user_prompts_submit", {**payload, "prompt": own})
    assert event is not None
    assert event.prompt == own


def test_tools_have_the_names_that_rules_know() -> None:
    told = [_sample(path) for path in SAMPLES if path.stem.startswith("BeforeTool")]
    events = [AGENT.parse("cems_pre_tool_use", payload) for payload in told]
    assert [(event.tool, event.subject) for event in events if event] == [
        ("Bash", "echo hello-gm"),
        ("mcp__mem__recall", '{"query":"abc"}'),
    ]


@pytest.mark.parametrize("kind", ["session_start", "prompt"])
def test_the_golden_answer(kind: Any) -> None:
    name = {"session_start": "SessionStart", "prompt": "BeforeAgent"}[kind]
    assert AGENT.render(HookEvent("gemini", kind, "s", "/x"), 'a "b"\n\u00e9\ud800') == (
        b'{"hookSpecificOutput":{"hookEventName":"%s","additionalContext":"a \\"b\\"\\n\\u00e9\\ufffd"}}'
        % name.encode()
    )
    assert AGENT.render(HookEvent("gemini", kind, "s", "/x"), "") == b""


@pytest.mark.parametrize("kind", ["stop", "session_end", "pre_tool", "post_tool"])
def test_no_other_event_is_answered_with_context(kind: Any) -> None:
    event = HookEvent("gemini", kind, "s", "/x")
    assert AGENT.render(event, "context") == b""
    assert AGENT.context_limit(event) == 0


def test_the_golden_verdicts() -> None:
    event = HookEvent("gemini", "pre_tool", "s", "/x", tool="Bash")
    assert AGENT.render_verdict(event, Verdict("block", "no")) == b'{"decision":"deny","reason":"no"}'
    assert AGENT.render_verdict(event, Verdict("confirm", "ask")) == b'{"decision":"ask","reason":"ask"}'
    assert AGENT.render_verdict(event, Verdict("warn", "mind")) == b""
    assert AGENT.render_verdict(HookEvent("gemini", "stop", "s", "/x"), Verdict("block", "no")) == b""
