"""Damaged and lost files: `cems doctor` names each and says what to do, and the memories are the same afterwards."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.daemon_home import wait_for
from tests.fakes.daemon_nursery import Nursery, Person, cli

from cems.core import backups
from cems.core.cli import local_checks
from cems.core.paths import Home
from cems.core.service.client import DaemonUnreachable, OperationError

PORT = "The staging database listens on port 5433."
QUESTION = "which port does the staging database listen on"
GARBAGE = b"\xfe\xed not a database \0" * 700


class Kept:
    """A home with memories of several kinds and a daemon, and what a person sees of them."""

    def __init__(self, home: Home, nursery: Nursery) -> None:
        self.home, self.nursery = home, nursery
        self.ask = nursery.start(home)
        self.ask.settled()
        self.seen = look(self.ask)

    def problems(self) -> dict[str, dict[str, Any]]:
        """What `cems doctor` finds, but for the wiring of agents, of which this home has none."""
        checks = [*local_checks.daemon(self.home), *local_checks.files_and_settings(self.home)]
        found = {each["name"]: each for each in checks if not each["ok"]}
        assert all(each["fix"] and each["detail"] for each in found.values()), found
        return found

    def restart(self) -> None:
        self.nursery.stop()
        self.ask = self.nursery.start(self.home)

    def rebuild(self) -> None:
        assert self.ask("rebuild")["memories"] > 50

    def assert_same(self) -> None:
        """All of it, found by words and by meaning, and nothing wrong any more."""
        self.ask.settled()
        assert look(self.ask) == self.seen
        found = self.ask("search", {"query": QUESTION})
        assert (found["mode"], found["memories"][0]["content"]) == ("hybrid", PORT)
        assert self.problems() == {}


def look(ask: Person) -> list[dict[str, Any]]:
    return sorted(ask("list", {"limit": 500, "include_closed": True})["memories"], key=lambda each: str(each["id"]))


@pytest.fixture(scope="session")
def filled(session_root: Path, _nursery: Nursery) -> Home:
    """A home to copy: its store is optimized, its journal has a copy of the day."""
    home = Home(Path(tempfile.mkdtemp(prefix="d", dir=session_root)) / ".cems")
    home.create()
    ask = _nursery.start(home)
    items = [{"content": PORT}, *({"content": f"fact number {number} of the shop"} for number in range(60))]
    added = [each["id"] for each in ask("add_many", {"items": items})["results"]]
    ask("edit", {"id": added[5], "content": "fact number four and a half"})
    ask("forget", {"id": added[6]})
    ask("pin", {"id": added[0], "pinned": True})
    checks = ask.settled()
    assert all(each["ok"] for each in checks.values()), checks
    backups.copy_daily(home)
    _nursery.stop()
    return home


@pytest.fixture
def kept(home: Home, filled: Home, nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> Kept:
    shutil.copytree(filled.root, home.root, dirs_exist_ok=True)
    monkeypatch.setenv("CEMS_HOME", str(home.root))
    return Kept(home, nursery)


def only(found: list[Path]) -> Path:
    """The newest of the files."""
    assert found
    return max(found, key=lambda path: path.stat().st_mtime_ns)


def truncate_manifest(home: Home) -> None:
    # The newest version has the smallest number in its name.
    path = min(home.store.glob("*.lance/_versions/*.manifest"))
    path.write_bytes(path.read_bytes()[:40])


def flip_a_byte(home: Home) -> None:
    # Older versions' files are still there: in each.
    found = [path for path in home.store.glob("*.lance/data/*.lance") if PORT.encode() in path.read_bytes()]
    assert found
    for path in found:
        data = bytearray(path.read_bytes())
        data[data.index(PORT.encode()) + 5] ^= 1
        path.write_bytes(data)


def lose_indexes(home: Home) -> None:
    found = list(home.store.glob("*.lance/_indices/*"))
    assert found
    for path in found:
        shutil.rmtree(path)


def lose_store(home: Home) -> None:
    shutil.rmtree(home.store)


def lose_data(home: Home) -> None:
    only(list(home.store.glob("*.lance/data/*.lance"))).unlink()


def test_doctor_and_rebuild_say_it_by_their_exit_codes(kept: Kept) -> None:
    assert kept.problems() == {}
    flip_a_byte(kept.home)
    doctor = cli(kept.home, "doctor", "--json")
    assert doctor.returncode == 1
    store = next(each for each in json.loads(doctor.stdout)["checks"] if each["name"] == "store")
    assert "1 damaged" in store["detail"]
    assert "cems rebuild" in store["fix"]
    assert cli(kept.home, "rebuild").returncode == 0
    kept.assert_same()


@pytest.mark.parametrize("damage", [truncate_manifest, flip_a_byte, lose_indexes, lose_store, lose_data])
def test_a_store_damaged_while_the_daemon_was_away(kept: Kept, damage: Callable[[Home], None]) -> None:
    kept.nursery.stop()
    damage(kept.home)
    kept.ask = kept.nursery.start(kept.home)
    found = kept.problems()
    if damage is lose_store:
        # It is filled again at once; there is nothing left to be said.
        assert found == {}
    else:
        assert set(found) in ({"store"}, {"set aside"}), found
        assert "cems rebuild" in next(iter(found.values()))["fix"]
        kept.rebuild()
    kept.assert_same()


@pytest.mark.parametrize("damage", [truncate_manifest, flip_a_byte, lose_indexes, lose_store, lose_data])
def test_a_store_damaged_under_the_daemon(kept: Kept, damage: Callable[[Home], None]) -> None:
    damage(kept.home)
    # A prompt is answered by words meanwhile, and adding goes on.
    assert kept.ask("search", {"query": QUESTION})["memories"][0]["id"]
    more = kept.ask("add", {"content": "one more fact"})["id"]
    found = kept.problems()
    if found:
        assert set(found) <= {"store", "set aside"}, found
        assert "cems rebuild" in next(iter(found.values()))["fix"]
        kept.rebuild()
    else:
        # Made again by itself; and the version whose manifest it was is not the newest any more.
        assert damage in (lose_store, lose_data, truncate_manifest), "nobody noticed"
    kept.ask.settled()
    kept.seen += [each for each in look(kept.ask) if each["id"] == more]
    kept.seen.sort(key=lambda each: str(each["id"]))
    kept.assert_same()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 // 4096 * 4096])


def fill_with_garbage(path: Path) -> None:
    path.write_bytes(GARBAGE)


@pytest.mark.parametrize("damage", [empty, halve, fill_with_garbage, Path.unlink])
def test_a_journal_that_cannot_be_read_is_reported_and_never_made_anew(
    kept: Kept, damage: Callable[[Path], None]
) -> None:
    home, copy = kept.home, backups.copies(kept.home)[0]
    kept.nursery.stop()
    for beside in home.root.glob("journal.db-*"):
        beside.unlink()
    damage(home.journal)
    left = home.journal.read_bytes() if home.journal.exists() else None
    ask = kept.nursery.start(kept.home)
    with pytest.raises((OperationError, DaemonUnreachable)) as failed:
        ask("list", {})
    assert f"restore {copy}/journal.db" in str(failed.value)
    assert (home.journal.read_bytes() if home.journal.exists() else None) == left
    journal = kept.problems()["journal"]
    assert f"{copy}/journal.db" in journal["fix"]
    assert "cems daemon stop" in journal["fix"]
    # What the sentence says.
    kept.nursery.stop()
    for path in home.root.glob("journal.db*"):
        path.unlink()
    shutil.copytree(copy, home.root, dirs_exist_ok=True)
    kept.ask = kept.nursery.start(kept.home)
    kept.assert_same()


def test_a_journal_damaged_under_the_daemon_is_reported(kept: Kept) -> None:
    fill_with_garbage(kept.home.journal)
    found = kept.problems()
    assert str(backups.copies(kept.home)[0]) in (found.get("journal") or found["records"])["fix"]


@pytest.mark.parametrize("damage", [Path.unlink, empty, lambda path: path.write_bytes(b"q" * 32)])
def test_a_lost_or_foreign_key_is_reported(kept: Kept, damage: Callable[[Path], None]) -> None:
    key = kept.home.keys / "value.key"
    before = key.read_bytes()
    foreign = damage not in (Path.unlink, empty)
    kept.nursery.stop()
    damage(key)
    ask = kept.nursery.start(kept.home)
    if not foreign:
        with pytest.raises((OperationError, DaemonUnreachable), match=r"value\.key"):
            ask("list", {})
    found = kept.problems()["keys"]
    assert "value.key" in found["detail"]
    copy = backups.copies(kept.home)[0] / "keys" / "value.key"
    assert str(copy) in found["fix"]
    kept.nursery.stop()
    shutil.copy(copy, key)
    assert key.read_bytes() == before
    kept.ask = kept.nursery.start(kept.home)
    kept.assert_same()


def test_a_damaged_session_table_is_set_aside_and_made_again(kept: Kept) -> None:
    kept.nursery.stop()
    fill_with_garbage(kept.home.state)
    kept.ask = kept.nursery.start(kept.home)
    found = kept.problems()
    assert set(found) == {"set aside"}
    assert "state.db.damaged-" in found["set aside"]["detail"]
    for aside in kept.home.root.glob("*.damaged-*"):
        aside.unlink()
    kept.assert_same()


def test_a_session_table_damaged_under_the_daemon_is_healed_by_a_restart(kept: Kept) -> None:
    fill_with_garbage(kept.home.state)
    found = kept.problems()
    assert set(found) == {"sessions"}
    assert "cems daemon restart" in found["sessions"]["fix"]
    kept.nursery.kill()
    kept.ask = kept.nursery.start(kept.home)
    wait_for(lambda: set(kept.problems()) <= {"set aside"})
    for aside in kept.home.root.glob("*.damaged-*"):
        aside.unlink()
    kept.assert_same()
