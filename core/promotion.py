"""Promotion: somebody asks that a project's memory hold in all of the person's projects. A person decides, in review.

Asking changes nothing that is read: the memory stays where it is, and its `asked` field puts it into the queue
(`cems.core.review`). The request is on that one memory with that one text; a correction does not inherit it.
"""

from __future__ import annotations

import sqlite3

from cems.core.fold import Operation
from cems.core.journal import operations_on
from cems.core.memories import Author, Memories, Refused, Unusable
from cems.core.memory import MemoryId
from cems.core.recall import lookup
from cems.core.scope import USER, SessionScope, is_project
from cems.core.statement import tidy_reason
from cems.core.trust import WITHHELD

_SHORT = 10


def ask(
    memories: Memories, prefix: str, scope: SessionScope, author: Author, reason: str = ""
) -> tuple[MemoryId, bool]:
    """Put the request into the queue; returns the memory's id, and whether it is new there.

    Raises NothingMatched, AmbiguousId, Unusable for a memory that holds everywhere already, and Refused (journaled) for
    one that is withheld or forgotten there, or whose promotion a person has declined.
    """
    row = memories.live(prefix, scope)
    short = row["id"][:_SHORT]
    if not is_project(row["scope"]):
        raise Unusable(f"{short} is no project's memory: it has the scope {row['scope']} already")
    same = next((each for each in memories.known.rows(row["content"], USER) if each["state"] == "live"), None)
    if same is not None:
        raise Unusable(f"{same['id'][:_SHORT]} says the same for all projects already")
    if row["asked"]:
        return MemoryId(row["id"]), False
    if objection := _objection(memories, row, scope):
        memories.refuse("promote", objection, author, row["scope"], row["content"])
        raise Refused(f"{short} stays in its project: {objection}")
    body = {"to": USER, "scope": row["scope"], "reason": tidy_reason(reason)}
    memories.append([memories.draft("promote", row["id"], body, author)])
    return MemoryId(row["id"]), True


def request_on(connection: sqlite3.Connection, memory: str) -> Operation | None:
    """The last entry that asked for the memory's promotion, or declined it."""
    asked = [each for each in operations_on(connection, memory) if each.kind in ("promote", "decline")]
    return asked[-1] if asked else None


def _objection(memories: Memories, row: lookup.Row, scope: SessionScope) -> str:
    if row["trust"] in WITHHELD:
        return f"it is {row['trust']}, and a person decides on that first"
    if tombstone := memories.tombstones.standing(row["content"], USER, by_person=False):
        return f"in the scope {USER} this was {tombstone.told(scope.readable)}; only a person can lift that"
    last = request_on(memories.connection, row["id"])
    if last is not None and last.kind == "decline":
        return "a person declined this; only they can widen it, with `cems share`"
    return ""
