"""The mean vector of each scope's live memories, kept by addition and subtraction. What they are is read from the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


class Centroids:
    """By scope, the sum of its vectors (in double precision, so that a long history does not blur it) and their number."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._sums: dict[str, NDArray[np.float64]] = {}
        self._counts: dict[str, int] = {}

    @property
    def total(self) -> int:
        return sum(self._counts.values())

    def add(self, scopes: Sequence[str], vectors: Vectors) -> None:
        """Count these in, vectors of shape (len(scopes), dimension)."""
        self._change(scopes, vectors, 1)

    def remove(self, scopes: Sequence[str], vectors: Vectors) -> None:
        """Count these out."""
        self._change(scopes, vectors, -1)

    def mean(self, scope: str) -> NDArray[np.float32] | None:
        """The mean vector; None for a scope without any."""
        count = self._counts.get(scope)
        return np.asarray(self._sums[scope] / count, dtype=np.float32) if count else None

    def _change(self, scopes: Sequence[str], vectors: Vectors, sign: int) -> None:
        named = np.array(scopes, dtype=object)
        for scope in dict.fromkeys(scopes):
            chosen = vectors[named == scope]
            self._counts[scope] = self._counts.get(scope, 0) + sign * len(chosen)
            before = self._sums.get(scope, np.zeros(self._dimension))
            self._sums[scope] = before + sign * chosen.sum(axis=0, dtype=np.float64)
            if not self._counts[scope]:
                del self._counts[scope], self._sums[scope]
