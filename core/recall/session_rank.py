"""Which past sessions a question is about: sessions ordered by what a search found in them. Pure and light.

A session's score is the best of its turns, the best of the facts noted in it, its words as one document, and whether it
was held when the question says. Each is measured on its own in docs/benchmarks.md; the weights were fitted on half of
LoCoMo's conversations and checked on the other half and on MemAware.

The best memory of a session counts, not their mean: one turn answers a question, and long sessions hold much else.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from cems.core.recall.candidate import Candidate
from cems.core.recall.named_dates import named_dates
from cems.core.recall.question import Question
from cems.core.recall.session_context import TURN, session_of

_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class SessionWeights:
    """What each part counts. `said`: the best turn; `noted`: the best fact; `words`: BM25 over that of the best session;
    `dated`: how near the session's day is to a date that the question names.
    """

    said: float
    noted: float
    words: float
    dated: float


WEIGHTS = SessionWeights(said=1.0, noted=0.75, words=0.17, dated=0.7)


@dataclass(frozen=True, slots=True)
class RankedSession:
    """A session and what its place is made of. `best`: the candidates found in it, best first."""

    session: str
    score: float
    words: float
    dated: float
    best: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class SessionWords:
    """Sessions as documents: for each of a question's terms, how often each session has it, and each session's length in
    terms. A session that is in `lengths` only has none of the terms.
    """

    counts: Mapping[str, Mapping[str, int]]
    lengths: Mapping[str, int]

    def bm25(self) -> dict[str, float]:
        """BM25 of each session that has one of the terms, over that of the best one: from 0 to 1."""
        if not self.lengths:
            return {}
        usual = sum(self.lengths.values()) / len(self.lengths) or 1.0
        scores: dict[str, float] = defaultdict(float)
        for found in self.counts.values():
            rarity = math.log(1 + (len(self.lengths) - len(found) + 0.5) / (len(found) + 0.5))
            for session, count in found.items():
                length = self.lengths.get(session, usual)
                scores[session] += rarity * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length / usual))
        best = max(scores.values(), default=0.0)
        return {session: score / best for session, score in scores.items()} if best > 0 else {}


def rank_sessions(
    candidates: Sequence[Candidate],
    words: SessionWords,
    question: Question,
    days: Mapping[str, date] | None = None,
    weights: SessionWeights = WEIGHTS,
) -> list[RankedSession]:
    """The sessions of the candidates, and those that only share words with the question, best first.

    `candidates` as a search gives them; those without a session count for none. `days`: when each session was held, as
    far as it is known. Equal scores stay in the order of their names.
    """
    found: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in sorted(candidates, key=lambda each: -each.rank):
        if session := session_of(candidate):
            found[session].append(candidate)
    floor = min((each.rank for each in candidates), default=0.0)
    shared, asked = words.bm25(), named_dates(question.text)
    ranked = []
    for session in sorted(found.keys() | shared.keys()):
        best = found.get(session, [])
        told = (days or {}).get(session)
        dated = max((each.nearness(told) for each in asked), default=0.0) if told else 0.0
        score = _best(best, floor, weights) + weights.words * shared.get(session, 0.0) + weights.dated * dated
        ranked.append(RankedSession(session, score, shared.get(session, 0.0), dated, tuple(best)))
    ranked.sort(key=lambda each: -each.score)
    return ranked


def _best(found: Sequence[Candidate], floor: float, weights: SessionWeights) -> float:
    """What the best turn and the best fact of a session say; where it has none of a kind, `floor` stands for it."""
    said = next((each.rank for each in found if each.row["kind"] == TURN), floor)
    noted = next((each.rank for each in found if each.row["kind"] != TURN), floor)
    return weights.said * said + weights.noted * noted
