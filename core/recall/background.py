"""A small stock of everyday statements that a memory must stand out from.

In a scope of a few memories nothing can be told from their order: the best of one is always the best, and the rarest
word of one sentence is always rare. So a small scope is filled up, for counting and comparing only, with statements of
our own that no prompt is about. Up to 60, so that the place of a memory in its list means much the same in a scope of 20
memories as in one of 5,000, and one threshold serves both (docs/benchmarks.md).
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from pathlib import Path

from cems.core.recall.terms import terms

FULL_SCOPE = 60
"""Scopes of this many live memories and more need no filling up."""


@lru_cache(maxsize=1)
def sentences() -> tuple[str, ...]:
    """The statements, a line each in `background.txt`."""
    path = Path(__file__).with_name("background.txt")
    return tuple(line for line in path.read_text(encoding="utf-8").splitlines() if line)


@lru_cache(maxsize=1)
def term_counts() -> Counter[str]:
    """In how many of the statements each term occurs."""
    return Counter(term for sentence in sentences() for term in set(terms(sentence)))


def padding(live: int) -> int:
    """How many statements fill a scope of `live` memories up."""
    return max(0, FULL_SCOPE - live)
