"""What Goose 1.52.0 was recorded to send, and what it was seen to accept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cems.adapters.goose.agent import AGENT, SCRIPTS
from cems.core.events import ContextFile, HookEvent, Verdict

SAMPLES = Path(__file__).parents[1] / "fixtures" / "goose"
INPUTS: list[dict[str, Any]] = [
    json.loads(path.read_bytes()) for path in sorted((SAMPLES / "hook_stdin").glob("*.json"))
]

# Goose's event -> the script that is run for it and what it is to us. The others are not wired.
READ = {
    "SessionStart": ("cems_session_start", "session_start"),
    "UserPromptSubmit": ("cems_user_prompts_submit", "prompt"),
    "PreToolUse": ("cems_pre_tool_use", "pre_tool"),
    "Stop": ("cems_stop", "stop"),
    "SessionEnd": ("cems_session_end", "session_end"),
}


def read(event: str) -> HookEvent:
    payload = next(each for each in INPUTS if each["event"] == event and each.get("tool_name") in (None, "shell"))
    found = AGENT.parse(READ[event][0], payload)
    assert found is not None
    return found


def test_there_are_samples_of_every_event_we_read() -> None:
    assert set(READ) <= {each["event"] for each in INPUTS}
    assert {script for script, _ in READ.values()} == set(SCRIPTS)


@pytest.mark.parametrize("payload", INPUTS, ids=lambda payload: f"{payload['event']}-{payload['matcher_context']}")
def test_every_recorded_input_is_read_by_its_script_only(payload: dict[str, Any]) -> None:
    script, kind = READ.get(payload["event"], ("", ""))
    for name in SCRIPTS:
        event = AGENT.parse(name, payload)
        assert (event.kind if event else "") == (kind if name == script else "")
        assert event is None or event.session == "goose:20261129_1"


def test_what_the_events_say() -> None:
    assert (read("UserPromptSubmit").prompt, read("UserPromptSubmit").cwd) == ("say hi", "")
    assert (read("Stop").last_message, read("Stop").cwd) == ("OK-FROM-FAKE", "/home/dev/code/proj")
    tool = read("PreToolUse")
    assert (tool.tool, tool.subject, tool.cwd) == ("Bash", "echo hello-goose", "/home/dev/code/proj")
    payload = next(each for each in INPUTS if each["event"] == "PreToolUse" and each["tool_name"] == "mem__recall")
    recall = AGENT.parse("cems_pre_tool_use", payload)
    assert recall is not None
    assert (recall.tool, recall.subject) == ("mcp__mem__recall", '{"query":"abc"}')


def test_context_goes_into_the_file_with_a_prompt_and_waits_for_one_at_the_start() -> None:
    answer = AGENT.render(read("UserPromptSubmit"), "block ü \ud83d\ude00 \ud83d!")
    assert isinstance(answer, ContextFile)
    assert answer == "block ü 😀 \ufffd!".encode()
    assert read("SessionStart").held
    assert read("SessionStart").replayed
    assert AGENT.context_limit(read("SessionStart")) == AGENT.context_limit(read("UserPromptSubmit")) > 0
    # A limit in UTF-16 units is at most three times as many bytes, and Goose reads 65,536.
    assert AGENT.context_limit(read("UserPromptSubmit")) * 3 < 65_536
    for event in ("SessionStart", "PreToolUse", "Stop", "SessionEnd"):
        assert AGENT.render(read(event), "block") == b""
    for event in ("PreToolUse", "Stop", "SessionEnd"):
        assert AGENT.context_limit(read(event)) == 0


def test_a_verdict_refuses_or_says_nothing() -> None:
    tool = read("PreToolUse")
    assert AGENT.render_verdict(tool, Verdict("block", "not “here”.")) == (
        rb'{"decision":"block","reason":"not \u201chere\u201d."}'
    )
    asks = json.loads(AGENT.render_verdict(tool, Verdict("confirm", "This deploys.")))
    assert asks == {"decision": "block", "reason": asks["reason"]}
    assert asks["reason"].startswith("This deploys.\n")
    assert "after they answered yes" in asks["reason"]
    assert AGENT.cannot_ask
    # Goose takes any other output for no decision; on Stop a refusal would keep the turn going.
    assert AGENT.render_verdict(tool, Verdict("warn", "careful")) == b""
    assert AGENT.render_verdict(read("Stop"), Verdict("block", "no")) == b""
