"""What each agent's real program records of a session is read back: what was said, once, and nothing that CEMS put in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.e2e.agent import Agent
from tests.e2e.fixtures import AGENTS, Starter
from tests.e2e.steps import DEPLOY, DEPLOY_PROMPT, remember
from tests.e2e.test_every_agent import set_up
from tests.fakes import echo_server
from tests.fakes.model_api import Text, ToolUse
from tests.fakes.recorded_sessions import reader

from cems.core.learn.transcript import Cursor, Event, SessionSource, Told

pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("kind", AGENTS, ids=lambda kind: kind.name)]

SECOND = 'And where are the backups? (it\'s "easy") 漢'


def test_a_session_with_a_memory_a_tool_and_a_resumption(kind: type[Agent], start: Starter) -> None:
    agent = start(kind)
    agent.add_server("echo", [sys.executable, str(Path(echo_server.__file__))])
    set_up(agent)
    project = agent.sandbox.project("shop")
    remember(agent.sandbox, DEPLOY, project)
    echo = agent.tool("echo", "echo")
    agent.model.script(ToolUse(echo, {"text": "Canberra é 漢"}), Text("With the blue key."), Text("In the cellar."))
    told, cursors = Told(), dict[SessionSource, Cursor]()

    def read() -> list[Event]:
        found = []
        for source in reader(kind.name.replace("-", "_")).sessions(agent.sandbox.home, agent.environment):
            reading = reader(kind.name.replace("-", "_")).read(source, cursors.get(source, Cursor()))
            cursors[source] = reading.cursor
            assert not reading.skipped
            found += reading.events
        return told.new(found)

    turn = agent.ask(DEPLOY_PROMPT, cwd=project, allow=[echo])
    assert DEPLOY in turn.text
    first = read()
    agent.ask(SECOND, cwd=project, resume=turn.session)
    both = [*first, *read()]

    said = [(event.kind, event.text) for event in both if event.kind in ("person", "assistant")]
    assert said == [
        ("person", DEPLOY_PROMPT),
        ("assistant", "With the blue key."),
        ("person", SECOND),
        ("assistant", "In the cellar."),
    ]
    assert not [event for event in both if DEPLOY in event.text or event.machine]
    (call,) = [event for event in both if event.kind == "tool_call"]
    (result,) = [event for event in both if event.kind == "tool_result"]
    assert "Canberra é 漢" in call.text
    assert "echo: Canberra é 漢" in result.text
    assert result.ok is True
    assert call.tool.endswith("echo")
    assert {event.session.rpartition(":")[2] for event in both} == {turn.session}
    assert {event.cwd for event in both} == {str(project)}
    assert all(event.at for event in both)
    assert read() == []
