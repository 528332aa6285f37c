"""What an older CEMS wrote opens, with the same memories. The old forms are spelled out here, not made by today's code."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest
from tests.fakes.small_model import small_embedder
from tests.unit.conftest import KEY, PERSON, SHOP, OpenJournal, records_of

from cems.core.indexer import Indexer
from cems.core.journal import Journal, connect
from cems.core.journal_schema import SCHEMA_VERSION
from cems.core.memories import Memories, Statement
from cems.core.paths import Home
from cems.core.recall import lookup
from cems.core.records import Records

SCHEMA_1 = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE chain (
    seq INTEGER PRIMARY KEY, op_id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, entity TEXT NOT NULL, clock TEXT NOT NULL,
    device TEXT NOT NULL, device_seq INTEGER NOT NULL, actor TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
    commitment BLOB NOT NULL, hash BLOB NOT NULL, UNIQUE (device, device_seq)
);
CREATE INDEX chain_entity ON chain (entity);
CREATE TABLE payloads (op_id TEXT PRIMARY KEY, salt BLOB, body TEXT);
CREATE TRIGGER chain_no_update BEFORE UPDATE ON chain BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER chain_no_delete BEFORE DELETE ON chain BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
INSERT INTO meta VALUES ('device', '0a1b2c3d');
PRAGMA user_version = 1;
"""
SCHEMA_2 = """
ALTER TABLE payloads ADD COLUMN erased_at TEXT;
CREATE TRIGGER payload_no_delete BEFORE DELETE ON payloads BEGIN
    SELECT RAISE(ABORT, 'a payload is erased, not deleted');
END;
CREATE TRIGGER payload_only_erased BEFORE UPDATE ON payloads
WHEN NEW.body IS NOT NULL OR NEW.salt IS NOT NULL OR NEW.erased_at IS NULL
BEGIN SELECT RAISE(ABORT, 'a payload is erased, not changed'); END;
PRAGMA user_version = 2;
"""


def memory(number: int, content: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"m_{number:024x}", "content": content, "title": "", "category": "general", "kind": "", "tags": ["ci"],
        "scope": "project:github.com/org/shop", "trust": "trusted", "confidence": 1.0, "valid_from": None,
        "valid_to": None, "recorded_at": f"2026-01-0{number}T10:00:00.000Z", "expired_at": None, "archived_at": None,
        "pinned": False, "tokens": 5,
        "source": {"actor": "person", "agent": "", "session": "s", "place": None, "quote": "", "derived_from": []},
    } | more  # fmt: skip


def digest(scope: str, text: str) -> str:
    import hmac

    message = len(scope.encode()).to_bytes(4, "big") + scope.encode() + text.encode()
    return hmac.new(KEY, message, hashlib.sha256).hexdigest()


ENTRIES: list[tuple[str, str, dict[str, Any]]] = [
    ("remember", f"m_{1:024x}", {"memory": memory(1, "Deploys run on Fridays.")}),
    ("remember", f"m_{2:024x}", {"memory": memory(2, "数据库用三号端口", valid_from="2026-01-01T00:00:00.000Z")}),
    ("remember", f"m_{3:024x}", {"memory": memory(3, "The staging token is kept in vault.", trust="candidate")}),
    ("refuse", "", {"operation": "remember", "reason": "no", "scope": "", "value_key": ""}),
    ("remember", f"m_{4:024x}", {"memory": memory(4, "Deploys run on Mondays."), "corrects": f"m_{1:024x}"}),
    ("close", f"m_{1:024x}", {"by": f"m_{4:024x}", "reason": "changed"}),
    ("pin", f"m_{4:024x}", {"pinned": True}),
    (
        "forget",
        f"m_{3:024x}",
        {
            "value_key": digest("project:github.com/org/shop", "the staging token is kept in vault"),
            "scope": "project:github.com/org/shop",
            "reason": "wrong",
        },
    ),
    ("widen", f"m_{2:024x}", {"scope": "user", "from": "project:github.com/org/shop"}),
]
EXPECTED = {
    1: ("Deploys run on Fridays.", "closed", "trusted", False, "project:github.com/org/shop"),
    2: ("数据库用三号端口", "live", "trusted", False, "user"),
    3: ("The staging token is kept in vault.", "hidden", "candidate", False, "project:github.com/org/shop"),
    4: ("Deploys run on Mondays.", "live", "trusted", True, "project:github.com/org/shop"),
}


def write_old_journal(path: Path, version: int) -> None:
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode=WAL;" + SCHEMA_1)
    head = b"\0" * 32
    for seq, (kind, entity, body) in enumerate(ENTRIES, start=1):
        columns = (
            f"{seq:032x}",
            kind,
            entity,
            f"2026-02-01T10:00:0{seq}.000Z/0000",
            "0a1b2c3d",
            seq,
            "person",
            "",
            "s",
        )
        salt, text = bytes([seq]) * 16, json.dumps(body, sort_keys=True)
        commitment = hashlib.sha256(salt + text.encode()).digest()
        head = hashlib.sha256(head + commitment + json.dumps([seq, *columns]).encode()).digest()
        connection.execute(f"INSERT INTO chain VALUES ({','.join('?' * 12)})", (seq, *columns, commitment, head))  # noqa: S608
        connection.execute("INSERT INTO payloads VALUES (?, ?, ?)", (columns[0], salt, text))
    if version == 2:
        connection.executescript(SCHEMA_2)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_journal_of_an_older_schema_opens_with_equal_memories(
    home: Home, open_journal: OpenJournal, version: int
) -> None:
    write_old_journal(home.journal, version)
    journal = open_journal()
    assert journal.migrated_from == version
    assert journal.connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    rows = lookup.rows_by_id(journal.connection, [f"m_{n:024x}" for n in EXPECTED])
    found = {
        int(i[2:], 16): (row["content"], row["state"], row["trust"], row["pinned"], row["scope"])
        for i, row in rows.items()
    }
    assert found == EXPECTED
    for number, row in ((n, rows[f"m_{n:024x}"]) for n in EXPECTED):
        written = memory(number, "")
        assert {name: row[name] for name in ("recorded_at", "tags", "tokens", "source")} == {
            **{name: written[name] for name in ("recorded_at", "tags", "tokens")},
            "source": {**written["source"], "recipe": ""},
        }
    assert rows[f"m_{1:024x}"]["expired_at"] == "2026-02-01T10:00:06.000Z"
    assert rows[f"m_{1:024x}"]["closed_by"] == f"m_{4:024x}"
    assert journal.verify() == []


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_journal_is_as_well_guarded_as_a_new_one_and_goes_on(
    home: Home, open_journal: OpenJournal, version: int
) -> None:
    write_old_journal(home.journal, version)
    journal = open_journal()
    memories = Memories(journal, KEY, len)
    refused = memories.remember(Statement("the STAGING token is kept in vault"), SHOP, PERSON)
    assert refused.status == "refused"
    assert memories.remember(Statement("new"), SHOP, PERSON).status == "added"
    assert journal.device == "0a1b2c3d"
    assert journal.verify() == []
    for statement in ("DELETE FROM chain", "DELETE FROM payloads", "UPDATE payloads SET body = '{}'"):
        with pytest.raises(sqlite3.IntegrityError):
            journal.connection.execute(statement)
    guards = "SELECT name, sql FROM sqlite_master WHERE type IN ('trigger', 'index') AND sql NOT NULL ORDER BY name"
    fresh = Journal(home.root / "fresh.db", Records(KEY))
    assert journal.connection.execute(guards).fetchall() == fresh.connection.execute(guards).fetchall()
    fresh.close()


def test_a_migration_that_fails_leaves_the_journal_at_the_last_whole_step(
    home: Home, open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cems.core import journal_schema
    from cems.core.journal import JournalDamaged

    write_old_journal(home.journal, 1)
    broken = (*journal_schema.MIGRATIONS[:2], "CREATE TABLE half (x); SELECT * FROM nowhere;")
    monkeypatch.setattr(journal_schema, "MIGRATIONS", broken)
    with pytest.raises(JournalDamaged):
        open_journal()
    connection = sqlite3.connect(home.journal)
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchall()
    connection.close()
    monkeypatch.undo()
    assert open_journal().verify() == []


@pytest.mark.parametrize(
    "ageing",
    [
        "UPDATE meta SET value = '1.1' WHERE key = 'records_version'",
        "UPDATE meta SET value = '99.1' WHERE key = 'records_version'; DELETE FROM records; DELETE FROM scope_terms",
        "DELETE FROM meta WHERE key = 'records_version'; DROP TABLE keywords; DROP TABLE records; CREATE TABLE records (id)",
        "DELETE FROM meta WHERE key = 'records_version'; ALTER TABLE records DROP COLUMN closed_by; DELETE FROM tombstones",
    ],
)
def test_records_of_another_version_are_made_again_equal(home: Home, open_journal: OpenJournal, ageing: str) -> None:
    write_old_journal(home.journal, 1)
    first = open_journal()
    expected = records_of(first.connection)
    first.close()
    connection = sqlite3.connect(home.journal)
    connection.executescript(ageing)
    connection.close()
    assert records_of(open_journal().connection) == expected


# -- the store -------------------------------------------------------------------------------------------------------

STORE_1 = [
    "id",
    "scope",
    "category",
    "kind",
    "trust",
    "state",
    "title",
    "content",
    "recorded_at",
    "terms",
    "model",
    "row_hash",
]


async def write_old_table(folder: Path, name: str, dimension: int) -> None:
    connection = await lancedb.connect_async(folder)
    schema = pa.schema([*((column, pa.string()) for column in STORE_1), ("vector", pa.list_(pa.float32(), dimension))])
    rows = [dict.fromkeys(STORE_1, "old") | {"id": "m_old", "vector": [0.5] * dimension}]
    await connection.create_table(name, pa.Table.from_pylist(rows, schema=schema))
    connection.close()


@pytest.mark.parametrize(
    ("name", "dimension"),
    [("memories_v1_32", 32), ("memories_v2_32", 32), ("memories_v3_16", 16), ("memories_v99_32", 32)],
)
def test_a_table_of_another_version_or_dimension_is_replaced_from_the_journal(
    home: Home, open_journal: OpenJournal, name: str, dimension: int
) -> None:
    write_old_journal(home.journal, 1)
    open_journal()

    async def follow() -> tuple[list[str], dict[str, int], list[str]]:
        await write_old_table(home.store, name, dimension)
        reader = connect(home.journal, write=False)
        indexer = Indexer(home.store, reader, small_embedder())
        await indexer.open()
        await indexer._reconcile()
        sound, bad = await indexer.store.faults()
        indexer.store.close()
        reader.close()
        connection = await lancedb.connect_async(home.store)
        return (await connection.list_tables()).tables, sound, bad

    tables, sound, bad = asyncio.run(follow())
    assert tables == ["memories_v3_32"]
    assert sorted(sound) == [f"m_{n:024x}" for n in (1, 2, 4)]
    assert bad == []


def test_a_table_of_somebody_else_in_the_folder_is_left_alone(home: Home, open_journal: OpenJournal) -> None:
    open_journal()

    async def follow() -> list[str]:
        await write_old_table(home.store, "theirs", 8)
        reader = connect(home.journal, write=False)
        indexer = Indexer(home.store, reader, small_embedder())
        await indexer.open()
        indexer.store.close()
        reader.close()
        connection = await lancedb.connect_async(home.store)
        return list((await connection.list_tables()).tables)

    assert "theirs" in asyncio.run(follow())
