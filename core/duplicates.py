"""Which memories seem to say the same, for a person to merge in review. Nothing is changed by it.

Two of one scope are alike when they share nine of ten index terms, or their vectors lie within the cosine that recall
takes for a paraphrase, and they agree in their numbers and in what they deny.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cems.core.recall import lookup
from cems.core.recall.sameness import SAME_MEANING, SAME_WORDS, same_claim, same_words

if TYPE_CHECKING:
    import numpy as np

    Vectors = Mapping[str, np.ndarray[Any, np.dtype[np.float32]]]

_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Pair:
    """Two memories; `older` was recorded first."""

    older: lookup.Row
    newer: lookup.Row


def suspected(rows: Sequence[lookup.Row], vectors: Vectors) -> list[Pair]:
    """The pairs among these rows (newest first, as `lookup` lists them), by words and, where both have a vector, by
    meaning. Each pair once, the newest first.
    """
    found = dict.fromkeys(sorted({*_alike_in_words(rows), *_alike_in_meaning(rows, vectors)}))
    return [
        Pair(rows[j], rows[i])
        for i, j in found
        if rows[i]["scope"] == rows[j]["scope"] and same_claim(rows[i], rows[j])
    ]


def _alike_in_words(rows: Sequence[lookup.Row]) -> Iterator[tuple[int, int]]:
    terms = [set(row["terms"].split()) for row in rows]
    counts = Counter(term for each in terms for term in each)
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for j, each in enumerate(terms):
        # Two sets of which nine tenths are shared have one of these in common, whichever comes first in a fixed order.
        rarest = sorted(each, key=lambda term: (counts[term], term))[: len(each) - int(SAME_WORDS * len(each)) + 1]
        for i in {i for term in rarest for i in holders[term]}:
            if same_words(rows[i], rows[j]) >= SAME_WORDS:
                yield i, j
        for term in rarest:
            holders[term].append(j)


def _alike_in_meaning(rows: Sequence[lookup.Row], vectors: Vectors) -> Iterator[tuple[int, int]]:
    known = [i for i, row in enumerate(rows) if row["id"] in vectors]
    if len(known) < 2:
        return
    import numpy as np

    matrix = np.stack([vectors[rows[i]["id"]] for i in known])
    matrix = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)
    for start in range(0, len(known), _BLOCK):
        near = matrix[start : start + _BLOCK] @ matrix.T >= SAME_MEANING
        for a, b in np.argwhere(near):
            if start + a < b:
                yield known[start + a], known[b]
