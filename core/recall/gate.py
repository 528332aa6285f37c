"""The gate: the probability that a memory is needed, from absolute evidence. Most prompts need nothing. Light.

Two logistic models, one for each mode. The hybrid one is calibrated for the bundled model; with another model its
cosine, and so its threshold, means something else.
"""

from __future__ import annotations

import math

from cems.core.recall.candidate import Candidate
from cems.core.recall.question import Question
from cems.core.scope import USER


def hybrid(candidate: Candidate, question: Question) -> float:
    """Probability from the full score."""
    return _sigmoid(
        -3.96
        + 5.62 * candidate.score
        - 13.3 * candidate.gap
        + 11.46 * candidate.margin
        - 1.23 * (candidate.row["scope"] == USER)
        - 2.55 * question.deixis
        - 2.81 * question.generic_language
        - 2.07 * question.general
    )


def keyword(candidate: Candidate, question: Question) -> float:
    """Probability from words alone: fitted by cross-validation, precise rather than complete."""
    return _sigmoid(
        -2.82
        + 0.87 * candidate.overlap
        - 4.19 * candidate.gap
        + 3.61 * candidate.margin
        + 1.03 * min(3, candidate.matched)
        + 0.098 * candidate.matched_weight
        - 1.20 * (candidate.row["scope"] == USER)
        - 0.64 * question.deixis
        - 1.17 * question.generic_language
        - 0.60 * question.general
        - 0.40 * math.log(1 + len(set(question.terms)))
    )


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0
