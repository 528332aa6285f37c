"""The gate: the probability that a memory is needed, from absolute evidence. Most prompts need nothing. Light.

Two logistic models, one for each mode, fitted by `benchmarks/calibrate.py` on development halves only and kept in
`gates.json`. The hybrid one is fitted for one embedder; another embedder's cosines are brought to that one's scale.
The intercepts are shifted so that the default threshold of the policy is where the fit decided to speak.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from cems.core.recall.candidate import Candidate
from cems.core.recall.question import Question
from cems.core.scope import USER

FILE = Path(__file__).with_name("gates.json")
_USER_WIDE = -1.2
"""What holds for the person everywhere stands in the session's own block; here it must be plainly asked for."""
_NO_VECTOR = 0.6
"""A memory without a vector is taken to be as near as this share of its overlap."""


@dataclass(frozen=True, slots=True)
class Level:
    """Mean and standard deviation of a question's cosines with the background statements: how generic it is."""

    mean: float = 0.0
    deviation: float = 0.0


def assumed_cosine(overlap: float) -> float:
    """The cosine that a memory is scored with before it has a vector."""
    return _NO_VECTOR * overlap


def hybrid_features(candidate: Candidate, question: Question, level: Level) -> dict[str, float]:
    """What the model for words and vectors looks at."""
    cosine = assumed_cosine(candidate.overlap) if candidate.cosine is None else candidate.cosine
    return {
        "cosine": cosine,
        "overlap": candidate.overlap,
        "hubness": candidate.hubness or 0.0,
        "length": candidate.length,
        "gap": candidate.gap,
        "margin": candidate.margin,
        "background_mean": level.mean,
        "background_deviation": level.deviation,
        **_of_the_prompt(question),
    }


def keyword_features(candidate: Candidate, question: Question) -> dict[str, float]:
    """What the model for words alone looks at."""
    return {
        "overlap": candidate.overlap,
        "length": candidate.length,
        "gap": candidate.gap,
        "margin": candidate.margin,
        "matched": float(min(3, candidate.matched)),
        "matched_weight": candidate.matched_weight,
        "terms": math.log(1 + len(set(question.terms))),
        **_of_the_prompt(question),
    }


def hybrid(candidate: Candidate, question: Question, level: Level) -> float:
    """Probability from words and vectors."""
    return _probability(_weights("hybrid"), hybrid_features(candidate, question, level), candidate)


def keyword(candidate: Candidate, question: Question) -> float:
    """Probability from words alone."""
    return _probability(_weights("keyword"), keyword_features(candidate, question), candidate)


def shifted(probability: float, logits: float) -> float:
    """The probability moved by so many log-odds; 0 and 1 stay."""
    if not 0 < probability < 1:
        return probability
    return _sigmoid(math.log(probability / (1 - probability)) + logits)


def rescaling(identity: str, cosines: Sequence[float]) -> tuple[float, float]:
    """`(a, b)` by which this embedder's cosine c becomes `a + b * c` on the scale the gate was fitted on.

    `cosines` are those of all pairs of background statements.
    """
    fitted = _fitted()["hybrid"]
    if identity == fitted["model"] or len(cosines) < 2:
        return 0.0, 1.0
    mean = math.fsum(cosines) / len(cosines)
    deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in cosines) / len(cosines))
    # A model that finds everything alike, or nothing, has no scale to bring to another.
    slope = fitted["background"]["deviation"] / deviation if deviation > 1e-3 else 1.0
    return fitted["background"]["mean"] - slope * mean, slope


def _of_the_prompt(question: Question) -> dict[str, float]:
    return {
        "pointing": float(question.pointing),
        "cut": question.cut,
        "deixis": float(question.deixis),
        "generic_language": float(question.generic_language),
        "general": float(question.general),
    }


def _probability(weights: Mapping[str, float], features: Mapping[str, float], candidate: Candidate) -> float:
    total = weights["intercept"] + sum(weights[name] * value for name, value in features.items())
    return _sigmoid(total + _USER_WIDE * (candidate.row["scope"] == USER))


@lru_cache(maxsize=2)
def _weights(mode: str) -> dict[str, float]:
    weights: dict[str, float] = _fitted()[mode]["weights"]
    return weights


@lru_cache(maxsize=1)
def _fitted() -> dict[str, Any]:
    fitted: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return fitted


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0
