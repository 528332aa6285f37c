"""What Cursor sends to hooks, and what it accepts of them.

The program cannot be run here. The samples are what its hook engine (npm's `@cursor/sdk` 1.0.32) wrote to a hook's input
when it was asked for each event as its own code asks; `claude_UserPromptSubmit` is Claude's form, for hooks of Claude's files.
`tests/e2e/test_cursor.py` has the engine run our files and judge our answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from cems.adapters.cursor.agent import AGENT, SCRIPTS
from cems.adapters.cursor.config import HOOKS
from cems.core.events import HookEvent, Verdict

SAMPLES = Path(__file__).parents[1] / "fixtures" / "cursor" / "hook_stdin"
ALL = sorted(path.stem for path in SAMPLES.glob("*.json"))
READ = {
    "sessionStart": ("cems_session_start", "session_start"),
    "beforeSubmitPrompt": ("cems_user_prompts_submit", "prompt"),
    "claude_UserPromptSubmit": ("cems_user_prompts_submit", "prompt"),
    "preToolUse": ("cems_pre_tool_use", "pre_tool"),
    "preToolUse_MCP": ("cems_pre_tool_use", "pre_tool"),
    "preToolUse_subagent": ("cems_pre_tool_use", "pre_tool"),
    "postToolUse": ("cems_post_tool_use", "post_tool"),
    "afterAgentResponse": ("cems_agent_response", "stop"),
    "stop": ("cems_stop", "stop"),
    "sessionEnd": ("cems_session_end", "session_end"),
    "preCompact": ("cems_pre_compact", "pre_compact"),
}
TOOLS = {
    "preToolUse": ("Bash", "git push --force"),
    "preToolUse_MCP": ("mcp__cems__memory_search", '{"query":"port"}'),
    "preToolUse_subagent": ("Write", "/home/dev/code/shop/a.txt"),
    "postToolUse": ("Bash", "ls"),
}

# As strict as we are: Cursor takes more keys, and drops a tool's context of more than 10,000 characters whole.
CONTEXT = Draft202012Validator(
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["additional_context"],
        "properties": {"additional_context": {"type": "string", "minLength": 1, "maxLength": 10_000}},
    }
)
DENIAL = Draft202012Validator(
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["permission", "user_message", "agent_message"],
        "properties": {
            "permission": {"const": "deny"},
            "user_message": {"type": "string", "minLength": 1},
            "agent_message": {"type": "string", "minLength": 1},
        },
    }
)


def sample(name: str) -> dict[str, Any]:
    found = json.loads((SAMPLES / f"{name}.json").read_bytes())
    assert isinstance(found, dict)
    return found


def read(name: str) -> HookEvent:
    event = AGENT.parse(READ[name][0], sample(name))
    assert event is not None
    return event


def test_there_is_a_sample_of_every_event_we_write() -> None:
    assert sorted(READ) == ALL
    assert {hook.event for hook in HOOKS} <= set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_every_input_is_read_by_its_script_only(name: str) -> None:
    payload = sample(name)
    for script in SCRIPTS:
        event = AGENT.parse(script, payload)
        if script != READ[name][0]:
            assert event is None
            continue
        assert event is not None
        assert (event.agent, event.kind, event.cwd) == ("cursor", READ[name][1], "/home/dev/code/shop")
        assert event.session == payload["session_id"]
        assert (event.tool, event.subject) == TOOLS.get(name, ("", ""))
        assert event.prompt == payload.get("prompt", "")
        assert event.last_message == payload.get("text", "")
        assert event.machine_turn is (name == "preToolUse_subagent")
        assert bool(event.turn) is ("generation_id" in payload)
        # In Claude's form nothing says the version: what it is given waits for a tool.
        assert event.held is (name == "claude_UserPromptSubmit")


@pytest.mark.parametrize("name", ALL)
def test_every_answer_is_one_that_cursor_accepts(name: str) -> None:
    event = read(name)
    answer = AGENT.render(event, "the port is 4817 — it was “free” \U0001f600")
    if event.kind in ("session_start", "prompt", "post_tool"):
        CONTEXT.validate(json.loads(answer))
        assert 0 < AGENT.context_limit(event) < 10_000
    else:
        assert answer == b""
        assert AGENT.context_limit(event) == 0
    for severity in ("block", "confirm", "warn"):
        verdict = AGENT.render_verdict(event, Verdict(severity, "ask first"))
        if event.kind == "pre_tool":
            (CONTEXT if severity == "warn" else DENIAL).validate(json.loads(verdict))
        else:
            assert verdict == b""


def test_the_golden_answers() -> None:
    assert AGENT.render(read("beforeSubmitPrompt"), 'a "b"\n\u00e9') == b'{"additional_context":"a \\"b\\"\\n\\u00e9"}'
    tool = read("preToolUse")
    assert AGENT.render_verdict(tool, Verdict("block", "no")) == (
        b'{"permission":"deny","user_message":"no","agent_message":"no"}'
    )
    assert AGENT.render_verdict(tool, Verdict("warn", "no")) == b'{"additional_context":"no"}'
    # Cursor would let the tool run after an `ask`: the model has to ask.
    asked = json.loads(AGENT.render_verdict(tool, Verdict("confirm", "Nobody pushes.")))
    assert asked["permission"] == "deny"
    assert asked["agent_message"].startswith("Nobody pushes.")
    assert len(asked["agent_message"]) > len("Nobody pushes.")
