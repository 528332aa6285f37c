"""The part of the score that needs words only: how much of the question's weight a memory's words carry. Light."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from typing import Any

from cems.core.recall import background, lookup
from cems.core.recall.candidate import Candidate
from cems.core.recall.question import Question


class Weights:
    """Inverse document frequencies of a question's terms in a session's scopes, small scopes filled up."""

    def __init__(self, connection: sqlite3.Connection, question: Question, scopes: Sequence[str]) -> None:
        self.terms = set(question.terms)
        self.live = lookup.live_count(connection, scopes)
        self.padding = background.padding(self.live)
        counts = lookup.term_counts(connection, self.terms, scopes)
        share = self.padding / len(background.sentences())
        total = self.live + self.padding
        self.idf = {
            term: _idf(total, counts.get(term, 0) + background.term_counts()[term] * share) for term in self.terms
        }
        self.total = sum(self.idf.values()) or 1.0

    def overlap(self, words: set[str]) -> tuple[float, int, float]:
        """Of these words: the share of the question's weight they hold, how many of its terms, and their weight."""
        found = self.terms & words
        weight = sum(self.idf[term] for term in found)
        return weight / self.total, len(found), weight

    def candidate(self, row: dict[str, Any]) -> Candidate:
        """A candidate with its lexical numbers filled in."""
        words = row["terms"].split()
        overlap, matched, weight = self.overlap(set(words))
        return Candidate(row, overlap=overlap, matched=matched, matched_weight=weight, length=math.log(1 + len(words)))


def score(candidates: list[Candidate], weights: Weights) -> None:
    """Score by overlap alone (keyword mode) and sort, with each one's place relative to the top."""
    for candidate in candidates:
        candidate.score = candidate.overlap
    place(candidates, [0.0] * weights.padding)


def place(candidates: list[Candidate], others: Sequence[float]) -> None:
    """Sort by score and set `gap` and `margin`, counting the scores of the statements that fill a small scope up."""
    # Equal scores stay in the order of the search, which is that of BM25; ids are random.
    candidates.sort(key=lambda candidate: -candidate.score)
    scores = sorted([*(candidate.score for candidate in candidates), *others], reverse=True)
    if not scores:
        return
    sixth = scores[min(5, len(scores) - 1)]
    for candidate in candidates:
        candidate.gap = scores[0] - candidate.score
        candidate.margin = candidate.score - sixth
        candidate.rank = candidate.score


def _idf(total: float, count: float) -> float:
    return math.log(1 + (total - count + 0.5) / (count + 0.5))
