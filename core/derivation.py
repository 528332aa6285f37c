"""Derived memories: what was made of others, and what becomes of it when one of them goes.

A derived memory names its sources' ids. It is as hidden as they are: with a source that is forgotten, purged or unknown
here it is not live, which the records see to (`cems.core.records`); and forgetting a source forgets it too. Its recipe
(`cems.core.tombstones`) is forgotten with it, so that it does not come back in other words from the same sources.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from cems.core.recall import lookup

TABLE = """
CREATE TABLE derivations (source TEXT NOT NULL, memory TEXT NOT NULL, PRIMARY KEY (source, memory)) WITHOUT ROWID"""
"""Which memory follows from which; kept with the records."""


def directly_derived(connection: sqlite3.Connection, memory: str) -> list[str]:
    """The memories that name this one as a source."""
    return [row[0] for row in connection.execute("SELECT memory FROM derivations WHERE source = ?", (memory,))]


def descendants(connection: sqlite3.Connection, memories: Iterable[str]) -> list[str]:
    """Everything derived from these memories, and from that in turn, nearest first; they themselves are left out."""
    seen = dict.fromkeys(memories)
    found: list[str] = []
    wanted = list(seen)
    while wanted:
        wanted = [each for source in wanted for each in directly_derived(connection, source) if each not in seen]
        wanted = list(dict.fromkeys(wanted))
        seen |= dict.fromkeys(wanted)
        found += wanted
    return found


def sources_now(connection: sqlite3.Connection, sources: Sequence[str]) -> tuple[bool, int]:
    """Whether all sources are there and none is hidden, and the last entry that changed one of them."""
    whole, last = True, 0
    for source in sources:
        row = connection.execute("SELECT state, seq FROM records WHERE id = ?", (source,)).fetchone()
        if row is None:
            row = ("hidden", connection.execute("SELECT MAX(seq) FROM chain WHERE entity = ?", (source,)).fetchone()[0])
        whole &= row[0] != "hidden"
        last = max(last, row[1] or 0)
    return whole, last


def unfit(rows: Sequence[lookup.Row]) -> str:
    """Why nothing may be derived from these memories; empty where it may."""
    if not rows:
        return "a derivation needs sources"
    if len({row["scope"] for row in rows}) > 1:
        return "the sources lie in several scopes; a derivation stays in one"
    for row in rows:
        if row["state"] != "live" or row["trust"] in ("disputed", "rejected"):
            state = row["state"] if row["state"] != "live" else row["trust"]
            return f"the source {row['id'][:10]} is {state}; only what is in use can be built upon"
    return ""


def comes_from_a_tool(rows: Sequence[lookup.Row]) -> bool:
    """Whether unconfirmed text of a tool or web page is among the sources: what is made of it is no better."""
    return any(row["trust"] == "candidate" and row["source"]["actor"] == "tool" for row in rows)
