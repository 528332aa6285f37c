"""Recall for one prompt: question, candidates, score, gate, selection, block. Light; the vectors come from a `Searcher`.

Two searchers share everything else: words only (`KeywordSearcher`, the daemon's first stage, and where there is no
model) and words with vectors (`hybrid.HybridSearcher`).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from cems.core.policy import RecallPolicy
from cems.core.recall import gate, lexical, lookup
from cems.core.recall.candidate import Candidate, Explanation
from cems.core.recall.feedback import Feedback
from cems.core.recall.lexical import Weights
from cems.core.recall.question import Question, ask
from cems.core.recall.render import Count
from cems.core.recall.select import Cosine, select
from cems.core.scope import SessionScope
from cems.core.timeline import PRESENT, Moment, as_believed
from cems.core.trust import admitted

logger = logging.getLogger("cems.recall")

POOL = 60
"""Candidates taken from each search."""
_WIDER_POOL = 600
"""The same, where much of what was found may not be shown."""
_EXPLAINED = 30
"""Candidates that are looked at further, and that an explanation keeps."""


@dataclass(frozen=True, slots=True)
class Within:
    """What a search may find: live memories of these scopes and trust states, valid now.

    `categories` empty means all. `for_prompt` leaves out what must not reach a prompt by itself. `at` asks about another
    time than now; a memory that was in one of the scopes then has to lie in one of `readable` (the scopes) today.
    """

    scopes: Sequence[str]
    trust: Sequence[str]
    categories: Sequence[str] = ()
    for_prompt: bool = False
    now: str = field(default_factory=lookup.now_text)
    at: Moment = PRESENT
    readable: Sequence[str] = ()

    @property
    def looked_in(self) -> Sequence[str]:
        """The scopes that the rows lie in today."""
        return self.readable if self.at.as_of and self.readable else self.scopes

    @property
    def condition(self) -> lookup.Condition:
        """What SQLite's rows must meet. Trust as it was at another time is in the operations only."""
        return self.at.condition if self.at.as_of else lookup.trusted_as(self.at.condition, self.trust)

    def stood(self, connection: sqlite3.Connection, rows: Iterable[lookup.Row]) -> list[lookup.Row]:
        """The rows as they were at the time asked for."""
        return as_believed(connection, rows, self.at.as_of, self.looked_in) if self.at.as_of else list(rows)

    def admits(self, row: lookup.Row) -> bool:
        """Whether the row, as the records have it at this moment, may be found."""
        return (
            row["state"] == "live"
            and row["scope"] in self.scopes
            and row["trust"] in self.trust
            and (not self.categories or row["category"] in self.categories)
            and self.at.covers(row, self.now)
            and (not self.for_prompt or may_reach_a_prompt(row))
        )


@dataclass(slots=True)
class Found:
    """What a searcher found, scored and sorted, with the probabilities of its own gate.

    `cosine` compares two of the candidates; `live` is how many memories the scopes hold.
    """

    mode: Literal["hybrid", "keyword"]
    reason: str
    candidates: list[Candidate]
    live: int
    cosine: Cosine


class Searcher(Protocol):
    """Finds and scores the candidates for a question."""

    async def search(self, question: Question, within: Within) -> Found: ...


class KeywordSearcher:
    """BM25 in SQLite, then overlap. `reason` says why there are no vectors."""

    def __init__(self, connection: sqlite3.Connection, reason: str) -> None:
        self._connection = connection
        self.reason = reason

    async def search(self, question: Question, within: Within) -> Found:
        weights = Weights(self._connection, question, within.scopes)
        candidates = [weights.candidate(row) for row in keyword_rows(self._connection, question, within)]
        lexical.score(candidates, weights)
        for candidate in candidates:
            candidate.probability = gate.keyword(candidate, question)
        return Found("keyword", self.reason, candidates, weights.live, _no_cosine)


class Patient:
    """A searcher that answers by words when the better one fails or takes longer than `seconds`: a prompt waits for us."""

    def __init__(self, better: Searcher, connection: sqlite3.Connection, seconds: float) -> None:
        self._better = better
        self._connection = connection
        self._seconds = seconds

    async def search(self, question: Question, within: Within) -> Found:
        try:
            return await asyncio.wait_for(self._better.search(question, within), self._seconds)
        except TimeoutError:
            reason = f"the search by meaning took longer than {self._seconds:g} s"
        except Exception as error:  # noqa: BLE001 - LanceDB raises many kinds; words are better than nothing
            reason = f"the search by meaning failed ({type(error).__name__}); `cems doctor` says more"
        logger.warning("words only: %s", reason)
        return await KeywordSearcher(self._connection, reason).search(question, within)


def keyword_rows(connection: sqlite3.Connection, question: Question, within: Within) -> list[lookup.Row]:
    """The best rows by words that may be found, at most POOL."""
    admitted: list[lookup.Row] = []
    for pool in (POOL, _WIDER_POOL):
        rows = lookup.keyword_rows(connection, question.terms, within.looked_in, pool, within.condition)
        admitted = [row for row in within.stood(connection, rows) if within.admits(row)]
        if len(rows) < pool or len(admitted) >= POOL:
            break
    return admitted[:POOL]


def is_valid(row: lookup.Row, at: str | None = None) -> bool:
    """Whether the memory holds in the world at that instant (now)."""
    at = at or lookup.now_text()
    return (row.get("valid_from") or "") <= at and (row.get("valid_to") or "~") > at


def may_reach_a_prompt(row: lookup.Row) -> bool:
    """An unconfirmed memory taken from a tool's or a web page's text may be planted: it waits for a person."""
    return not (row["trust"] == "candidate" and (row.get("source") or {}).get("actor") == "tool")


async def recall(
    prompt: str,
    scope: SessionScope,
    searcher: Searcher,
    policy: RecallPolicy,
    *,
    already_shown: Collection[str] = (),
    max_units: int = 9_500,
    count: Count | None = None,
    feedback: Feedback | None = None,
) -> Explanation:
    """Everything from the prompt to the block. Deterministic for the same memories, prompt and session.

    `count` counts tokens exactly; without it their number is estimated from what is stored with each memory. `feedback`
    moves the gate by what was said of the memories before.
    """
    started = time.perf_counter()
    question = ask(prompt)
    if question.empty:
        return Explanation("skipped", "nothing to search for is left of the prompt", question.text)
    asked = time.perf_counter()
    found = await searcher.search(question, Within(scope.readable, admitted(policy), for_prompt=True))
    # By score, as the gate sees it: what a session says for its memories sorts lists, and decides on no prompt.
    candidates = sorted(found.candidates, key=lambda candidate: -candidate.score)[:_EXPLAINED]
    if feedback is not None:
        _learn(candidates, feedback)
    searched = time.perf_counter()
    block = select(
        candidates, policy, already_shown=already_shown, max_units=max_units, cosine=found.cosine, count=count
    )
    done = time.perf_counter()
    explanation = Explanation(found.mode, found.reason, question.text, candidates, block.text, block.tokens)
    explanation.stages = {
        "question_ms": _ms(asked - started),
        "search_ms": _ms(searched - asked),
        "select_ms": _ms(done - searched),
        "live_memories": found.live,
        "candidates": len(candidates),
        "gate_threshold": policy.gate_threshold,
        "token_budget": policy.token_budget,
        "token_safety": policy.token_safety,
        "fence_tokens": block.fence_tokens if block.text else 0,
        "tokens_counted": count is not None,
        "max_memories": policy.max_memories,
        "scopes": list(scope.readable),
        "features": {
            "deixis": question.deixis,
            "generic_language": question.generic_language,
            "general": question.general,
        },
    }
    return explanation


def _learn(candidates: Sequence[Candidate], feedback: Feedback) -> None:
    moved = feedback([candidate.id for candidate in candidates])
    for candidate in candidates:
        candidate.feedback = moved.get(candidate.id, 0.0)
        candidate.probability = gate.shifted(candidate.probability, candidate.feedback)


def _no_cosine(_one: Candidate, _other: Candidate) -> None:
    """There are no vectors to compare."""


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
