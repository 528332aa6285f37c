"""Memories made from a seed, for the benchmarks of size: rows with vectors for the store.

The vectors are shaped like sentence embeddings: a direction common to all, sqrt(n) topics, and noise of a falling spectrum
in a random basis. The constants were set beside the bundled model's vectors of the 528 memories in `data`, there and here:
mean cosine of two memories .09 and .09, of a memory and its nearest .45 and .44, its tenth nearest .30 and .33. The more
memories, the nearer the nearest: of 528, 1,500 and 4,000 turns of LoCoMo the tenth nearest has .51, .57 and .62; the
topics' share grows as that does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

DIMENSION = 384
MODEL = "generated"
WIDE, NARROW = "project:wide", "project:narrow"
SHARES = {WIDE: 0.27, NARROW: 0.003}
"""The share of all memories that lies in each scope asked about. The rest lies in other projects."""
_OTHER_SCOPES = 40
_WORDS = 60_000
_COMMON, _TOPIC, _TOPIC_GROWTH = 0.08, 0.23, 0.045
"""Shares of the variance, of 528 memories, and what each e-fold more of them adds to the topics'."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows with their vectors, shape (len(rows), DIMENSION), and which of them recall may find in each scope."""

    rows: list[dict[str, Any]]
    vectors: Vectors
    findable: dict[str, NDArray[np.bool_]]


class Generator:
    """Memories for a store of `rows`. The same seed gives the same ones, block by block."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self._seed = seed
        rng = np.random.default_rng((seed, 0))
        topics = max(8, round(math.sqrt(rows)))
        self._topics = _unit(rng.standard_normal((topics, DIMENSION)))
        topic = _TOPIC + _TOPIC_GROWTH * math.log(max(rows, 528) / 528)
        self._weights = np.sqrt(np.array([_COMMON, topic, 1 - _COMMON - topic], dtype=np.float32))
        self._common = _unit(rng.standard_normal((1, DIMENSION)))
        basis = np.linalg.qr(rng.standard_normal((DIMENSION, DIMENSION)))[0]
        spectrum = np.arange(1, DIMENSION + 1) ** -0.37
        self._noise = (basis * (spectrum / np.linalg.norm(spectrum))).T.astype(np.float32)
        # Zipf's law, without the words that a stop list takes out.
        weights = 1 / (np.arange(_WORDS) + 40.0)
        self._words = np.cumsum(weights / weights.sum())

    def blocks(self, size: int) -> Iterator[Block]:
        """All memories, in blocks of `size`."""
        for start in range(0, self.rows, size):
            yield self.block(start, min(size, self.rows - start))

    def block(self, start: int, count: int) -> Block:
        """The memories numbered from `start`; those from `rows` on are more of the same kind."""
        rng = np.random.default_rng((self._seed, 1, start))
        scopes = self._scopes(rng, count)
        live, trusted = rng.random(count) > 0.03, rng.random(count) > 0.1
        over, pinned = rng.random(count) < 0.02, rng.random(count) < 0.01
        rows = [
            _row(start + i, scopes[i], self._terms(rng), live=bool(live[i]), trusted=bool(trusted[i]),
                 over=bool(over[i]), pinned=bool(pinned[i]))
            for i in range(count)
        ]  # fmt: skip
        named = np.array(scopes)
        return Block(rows, self.vectors(rng, count), {scope: (named == scope) & live & ~over for scope in SHARES})

    def vectors(self, rng: np.random.Generator, count: int) -> Vectors:
        """Unit vectors of memories or of questions, shape (count, DIMENSION)."""
        topics = self._topics[rng.integers(len(self._topics), size=count)]
        noise = rng.standard_normal((count, DIMENSION), dtype=np.float32) @ self._noise
        common, topic, rest = self._weights
        return _unit(common * self._common + topic * topics + rest * noise)

    def questions(self, count: int) -> tuple[list[list[str]], Vectors]:
        """Index terms and vectors, shape (count, DIMENSION), of questions about what the memories are about."""
        rng = np.random.default_rng((self._seed, 2))
        return [sorted(set(self._terms(rng)))[:7] for _ in range(count)], self.vectors(rng, count)

    def _terms(self, rng: np.random.Generator) -> list[str]:
        drawn = np.searchsorted(self._words, rng.random(int(rng.integers(8, 22))))
        return [f"w{number}" for number in drawn]

    def _scopes(self, rng: np.random.Generator, count: int) -> list[str]:
        others = [f"project:other{i}" for i in range(_OTHER_SCOPES)]
        shares = [*SHARES.values(), *[(1 - sum(SHARES.values())) / _OTHER_SCOPES] * _OTHER_SCOPES]
        names = [*SHARES, *others]
        return [names[i] for i in rng.choice(len(names), size=count, p=shares)]


def _row(
    number: int, scope: str, terms: list[str], *, live: bool, trusted: bool, over: bool, pinned: bool
) -> dict[str, Any]:
    """A row as `cems.core.recall.lookup` gives it."""
    recorded = f"2026-{number % 9 + 1:02d}-{number % 28 + 1:02d}T08:00:00.000Z"
    return {
        # A prime, so that ids come in no order, as digests do.
        "id": f"m_{number * 0x9E3779B97F4A7C15F39D % (1 << 96):024x}", "scope": scope, "category": "decisions",
        "kind": "", "trust": "trusted" if trusted else "candidate", "state": "live" if live else "closed", "title": "",
        "content": " ".join(terms), "tags": [f"area{number % 17}"], "recorded_at": recorded, "valid_from": None,
        "valid_to": "2026-10-01T00:00:00.000Z" if over else None, "expired_at": None, "archived_at": None,
        "pinned": pinned, "confidence": 0.7, "tokens": 2 * len(terms), "source": {"actor": "person"},
        "terms": " ".join(terms), "seq": number + 1,
    }  # fmt: skip


def _unit(vectors: NDArray[Any]) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
