"""What Copilot CLI 1.0.102 was recorded to send, and what it was seen to accept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from cems.adapters.claude_code.agent import AGENT as CLAUDE
from cems.adapters.copilot.agent import AGENT, SCRIPTS
from cems.adapters.copilot.config import HOOKS
from cems.core.events import HookEvent, Verdict

SAMPLES = Path(__file__).parents[1] / "fixtures" / "copilot"
ALL = sorted((SAMPLES / "hook_stdin").glob("*.json"))

# Recorded input that a script of ours is run for -> the script, the event, whose turn it is. The rest is not wired.
READ = {
    "pascal_SessionStart": ("cems_session_start", "session_start", False),
    "pascal_UserPromptSubmit": ("cems_user_prompts_submit", "prompt", False),
    "pascal_PreToolUse": ("cems_pre_tool_use", "pre_tool", False),
    "pascal_PostToolUse": ("cems_post_tool_use", "post_tool", False),
    "pascal_Stop": ("cems_stop", "stop", True),
    "pascal_SessionEnd": ("cems_session_end", "session_end", False),
}

# As strict as we are: one key of those that were seen to work, and nothing beside it.
CONTEXT = Draft202012Validator(
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["additionalContext"],
        "properties": {"additionalContext": {"type": "string", "minLength": 1, "maxLength": 10_240}},
    }
)
DECISION = Draft202012Validator(
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["permissionDecision", "permissionDecisionReason"],
        "properties": {
            "permissionDecision": {"enum": ["deny", "ask"]},
            "permissionDecisionReason": {"type": "string", "minLength": 1},
        },
    }
)


def sample(name: str) -> dict[str, Any]:
    found = json.loads((SAMPLES / "hook_stdin" / f"{name}.json").read_bytes())
    assert isinstance(found, dict)
    return found


def test_there_are_samples() -> None:
    assert len(ALL) >= 21
    assert {f"pascal_{hook.event}" for hook in HOOKS} - {path.stem for path in ALL} == {"pascal_PreCompact"}


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
@pytest.mark.parametrize("inherited", [{}, {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "another"}])
def test_every_recorded_input_is_copilots_and_nobody_elses(path: Path, inherited: dict[str, str]) -> None:
    variables = {**inherited, "COPILOT_CLI": "1", "COPILOT_PROJECT_DIR": "/x", "CLAUDE_PROJECT_DIR": "/x"}
    for named in (inherited, variables):
        assert AGENT.recognises(named, sample(path.stem))
        assert not CLAUDE.recognises(named, sample(path.stem))


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_every_recorded_input_is_read_by_its_script_only(path: Path) -> None:
    payload = sample(path.stem)
    script, kind, machine = READ.get(path.stem, ("", "", False))
    for name in SCRIPTS:
        event = AGENT.parse(name, payload)
        if name != script:
            assert event is None
            continue
        assert event is not None
        assert (event.agent, event.kind, event.machine_turn) == ("copilot", kind, machine)
        assert (event.session, event.cwd) == (payload["session_id"], payload["cwd"])
        assert event.transcript == payload.get("transcript_path", "")
        assert event.prompt == payload.get("prompt", "")
        assert event.tool == payload.get("tool_name", "")
        assert event.subject == payload.get("tool_input", {}).get("command", "")


def test_a_new_session_is_a_startup() -> None:
    event = AGENT.parse("cems_session_start", sample("pascal_SessionStart"))
    assert event is not None
    assert event.source == "startup"


@pytest.mark.parametrize("name", READ)
def test_every_answer_is_one_that_copilot_accepts(name: str) -> None:
    event = AGENT.parse(READ[name][0], sample(name))
    assert event is not None
    answer = AGENT.render(event, "the port is 4817 — it was “free” \U0001f600")
    if event.kind in ("session_start", "prompt"):
        CONTEXT.validate(json.loads(answer))
    else:
        assert answer == b""
        assert AGENT.context_limit(event) == 0
    for severity in ("block", "confirm", "warn"):
        verdict = AGENT.render_verdict(event, Verdict(severity, "ask first"))
        if event.kind != "pre_tool":
            assert verdict == b""
        else:
            (CONTEXT if severity == "warn" else DECISION).validate(json.loads(verdict))


def test_the_golden_answers() -> None:
    prompt, tool = (HookEvent("copilot", kind, "s", "/x") for kind in ("prompt", "pre_tool"))
    assert AGENT.render(prompt, 'a "b"\n\u00e9') == b'{"additionalContext":"a \\"b\\"\\n\\u00e9"}'
    denied = b'{"permissionDecision":"deny","permissionDecisionReason":"no"}'
    assert AGENT.render_verdict(tool, Verdict("block", "no")) == denied
    assert AGENT.render_verdict(tool, Verdict("confirm", "no")) == denied.replace(b"deny", b"ask")
    assert AGENT.render_verdict(tool, Verdict("warn", "no")) == b'{"additionalContext":"no"}'


def test_what_was_said_last_is_read_from_the_recorded_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.loads(line) for line in (SAMPLES / "transcripts" / "events.jsonl").read_bytes().splitlines()]
    said = [line for line in lines if line["type"] == "assistant.message" and line["data"]["content"]]
    mine, subagents = ([line for line in said if bool(line.get("agentId")) is sub] for sub in (False, True))
    assert mine
    assert subagents, "the sample has a subagent, whose words are not the session's"
    folder = tmp_path / ".copilot" / "session-state" / "s-1"
    folder.mkdir(parents=True)
    # The subagent speaks last; a line that is still being written ends the file.
    text = [json.dumps(line) for line in (*lines, subagents[-1])]
    (folder / "events.jsonl").write_text("\n".join(text) + '\n{"type": "assistant.message", "da')
    stop = {
        "hook_event_name": "Stop",
        "session_id": "s-1",
        "timestamp": "2026-11-29T23:12:31.287Z",
        "cwd": "/x",
        "transcript_path": str(folder / "events.jsonl"),
        "stop_reason": "end_turn",
    }
    event = AGENT.parse("cems_stop", stop)
    assert event is not None
    assert event.last_message == mine[-1]["data"]["content"]
    # The record may come after the event: a short prompt looks again, in the folder that Copilot has by default.
    monkeypatch.setenv("HOME", str(tmp_path))
    asked = {key: value for key, value in stop.items() if key != "transcript_path"}
    for prompt, session, found in (("yes", "s-1", True), ("yes " * 99, "s-1", False), ("yes", "../s-1", False)):
        answer = {**asked, "hook_event_name": "UserPromptSubmit", "session_id": session, "prompt": prompt}
        event = AGENT.parse("cems_user_prompts_submit", answer)
        assert event is not None
        assert bool(event.last_message) is found
    # Another file is never opened, whatever the input says.
    for other in ("/etc/hosts", str(folder.parent / "s-2" / "events.jsonl"), "events.jsonl"):
        event = AGENT.parse("cems_stop", {**stop, "transcript_path": other})
        assert event is not None
        assert event.last_message == ""
