"""What the installer reports of each agent, and what the daemon has heard of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.person import Person
from tests.fakes.real_parts import Place, run

from cems.adapters.base import AgentRecord, Detection, Launchers, Machine, Trust
from cems.adapters.claude_code.agent import ClaudeCode
from cems.core.service.heard import TRIAL
from cems.core.service.sessions import Sessions
from cems.installer.agent_report import AgentReport, report
from cems.installer.record import load

NEVER: dict[str, Any] = {"last_hook": None, "last_tool": None, "last_injection": None}
NOW = "2026-03-01T12:00:00Z"


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


class Trusting(ClaudeCode):
    """An agent that asks the person about hooks."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust

    def trust(self, machine: Machine, launchers: Launchers, record: AgentRecord) -> Trust:
        return self._trust


class Gone(ClaudeCode):
    """Its program was removed, its files were not."""

    def detect(self, machine: Machine) -> Detection:
        return replace(super().detect(machine), found=False)


def reported(person: Person, agent: ClaudeCode, heard: Mapping[str, Any] | None = None) -> AgentReport:
    record = load(person.home)
    known = next((each for each in record.agents if each.agent == agent.name), None) if record else None
    return report(person.home, person.machine, agent, known, heard)


def test_from_not_found_to_heard_of(person: Person) -> None:
    found = reported(person, ClaudeCode(), {})
    assert (found.found, found.wired, found.ok, found.todo, found.detail) == (False, "no", True, "", "not found")
    person.has()
    found = reported(person, ClaudeCode(), {})
    assert (found.found, found.wired, found.ok, found.todo) == (True, "no", False, "cems setup --agent claude-code")
    person.setup()
    found = reported(person, ClaudeCode(), {})
    assert (found.wired, found.trusted, found.ok, found.hooks) == ("yes", "not needed", True, True)
    assert "none of its hooks has run yet: start Claude Code" in found.todo
    found = reported(person, ClaudeCode(), {"claude-code": NEVER | {"last_hook": NOW}})
    assert (found.ok, found.todo, found.last_hook, found.last_injection) == (True, "", NOW, None)
    # Nobody to ask: nothing is made up.
    found = reported(person, ClaudeCode(), None)
    assert (found.ok, found.todo, found.known) == (True, "", False)


def test_a_file_that_cannot_be_read_and_one_without_our_entry(person: Person) -> None:
    person.has()
    person.setup()
    now = json.loads(person.settings.read_text())
    del now["hooks"]["Stop"]
    person.settings.write_text(json.dumps(now))
    found = reported(person, ClaudeCode(), {})
    assert (found.wired, found.ok, found.todo) == ("partly", False, "cems setup --repair")
    person.settings.write_text("{")
    found = reported(person, ClaudeCode(), {})
    assert (found.wired, found.ok, found.trusted) == ("unreadable", False, "unknown")


@pytest.mark.parametrize(
    ("state", "ok", "todo"),
    [("trusted", True, ""), ("untrusted", False, "type /hooks"), ("modified", False, "type /hooks"),
     ("unknown", True, "type /hooks"), ("not needed", True, "")],
)  # fmt: skip
def test_an_agent_that_asks_for_trust_is_reported_with_its_advice(
    person: Person, state: Any, ok: bool, todo: str
) -> None:
    person.has()
    person.setup()
    heard = {"claude-code": NEVER | {"last_hook": NOW}}
    found = reported(person, Trusting(Trust(state, "type /hooks")), heard)
    assert (found.trusted, found.ok, found.todo) == (state, ok, todo)
    assert found.wired == "yes"


def test_an_agent_that_is_gone_is_named_with_what_takes_us_out(person: Person) -> None:
    person.has()
    person.setup()
    found = reported(person, Gone(), {})
    assert (found.found, found.ok) == (False, True)
    assert "cems uninstall --agent claude-code" in found.todo


def test_an_agent_without_hooks_is_judged_by_its_tools(person: Person) -> None:
    person.has()
    person.setup()
    record = load(person.home)
    assert record is not None
    only_tools = replace(record.agents[0], entries=("tools cems",))
    found = report(person.home, person.machine, ClaudeCode(), only_tools, {})
    assert not found.hooks
    assert "has not used the memory yet" in found.todo
    found = report(person.home, person.machine, ClaudeCode(), only_tools, {"claude-code": NEVER | {"last_tool": NOW}})
    assert found.todo == ""


# -- what the daemon hears


def heard(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = run(place.call("status", {}))["heard"]
    return found


def test_a_hook_an_injection_and_a_tool_call_are_noted_and_survive_a_restart(place: Place) -> None:
    assert heard(place) == {}
    place.add("The staging database listens on port 5433.")
    run(place.hook("SessionStart", source="startup", session="other", folder=place.beta))
    assert heard(place)["claude-code"]["last_hook"]
    assert heard(place)["claude-code"]["last_injection"] is None
    assert run(place.prompt("which port does the staging database listen on"))
    assert heard(place)["claude-code"]["last_injection"]
    assert heard(place)["claude-code"]["last_tool"] is None
    run(place.call("list", {}, place.caller(client="mcp", agent="codex", tty=False)))
    assert (heard(place)["codex"]["last_hook"], bool(heard(place)["codex"]["last_tool"])) == (None, True)
    before = heard(place)
    place.restart()
    assert heard(place) == before


def test_that_setup_tries_a_hook_out_does_not_count(place: Place, tmp_path: Path) -> None:
    trial = tmp_path / f"{TRIAL}x1"
    trial.mkdir()
    run(place.prompt("hello", folder=trial))
    assert heard(place) == {}
    run(place.prompt("hello", session="s2"))
    assert heard(place)["claude-code"]["last_hook"]


def test_a_compaction_does_not_take_back_that_memory_was_given(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "state.db")
    session = sessions.get("s1")
    sessions.touch(session, agent="pi")
    sessions.give(session, ["m_1"], "prompt")
    sessions.take_back(session)
    sessions.flush()
    again = Sessions(tmp_path / "state.db")
    assert again.heard()["pi"]["last_injection"]
    for each in (sessions, again):
        each.close()
