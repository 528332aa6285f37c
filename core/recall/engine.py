"""Recall for one prompt: question, candidates, score, gate, selection, block. Light; the vectors come from a `Searcher`.

Two searchers share everything else: words only (`KeywordSearcher`, the daemon's first stage, and where there is no
model) and words with vectors (`hybrid.HybridSearcher`).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from cems.core.policy import RecallPolicy
from cems.core.recall import gate, lexical, lookup
from cems.core.recall.candidate import Candidate, Explanation
from cems.core.recall.lexical import Weights
from cems.core.recall.question import Question, ask
from cems.core.recall.render import MEMORY_TAG, block
from cems.core.recall.select import Similarity, same_words, select, spent_tokens
from cems.core.scope import SessionScope

POOL = 60
"""Candidates taken from each search."""
_EXPLAINED = 30
"""Candidates that are looked at further, and that an explanation keeps."""


@dataclass(slots=True)
class Found:
    """What a searcher found, scored and sorted, with the probabilities of its own gate."""

    mode: Literal["hybrid", "keyword"]
    reason: str
    candidates: list[Candidate]
    live: int
    similarity: Similarity


class Searcher(Protocol):
    """Finds and scores the candidates for a question within scopes and trust states."""

    async def search(self, question: Question, scopes: Sequence[str], trust: Sequence[str]) -> Found: ...


class KeywordSearcher:
    """BM25 in SQLite, then overlap. `reason` says why there are no vectors."""

    def __init__(self, connection: sqlite3.Connection, reason: str) -> None:
        self._connection = connection
        self.reason = reason

    async def search(self, question: Question, scopes: Sequence[str], trust: Sequence[str]) -> Found:
        weights = Weights(self._connection, question, scopes)
        rows = lookup.keyword_rows(self._connection, question.terms, scopes, POOL)
        candidates = [weights.candidate(row) for row in rows if row["trust"] in trust and is_valid(row)]
        lexical.score(candidates, weights)
        candidates.sort(key=lambda each: (-each.score, each.id))
        for candidate in candidates:
            candidate.probability = gate.keyword(candidate, question)
        return Found("keyword", self.reason, candidates, weights.live, same_words)


def is_valid(row: lookup.Row, at: str | None = None) -> bool:
    """Whether the memory holds in the world at that instant (now)."""
    at = at or lookup.now_text()
    return (row.get("valid_from") or "") <= at and (row.get("valid_to") or "~") > at


def admitted_trust(policy: RecallPolicy) -> tuple[str, ...]:
    """The trust states that may reach a prompt."""
    return ("trusted", "candidate") if policy.inject == "candidates" else ("trusted",)


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
) -> Explanation:
    """Everything from the prompt to the block. Deterministic for the same memories, prompt and session."""
    started = time.perf_counter()
    question = ask(prompt)
    if question.empty:
        return Explanation("skipped", "nothing to search for is left of the prompt", question.text)
    asked = time.perf_counter()
    found = await searcher.search(question, scope.readable, admitted_trust(policy))
    candidates = [candidate for candidate in found.candidates if may_reach_a_prompt(candidate.row)][:_EXPLAINED]
    searched = time.perf_counter()
    select(candidates, policy, already_shown=already_shown, max_units=max_units, similarity=found.similarity)
    explanation = Explanation(found.mode, found.reason, question.text, candidates)
    rows = [candidate.row for candidate in sorted(explanation.injected, key=lambda each: -each.probability)]
    explanation.block = block(MEMORY_TAG, rows)
    explanation.tokens = spent_tokens(rows, policy)
    done = time.perf_counter()
    explanation.stages = {
        "question_ms": _ms(asked - started),
        "search_ms": _ms(searched - asked),
        "select_ms": _ms(done - searched),
        "live_memories": found.live,
        "candidates": len(candidates),
        "gate_threshold": policy.gate_threshold,
        "token_budget": policy.token_budget,
        "token_safety": policy.token_safety,
        "max_memories": policy.max_memories,
        "scopes": list(scope.readable),
        "features": {
            "deixis": question.deixis,
            "generic_language": question.generic_language,
            "general": question.general,
        },
    }
    return explanation


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
