"""Whether two memories say the same, so that a prompt gets it once. Light.

Nearness in words or meaning is not enough: `port 8080` and `port 8081`, `always` and `never` lie closer together than
most paraphrases, and dropping one of them would hide a contradiction.
"""

from __future__ import annotations

import re
from typing import Any

SAME_MEANING = 0.95
SAME_WORDS = 0.9

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|without|cannot|nor|neither|\w+n['’]t|instead|stop|avoid|don[’']?t)\b", re.IGNORECASE
)


def same_words(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Jaccard overlap of the rows' index terms, 0 to 1."""
    first, second = set(one["terms"].split()), set(other["terms"].split())
    union = len(first | second)
    return len(first & second) / union if union else 0.0


def same_claim(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the rows agree in their numbers and in what they deny; without it likeness proves nothing."""
    return _marks(one["content"]) == _marks(other["content"])


def _marks(text: str) -> tuple[list[str], int]:
    return sorted(_NUMBER.findall(text)), len(_NEGATION.findall(text))
