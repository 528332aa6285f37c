"""Search with words and vectors: two searches in LanceDB inside the scope, exact cosine for every candidate."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from cems.core.recall import gate, lookup, semantic
from cems.core.recall.candidate import Candidate
from cems.core.recall.engine import POOL, Found, Within, keyword_rows
from cems.core.recall.lexical import Weights
from cems.core.recall.newer_first import newer_first
from cems.core.recall.question import Question
from cems.core.recall.session_context import SessionContext
from cems.core.store import Store, embedded_text, live_filter, past_filter, valid_filter

if TYPE_CHECKING:
    from cems.core.embedding import Embedder
    from cems.core.recall.semantic import Vector

_NOT_INDEXED_YET = 200
_STALE_POOL = 10 * POOL
_EMBEDDED_AT_ONCE = 4
_TOKENS_AT_ONCE = 300


class Followed(Protocol):
    """A store, the last journal entry it has seen, and by id the vectors (with their texts' digests) of later ones."""

    @property
    def store(self) -> Store: ...

    @property
    def applied(self) -> int: ...

    @property
    def fresh(self) -> Mapping[str, tuple[str, Vector]]: ...


class HybridSearcher:
    """The store finds; the records decide whether what it found is still live, so a forget counts at once.

    Memories that the store has not seen yet are looked up directly.
    """

    def __init__(self, connection: sqlite3.Connection, followed: Followed, embedder: Embedder) -> None:
        self._connection = connection
        self._followed = followed
        self._embedder = embedder
        self._filling = semantic.background_vectors(embedder)

    async def search(self, question: Question, within: Within) -> Found:
        store = self._followed.store
        query = await asyncio.to_thread(self._embedder.embed_query, question.text)
        means = [await store.mean_vector(scope) for scope in within.scopes]
        # Read before the store is searched: what it takes in meanwhile is in neither of the two otherwise.
        applied = self._followed.applied
        new = await self._vectors_of_new(question, within, applied)
        # Nothing is awaited after the records were read: what is forgotten in the meantime is not in the answer.
        rows, vectors, found = await self._from_store(question, query, within, POOL)
        if found >= POOL and sum(map(within.admits, rows.values())) < found:
            # Much was changed a moment ago: what is still to be taken out of the store must not crowd the rest out.
            rows, vectors, _ = await self._from_store(question, query, within, _STALE_POOL)
        rows |= {row["id"]: row for row in self._not_in_store_yet(question, within, applied)}
        vectors = new | vectors
        weights = Weights(self._connection, question, within.scopes)
        sizes = [lookup.live_count(self._connection, (scope,)) for scope in within.scopes]
        hub = semantic.center(list(zip(sizes, means, strict=True)), self._filling, weights.padding)

        def scored(rows: Iterable[lookup.Row]) -> list[Candidate]:
            candidates = [weights.candidate(row) for row in rows if within.admits(row)]
            semantic.score(candidates, vectors, query, hub, weights, self._filling)
            return candidates

        candidates, beside = scored(rows.values()), list[Candidate]()
        context = None if within.at.as_of else SessionContext(self._connection, candidates, within, weights)
        if context is not None and (others := [each for each in context.neighbours if each not in rows]):
            vectors |= {each: vector for each, (_, vector) in (await store.vectors(others)).items()}
            # Read again, since it was awaited.
            now = lookup.rows_by_id(self._connection, [*rows, *others])
            candidates = scored(now[each] for each in rows if each in now)
            # Scored apart: they are no measure for the others, and the gate is closed for them.
            beside = scored(now[each] for each in others if each in now)
        level = self._filling.level(query)
        for candidate in candidates:
            candidate.probability = gate.hybrid(candidate, question, level)

        def cosine(one: Candidate, other: Candidate) -> float | None:
            first, second = vectors.get(one.id), vectors.get(other.id)
            return None if first is None or second is None else self._filling.cosine(first, second)

        if context is not None and context.neighbours:
            candidates += beside
            context.rank(candidates, question)
        if not within.at.as_of:
            newer_first(sorted(candidates, key=lambda candidate: -candidate.rank), cosine)
        candidates.sort(key=lambda candidate: -candidate.rank)

        return Found("hybrid", "", candidates, weights.live, cosine)

    async def _from_store(
        self, question: Question, query: Vector, within: Within, pool: int
    ) -> tuple[dict[str, lookup.Row], dict[str, Vector], int]:
        """What the two searches find, as the records have it (now, or at the time asked for), the vectors the store has
        for it, and how many rows that were before any was left out."""
        store = self._followed.store
        at = within.at
        if at.as_of:
            where = past_filter(within.looked_in, at.as_of, at.valid_at, within.categories)
        elif at.valid_at:
            where = valid_filter(within.scopes, within.trust, at.valid_at, within.categories)
        else:
            where = live_filter(within.scopes, within.trust, within.now, within.categories)
        by_text, by_vector = await asyncio.gather(
            store.search_text(sorted(set(question.terms)), where, pool),
            store.search_vector(query, where, pool),
        )
        vectors = {hit.id: hit.vector for hit in (*by_vector, *by_text) if hit.vector is not None}
        found = lookup.rows_by_id(self._connection, list({hit.id: None for hit in (*by_text, *by_vector)}))
        return {row["id"]: row for row in within.stood(self._connection, found.values())}, vectors, len(found)

    async def _vectors_of_new(self, question: Question, within: Within, applied: int) -> dict[str, Vector]:
        """Vectors of what the store lacks: those there are, and those of the newest few that nobody embedded yet. What
        was said a moment ago is often asked for next."""
        rows = self._not_in_store_yet(question, within, applied)
        fresh = self._followed.fresh
        vectors = {row["id"]: fresh[row["id"]][1] for row in rows if row["id"] in fresh}
        wanted: dict[str, str] = {}
        tokens = 0
        for row in [row for row in rows if row["id"] not in vectors][:_EMBEDDED_AT_ONCE]:
            tokens += row.get("tokens") or 0
            if tokens <= _TOKENS_AT_ONCE and within.admits(row):
                wanted[row["id"]] = embedded_text(row)
        if wanted:
            made = await asyncio.to_thread(self._embedder.embed, list(wanted.values()))
            vectors |= zip(wanted, made, strict=True)
        return vectors

    def _not_in_store_yet(self, question: Question, within: Within, applied: int) -> list[lookup.Row]:
        rows = lookup.live_rows_after(self._connection, applied, within.looked_in, _NOT_INDEXED_YET, within.condition)
        fresh = within.stood(self._connection, rows)
        if len(rows) < _NOT_INDEXED_YET:
            return fresh
        # The store is being filled: the words of what it lacks are found in SQLite.
        return fresh + keyword_rows(self._connection, question, within)
