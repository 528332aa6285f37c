"""The fold of the journal, kept beside it: each memory as it stands now, the forgotten values, the words of each scope.

Everything here follows from the journal and can be made again from it. It is what makes a forget visible at once
(every search result is looked up here before it is shown) and what answers the first prompt of a cold daemon.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from itertools import groupby
from typing import Any

from pydantic import ValidationError

from cems.core.derivation import TABLE as DERIVATIONS
from cems.core.derivation import directly_derived, sources_now
from cems.core.fold import Folded, Operation, fold
from cems.core.journal import erase_payloads, operations_where
from cems.core.memory import Memory, format_time
from cems.core.recall.terms import terms
from cems.core.recall.versions import WANTED, records_are_current
from cems.core.tombstones import TABLE as TOMBSTONES
from cems.core.tombstones import entomb, overlay
from cems.core.value import value_key

logger = logging.getLogger("cems.records")

_TABLES = f"""
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
    recipe TEXT NOT NULL,
    closed_by TEXT NOT NULL,
    forgotten INTEGER NOT NULL,
    asked TEXT NOT NULL,
    seq INTEGER NOT NULL,
    session TEXT NOT NULL,
    place INTEGER NOT NULL,
    terms TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX records_scope ON records (scope, state, recorded_at);
CREATE INDEX records_value ON records (value_key);
CREATE INDEX records_recipe ON records (recipe) WHERE recipe != '';
CREATE INDEX records_seq ON records (seq);
CREATE INDEX records_rules ON records (scope, state, trust, recorded_at) WHERE category = 'gate-rules';
CREATE INDEX records_session ON records (session, place) WHERE session != '';
CREATE VIRTUAL TABLE keywords USING fts5 (terms, content='records', content_rowid='n', tokenize='ascii');
{TOMBSTONES};
{DERIVATIONS};
CREATE TABLE scope_terms (scope TEXT NOT NULL, term TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (scope, term)) WITHOUT ROWID;
CREATE TABLE scope_sizes (scope TEXT PRIMARY KEY, live INTEGER NOT NULL);
"""
_COLUMNS = (
    "n", "id", "scope", "category", "trust", "state", "valid_from", "valid_to", "recorded_at", "pinned", "value_key",
    "recipe", "closed_by", "forgotten", "asked", "seq", "session", "place", "terms", "body",
)  # fmt: skip
_PUT = (
    f"INSERT INTO records ({', '.join(_COLUMNS)}) VALUES ({', '.join(':' + name for name in _COLUMNS)}) "  # noqa: S608
    f"ON CONFLICT (n) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS[1:])}"
)
_NAMES = ("keywords", "records", "tombstones", "derivations", "scope_terms", "scope_sizes")


class Records:
    """The projection of one journal. `key` is the HMAC key of values."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables, or make them again from the journal when they are of another version or missing."""
        if not records_are_current(connection):
            self.rebuild(connection)

    def rebuild(self, connection: sqlite3.Connection) -> None:
        """Make the tables again from the journal, in one transaction. They come out as they were kept entry by entry."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            for name in _NAMES:
                connection.execute(f"DROP TABLE IF EXISTS {name}")
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
            # Forgotten and lifted values first, so that what is remembered meets them.
            for seq, operation in list(operations_where(connection, "kind IN ('forget', 'lift')")):
                self._entomb(connection, seq, operation)
            self._fill(connection)
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('records_version', ?)", (WANTED,))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def apply(self, connection: sqlite3.Connection, seq: int, operation: Operation) -> None:
        """Follow one new operation, inside the journal's transaction."""
        match operation.kind:
            case "refuse":
                return
            case "forget" | "lift":
                self._entomb(connection, seq, operation)
            case "purge":
                erase_payloads(connection, operation.body.get("erased", ()), operation.clock)
        if operation.kind != "lift" and operation.entity:
            self._refold(connection, operation.entity)

    def _entomb(self, connection: sqlite3.Connection, seq: int, operation: Operation) -> None:
        """Bury or lift a value, and hide or show again what says it or was made by its recipe."""
        if key := entomb(connection, seq, operation):
            concerned = "SELECT id FROM records WHERE value_key = ? UNION SELECT id FROM records WHERE recipe = ?"
            for (memory_id,) in connection.execute(concerned, (key, key)).fetchall():
                self._refold(connection, memory_id)

    def _fill(self, connection: sqlite3.Connection) -> None:
        """Every memory's row, and then, at once, what is counted and indexed over them."""
        live: Counter[str] = Counter()
        words: Counter[tuple[str, str]] = Counter()
        entries = operations_where(connection, "kind NOT IN ('refuse', 'lift')", by_entity=True)
        derived: dict[str, tuple[Folded, list[tuple[int, Operation]]]] = {}

        def put(folded: Folded, told: list[tuple[int, Operation]]) -> None:
            row = self._row(connection, folded, told)
            _put(connection, row, _sources(folded))
            if row["state"] == "live":
                live[row["scope"]] += 1
                words.update((row["scope"], term) for term in set(row["terms"].split()))

        for memory_id, group in groupby(entries, key=lambda entry: entry[1].entity):
            told = list(group)
            folded = _folded(memory_id, told)
            if folded is not None and _sources(folded):
                derived[memory_id] = (folded, told)
            elif folded is not None:
                put(folded, told)
        while derived:
            # What they are made of comes first; what is made of itself, at last, is hidden.
            first = [each for each, (folded, _) in derived.items() if derived.keys().isdisjoint(_sources(folded))]
            for memory_id in first or list(derived):
                put(*derived.pop(memory_id))
        connection.execute("INSERT INTO keywords (keywords) VALUES ('rebuild')")
        connection.executemany("INSERT INTO scope_sizes VALUES (?, ?)", live.items())
        connection.executemany("INSERT INTO scope_terms VALUES (?, ?, ?)", ((*key, n) for key, n in words.items()))

    def _refold(self, connection: sqlite3.Connection, memory_id: str) -> None:
        told = list(operations_where(connection, "entity = ?", memory_id))
        folded = _folded(memory_id, told)
        row = None if folded is None else self._row(connection, folded, told)
        old = connection.execute(
            "SELECT n, scope, state, terms, seq FROM records WHERE id = ?", (memory_id,)
        ).fetchone()
        if old:
            connection.execute(
                "INSERT INTO keywords (keywords, rowid, terms) VALUES ('delete', ?, ?)", (old[0], old[3])
            )
            self._count(connection, old[1], old[3], -1 if old[2] == "live" else 0)
        if row is None or folded is None:
            # Nothing tells any more what it said.
            connection.execute("DELETE FROM records WHERE id = ?", (memory_id,))
            connection.execute("DELETE FROM derivations WHERE memory = ?", (memory_id,))
        else:
            _put(connection, row, _sources(folded))
            connection.execute("INSERT INTO keywords (rowid, terms) VALUES (:n, :terms)", row)
            self._count(connection, row["scope"], row["terms"], 1 if row["state"] == "live" else 0)
        if row is None or old is None or (old[2], old[4]) != (row["state"], row["seq"]):
            # It may be a source. (What changed nothing ends this, also where two memories name each other.)
            for each in directly_derived(connection, memory_id):
                self._refold(connection, each)

    def _row(
        self, connection: sqlite3.Connection, folded: Folded, entries: list[tuple[int, Operation]]
    ) -> dict[str, Any]:
        """The row that a memory with these entries has, under the tombstones and sources there are."""
        memory, source = folded.memory, folded.memory.source
        key = value_key(self._key, memory.scope, memory.content)
        # A person may say what a machine may not derive again.
        recipe = source.recipe if source.actor != "person" else ""
        entombed, entombed_at = overlay(connection, [each for each in (key, recipe) if each])
        whole, changed_at = sources_now(connection, source.derived_from)
        # The entry that told it first: the order in which memories came, also after a rebuild.
        first = min(seq for seq, operation in entries if operation.kind == "remember")
        return {
            "n": first,
            "id": memory.id,
            "scope": memory.scope,
            "category": memory.category,
            "trust": memory.trust,
            "state": "hidden" if folded.forgotten or entombed or not whole else memory.state,
            "valid_from": format_time(memory.valid_from),
            "valid_to": format_time(memory.valid_to),
            "recorded_at": format_time(memory.recorded_at),
            "pinned": int(memory.pinned),
            "value_key": key,
            "recipe": recipe,
            "closed_by": folded.closed_by,
            "forgotten": int(folded.forgotten),
            "asked": folded.asked,
            # The entry that changed this row last: what the store compares its own row with.
            "seq": max(entries[-1][0], entombed_at, changed_at),
            "session": source.session,
            "place": first if source.place is None else source.place,
            "terms": index_terms(memory),
            "body": memory.model_dump_json(),
        }

    def _count(self, connection: sqlite3.Connection, scope: str, words: str, change: int) -> None:
        """Keep how many live memories of the scope hold each term (for its inverse document frequency)."""
        if not change:
            return
        connection.execute(
            "INSERT INTO scope_sizes VALUES (?, ?) ON CONFLICT (scope) DO UPDATE SET live = live + excluded.live",
            (scope, change),
        )
        counted = [(scope, term, change) for term in dict.fromkeys(words.split())]
        connection.executemany(
            "INSERT INTO scope_terms VALUES (?, ?, ?) ON CONFLICT (scope, term) DO UPDATE SET count = count + excluded.count",
            counted,
        )
        if change < 0:
            connection.execute("DELETE FROM scope_sizes WHERE scope = ? AND live <= 0", (scope,))
            connection.executemany(
                "DELETE FROM scope_terms WHERE scope = ? AND term = ? AND count <= 0", [row[:2] for row in counted]
            )


def index_terms(memory: Memory) -> str:
    """The space-separated index terms of a memory: its title, content and tags."""
    return " ".join(terms(" ".join((memory.title, memory.content, *memory.tags))))


def _folded(memory_id: str, entries: list[tuple[int, Operation]]) -> Folded | None:
    """The memory these entries amount to; None where none of them tells what it says."""
    try:
        return fold(operation for _, operation in entries)
    except ValidationError as error:
        # Never this program's own writing, and no reason to lose sight of all other memories.
        logger.error("%s cannot be read: %s", memory_id, error.errors()[0]["msg"])
        return None


def _put(connection: sqlite3.Connection, row: dict[str, Any], sources: tuple[str, ...]) -> None:
    connection.execute(_PUT, row)
    connection.executemany("INSERT OR IGNORE INTO derivations VALUES (?, ?)", [(each, row["id"]) for each in sources])


def _sources(folded: Folded) -> tuple[str, ...]:
    return folded.memory.source.derived_from
