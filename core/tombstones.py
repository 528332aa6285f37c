"""Tombstones: what was forgotten stays forgotten.

A tombstone is on the value: the keyed digest of scope and normalised text, so it holds no copy of what was forgotten and
knows it again in any category, session, casing or spelling, whoever says it. It is written by a `forget` entry of the
journal (`entomb`), outlives memories, rebuilds and purges, and goes only by a person's `lift`. It is consulted before
every write (`Tombstones.standing`) and again on every read (`overlay` hides a memory's row in the records, wherever
that memory came from). The recipe of a forgotten derivation has a tombstone too.

Other words for a forgotten value are found by meaning where a model is loaded (`Tombstones.near`): such a memory is
stored, and withheld until a person has looked at it.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cems.core.fold import Operation
from cems.core.scope import SHARED, USER, Scope, SessionScope
from cems.core.statement import tidy
from cems.core.value import ValueKey, value_key, value_keys

logger = logging.getLogger("cems.tombstones")

TABLE = """
CREATE TABLE tombstones (
    value_key TEXT PRIMARY KEY, scope TEXT NOT NULL, clock TEXT NOT NULL, actor TEXT NOT NULL, agent TEXT NOT NULL,
    reason TEXT NOT NULL, lifted INTEGER NOT NULL, seq INTEGER NOT NULL
)"""

NEAR = 0.86
"""Cosine from which two texts say the same, measured with the bundled model on 34 pairs: of 16 rewordings ("deploys
happen on Fridays", "we deploy on Fridays") 14 lie over it, the median at 0.92, the two others at 0.78; of 18 other facts
about the same subject none does, the nearest at 0.67. The room below is for texts that differ in a number or a name.
"""
_FILLED_AT_ONCE = 16
"""Texts embedded in one turn of the writer's thread: changes wait meanwhile."""


class Meaning(Protocol):
    """An embedding model: its identity, and unit vectors of texts, shape (len(texts), dimension)."""

    @property
    def identity(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> Any: ...


@dataclass(frozen=True, slots=True)
class Tombstone:
    """One forgotten value: where, when, by whom and why. Its text is not kept."""

    key: str
    scope: str
    at: str
    actor: str
    agent: str
    reason: str

    def told(self, readable: Collection[str]) -> str:
        """`forgotten on 2026-01-31 by a person: why`; why only to who may read the scope it was forgotten in."""
        who = "a person" if self.actor == "person" else self.agent or self.actor
        why = f": {self.reason}" if self.reason and self.scope in readable else ""
        return f"forgotten on {self.at[:10]} by {who}{why}"


@dataclass(frozen=True, slots=True)
class Near:
    """A forgotten value that a text comes close to."""

    tombstone: Tombstone
    similarity: float


def entomb(connection: sqlite3.Connection, seq: int, operation: Operation) -> str:
    """Follow a `forget` or `lift` entry; returns the value's key, empty where it is on no value.

    The later one counts, and at one instant the forgetting. Only a person's lift does.
    """
    lifting = operation.kind == "lift"
    key = operation.entity if lifting else str(operation.body.get("value_key", ""))
    if not key or (lifting and operation.actor != "person"):
        return ""
    connection.execute(
        "INSERT INTO tombstones VALUES (?,?,?,?,?,?,?,?) ON CONFLICT (value_key) DO UPDATE SET clock = excluded.clock, "
        "actor = excluded.actor, agent = excluded.agent, reason = excluded.reason, lifted = excluded.lifted, "
        "seq = excluded.seq WHERE excluded.clock > tombstones.clock "
        "OR (excluded.clock = tombstones.clock AND excluded.lifted < tombstones.lifted)",
        (
            key, str(operation.body.get("scope", "")), operation.clock, operation.actor, operation.agent,
            str(operation.body.get("reason", "")), int(lifting), seq,
        ),
    )  # fmt: skip
    return key


def overlay(connection: sqlite3.Connection, keys: Sequence[str]) -> tuple[bool, int]:
    """Whether a memory with these keys (its value's, its recipe's) is hidden, and the last entry that decided on one."""
    marks = ",".join("?" * len(keys))
    query = f"SELECT MIN(lifted), MAX(seq) FROM tombstones WHERE value_key IN ({marks})"  # noqa: S608
    lifted, seq = connection.execute(query, keys).fetchone()
    return lifted == 0, seq or 0


def is_tombstoned(connection: sqlite3.Connection, key: str) -> bool:
    """Whether this value was forgotten and not lifted since."""
    return overlay(connection, (key,))[0]


def recipe_key(key: bytes, scope: str, kind: str, sources: Collection[str]) -> ValueKey:
    """What a derivation is known by, whatever its words: the keyed digest of its kind and the ids of its sources."""
    return value_key(key, f"recipe:{scope}", " ".join((kind, *sorted(set(sources)))))


class Tombstones:
    """The tombstones of one journal. `key` is the HMAC key of values; `meaning` is set when a model is loaded."""

    def __init__(self, connection: Callable[[], sqlite3.Connection], key: bytes) -> None:
        self._connection = connection
        self._key = key
        self.meaning: Meaning | None = None

    def standing(self, text: str, target: Scope, *, by_person: bool) -> Tombstone | None:
        """The tombstone that keeps a value from being written to `target`; None where there is none."""
        return self._first(value_keys(self._key, self._scopes(target, by_person), text))

    def recipe(self, scope: str, kind: str, sources: Collection[str]) -> ValueKey:
        return recipe_key(self._key, scope, kind, sources)

    def on_key(self, key: str) -> Tombstone | None:
        """The tombstone on a value or recipe that is known by its key."""
        return self._first([key])

    def forgotten_in(self, text: str, scope: SessionScope) -> dict[ValueKey, Scope]:
        """The readable scopes in which this text is forgotten, by the value's key there."""
        keys = {key: each for one in spellings(text) for key, each in self._keys(one, scope)}
        return {key: each for key, each in keys.items() if is_tombstoned(self._connection(), key)}

    def near(self, text: str, target: Scope, *, by_person: bool) -> Near | None:
        """The forgotten value that this text says in other words; None without a model. By its vector only."""
        if self.meaning is None:
            return None
        scopes = self._scopes(target, by_person)
        rows = self._connection().execute(
            "SELECT value_key, vector FROM tombstone_vectors JOIN tombstones USING (value_key) "  # noqa: S608
            f"WHERE lifted = 0 AND model = ? AND scope IN ({','.join('?' * len(scopes))}) ORDER BY value_key",
            (self.meaning.identity, *scopes),
        )
        keys, vectors = [], []
        for key, vector in rows:
            keys.append(key)
            vectors.append(vector)
        if not keys:
            return None
        import numpy as np

        matrix = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(keys), -1)
        similarities = matrix @ np.asarray(self.meaning.embed([text])[0], dtype=np.float32)
        best = int(similarities.argmax())
        found = self._first([keys[best]]) if similarities[best] >= NEAR else None
        return Near(found, round(float(similarities[best]), 4)) if found else None

    def note_meaning(self, texts: Mapping[str, str]) -> None:
        """Keep the vectors of forgotten texts, by their values' keys. Never raises: the forgetting itself is written."""
        if self.meaning is None or not texts:
            return
        try:
            vectors = self.meaning.embed(list(texts.values())).astype("<f4")
            self._connection().executemany(
                "INSERT OR REPLACE INTO tombstone_vectors VALUES (?, ?, ?)",
                [(key, self.meaning.identity, vector.tobytes()) for key, vector in zip(texts, vectors, strict=True)],
            )
        except Exception as error:  # noqa: BLE001 - a model or a full disk; `fill_in` tries again at the next start
            logger.warning("other words for what was forgotten are not known yet (%s)", type(error).__name__)

    def fill_in(self) -> int:
        """Keep vectors for some forgotten values that have none of this model, as long as their text is there; returns
        for how many. To be called until it returns 0.
        """
        if self.meaning is None:
            return 0
        rows = self._connection().execute(
            "SELECT value_key, records.body FROM records JOIN tombstones USING (value_key) WHERE lifted = 0 AND value_key "
            "NOT IN (SELECT value_key FROM tombstone_vectors WHERE model = ?) GROUP BY value_key LIMIT ?",
            (self.meaning.identity, _FILLED_AT_ONCE),
        )
        texts = {key: str(json.loads(body)["content"]) for key, body in rows.fetchall()}
        self.note_meaning(texts)
        missing = [key for key in texts if not self._has_vector(key)]
        return len(texts) if not missing else 0

    def _has_vector(self, key: str) -> bool:
        query = "SELECT 1 FROM tombstone_vectors WHERE value_key = ? AND model = ?"
        identity = self.meaning.identity if self.meaning else ""
        return self._connection().execute(query, (key, identity)).fetchone() is not None

    def _scopes(self, target: Scope, by_person: bool) -> list[str]:
        """Where a value may have been forgotten so that a write to `target` would bring it back."""
        scopes: set[str] = {target}
        if not by_person:
            # What a person forgot everywhere does not come back through a project's door,
            scopes |= {USER, SHARED}
            if target == USER:
                # nor what was forgotten in a project as everybody's.
                scopes |= {row[0] for row in self._connection().execute("SELECT DISTINCT scope FROM tombstones")}
        # The target's own first: it is the one to tell of.
        return sorted(scopes, key=lambda each: (each != target, each))

    def _first(self, keys: Sequence[str]) -> Tombstone | None:
        query = (
            "SELECT value_key, scope, clock, actor, agent, reason FROM tombstones WHERE value_key = ? AND lifted = 0"
        )
        for key in keys:
            if row := self._connection().execute(query, (key,)).fetchone():
                found, scope, clock, actor, agent, reason = row
                return Tombstone(found, scope, clock.partition("/")[0], actor, agent, reason)
        return None

    def _keys(self, text: str, scope: SessionScope) -> Iterator[tuple[ValueKey, Scope]]:
        return zip(value_keys(self._key, scope.readable, text), scope.readable, strict=True)


def spellings(text: str) -> set[str]:
    """As given, and as it was kept: what a person forgets may hold what was cut when it was stored."""
    return {text, tidy(text)[0]}
