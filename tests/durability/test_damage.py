"""Damaged and lost files: `cems doctor` names each and says what to do, and the memories are the same afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.daemon_home import wait_for
from tests.fakes.daemon_nursery import Nursery, Person, cli

from cems.core import backups
from cems.core.paths import Home
from cems.core.service.client import OperationError

PORT = "The staging database listens on port 5433."
QUESTION = "which port does the staging database listen on"
GARBAGE = b"\xfe\xed not a database \0" * 700


class Kept:
    """A home with memories of several kinds, and what a person sees of them."""

    def __init__(self, home: Home, nursery: Nursery) -> None:
        self.home, self.nursery = home, nursery
        self.ask = nursery.start()
        added = [self.add(PORT), *(self.add(f"fact number {number} of the shop") for number in range(60))]
        self.ask("edit", {"id": added[5], "content": "fact number four and a half"})
        self.ask("forget", {"id": added[6]})
        self.ask("pin", {"id": added[0], "pinned": True})
        self.ask.settled()
        self.seen = self.look(self.ask)
        backups.copy_daily(home)
        assert self.problems() == {}

    def add(self, text: str) -> str:
        memory: str = self.ask("add", {"content": text})["id"]
        return memory

    def look(self, ask: Person) -> list[dict[str, Any]]:
        return sorted(ask("list", {"limit": 500, "include_closed": True})["memories"], key=lambda each: str(each["id"]))

    def problems(self) -> dict[str, dict[str, Any]]:
        """What `cems doctor` finds; its exit code says the same."""
        done = cli(self.home, "doctor", "--json")
        found = {each["name"]: each for each in json.loads(done.stdout)["checks"] if not each["ok"]}
        # Nothing is set up for agents in this home.
        ours = {name: each for name, each in found.items() if name in CHECKS}
        assert done.returncode == (1 if found else 0)
        assert all(each["fix"] and each["detail"] for each in ours.values()), ours
        return ours

    def restart(self) -> None:
        self.nursery.stop()
        self.ask = self.nursery.start()

    def assert_same(self) -> None:
        """All of it, found by words and by meaning, and nothing wrong any more."""
        self.ask.settled()
        assert self.look(self.ask) == self.seen
        found = self.ask("search", {"query": QUESTION})
        assert (found["mode"], found["memories"][0]["content"]) == ("hybrid", PORT)
        assert self.problems() == {}


CHECKS = {"daemon", "journal", "records", "sessions", "embedding", "store", "keys", "set aside", "permissions", "last start",
          "copies", "endpoint", "folder"}  # fmt: skip


@pytest.fixture
def kept(home: Home, nursery: Nursery) -> Kept:
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
    path = next(p for p in home.store.glob("*.lance/data/*.lance") if PORT.encode() in p.read_bytes())
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


@pytest.mark.parametrize("damage", [truncate_manifest, flip_a_byte, lose_indexes, lose_store, lose_data])
def test_a_store_damaged_while_the_daemon_was_away(kept: Kept, damage: Callable[[Home], None]) -> None:
    kept.nursery.stop()
    damage(kept.home)
    kept.ask = kept.nursery.start()
    found = kept.problems()
    if damage is lose_store:
        # It is filled again at once; there is nothing left to be said.
        assert found == {}
    else:
        assert set(found) in ({"store"}, {"set aside"}), found
        assert "cems rebuild" in next(iter(found.values()))["fix"]
        assert cli(kept.home, "rebuild").returncode == 0
    kept.assert_same()


@pytest.mark.parametrize("damage", [truncate_manifest, flip_a_byte, lose_indexes, lose_store, lose_data])
def test_a_store_damaged_under_the_daemon(kept: Kept, damage: Callable[[Home], None]) -> None:
    damage(kept.home)
    # A prompt is answered by words meanwhile, and adding goes on.
    assert kept.ask("search", {"query": QUESTION})["memories"][0]["id"]
    kept.add("one more fact")
    kept.seen = kept.look(kept.ask)
    if damage is truncate_manifest:
        # The open table does not read it again; the next start does.
        kept.restart()
    found = kept.problems()
    if found:
        assert set(found) <= {"store", "set aside"}, found
        assert "cems rebuild" in next(iter(found.values()))["fix"]
        assert cli(kept.home, "rebuild").returncode == 0
    else:
        assert damage in (lose_store, lose_data), "nobody noticed"
    kept.assert_same()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 // 4096 * 4096])


def fill_with_garbage(path: Path) -> None:
    path.write_bytes(GARBAGE)


@pytest.mark.parametrize("damage", [empty, halve, fill_with_garbage, Path.unlink])
def test_a_journal_that_cannot_be_read_is_reported_and_never_made_anew(kept: Kept, damage: Callable[[Path], None]) -> None:
    home, copy = kept.home, backups.copies(kept.home)[0]
    kept.nursery.stop()
    for beside in home.root.glob("journal.db-*"):
        beside.unlink()
    damage(home.journal)
    left = home.journal.read_bytes() if home.journal.exists() else None
    ask = kept.nursery.start()
    with pytest.raises(OperationError) as failed:
        ask("list", {})
    if damage is not halve:
        assert str(copy) in str(failed.value)
    assert (home.journal.read_bytes() if home.journal.exists() else None) == left
    journal = kept.problems()["journal"]
    assert f"{copy}/journal.db" in journal["fix"]
    assert "cems daemon stop" in journal["fix"]
    # What the sentence says.
    kept.nursery.stop()
    for path in home.root.glob("journal.db*"):
        path.unlink()
    shutil.copy(copy / "journal.db", home.root)
    shutil.copytree(copy / "keys", home.keys, dirs_exist_ok=True)
    kept.ask = kept.nursery.start()
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
    ask = kept.nursery.start()
    if not foreign:
        with pytest.raises(OperationError, match=r"value\.key"):
            ask("list", {})
    found = kept.problems()["keys"]
    assert "value.key" in found["detail"]
    copy = backups.copies(kept.home)[0] / "keys" / "value.key"
    assert str(copy) in found["fix"]
    kept.nursery.stop()
    shutil.copy(copy, key)
    assert key.read_bytes() == before
    kept.ask = kept.nursery.start()
    kept.assert_same()


def test_a_damaged_session_table_is_set_aside_and_made_again(kept: Kept) -> None:
    kept.nursery.stop()
    fill_with_garbage(kept.home.state)
    kept.ask = kept.nursery.start()
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
    kept.ask = kept.nursery.start()
    wait_for(lambda: set(kept.problems()) <= {"set aside"})
    for aside in kept.home.root.glob("*.damaged-*"):
        aside.unlink()
    kept.assert_same()
