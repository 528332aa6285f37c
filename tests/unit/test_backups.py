"""The daily copies of the journal and its keys."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest
from tests.unit.conftest import KEY, NOWHERE, PERSON, OpenJournal, records_of

from cems.core import backups
from cems.core.journal import Journal, JournalDamaged
from cems.core.memories import Memories, Statement
from cems.core.paths import Home
from cems.core.records import Records
from cems.core.value import KeyLost, load_value_key


@pytest.fixture
def filled(home: Home, memories: Memories) -> Home:
    (home.keys / "value.key").write_bytes(KEY)
    memories.remember(Statement("Logs go to Loki."), NOWHERE, PERSON)
    return home


def test_a_copy_opens_as_the_journal_it_is_of(filled: Home, journal: Journal) -> None:
    folder = backups.copy_daily(filled)
    assert folder
    assert backups.copies(filled) == [folder]
    copy = Journal(folder / "journal.db", Records(load_value_key(folder / "keys", create=False)))
    assert records_of(copy.connection) == records_of(journal.connection)
    assert copy.verify() == []
    copy.close()


def test_only_its_owner_can_read_it(filled: Home) -> None:
    folder = backups.copy_daily(filled)
    assert folder
    for path in (filled.backups, folder, *folder.rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    assert sorted(path.name for path in folder.rglob("*")) == ["journal.db", "keys", "value.key"]


def test_one_a_day_and_seven_of_them(filled: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert backups.copy_daily(filled)
    assert backups.copy_daily(filled) is None
    for day in range(1, 10):
        (filled.backups / f"2020-01-0{day}").mkdir()
        (filled.backups / f"2020-01-0{day}" / "journal.db").touch()
    backups.replace_all(filled)
    assert len(backups.copies(filled)) == 1
    for day in range(1, 10):
        (filled.backups / f"2020-01-0{day}").mkdir()
        (filled.backups / f"2020-01-0{day}" / "journal.db").touch()
    os.rename(backups.copies(filled)[0], filled.backups / "2020-02-01")  # noqa: PTH104
    assert backups.copy_daily(filled)
    names = [path.name for path in backups.copies(filled)]
    assert len(names) == backups.KEPT
    assert names[1:] == ["2020-02-01", "2020-01-09", "2020-01-08", "2020-01-07", "2020-01-06", "2020-01-05"]


def test_an_empty_journal_is_not_copied_and_other_files_stay(home: Home, journal: Journal) -> None:
    assert backups.copy_daily(home) is None
    assert backups.copies(home) == []
    originals = home.backups / "files"
    originals.mkdir()
    backups.replace_all(home)
    assert originals.exists()


def test_a_damaged_journal_is_not_copied_over_sound_ones(filled: Home, journal: Journal) -> None:
    journal.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    journal.close()
    data = bytearray(filled.journal.read_bytes())
    data[4096 * 2 : 4096 * 6] = b"\xff" * 4096 * 4
    filled.journal.write_bytes(data)
    with pytest.raises((backups.CopyDamaged, sqlite3.DatabaseError)):
        backups.copy_daily(filled)
    assert backups.copies(filled) == []
    assert [path for path in filled.backups.iterdir() if path.name != "files"] == []


def test_a_home_that_never_had_a_journal_may_begin(home: Home) -> None:
    with backups.advising(home):
        pass
    home.journal.touch()
    assert not backups.is_missing(home)


@pytest.mark.parametrize("how", ["gone", "empty"])
@pytest.mark.parametrize("evidence", ["copy", "store", "wal"])
def test_a_lost_journal_is_not_begun_anew(home: Home, how: str, evidence: str) -> None:
    if how == "empty":
        home.journal.touch()
    if evidence == "copy":
        (home.backups / "2026-01-31").mkdir(parents=True)
        (home.backups / "2026-01-31" / "journal.db").touch()
    elif evidence == "store":
        (home.store / "memories.lance").mkdir(parents=True)
    else:
        (home.root / "journal.db-wal").write_bytes(b"x")
    with pytest.raises(JournalDamaged, match=r"gone or empty.*restore"), backups.advising(home):
        pytest.fail("it was let through")


@pytest.mark.parametrize("error", [JournalDamaged, KeyLost])
def test_what_cannot_be_read_is_reported_with_what_to_restore(filled: Home, error: type[Exception]) -> None:
    folder = backups.copy_daily(filled)
    with pytest.raises(error, match=f"broken; restore {folder}/journal.db"), backups.advising(filled):
        raise error("broken")


def test_a_copy_is_made_while_the_journal_is_written(filled: Home, open_journal: OpenJournal) -> None:
    journal = open_journal()
    journal.connection.execute("BEGIN IMMEDIATE")
    journal.connection.execute("INSERT INTO meta VALUES ('half', 'done')")
    folder = backups.copy_daily(filled)
    journal.connection.execute("COMMIT")
    assert folder
    with sqlite3.connect(Path(folder) / "journal.db") as copy:
        assert copy.execute("SELECT COUNT(*) FROM meta WHERE key = 'half'").fetchone() == (0,)
