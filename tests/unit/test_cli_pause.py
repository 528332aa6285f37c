"""`cems pause` and `cems resume`, and what other commands say where CEMS is paused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.test_cli_stand_in import Document, StandIn, standing_in

from cems.core import pauses
from cems.core.cli import asking
from cems.core.cli.failures import CommandError
from cems.core.cli.main import main
from cems.core.pauses import EVERYWHERE
from cems.core.scope import session_scope

Capture = pytest.CaptureFixture[str]
SCOPE = "project:github.com/org/repo"
PAUSED: Document = {"scope": SCOPE, "since": "2026-03-01T12:00:00Z", "until": None, "by": "codex", "damage": None}


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setattr(asking, "_said", [])
    with standing_in(tmp_path, monkeypatch) as server:
        yield server


def test_pause_says_what_it_means_and_how_it_ends(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["pause"] = {"scope": SCOPE, "changed": True, "paused": PAUSED, "running": 1}
    assert main(["pause"]) == 0
    assert daemon.payload("pause") == {"all": False}
    output = capsys.readouterr().out
    assert "paused in project github.com/org/repo: agents are given nothing" in output
    assert "until `cems resume`" in output
    daemon.answers["pause"] = {"scope": EVERYWHERE, "changed": False, "paused": PAUSED, "running": 1}
    assert main(["pause", "--all"]) == 0
    assert daemon.asked[-1] == ("pause", {"all": True})
    assert capsys.readouterr().out == "already paused everywhere\n"
    assert main(["pause", "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == daemon.answers["pause"]


def test_resume_says_what_still_holds(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["resume"] = {"scope": SCOPE, "changed": True, "paused": None, "running": 0}
    assert main(["resume"]) == 0
    assert capsys.readouterr().out == "no longer paused in project github.com/org/repo\n"
    daemon.answers["resume"] = {"scope": SCOPE, "changed": False, "paused": None, "running": 0}
    assert main(["resume"]) == 0
    assert capsys.readouterr().out == "it was not paused in project github.com/org/repo\n"
    everywhere = {**PAUSED, "scope": EVERYWHERE}
    daemon.answers["resume"] = {"scope": SCOPE, "changed": True, "paused": everywhere, "running": 1}
    assert main(["resume"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "still paused everywhere; `cems resume --all` ends that"
    above = {**PAUSED, "scope": "project:path:/w"}
    daemon.answers["resume"] = {"scope": "project:path:/w/a", "changed": False, "paused": above, "running": 1}
    assert main(["resume"]) == 0
    assert capsys.readouterr().out == "still paused in project path:/w; `cems resume` in that folder ends it\n"


def test_the_list_shows_what_is_paused_and_a_damaged_file_as_a_fault(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["pauses"] = {"pauses": [], "damage": None, "paused": None, "running": 0}
    assert main(["pause", "--list"]) == 0
    assert capsys.readouterr().out == "nothing is paused\n"
    daemon.answers["pauses"] = {"pauses": [PAUSED], "damage": None, "paused": PAUSED, "running": 1}
    assert main(["pause", "--list"]) == 0
    assert "in project github.com/org/repo  since 2026-03-01" in (output := capsys.readouterr().out)
    assert "by codex" in output
    damaged = {**PAUSED, "scope": EVERYWHERE, "damage": "/h/pauses.json cannot be understood (x)"}
    daemon.answers["pauses"] = {"pauses": [], "damage": damaged["damage"], "paused": damaged, "running": 0}
    assert main(["pause", "--list"]) == 1
    assert "`cems resume --all` sets it aside" in capsys.readouterr().out
    assert main(["pause", "--list", "--all"]) == 2


def test_a_pause_does_not_wait_for_a_daemon_that_cannot_start(
    daemon: StandIn, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object, **__: object) -> Document:
        raise CommandError("no daemon answers", exit_code=5)

    monkeypatch.setattr(asking, "ask", unreachable)
    assert main(["pause", "--all"]) == 0
    assert "paused everywhere" in capsys.readouterr().out
    assert pauses.read_pauses(daemon.home.pauses).now(None)
    # To end one needs the daemon, which tells a person from an agent.
    assert main(["resume", "--all"]) == 5
    assert pauses.read_pauses(daemon.home.pauses).now(None)
    daemon.home.pauses.write_bytes(b"{")
    assert main(["pause", "--all"]) == 1
    assert "`cems resume --all` sets it aside" in capsys.readouterr().err


def test_an_agent_is_no_person_without_a_daemon_either(
    daemon: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(asking, "ask", _not_running)
    monkeypatch.setenv("CLAUDECODE", "1")
    assert main(["pause", "--all"]) == 4
    assert "a person's act" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main(["pause"]) == 0
    (made,) = pauses.read_pauses(daemon.home.pauses).running
    assert (made.scope, made.by) == (session_scope(str(tmp_path)).project, "claude-code")


def test_a_command_of_the_person_works_and_says_that_agents_see_nothing_of_it(
    daemon: StandIn, capsys: Capture, tmp_path: Path
) -> None:
    daemon.answers["list"] = {"memories": [], "coverage": {}, "next": None}
    assert main(["list"]) == 0
    assert "paused" not in capsys.readouterr().err
    scope = session_scope(str(Path.cwd())).project
    assert scope is not None
    pauses.pause(daemon.home, scope)
    assert main(["list", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == daemon.answers["list"]
    assert "CEMS is paused in project" in captured.err


def test_status_says_so_with_a_daemon_and_without_one(
    daemon: StandIn, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answers["status"] = {"daemon": {"state": "ready"}, "paused": PAUSED}
    assert main(["status"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("paused"))
    assert "in project github.com/org/repo since 2026-03-01" in line
    assert line.endswith("by codex; `cems resume` ends it")
    pauses.pause(daemon.home, EVERYWHERE)
    monkeypatch.setattr(asking, "ask", _not_running)
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["paused"]["scope"] == EVERYWHERE


def _not_running(*_: object, **__: object) -> Document:
    raise CommandError("no daemon", exit_code=5)


def test_doctor_shows_a_pause_and_finds_fault_with_a_damaged_file_alone(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["check"] = {"checks": []}

    def check() -> Document:
        main(["doctor", "--json"])
        found = json.loads(capsys.readouterr().out)["checks"]
        return next(each for each in found if each["name"] == "pauses")

    assert (check()["ok"], check()["detail"]) == (True, "nothing is paused")
    pauses.pause(daemon.home, "project:github.com/org/other")
    assert (check()["ok"], check()["detail"]) == (True, "not here; 1 elsewhere")
    pauses.pause(daemon.home, EVERYWHERE)
    assert check()["ok"]
    assert check()["detail"].startswith("CEMS is paused everywhere since")
    daemon.home.pauses.write_bytes(b"{")
    assert not check()["ok"]
    assert "everything is paused" in check()["detail"]
    assert "cems resume --all" in check()["fix"]
