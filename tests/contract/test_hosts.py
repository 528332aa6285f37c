"""Each recorded input of any agent is taken by that agent's adapter and no other, whatever variables are inherited."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cems.core.service.adapters import load_agents, packaged_agents, recognised

FIXTURES = Path(__file__).parents[1] / "fixtures"
AGENTS = load_agents(packaged_agents())
SESSION = "an-outer-session"
# What is in the environment when the agent was started from another one's shell, or from a terminal inside it.
OUTER: Mapping[str, Mapping[str, str]] = {
    "nothing": {},
    "claude-code": {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_SESSION_ID": SESSION},
    "codex": {"CODEX_SANDBOX": "seatbelt", "CODEX_THREAD_ID": SESSION},
    "gemini": {"GEMINI_CLI": "1", "GEMINI_SESSION_ID": SESSION},
    "claude-code without a session": {"CLAUDECODE": "1"},
    "goose": {"GOOSE_TERMINAL": "1"},
    "opencode": {"OPENCODE": "1"},
    "a terminal in Cursor": {"CURSOR_TRACE_ID": "x"},
}
# What the agent itself sets for its hooks.
OWN: Mapping[str, Mapping[str, str]] = {
    "claude-code": {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_SESSION_ID": "{session}"},
    "copilot": {"COPILOT_CLI": "1", "COPILOT_PROJECT_DIR": "/x", "CLAUDE_PROJECT_DIR": "/x"},
    "cursor": {"CURSOR_VERSION": "3.20.17", "CURSOR_PROJECT_DIR": "/x", "CLAUDE_PROJECT_DIR": "/x"},
    "gemini": {"GEMINI_SESSION_ID": "{session}", "GEMINI_PROJECT_DIR": "/x", "CLAUDE_PROJECT_DIR": "/x"},
}
PLUGINS = ("opencode", "pi")


def _inputs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for folder in sorted(FIXTURES.glob("*/hook_stdin")):
        for path in sorted(folder.glob("*.json")):
            yield folder.parent.name.replace("_", "-"), path.stem, json.loads(path.read_bytes())
    for name in PLUGINS:
        yield name, "prompt", {"cems_agent": name, "hook_event_name": "prompt", "session_id": "s", "cwd": "/x"}


INPUTS = list(_inputs())


def _own(agent: str, payload: Mapping[str, Any]) -> dict[str, str]:
    session = str(payload.get("session_id", ""))
    return {name: value.format(session=session) for name, value in OWN.get(agent, {}).items()}


def test_every_agent_has_inputs() -> None:
    assert {agent for agent, _, _ in INPUTS} == set(packaged_agents())


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize(("agent", "name", "payload"), INPUTS, ids=[f"{agent}-{name}" for agent, name, _ in INPUTS])
def test_one_adapter_takes_it(agent: str, name: str, payload: dict[str, Any], outer: str) -> None:
    variables = {**OUTER[outer], **_own(agent, payload)}
    taken = [each for each, adapter in AGENTS.items() if adapter.recognises(variables, payload)]
    assert taken == [agent]


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"hook_event_name": "UserPromptSubmit", "prompt": "x"},
        {"session_id": "s"},
        {"cems_agent": "another", "hook_event_name": "prompt", "session_id": "s"},
        {"event": "UserPromptSubmit"},
    ],
)
def test_an_unknown_host_gets_nothing(payload: dict[str, Any]) -> None:
    assert recognised(AGENTS, "cems_user_prompts_submit", {}, payload) is None
