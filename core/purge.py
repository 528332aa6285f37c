"""Purge: what was remembered is erased, not only hidden. A person's act; the tombstone, a keyed digest, stays.

A memory that says the text is erased whole, with everything derived from it. Any other entry that only holds it somewhere
(a longer memory, an evidence quote, a reason) has it cut out: its payload is erased, and a `purge` entry keeps what is
left of it. The chain stays whole, since it runs over commitments.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cems.core.derivation import descendants
from cems.core.journal import Draft, Journal
from cems.core.memories import Author, Memories, NothingMatched
from cems.core.needles import Needle, anywhere_in, cut_everywhere, needles_for, says_nothing, without
from cems.core.recall import lookup
from cems.core.scope import SHARED, USER, Scope, SessionScope
from cems.core.statement import Unusable, tidy_reason

if TYPE_CHECKING:
    from cems.core.recall.lookup import Row

_INDISTINCT = 15
"""Characters of a memory's value up to which it is no sign of that memory where it stands in another text."""
_CONTENT_FREE = ("forget", "unforget", "purge")
"""Entries on an erased memory that stay, unless they hold the text: they say that it is gone."""
_DONE = "purged_up_to"
_CHECKPOINT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a purge comes to. `whole` memories are erased, `cut` ones keep what else they say."""

    needles: tuple[Needle, ...]
    whole_ids: frozenset[str]
    whole: tuple[Row, ...]
    cut: tuple[Row, ...]
    entries: tuple[Entry, ...]
    """Every entry whose payload is to be erased."""

    @property
    def empty(self) -> bool:
        return not (self.whole or self.entries)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the journal that is still readable."""

    op_id: str
    kind: str
    entity: str
    body: dict[str, Any]


class Purge:
    """Purges through the gateway. Its methods run on the writer's thread."""

    def __init__(self, memories: Memories, journal: Journal) -> None:
        self._memories = memories
        self._journal = journal

    def by_id(self, prefixes: Sequence[str], scope: SessionScope, author: Author) -> Plan:
        """What erasing these memories comes to. Raises Refused, NothingMatched, AmbiguousId."""
        self._memories.demand_person(author, "purge", "erasing a memory")
        rows = [self._memories.find(prefix, scope) for prefix in prefixes]
        rows += self._following(rows)
        return self._plan(needles_for(_texts(rows), whole_up_to=_INDISTINCT), rows)

    def by_text(self, text: str, scope: SessionScope, author: Author) -> Plan:
        """What erasing a text everywhere comes to; empty where no entry holds it. Raises Refused, Unusable."""
        self._memories.demand_person(author, "purge", "erasing a text")
        needles = needles_for([text])
        if not needles:
            raise Unusable("there is no text to erase")
        rows = self._memories.known.rows_in(text, scope)
        following = self._following(rows)
        return self._plan((*needles, *needles_for(_texts(following), whole_up_to=_INDISTINCT)), [*rows, *following])

    def carry_out(self, plan: Plan, author: Author, reason: str = "") -> Plan:
        """Forget, then erase: durable on return. Returns what was done, with what followed from forgetting."""
        self._memories.demand_person(author, "purge", "erasing a memory")
        if plan.empty:
            raise NothingMatched("nothing here holds that; nothing was erased")
        why = without(tidy_reason(reason), plan.needles)
        self._forget(plan.whole, author, why)
        # Again: forgetting took along what was derived, and wrote entries of its own.
        done = self._plan(plan.needles, plan.whole)
        self._memories.append(list(self._drafts(done, author, why)))
        return done

    # -- inside

    def _following(self, rows: Sequence[Row]) -> list[Row]:
        """What was derived from these, and from that in turn."""
        connection = self._journal.connection
        found = lookup.rows_by_id(connection, descendants(connection, [row["id"] for row in rows]))
        return list(found.values())

    def _plan(self, needles: tuple[Needle, ...], rows: Sequence[Row]) -> Plan:
        entries = list(_entries(self._journal.connection))
        whole = {row["id"] for row in rows} | {each.entity for each in entries if _says_only(each, needles)}
        whole |= set(descendants(self._journal.connection, sorted(whole)))
        erased = tuple(
            each
            for each in entries
            if anywhere_in(each.body, needles)
            or (each.entity in whole and each.kind not in _CONTENT_FREE)
            # An entry that a purge left in place of others goes with them.
            or (each.entity in whole and each.kind == "purge" and "instead" in each.body)
        )
        touched = {each.entity for each in erased if each.kind != "forget"} - whole
        found = lookup.rows_by_id(self._journal.connection, sorted(whole | touched))
        return Plan(
            needles,
            frozenset(whole),
            tuple(found[each] for each in sorted(whole) if each in found),
            tuple(found[each] for each in sorted(touched) if each in found),
            erased,
        )

    def _forget(self, rows: Sequence[Row], author: Author, reason: str) -> None:
        by_scope: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            if row["state"] != "hidden":
                by_scope[row["scope"]].append(row["id"])
        for scope, ids in by_scope.items():
            seen = SessionScope(None if scope in (USER, SHARED) else Scope(scope))
            for memory in ids:
                # One by one: what says the same, or follows from it, is hidden with the first.
                with contextlib.suppress(NothingMatched):
                    self._memories.forget([memory], seen, author, reason)

    def _drafts(self, plan: Plan, author: Author, reason: str) -> Iterator[Draft]:
        group = secrets.token_hex(8)
        by_entity: dict[str, list[Entry]] = defaultdict(list)
        for entry in plan.entries:
            # Refusals and lifts are on no memory.
            by_entity[entry.entity if entry.entity.startswith("m_") else ""].append(entry)
        for entry in plan.entries:
            if entry.kind == "forget":
                # The tombstone must outlive its words.
                yield self._memories.draft("forget", entry.entity, cut_everywhere(entry.body, plan.needles), author)
        for entity, entries in by_entity.items():
            body: dict[str, Any] = {"reason": reason, "group": group, "erased": [each.op_id for each in entries]}
            if entity and entity not in plan.whole_ids:
                body["instead"] = _instead(entries, plan.needles)
            yield self._memories.draft("purge", entity, body, author)


def _texts(rows: Sequence[Row]) -> list[str]:
    return [text for row in rows for text in (row["content"], (row.get("source") or {}).get("quote", ""))]


def _says_only(entry: Entry, needles: tuple[Needle, ...]) -> bool:
    """Whether an entry tells of a memory that says the text and nothing else."""
    memory = entry.body.get("memory") if entry.kind == "remember" else None
    content = str(memory.get("content", "")) if isinstance(memory, dict) else ""
    return bool(content) and anywhere_in(content, needles) and says_nothing(without(content, needles))


def _instead(entries: Sequence[Entry], needles: tuple[Needle, ...]) -> dict[str, Any]:
    """What is left of each entry, by its id; of an earlier purge, what that one had left."""
    left: dict[str, Any] = {}
    for entry in entries:
        body = cut_everywhere(entry.body, needles)
        if entry.kind == "purge":
            left |= body.get("instead", {})
        elif entry.kind != "forget":
            left[entry.op_id] = body
    return left


def _entries(connection: sqlite3.Connection) -> Iterator[Entry]:
    rows = connection.execute("SELECT op_id, kind, entity, body FROM chain JOIN payloads USING (op_id) ORDER BY seq")
    for op_id, kind, entity, body in rows:
        if body is not None:
            yield Entry(op_id, kind, entity, json.loads(body))


# -- the journal's file


def unfinished(connection: sqlite3.Connection) -> int:
    """The last purge whose files were not cleaned to the end; 0 where all were."""
    last = connection.execute("SELECT COALESCE(MAX(seq), 0) FROM chain WHERE kind = 'purge'").fetchone()[0]
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (_DONE,)).fetchone()
    return int(last) if last > (int(row[0]) if row else 0) else 0


def note_finished(connection: sqlite3.Connection, seq: int) -> None:
    """Every file is clean of what was purged up to entry `seq`."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_DONE, str(seq)))


def clean_journal(connection: sqlite3.Connection) -> None:
    """Leave nothing of erased rows in the file: vectors of forgotten values, index segments, free pages, the WAL.

    Raises sqlite3.Error, also where a reader keeps the WAL from being emptied.
    """
    tables = dict(connection.execute("SELECT name, COALESCE(sql, '') FROM sqlite_master WHERE type = 'table'"))
    if "tombstone_vectors" in tables:
        connection.execute("DELETE FROM tombstone_vectors WHERE value_key NOT IN (SELECT value_key FROM records)")
    for name, sql in tables.items():
        if "using fts5" in sql.lower():
            connection.execute(f"INSERT INTO {name} ({name}) VALUES ('rebuild')")  # noqa: S608
    # In memory: a temporary file would stand outside CEMS_HOME.
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("VACUUM")
    empty_wal(connection)


def empty_wal(connection: sqlite3.Connection) -> None:
    """Move everything from the WAL into the file and cut the WAL to nothing; waits for readers a moment."""
    end = time.monotonic() + _CHECKPOINT_SECONDS
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        if time.monotonic() > end:
            raise sqlite3.OperationalError("a reader keeps the journal's WAL from being emptied")
        time.sleep(0.05)
