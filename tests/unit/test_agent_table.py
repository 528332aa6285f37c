"""What `cems doctor` and `cems status` show of the agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.test_cli_stand_in import Document, StandIn, standing_in

from cems.core.cli import agent_table
from cems.core.cli.agent_table import agents_in_short, ago
from cems.core.cli.main import main

Capture = pytest.CaptureFixture[str]


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_table, "now", NOW.timestamp)


def at(**before: float) -> str:
    return (NOW - timedelta(**before)).isoformat(timespec="seconds")


def agent(**fields: Any) -> Document:
    known: Document = {
        "name": "codex", "title": "Codex", "found": True, "program": "/usr/bin/codex", "version": "0.60.1",
        "folder": "/h/.codex", "wired": "yes", "hooks": True, "trusted": "trusted", "known": True, "last_hook": None,
        "last_tool": None, "last_injection": None, "left_out": [], "ok": True, "detail": "connected", "todo": "",
    }  # fmt: skip
    return known | fields


def row(*agents: Document) -> list[str]:
    """The cells of the first agent's row."""
    lines = "\n".join(agent_table.agent_table(agents)).splitlines()
    return [cell.strip() for cell in lines[3].split("  ") if cell.strip()]


@pytest.mark.parametrize(
    ("fields", "cells"),
    [
        ({}, ["Codex", "0.60.1", "yes", "trusted", "never", "never"]),
        ({"last_hook": at(minutes=5.2), "last_injection": at(hours=2, minutes=3.5)},
         ["Codex", "0.60.1", "yes", "trusted", "5 min ago", "2 h 3 min ago"]),
        ({"trusted": "modified"}, ["Codex", "0.60.1", "yes", "modified", "never", "never"]),
        ({"known": False}, ["Codex", "0.60.1", "yes", "trusted", "unknown", "unknown"]),
        ({"wired": "partly", "ok": False}, ["Codex", "0.60.1", "in part", "-", "never", "never"]),
        ({"wired": "no", "ok": False, "version": ""}, ["Codex", "-", "no", "-", "-", "-"]),
        ({"hooks": False, "trusted": "not needed", "last_tool": at(seconds=9)},
         ["Codex", "0.60.1", "yes", "not needed", "tools 9 s ago", "never"]),
        ({"left_out": ["hook Stop"]}, ["Codex", "0.60.1", "yes, 1 left out", "trusted", "never", "never"]),
    ],
)  # fmt: skip
def test_an_agent_is_a_row(fields: Document, cells: list[str]) -> None:
    assert row(agent(**fields)) == cells


def test_what_is_not_here_is_one_line_and_a_hint_stands_below() -> None:
    agents = [agent(todo="start it"), *(agent(title=each, found=False, wired="no") for each in ("Goose", "Pi"))]
    lines = list(agent_table.agent_table(agents))
    assert lines[3:] == ["not found: Goose, Pi", "-> Codex: start it"]
    assert list(agent_table.agent_table([])) == []


def test_an_agent_that_is_gone_and_still_connected_has_its_row() -> None:
    assert row(agent(found=False))[0] == "Codex"


def test_a_clock_that_was_set_back_has_no_future() -> None:
    assert ago(at(days=-2)) == "0 s ago"


def test_in_short() -> None:
    times: Document = {"last_hook": None, "last_tool": None, "last_injection": None}
    agents = {
        "a": times,
        "b": times | {"last_hook": at(minutes=9), "last_tool": at(minutes=3.5)},
        "c": times | {"last_hook": at(minutes=1), "last_injection": at(days=1, hours=2.5)},
        "d": {"folders": []},
    }
    assert agents_in_short(agents) == (
        "a (not heard of yet), b (heard 3 min ago, no memory given yet), c (memory given 1 d 2 h ago), d"
    )


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with standing_in(tmp_path, monkeypatch) as server:
        yield server


def test_the_doctor_shows_agents_apart_and_a_problem_of_one_with_what_to_do(
    daemon: StandIn, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = agent(title="Claude Code", name="claude-code", todo="start it")
    bad = agent(trusted="untrusted", ok=False, todo="run /hooks in Codex")
    checks = [
        {
            "name": each["title"],
            "ok": each["ok"],
            "detail": "d",
            "fix": "" if each["ok"] else each["todo"],
            "agent": each,
        }
        for each in (fine, bad)
    ]

    class Entry:
        name = value = "installer"

        @staticmethod
        def load() -> Any:
            return lambda _home: [dict(check) for check in checks]

    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: (Entry,))
    daemon.answers["check"] = {"checks": []}
    assert main(["doctor"]) == 1
    output = capsys.readouterr().out
    assert "problem  Codex" in output
    assert "-> run /hooks in Codex" in output
    assert "ok       Claude Code" not in output
    assert "-> Claude Code: start it" in output
    assert "1 problem found" in output
    assert main(["doctor", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in document["agents"]] == ["claude-code", "codex"]
    assert "agent" not in document["checks"][-1]


def test_status_tells_when_each_agent_was_heard_of(daemon: StandIn, capsys: Capture) -> None:
    record = {"agents": [{"agent": name, "config_dir": f"/h/{name}"} for name in ("codex", "pi", "agents-skills")]}
    daemon.home.install_conf.write_text(json.dumps(record))
    heard = {"codex": {"last_hook": at(minutes=3), "last_tool": None, "last_injection": at(minutes=2.5)}}
    daemon.answers["status"] = {"daemon": {"state": "ready"}, "heard": heard}
    assert main(["status"]) == 0
    assert "codex (memory given 2 min ago), pi (not heard of yet)\n" in capsys.readouterr().out
    assert main(["status", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["agents"]["codex"] == {"folders": ["/h/codex"], **heard["codex"]}
    assert document["agents"]["pi"]["last_hook"] is None
    assert "heard" not in document
