"""From scored candidates to the ones that are injected: gate, what the session already has, diversity, budget. Light."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from cems.core.policy import RecallPolicy
from cems.core.recall.candidate import Candidate
from cems.core.recall.render import MEMORY_TAG, Block, Count, line
from cems.core.recall.sameness import SAME_MEANING, SAME_WORDS, same_claim, same_words

Cosine = Callable[[Candidate, Candidate], float | None]
"""Cosine of two candidates' vectors; None where one has no vector."""


def select(
    candidates: Sequence[Candidate],
    policy: RecallPolicy,
    *,
    already_shown: Collection[str],
    max_units: int,
    cosine: Cosine,
    count: Count | None = None,
) -> Block:
    """Write each candidate's decision and return the block of those chosen.

    `max_units` is the agent's own limit on the block, in UTF-16 units; `count` as in `render`.
    """
    block = Block(MEMORY_TAG, max_tokens=policy.token_budget / policy.token_safety, max_units=max_units, count=count)
    # What repeats something given before is as useless as the thing itself.
    told = [candidate for candidate in candidates if candidate.id in already_shown]
    chosen = 0
    for candidate in sorted(candidates, key=lambda each: (-each.probability, -each.rank)):
        if candidate.probability < policy.gate_threshold:
            candidate.decision = "below gate"
        elif candidate.id in already_shown:
            candidate.decision = "already shown"
        elif _repeats(candidate, told, cosine):
            candidate.decision = "duplicate"
        elif chosen >= policy.max_memories:
            candidate.decision = "over count"
        else:
            made = line(candidate.row, count)
            candidate.cost = made.tokens
            if block.add_line(made, unverified=candidate.row["trust"] == "candidate"):
                candidate.decision = "injected"
                told.append(candidate)
                chosen += 1
            else:
                candidate.decision = "over budget"
    return block


def _repeats(candidate: Candidate, told: Iterable[Candidate], cosine: Cosine) -> bool:
    return any(_alike(candidate, other, cosine) and same_claim(candidate.row, other.row) for other in told)


def _alike(one: Candidate, other: Candidate, cosine: Cosine) -> bool:
    if same_words(one.row, other.row) >= SAME_WORDS:
        return True
    near = cosine(one, other)
    return near is not None and near >= SAME_MEANING
