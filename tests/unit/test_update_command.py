"""`cems update`: what is looked for and when, who may do it, and what is said."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.release_index import ReleaseIndex, serving
from tests.unit.test_cli_stand_in import Document, StandIn, standing_in

from cems import __version__
from cems.core import updates
from cems.core.cli.application import application
from cems.core.cli.main import main
from cems.core.service import housekeeping
from cems.installer import commands, environment, update
from cems.installer.environment import UpdateFailed
from cems.installer.release_index import Release
from cems.installer.update import Updated

Capture = pytest.CaptureFixture[str]
SOON = "99.0.0"


class InstallerCommands:
    """The entry point by which the installer's commands are found; only an installed package has one."""

    name = "installer"
    value = "cems.installer.commands:register"
    load = staticmethod(lambda: commands.register)


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"cems.commands": (InstallerCommands,)}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: found.get(group, ()))


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with standing_in(tmp_path, monkeypatch) as server:
        server.answers["status"] = {"daemon": {"state": "ready"}, "sessions": 0}
        yield server


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReleaseIndex]:
    with serving() as made:
        made.publish(SOON)
        monkeypatch.setenv("CEMS_UPDATE_INDEX", made.url)
        yield made


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Release]:
    """The releases that were put in place; the work itself is another test's."""
    made: list[Release] = []

    def put(_home: Any, release: Release, _say: Any) -> Updated:
        made.append(release)
        return Updated(release.version)

    monkeypatch.setattr(update, "update", put)
    monkeypatch.setattr(environment, "is_ours", lambda _: True)
    return made


def test_without_an_index_nothing_is_asked_and_one_line_says_what_to_do(daemon: StandIn, capsys: Capture) -> None:
    for words in (["update"], ["update", "--check"], ["update", "--yes"]):
        assert main(words) == 1
        [line] = capsys.readouterr().err.splitlines()
        assert "no release index is set" in line
        assert "git pull && ./install.sh" in line
        assert "cems config set update_index URL" in line
    assert main(["update", "--auto"]) == 0
    assert not daemon.home.update_note.exists()


def test_an_index_over_an_open_line_is_refused(daemon: StandIn, capsys: Capture) -> None:
    assert main(["config", "set", "update_index", "http://releases.example.org/simple"]) == 2
    assert "must be an https:// or file:/// address" in capsys.readouterr().err
    assert main(["config", "set", "update_index", "https://releases.example.org/simple"]) == 0


def test_check_says_what_is_out_and_changes_nothing(
    daemon: StandIn, index: ReleaseIndex, done: list[Release], capsys: Capture
) -> None:
    assert main(["update", "--check"]) == 0
    assert capsys.readouterr().out == f"CEMS {SOON} is out, this is {__version__}; `cems update` installs it\n"
    assert main(["update", "--check", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"current": __version__, "newest": SOON, "updated": False, "problem": None}
    assert done == []
    assert updates.last_look(daemon.home).newer == SOON
    index.files.clear()
    assert main(["update"]) == 0
    assert capsys.readouterr().out == f"CEMS {__version__} is the newest release\n"
    assert updates.last_look(daemon.home).newer == ""


def test_a_person_updates(daemon: StandIn, index: ReleaseIndex, done: list[Release], capsys: Capture) -> None:
    assert main(["update", "--yes"]) == 0
    assert [release.version for release in done] == [SOON]
    assert f"CEMS {SOON} is in place of {__version__}" in capsys.readouterr().out


def test_an_agent_does_not(
    daemon: StandIn, index: ReleaseIndex, done: list[Release], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    assert main(["update", "--yes"]) == 4
    assert "a person's act" in capsys.readouterr().err
    assert done == []


def test_an_agent_does_not_by_the_daemons_way_either(
    daemon: StandIn, index: ReleaseIndex, done: list[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CEMS_AUTO_UPDATE", "1")
    with monkeypatch.context() as in_its_shell:
        in_its_shell.setenv("CLAUDECODE", "1")
        assert main(["update", "--auto"]) == 0
        assert done == []
    assert main(["update", "--auto"]) == 0
    assert len(done) == 1


def test_a_session_that_is_alive_keeps_it_from_being_done_unless_told(
    daemon: StandIn, index: ReleaseIndex, done: list[Release], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answers["status"] = {"daemon": {"state": "ready"}, "sessions": 2}
    assert main(["update"]) == 1
    assert "2 sessions of agents alive; nothing was changed" in capsys.readouterr().err
    monkeypatch.setenv("CEMS_AUTO_UPDATE", "1")
    daemon.home.update_note.unlink()
    assert main(["update", "--auto"]) == 0
    assert done == []
    assert main(["update", "--yes"]) == 0
    assert len(done) == 1


def test_a_checkout_is_told_how_it_is_upgraded(
    daemon: StandIn, index: ReleaseIndex, done: list[Release], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "is_ours", lambda _: False)
    assert main(["update", "--yes"]) == 1
    assert "git pull && ./install.sh" in capsys.readouterr().err
    assert done == []


def test_what_failed_is_said_with_what_goes_on(
    daemon: StandIn, index: ReleaseIndex, done: list[Release], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Updated:
        raise UpdateFailed("trying it out failed: no")

    monkeypatch.setattr(update, "update", fails)
    assert main(["update", "--yes"]) == 1
    assert f"trying it out failed: no. CEMS {__version__} goes on working" in capsys.readouterr().err
    monkeypatch.setenv("CEMS_AUTO_UPDATE", "1")
    daemon.home.update_note.unlink()
    assert main(["update", "--auto"]) == 1
    assert "the update to 99.0.0 failed" in updates.last_look(daemon.home).problem


def test_an_index_that_does_not_answer_is_named(
    daemon: StandIn, index: ReleaseIndex, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.contents["/simple/cems/"] = b"<html>"
    assert main(["update"]) == 1
    assert "is no release index" in capsys.readouterr().err
    assert "is no release index" in updates.last_look(daemon.home).problem


@pytest.mark.parametrize(
    ("setting", "asked", "updated"), [("", 1, 0), ("1", 1, 1), ("true", 1, 1), ("0", 0, 0), ("false", 0, 0)]
)
def test_by_itself_as_the_person_has_set_and_once_a_day(
    daemon: StandIn,
    index: ReleaseIndex,
    done: list[Release],
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    asked: int,
    updated: int,
) -> None:
    monkeypatch.setenv("CEMS_AUTO_UPDATE", setting)
    for _ in range(3):
        assert main(["update", "--auto"]) == 0
    assert (len(index.asked), len(done)) == (asked, updated)
    note = json.loads(daemon.home.update_note.read_bytes()) if asked else {}
    if asked:
        daemon.home.update_note.write_text(json.dumps(note | {"checked": time.time() - updates.DAY}))
        main(["update", "--auto"])
        assert len(index.asked) == 2


def test_a_clock_that_was_set_back_does_not_stop_the_looking(daemon: StandIn) -> None:
    updates.note_look(daemon.home, SOON)
    assert not updates.due(daemon.home, "https://x", None)
    note = json.loads(daemon.home.update_note.read_bytes())
    daemon.home.update_note.write_text(json.dumps(note | {"checked": time.time() + 10 * updates.DAY}))
    assert updates.due(daemon.home, "https://x", None)
    assert updates.last_look(daemon.home).newest == SOON
    for damaged in ("", "{", "[]", '{"checked": "x", "newest": "", "problem": ""}'):
        daemon.home.update_note.write_text(damaged)
        assert updates.due(daemon.home, "https://x", True)
    assert not updates.due(daemon.home, "", True)
    assert not updates.due(daemon.home, "https://x", False)


def test_status_mentions_a_newer_release_and_a_failed_update(daemon: StandIn, capsys: Capture) -> None:
    found: Document = {"daemon": {"state": "ready"}, "update": {"newest": SOON, "problem": None}}
    daemon.answers["status"] = found
    assert main(["status"]) == 0
    assert f"{SOON} is out; cems update installs it" in capsys.readouterr().out
    daemon.answers["status"] = found | {"update": {"newest": None, "problem": "it failed"}}
    assert main(["status"]) == 0
    assert "it failed" in capsys.readouterr().out


# -- started by the daemon


@pytest.mark.parametrize(
    ("auto", "sessions", "started"),
    [(None, 0, True), (None, 1, True), (True, 0, True), (True, 1, False), (False, 0, False)],
)
def test_the_daemon_starts_it_when_it_is_due(daemon: StandIn, auto: bool | None, sessions: int, started: bool) -> None:
    ran = daemon.home.root / "ran"
    daemon.home.bin.mkdir(exist_ok=True)
    command = daemon.home.bin / "cems"
    operations: Any = SimpleNamespace(
        home=daemon.home,
        settings=SimpleNamespace(update_index="https://x", auto_update=auto),
        hooks=SimpleNamespace(sessions=SimpleNamespace(alive=lambda: sessions)),
    )
    assert not housekeeping.look_for_release(operations), "there is no launcher yet"
    command.write_text(f'#!/bin/sh\necho "$@" > {ran}.part; mv {ran}.part {ran}\n')
    command.chmod(0o700)
    assert housekeeping.look_for_release(operations) == started
    end = time.monotonic() + 10
    while started and not ran.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert (ran.read_text() if ran.exists() else "") == ("update --auto\n" if started else "")
    operations.settings = None
    assert not housekeeping.look_for_release(operations)


def test_a_look_that_fails_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def look(_: Any) -> bool:
        calls.append(1)
        if len(calls) == 3:
            raise asyncio.CancelledError
        raise OSError("no more processes")

    monkeypatch.setattr(housekeeping, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(housekeeping, "look_for_release", look)
    nothing: Any = None
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(housekeeping.look_for_releases(nothing))
    assert len(calls) == 3


# -- two meanings of one name


@pytest.mark.parametrize(
    ("words", "edits"),
    [
        (["update"], False),
        (["update", "--check"], False),
        (["update", "--yes", "--json"], False),
        (["update", "--help"], False),
        (["--json", "update"], False),
        (["update", "m_1a2b", "text"], True),
        (["update", "-c", "decisions", "1a2b"], True),
        (["update", "1a2b", "--help"], True),
        (["update", "--", "1a2b"], True),
    ],
)
def test_update_with_an_id_is_edit_and_without_one_the_programs(words: list[str], edits: bool) -> None:
    command: Any = application(words)
    [found] = [command.get_command(None, name) for name in command.list_commands(None) if name == "update"]
    assert ("words" in {parameter.name for parameter in found.params}) == edits
