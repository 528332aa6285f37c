"""Each agent's real program without CEMS: that the ground the other tests stand on carries."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.e2e.agent import Agent
from tests.e2e.fixtures import AGENTS, Starter
from tests.fakes import echo_server
from tests.fakes.model_api import Text, ToolUse

pytestmark = pytest.mark.e2e

PROMPT = 'What is the capital of Australia? (it\'s "easy")'
SECOND = "And of New Zealand?"


def files(agent: Agent) -> set[str]:
    """Every file and link in the agent's home, but those of the project it works in."""
    home = agent.sandbox.home
    names = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_symlink() or not path.is_dir()}
    return {name for name in names if not name.startswith("work/")}


@pytest.mark.parametrize("kind", AGENTS, ids=lambda kind: kind.name)
def test_a_prompt_a_tool_call_and_a_resumed_session(kind: type[Agent], start: Starter) -> None:
    agent = start(kind)
    agent.add_server("echo", [sys.executable, str(Path(echo_server.__file__))])
    before = files(agent)
    project = agent.sandbox.project("shop")
    echo = agent.tool("echo", "echo")
    agent.model.script(ToolUse(echo, {"text": "Canberra é 漢"}), Text("It is Canberra."), Text("Wellington."))

    turn = agent.ask(PROMPT, cwd=project, allow=[echo])
    assert turn.answer == "It is Canberra."
    assert [text.count(PROMPT) for where, text in turn.request.texts if where == "user" and PROMPT in text] == [1]
    assert echo in turn.request.tools
    assert len(turn.requests) == 2
    assert "\n".join(turn.requests[1].tool_results).count("echo: Canberra é 漢") == 1

    again = agent.ask(SECOND, cwd=project, resume=turn.session)
    assert again.answer == "Wellington."
    assert again.session == turn.session
    assert PROMPT in again.text
    assert "It is Canberra." in again.text
    assert SECOND in again.text

    assert {name for name in files(agent) - before if not name.startswith(tuple(agent.own))} == set()
    assert [path.name for path in project.iterdir()] == [".git"]
