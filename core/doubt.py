"""What speaks against a new statement: it comes near to something forgotten, or contradicts a trusted memory.

A machine's statement is then kept and withheld (`disputed`) until a person has decided; a person's is trusted all the
same, and they are told.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

from cems.core.contradiction import trusted_contradicted
from cems.core.memory import Memory
from cems.core.scope import Scope, SessionScope
from cems.core.statement import Author, Outcome
from cems.core.tombstones import Tombstones

_SHORT = 10


@dataclass(frozen=True, slots=True)
class Doubt:
    """`body` goes into the entry that remembers the statement: what review shows it beside. Empty for no doubt."""

    said: str = ""
    body: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.said)


def doubt(
    connection: sqlite3.Connection,
    tombstones: Tombstones,
    content: str,
    target: Scope,
    scope: SessionScope,
    author: Author,
    without: Collection[str] = (),
) -> Doubt:
    """What speaks against this author's statement in this scope; `without` are memories it takes the place of."""
    near = tombstones.near(content, target, by_person=author.is_person)
    if near is not None:
        body = {"near": near.tombstone.key, "similarity": near.similarity}
        return Doubt(f"it is close to something {near.tombstone.told(scope.readable)}", body)
    other = trusted_contradicted(connection, content, scope.readable, without)
    if other is not None:
        return Doubt(f"it contradicts {other['id'][:_SHORT]}, which is trusted", {"conflicts_with": other["id"]})
    return Doubt()


def kept(memory: Memory, redacted: int, doubt: Doubt) -> Outcome:
    """What the author of a new memory is told."""
    status: Literal["added", "candidate"] = "added" if memory.trust == "trusted" else "candidate"
    reason = "" if status == "added" else "noted by an agent; shown as unverified until a person approves it"
    if doubt:
        reason = doubt.said if status == "added" else f"withheld until a person has decided: {doubt.said}"
    return Outcome(status, memory.id, reason, redacted, memory)
