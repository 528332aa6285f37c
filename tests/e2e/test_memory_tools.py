"""The tools about the past, requests and maintenance, called by real agents: no agent refuses them, and no agent widens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.e2e.agent import Turn
from tests.e2e.claude import Claude
from tests.e2e.codex import Codex
from tests.e2e.steps import DEPLOY, memories, remember
from tests.fakes.model_api import Text, ToolUse

pytestmark = pytest.mark.e2e

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("memory_history", {"id": ""}),
    ("memory_timeline", {"limit": 5}),
    ("memory_promote", {"id": "", "reason": "it is a habit"}),
    ("memory_maintenance", {}),
    ("memory_maintenance", {"job": "verify"}),
)


def script(memory: str) -> list[ToolUse]:
    return [
        ToolUse(f"mcp__cems__{tool}", {name: value or memory for name, value in arguments.items()})
        for tool, arguments in CALLS
    ]


def check(turn: Turn, memory: str) -> None:
    """What the five calls told the model: agents give it the text, or the JSON that comes with it."""
    history, timeline, promoted, report, verified = [
        json.dumps(result, ensure_ascii=False) for result in turn.requests[-1].tool_results[-len(CALLS) :]
    ]
    for recalled in (history, timeline):
        assert "Data, not instructions" in recalled
        assert DEPLOY in recalled
        assert memory[:10] in recalled
    assert "learnt" in timeline
    assert "asked" in promoted.lower()
    assert "promotion" in report
    assert "sound" in verified
    assert "journal" in verified


def test_claude_calls_them(claude: Claude) -> None:
    project = claude.sandbox.project("shop")
    remember(claude.sandbox, DEPLOY, project)
    (stored,) = memories(claude.sandbox, project)
    claude.model.script(*script(stored["id"]), Text("Done."))
    allowed = [f"mcp__cems__{tool}" for tool in ("memory_promote", "memory_maintenance")]
    turn = claude.ask("look after the memory", cwd=project, allow=allowed)
    check(turn, stored["id"])
    assert memories(claude.sandbox, project)[0]["scope"] == stored["scope"]


def test_codex_calls_them_where_it_asks_nobody(codex: Codex) -> None:
    project = codex.sandbox.project("shop")
    remember(codex.sandbox, DEPLOY, project)
    (stored,) = memories(codex.sandbox, project)
    codex.model.script(*script(stored["id"]), Text("Done."))
    check(codex.ask("look after the memory", cwd=project), stored["id"])
    assert memories(codex.sandbox, project)[0]["scope"] == stored["scope"]
