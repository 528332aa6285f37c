"""From scored candidates to the ones that are injected: gate, what the session already has, diversity, budget. Light."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from cems.core.policy import RecallPolicy
from cems.core.recall.candidate import Candidate
from cems.core.recall.render import FENCE_TOKENS, HEAD_TOKENS, MAX_CHARS, MEMORY_TAG, block, utf16_units

_SAME_MEANING = 0.95
_SAME_WORDS = 0.9
_TOKENS_OF_MAX_CHARS = MAX_CHARS // 3

Similarity = Callable[[Candidate, Candidate], float]


def select(
    candidates: Sequence[Candidate],
    policy: RecallPolicy,
    *,
    already_shown: Collection[str],
    max_units: int,
    similarity: Similarity,
) -> None:
    """Write each candidate's decision. `max_units` is the agent's own limit on the block, in UTF-16 units."""
    chosen: list[Candidate] = []
    spent = float(FENCE_TOKENS)
    for candidate in sorted(candidates, key=lambda each: (-each.probability, -each.score, each.id)):
        cost = HEAD_TOKENS + min(candidate.tokens, _TOKENS_OF_MAX_CHARS)
        if candidate.probability < policy.gate_threshold:
            candidate.decision = "below gate"
        elif candidate.id in already_shown:
            candidate.decision = "already shown"
        elif any(similarity(candidate, other) >= _SAME_MEANING for other in chosen):
            candidate.decision = "duplicate"
        elif len(chosen) >= policy.max_memories:
            candidate.decision = "over count"
        elif (spent + cost) * policy.token_safety > policy.token_budget or not _fits(chosen, candidate, max_units):
            candidate.decision = "over budget"
        else:
            candidate.decision = "injected"
            chosen.append(candidate)
            spent += cost


def spent_tokens(rows: Sequence[Mapping[str, Any]], policy: RecallPolicy) -> int:
    """Tokens of a block of these memories as the budget counts them, safety factor included; 0 for none."""
    if not rows:
        return 0
    costs = (HEAD_TOKENS + min(int(row.get("tokens") or 0), _TOKENS_OF_MAX_CHARS) for row in rows)
    return math.ceil((FENCE_TOKENS + sum(costs)) * policy.token_safety)


def same_words(one: Candidate, other: Candidate) -> float:
    """Jaccard overlap of the index terms, as a stand-in for cosine where there are no vectors."""
    first, second = set(one.row["terms"].split()), set(other.row["terms"].split())
    union = len(first | second)
    return 1.0 if union and len(first & second) / union >= _SAME_WORDS else 0.0


def _fits(chosen: Sequence[Candidate], candidate: Candidate, max_units: int) -> bool:
    return utf16_units(block(MEMORY_TAG, [each.row for each in (*chosen, candidate)])) <= max_units
