"""A model in place of fastembed's: a vector counts the words of a text. The rest of the way is the real one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from cems.core.embedding import Embedder


class CountingModel:
    """Texts that share words have near vectors; the same text always has the same one."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.embedded: list[str] = []

    def query_embed(self, texts: Iterable[str]) -> Iterator[Any]:
        return (self._vector(text) for text in texts)

    def passage_embed(self, texts: Iterable[str], **_: object) -> Iterator[Any]:
        for text in texts:
            self.embedded.append(text)
            yield self._vector(text)

    def _vector(self, text: str) -> Any:
        vector = np.full(self.dimension, 0.01, dtype=np.float32)
        for word in text.lower().split():
            vector[int(hashlib.sha256(word.encode()).hexdigest(), 16) % self.dimension] += 1
        return vector


def small_embedder(identity: str = "small@1", dimension: int = 32) -> Embedder:
    """The real `Embedder` around the small model."""
    return Embedder(CountingModel(dimension), identity, dimension)
