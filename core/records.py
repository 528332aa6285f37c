"""The fold of the journal, kept beside it: each memory as it stands now, the forgotten values, the words of each scope.

Everything here follows from the journal and can be made again from it. It is what makes a forget visible at once
(every search result is looked up here before it is shown) and what answers the first prompt of a cold daemon.
"""

from __future__ import annotations

import sqlite3
from collections import Counter

from cems.core.fold import Operation, fold
from cems.core.journal import operations_on
from cems.core.memory import Memory, format_time
from cems.core.recall.terms import terms
from cems.core.recall.versions import WANTED, records_are_current
from cems.core.value import value_key

_TABLES = """
CREATE TABLE records (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    scope TEXT NOT NULL,
    category TEXT NOT NULL,
    trust TEXT NOT NULL,
    state TEXT NOT NULL,
    valid_from TEXT,
    valid_to TEXT,
    recorded_at TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    value_key TEXT NOT NULL,
    closed_by TEXT NOT NULL,
    forgotten INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    terms TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX records_scope ON records (scope, state, recorded_at);
CREATE INDEX records_value ON records (value_key);
CREATE INDEX records_seq ON records (seq);
CREATE VIRTUAL TABLE keywords USING fts5 (terms, content='records', content_rowid='n', tokenize='unicode61 remove_diacritics 0');
CREATE TABLE tombstones (
    value_key TEXT PRIMARY KEY, scope TEXT NOT NULL, clock TEXT NOT NULL, actor TEXT NOT NULL, agent TEXT NOT NULL,
    reason TEXT NOT NULL, lifted INTEGER NOT NULL
);
CREATE TABLE scope_terms (scope TEXT NOT NULL, term TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (scope, term)) WITHOUT ROWID;
CREATE TABLE scope_sizes (scope TEXT PRIMARY KEY, live INTEGER NOT NULL);
"""
_NAMES = ("keywords", "records", "tombstones", "scope_terms", "scope_sizes")


class Records:
    """The projection of one journal. `key` is the HMAC key of values."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables, or make them again from the journal when they are of another version or missing."""
        if records_are_current(connection):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            for name in _NAMES:
                connection.execute(f"DROP TABLE IF EXISTS {name}")
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
            # Forgotten and lifted values first, so that what is remembered meets them.
            for kind in ("forget", "lift", "remember"):
                entities = connection.execute(
                    "SELECT entity, MAX(seq) FROM chain WHERE kind = ? GROUP BY entity ORDER BY 2", (kind,)
                ).fetchall()
                for entity, _ in entities:
                    self._follow(connection, entity, kind)
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('records_version', ?)", (WANTED,))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def apply(self, connection: sqlite3.Connection, seq: int, operation: Operation) -> None:
        """Follow one new operation, inside the journal's transaction."""
        if operation.kind == "refuse":
            return
        if operation.kind in ("forget", "lift"):
            self._entomb(connection, operation)
        if operation.kind != "lift":
            self._refold(connection, operation.entity)

    def _follow(self, connection: sqlite3.Connection, entity: str, kind: str) -> None:
        if kind == "remember":
            self._refold(connection, entity)
            return
        for operation in operations_on(connection, entity):
            if operation.kind == kind:
                self._entomb(connection, operation)

    def _entomb(self, connection: sqlite3.Connection, operation: Operation) -> None:
        lifting = operation.kind == "lift"
        key = operation.entity if lifting else str(operation.body.get("value_key", ""))
        if not key:
            return
        connection.execute(
            "INSERT INTO tombstones VALUES (?,?,?,?,?,?,?) ON CONFLICT (value_key) DO UPDATE SET clock = excluded.clock, "
            "actor = excluded.actor, agent = excluded.agent, reason = excluded.reason, lifted = excluded.lifted "
            "WHERE excluded.clock > tombstones.clock",
            (
                key, str(operation.body.get("scope", "")), operation.clock, operation.actor, operation.agent,
                str(operation.body.get("reason", "")), int(lifting),
            ),
        )  # fmt: skip
        same_value = connection.execute("SELECT id FROM records WHERE value_key = ?", (key,)).fetchall()
        for (memory_id,) in same_value:
            self._refold(connection, memory_id)

    def _refold(self, connection: sqlite3.Connection, memory_id: str) -> None:
        folded = fold(operations_on(connection, memory_id))
        if folded is None:
            return
        memory = folded.memory
        key = value_key(self._key, memory.scope, memory.content)
        hidden = folded.forgotten or is_tombstoned(connection, key)
        state = "hidden" if hidden else memory.state
        old = connection.execute("SELECT n, scope, state, terms FROM records WHERE id = ?", (memory_id,)).fetchone()
        if old:
            connection.execute(
                "INSERT INTO keywords (keywords, rowid, terms) VALUES ('delete', ?, ?)", (old[0], old[3])
            )
            self._count(connection, old[1], old[3], -1 if old[2] == "live" else 0)
        words = index_terms(memory)
        seq = connection.execute("SELECT MAX(seq) FROM chain").fetchone()[0]
        connection.execute(
            "INSERT INTO records (id, scope, category, trust, state, valid_from, valid_to, recorded_at, pinned, value_key, "
            "closed_by, forgotten, seq, terms, body) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET "
            "scope=excluded.scope, category=excluded.category, trust=excluded.trust, state=excluded.state, "
            "valid_from=excluded.valid_from, valid_to=excluded.valid_to, pinned=excluded.pinned, "
            "value_key=excluded.value_key, closed_by=excluded.closed_by, forgotten=excluded.forgotten, seq=excluded.seq, "
            "terms=excluded.terms, body=excluded.body",
            (
                memory_id, memory.scope, memory.category, memory.trust, state, format_time(memory.valid_from),
                format_time(memory.valid_to), format_time(memory.recorded_at), int(memory.pinned), key, folded.closed_by,
                int(folded.forgotten), seq, words, memory.model_dump_json(),
            ),
        )  # fmt: skip
        row = connection.execute("SELECT n FROM records WHERE id = ?", (memory_id,)).fetchone()
        connection.execute("INSERT INTO keywords (rowid, terms) VALUES (?, ?)", (row[0], words))
        self._count(connection, memory.scope, words, 1 if state == "live" else 0)

    def _count(self, connection: sqlite3.Connection, scope: str, words: str, change: int) -> None:
        """Keep how many live memories of the scope hold each term (for its inverse document frequency)."""
        if not change:
            return
        connection.execute(
            "INSERT INTO scope_sizes VALUES (?, ?) ON CONFLICT (scope) DO UPDATE SET live = live + excluded.live",
            (scope, change),
        )
        connection.executemany(
            "INSERT INTO scope_terms VALUES (?, ?, ?) ON CONFLICT (scope, term) DO UPDATE SET count = count + excluded.count",
            [(scope, term, change) for term in Counter(words.split())],
        )


def index_terms(memory: Memory) -> str:
    """The space-separated index terms of a memory: its title, content and tags."""
    return " ".join(terms(" ".join((memory.title, memory.content, *memory.tags))))


def is_tombstoned(connection: sqlite3.Connection, key: str) -> bool:
    """Whether this value was forgotten and not lifted since."""
    row = connection.execute("SELECT lifted FROM tombstones WHERE value_key = ?", (key,)).fetchone()
    return bool(row) and not row[0]
