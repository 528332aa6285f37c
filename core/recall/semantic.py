"""The score with vectors: `.65 cosine + .35 overlap - .50 hubness + .04 length`, and the small scope's fill-up in it.

Measured against rank fusion and other weights on held-out halves (docs/benchmarks.md); rank fusion cannot gate, since
its best hit always looks the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from cems.core.recall import background, gate, lexical
from cems.core.recall.candidate import Candidate
from cems.core.recall.gate import Level, assumed_cosine
from cems.core.recall.lexical import Weights
from cems.core.recall.terms import terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cems.core.embedding import Embedder

    Vector = NDArray[np.float32]

COSINE, OVERLAP, HUBNESS, LENGTH = 0.65, 0.35, -0.50, 0.04


class BackgroundVectors:
    """The background statements, embedded once by the model in use."""

    def __init__(self, embedder: Embedder) -> None:
        self.vectors = embedder.embed(background.sentences())
        self.mean = self.vectors.mean(axis=0)
        self.words = [set(terms(sentence)) for sentence in background.sentences()]
        self.lengths = [float(np.log(1 + len(terms(sentence)))) for sentence in background.sentences()]
        pairs = (self.vectors @ self.vectors.T)[np.triu_indices(len(self.vectors), 1)]
        self._shift, self._slope = gate.rescaling(embedder.identity, pairs.tolist())

    def cosine(self, one: Vector, other: Vector) -> float:
        """Their product, on the scale of the embedder that scores and gate were fitted for."""
        return self._shift + self._slope * float(one @ other)

    def level(self, query: Vector) -> Level:
        """How near the question is to statements that no question is about."""
        cosines = self._shift + self._slope * (self.vectors @ query)
        return Level(float(cosines.mean()), float(cosines.std()))

    def scores(self, query: Vector, center: Vector, weights: Weights) -> list[float]:
        """The scores of `weights.padding` statements, spread evenly over all of them by rank."""
        if not weights.padding:
            return []
        cosines = self._shift + self._slope * (self.vectors @ query)
        hubs = self._shift + self._slope * (self.vectors @ center)
        ranked = sorted(
            (
                _linear(float(cosines[i]), weights.overlap(self.words[i])[0], float(hubs[i]), self.lengths[i])
                for i in range(len(self.words))
            ),
            reverse=True,
        )
        step = len(ranked) / weights.padding
        return [ranked[int(step * (i + 0.5))] for i in range(weights.padding)]


@lru_cache(maxsize=1)
def background_vectors(embedder: Embedder) -> BackgroundVectors:
    """Those of the model in use, made once."""
    return BackgroundVectors(embedder)


def center(means: Sequence[tuple[int, Vector | None]], filling: BackgroundVectors, padding: int) -> Vector:
    """The mean vector of the scopes, each weighted by its live memories, with the fill-up counted in."""
    total = filling.mean * float(padding)
    count = float(padding)
    for live, mean in means:
        if mean is not None:
            total = total + mean * float(live)
            count += live
    return np.asarray(total / count if count else filling.mean, dtype=np.float32)


def score(
    candidates: list[Candidate],
    vectors: Mapping[str, Vector],
    query: Vector,
    hub: Vector,
    weights: Weights,
    filling: BackgroundVectors,
) -> None:
    """Score and sort. A candidate without a vector (not embedded yet) is scored as if its cosine were its overlap."""
    for candidate in candidates:
        vector = vectors.get(candidate.id)
        if vector is None:
            cosine, hubness = assumed_cosine(candidate.overlap), filling.cosine(filling.mean, hub)
        else:
            cosine, hubness = filling.cosine(vector, query), filling.cosine(vector, hub)
            candidate.cosine, candidate.hubness = cosine, hubness
        candidate.score = _linear(cosine, candidate.overlap, hubness, candidate.length)
    lexical.place(candidates, filling.scores(query, hub, weights))


def _linear(cosine: float, overlap: float, hubness: float, length: float) -> float:
    return COSINE * cosine + OVERLAP * overlap + HUBNESS * hubness + LENGTH * length
