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

pytestmark = pytest.mark.e2e

SECOND = 'And where are the backups? (it\'s "easy") 漢'


class Records:
    """What an agent recorded, read as it grows."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.told, self.cursors = agent, Told(), dict[SessionSource, Cursor]()

    def new(self) -> list[Event]:
        read = reader(self.agent.name.replace("-", "_"))
        found: list[Event] = []
        for source in read.sessions(self.agent.sandbox.home, self.agent.environment):
            reading = read.read(source, self.cursors.get(source, Cursor()))
            self.cursors[source] = reading.cursor
            assert not reading.skipped
            found += reading.events
        return self.told.new(found)


def said(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in events if event.kind in ("person", "assistant")]


@pytest.mark.parametrize("kind", AGENTS, ids=lambda kind: kind.name)
def test_a_session_with_a_memory_a_tool_and_a_resumption(kind: type[Agent], start: Starter) -> None:
    agent = start(kind)
    agent.add_server("echo", [sys.executable, str(Path(echo_server.__file__))])
    set_up(agent)
    project = agent.sandbox.project("shop")
    remember(agent.sandbox, DEPLOY, project)
    echo = agent.tool("echo", "echo")
    agent.model.script(ToolUse(echo, {"text": "Canberra é 漢"}), Text("With the blue key."), Text("In the cellar."))
    records = Records(agent)

    turn = agent.ask(DEPLOY_PROMPT, cwd=project, allow=[echo])
    assert DEPLOY in turn.text
    first = records.new()
    agent.ask(SECOND, cwd=project, resume=turn.session)
    both = [*first, *records.new()]

    assert said(both) == [
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
    assert records.new() == []


FORKS = {"claude-code": ("--fork-session",), "opencode": ("--fork",), "pi": ("--fork", "{session}")}


@pytest.mark.parametrize("kind", [kind for kind in AGENTS if kind.name in FORKS], ids=lambda kind: kind.name)
def test_what_a_fork_repeats_is_told_once(kind: type[Agent], start: Starter) -> None:
    agent = start(kind)
    project = agent.sandbox.project("shop")
    agent.model.script(Text("With the blue key."), Text("In the cellar."))
    records = Records(agent)
    turn = agent.ask(DEPLOY_PROMPT, cwd=project)
    assert said(records.new()) == [("person", DEPLOY_PROMPT), ("assistant", "With the blue key.")]

    options = [option.format(session=turn.session) for option in FORKS[kind.name]]
    fork = agent.ask(SECOND, cwd=project, resume=None if kind.name == "pi" else turn.session, options=options)
    assert DEPLOY_PROMPT in fork.text
    later = records.new()
    assert said(later) == [("person", SECOND), ("assistant", "In the cellar.")]
    assert turn.session not in {event.session for event in later}
