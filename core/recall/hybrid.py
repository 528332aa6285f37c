"""Search with words and vectors: two searches in LanceDB inside the scope, exact cosine for every candidate."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from cems.core.recall import gate, lookup, semantic
from cems.core.recall.candidate import Candidate
from cems.core.recall.engine import POOL, Found, is_valid
from cems.core.recall.lexical import Weights
from cems.core.recall.question import Question
from cems.core.store import Store, live_filter

if TYPE_CHECKING:
    from cems.core.embedding import Embedder

_NOT_INDEXED_YET = 200


class Followed(Protocol):
    """A store and the last journal entry it has seen."""

    @property
    def store(self) -> Store: ...

    @property
    def applied(self) -> int: ...


class HybridSearcher:
    """The store finds; the records decide whether what it found is still live, so a forget counts at once.

    Memories that the store has not seen yet are looked up directly.
    """

    def __init__(self, connection: sqlite3.Connection, followed: Followed, embedder: Embedder) -> None:
        self._connection = connection
        self._followed = followed
        self._embedder = embedder
        self._filling = semantic.BackgroundVectors(embedder)

    async def search(self, question: Question, scopes: Sequence[str], trust: Sequence[str]) -> Found:
        store = self._followed.store
        query = await asyncio.to_thread(self._embedder.embed_query, question.text)
        where = live_filter(scopes, trust, lookup.now_text())
        by_text, by_vector = await asyncio.gather(
            store.search_text(sorted(set(question.terms)), where, POOL),
            store.search_vector(query, where, POOL),
        )
        vectors = {hit.id: hit.vector for hit in (*by_vector, *by_text) if hit.vector is not None}
        rows = lookup.rows_by_id(self._connection, list({hit.id: None for hit in (*by_text, *by_vector)}))
        fresh = lookup.live_rows_after(self._connection, self._followed.applied, scopes, _NOT_INDEXED_YET)
        if len(fresh) == _NOT_INDEXED_YET:
            # The store is being filled: the words of what it lacks are found in SQLite.
            fresh += lookup.keyword_rows(self._connection, question.terms, scopes, POOL)
        rows |= {row["id"]: row for row in fresh if row["trust"] in trust}
        weights = Weights(self._connection, question, scopes)
        candidates = [
            weights.candidate(row)
            for row in rows.values()
            if row["state"] == "live" and row["scope"] in scopes and row["trust"] in trust and is_valid(row)
        ]
        means = [(lookup.live_count(self._connection, (scope,)), await store.mean_vector(scope)) for scope in scopes]
        hub = semantic.center(means, self._filling, weights.padding)
        semantic.score(candidates, vectors, query, hub, weights, self._filling)
        for candidate in candidates:
            candidate.probability = gate.hybrid(candidate, question)

        def similarity(one: Candidate, other: Candidate) -> float:
            first, second = vectors.get(one.id), vectors.get(other.id)
            return float(first @ second) if first is not None and second is not None else 0.0

        return Found("hybrid", "", candidates, weights.live, similarity)
