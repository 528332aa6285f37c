"""The journal: durable, append-only, all or nothing, and telling when somebody else's hand was in it."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.conftest import KEY, OpenJournal

from cems.core import journal as journal_module
from cems.core.fold import Operation
from cems.core.journal import Draft, Journal, JournalDamaged, JournalUnusable, connect, operations_on
from cems.core.journal_schema import SCHEMA_VERSION, JournalTooNew
from cems.core.paths import Home
from cems.core.records import Records


def notes(*texts: str) -> list[Draft]:
    """Entries that the records ignore: the chain alone is looked at."""
    return [Draft("refuse", "", {"reason": text}) for text in texts]


def tampered(path: Path, *statements: str) -> None:
    """Change the file behind the journal's back, as somebody who drops the triggers can."""
    connection = sqlite3.connect(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for _, sql in triggers:
        connection.execute(sql)
    connection.commit()
    connection.close()


def problems(journal: Journal) -> list[tuple[int, str]]:
    return [(fault.seq, fault.problem) for fault in journal.verify()]


# -- durability ------------------------------------------------------------------------------------------------------


def test_every_commit_is_forced_to_the_disk(journal: Journal) -> None:
    assert journal.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal.connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert journal.connection.execute("PRAGMA fullfsync").fetchone() == (1,)
    assert journal.connection.execute("PRAGMA secure_delete").fetchone() == (1,)


def test_only_its_owner_can_read_it(home: Home, journal: Journal) -> None:
    journal.append(notes("a"))
    files = list(home.root.glob("journal.db*"))
    assert len(files) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_a_journal_left_readable_to_others_is_made_private_again(home: Home, open_journal: OpenJournal) -> None:
    open_journal().close()
    home.journal.chmod(0o644)
    open_journal()
    assert stat.S_IMODE(home.journal.stat().st_mode) == 0o600


def test_what_was_appended_is_there_after_opening_again(open_journal: OpenJournal) -> None:
    first = open_journal()
    written = first.append([Draft("refuse", "x", {"reason": "ü 汉"}, actor="agent", agent="a", session="s")])
    first.close()
    assert operations_on(open_journal().connection, "x") == written


def test_a_device_keeps_its_name_and_counts_on(open_journal: OpenJournal) -> None:
    first = open_journal()
    first.append(notes("a", "b"))
    device = first.device
    first.close()
    again = open_journal()
    assert again.device == device
    assert again.append(notes("c"))[0].device_seq == 3


class FailsOnTheSecond:
    """A projection that cannot follow."""

    def prepare(self, connection: sqlite3.Connection) -> None: ...

    def rebuild(self, connection: sqlite3.Connection) -> None: ...

    def apply(self, connection: sqlite3.Connection, seq: int, operation: Operation) -> None:
        if operation.body["reason"] == "bad":
            raise RuntimeError("cannot follow")


def test_a_batch_is_written_whole_or_not_at_all(home: Home) -> None:
    journal = Journal(home.journal, FailsOnTheSecond())
    journal.append(notes("before"))
    with pytest.raises(RuntimeError, match="cannot follow"):
        journal.append(notes("good", "bad", "good"))
    assert journal.connection.execute("SELECT COUNT(*) FROM chain").fetchone() == (1,)
    assert journal.connection.execute("SELECT COUNT(*) FROM payloads").fetchone() == (1,)
    assert [each.device_seq for each in journal.append(notes("after"))] == [2]
    assert journal.verify() == []
    journal.close()


def test_an_entry_that_sqlite_refuses_leaves_nothing_behind(journal: Journal) -> None:
    with pytest.raises(UnicodeEncodeError):
        journal.append([*notes("fine"), Draft("refuse", "\ud800", {})])
    assert journal.connection.execute("SELECT COUNT(*) FROM chain").fetchone() == (0,)
    journal.append(notes("goes on"))
    assert journal.verify() == []


def test_a_full_disk_loses_nothing_and_the_journal_goes_on_when_there_is_room(journal: Journal) -> None:
    journal.append(notes("before"))
    pages = journal.connection.execute("PRAGMA page_count").fetchone()[0]
    journal.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        journal.append(notes("short", "x" * 100_000))
    assert journal.connection.execute("SELECT COUNT(*) FROM chain").fetchone() == (1,)
    journal.connection.execute("PRAGMA max_page_count = 1000000")
    journal.append(notes("x" * 100_000))
    assert journal.verify() == []


def test_appending_nothing_writes_nothing(journal: Journal) -> None:
    assert journal.append([]) == []
    assert journal.verify() == []


# -- append-only -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chain SET actor = 'person'",
        "UPDATE chain SET entity = 'm_other' WHERE seq = 1",
        "DELETE FROM chain WHERE seq = 1",
        "DELETE FROM chain",
        "INSERT OR REPLACE INTO chain SELECT * FROM chain WHERE seq = 1",
        "INSERT OR REPLACE INTO chain SELECT 9, op_id, 'pin', entity, clock, device, 9, actor, agent, session, commitment, hash FROM chain",
        "INSERT OR REPLACE INTO payloads SELECT op_id, x'00', '{}', NULL FROM payloads",
        "UPDATE payloads SET body = '{}'",
        "UPDATE payloads SET salt = x'00'",
        "UPDATE payloads SET body = '{}', erased_at = '2026-01-01'",
        "UPDATE payloads SET body = '{}', salt = NULL, erased_at = '2026-01-01'",
        "UPDATE payloads SET body = NULL, erased_at = '2026-01-01'",
        "UPDATE payloads SET body = NULL, salt = NULL",
        "DELETE FROM payloads",
    ],
)
def test_the_database_itself_refuses_to_change_what_was_written(journal: Journal, statement: str) -> None:
    journal.append(notes("a", "b"))
    with pytest.raises(sqlite3.IntegrityError, match=r"append-only|erased"):
        journal.connection.execute(statement)
    assert journal.verify() == []


def test_a_payload_can_be_erased_with_its_salt_and_the_chain_still_holds(journal: Journal) -> None:
    journal.append(notes("a", "secret", "c"))
    journal.connection.execute(
        "UPDATE payloads SET body = NULL, salt = NULL, erased_at = '2026-01-01' WHERE body LIKE '%secret%'"
    )
    assert journal.verify() == []


def test_a_reader_can_neither_write_nor_make_an_empty_journal(home: Home, journal: Journal) -> None:
    reader = connect(home.journal, write=False)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("INSERT INTO meta VALUES ('x', 'y')")
    reader.close()
    with pytest.raises(sqlite3.OperationalError):
        connect(home.root / "none.db", write=False)
    assert not (home.root / "none.db").exists()


# -- the clock -------------------------------------------------------------------------------------------------------


def test_a_clock_set_back_does_not_go_back(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000.0
    clocks = []
    for moved in (0.0, -86_400.0, -86_399.0, 0.0005, 5.0):
        monkeypatch.setattr("cems.core.journal.time.time", lambda moved=moved: now + moved)
        clocks += [operation.clock for operation in journal.append(notes("a", "b"))]
    assert clocks == sorted(set(clocks))
    assert clocks[2].startswith(clocks[0].partition("/")[0])


def test_very_many_entries_at_one_instant_still_come_in_order(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = "2026-01-01T00:00:00.000Z/0000"
    monkeypatch.setattr("cems.core.journal.time.time", lambda: 0.0)
    for _ in range(70_000):
        following = journal_module._tick(last)
        assert following > last
        last = following


def test_the_present_is_never_before_the_last_entry(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    at = journal.append(notes("a"))[0].at
    monkeypatch.setattr("cems.core.journal.time.time", lambda: 0.0)
    assert journal.now() >= at


# -- the chain -------------------------------------------------------------------------------------------------------


def test_an_untouched_chain_is_whole(journal: Journal) -> None:
    for text in "abc":
        journal.append(notes(text, text + "2"))
    assert journal.verify() == []


COLUMNS = {
    "op_id": "'0'", "kind": "'pin'", "entity": "'m_other'", "clock": "'2020-01-01T00:00:00.000Z/0000'", "device": "'other'",
    "device_seq": "99", "actor": "'agent'", "agent": "'x'", "session": "'x'", "commitment": "x'00'", "hash": "x'00'",
}  # fmt: skip


@pytest.mark.parametrize("column", sorted(COLUMNS))
@pytest.mark.parametrize("seq", [1, 3, 5])
def test_a_changed_entry_is_found_and_named(home: Home, open_journal: OpenJournal, column: str, seq: int) -> None:
    open_journal().append(notes("1", "2", "3", "4", "5"))
    tampered(home.journal, f"UPDATE chain SET {column} = {COLUMNS[column]} WHERE seq = {seq}")  # noqa: S608
    faults = open_journal().verify()
    assert faults[0].seq == seq
    assert {fault.seq for fault in faults} <= {seq, seq + 1, 0}


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE payloads SET body = replace(body, '3', '8')",
        "UPDATE payloads SET body = replace(body, '3', '8'), erased_at = '2026-01-01'",
        "UPDATE payloads SET salt = x'00'",
        "UPDATE payloads SET salt = 'text'",
        "UPDATE payloads SET salt = NULL",
        "UPDATE payloads SET body = NULL",
        "UPDATE payloads SET body = NULL, salt = NULL",
        "DELETE FROM payloads",
    ],
)
def test_a_changed_or_lost_payload_is_found_and_named(home: Home, open_journal: OpenJournal, change: str) -> None:
    open_journal().append(notes("1", "2", "3", "4"))
    tampered(home.journal, f"{change} WHERE op_id = (SELECT op_id FROM chain WHERE seq = 3)")  # noqa: S608
    assert problems(open_journal()) == [(3, "the payload is not the one that was committed to")]


def test_a_removed_entry_is_found_and_named(home: Home, open_journal: OpenJournal) -> None:
    open_journal().append(notes("1", "2", "3", "4"))
    tampered(home.journal, "DELETE FROM chain WHERE seq = 2")
    assert problems(open_journal())[0] == (3, "entry 2 is missing before this one")


def test_removed_entries_are_all_counted(home: Home, open_journal: OpenJournal) -> None:
    open_journal().append(notes("1", "2", "3", "4"))
    tampered(
        home.journal,
        "DELETE FROM payloads WHERE op_id IN (SELECT op_id FROM chain WHERE seq < 4)",
        "DELETE FROM chain WHERE seq < 4",
    )
    assert problems(open_journal()) == [(4, "entries 1 to 3 are missing before this one")]


@pytest.mark.parametrize("payloads_too", [True, False])
def test_entries_cut_off_the_end_are_missed(home: Home, open_journal: OpenJournal, payloads_too: bool) -> None:
    open_journal().append(notes("1", "2", "3", "4"))
    orphans = (
        "DELETE FROM payloads WHERE op_id IN (SELECT op_id FROM chain WHERE seq > 2)" if payloads_too else "SELECT 1"
    )
    tampered(home.journal, orphans, "DELETE FROM chain WHERE seq > 2")
    found = problems(open_journal())
    assert found[0] == (4, "the journal ended with entry 4, what comes after 2 is missing")
    assert found[1:] == ([] if payloads_too else [(0, "a payload has no entry")] * 2)


def test_a_journal_emptied_of_all_entries_is_noticed(home: Home, open_journal: OpenJournal) -> None:
    open_journal().append(notes("1"))
    tampered(home.journal, "DELETE FROM payloads", "DELETE FROM chain")
    assert problems(open_journal()) == [(1, "the journal ended with entry 1, what comes after 0 is missing")]


PUT_IN = (
    "INSERT INTO chain SELECT {seq}, 'new', kind, entity, clock, device, 99, actor, agent, session, commitment, hash "
    "FROM chain WHERE seq = 2"
)


def test_an_entry_put_in_at_the_end_is_found_and_named(home: Home, open_journal: OpenJournal) -> None:
    open_journal().append(notes("1", "2", "3"))
    tampered(home.journal, PUT_IN.format(seq=4))
    faults = open_journal().verify()
    assert {(fault.seq, fault.op_id) for fault in faults} == {(4, "new"), (4, "")}


def test_an_entry_put_in_between_is_found_and_named(home: Home, open_journal: OpenJournal) -> None:
    open_journal().append(notes("1", "2", "3", "4"))
    tampered(
        home.journal,
        "UPDATE chain SET seq = seq + 10 WHERE seq > 2",
        PUT_IN.format(seq=3),
        "UPDATE chain SET seq = seq - 9 WHERE seq > 10",
    )
    assert open_journal().verify()[0].op_id == "new"


def test_a_well_made_entry_put_in_at_the_end_is_missed_in_the_count(home: Home, open_journal: OpenJournal) -> None:
    journal = open_journal()
    journal.append(notes("1", "2"))
    noted = journal.connection.execute("SELECT value FROM meta WHERE key = 'head'").fetchone()[0]
    journal.append(notes("3"))
    tampered(home.journal, f"UPDATE meta SET value = '{noted}' WHERE key = 'head'")  # noqa: S608
    assert problems(open_journal()) == [(3, "the journal ended with entry 2, what comes after it was put in")]


# -- a journal that cannot be used -----------------------------------------------------------------------------------


def test_a_journal_of_a_newer_version_is_refused_with_what_to_do(home: Home, open_journal: OpenJournal) -> None:
    open_journal().close()
    tampered(home.journal, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = home.journal.read_bytes()
    with pytest.raises(JournalTooNew, match=rf"schema {SCHEMA_VERSION + 1}, this CEMS knows {SCHEMA_VERSION}; upgrade"):
        open_journal()
    assert home.journal.read_bytes() == before


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite(path: Path) -> None:
    path.write_bytes(os.urandom(8_192))


def lose_the_chain(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE chain")
    connection.execute("UPDATE meta SET value = '0' WHERE key = 'records_version'")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("damage", [truncate, overwrite, lose_the_chain])
def test_a_damaged_journal_is_reported_and_left_as_it_is(
    home: Home, open_journal: OpenJournal, damage: Callable[[Path], None]
) -> None:
    first = open_journal()
    first.append(notes(*"abcdefgh"))
    first.close()
    damage(home.journal)
    with pytest.raises(JournalDamaged, match="restore it from a backup"):
        open_journal()
    assert home.journal.exists()


def test_a_journal_another_process_holds_is_not_called_damaged(
    home: Home, open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_journal().close()
    tampered(home.journal, "UPDATE meta SET value = '0' WHERE key = 'records_version'")
    holder = sqlite3.connect(home.journal, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    real = sqlite3.connect

    def impatient(*arguments: object, **options: object) -> sqlite3.Connection:
        return real(*arguments, **{**options, "timeout": 0.05})  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr("cems.core.journal.sqlite3.connect", impatient)
    with pytest.raises(JournalUnusable, match="locked"):
        Journal(home.journal, Records(KEY))
    holder.close()


def test_a_folder_in_place_of_the_journal_is_reported(home: Home) -> None:
    home.journal.mkdir()
    with pytest.raises(JournalUnusable, match="cannot be opened"):
        Journal(home.journal, Records(KEY))
