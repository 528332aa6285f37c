"""One memory on its way to a prompt, with every number the way gave it. Light: no pydantic, no numpy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Decision = Literal["", "injected", "below gate", "already shown", "duplicate", "over budget", "over count"]


@dataclass(slots=True)
class Candidate:
    """`row` is the memory as `lookup` gives it. `cosine` and `hubness` are None in keyword mode.

    `overlap`: share of the question's term weight found in the memory, 0 to 1. `hubness`: the memory's vector times the
    mean vector of its scope. `gap`: how far the score lies below the best. `margin`: how far above the sixth best.
    `rank`: the score with what its session says for it, by which lists are sorted. `nearby`: the overlap of a turn of
    a conversation and the ones on either side of it. `feedback`: the log-odds by which marks moved `probability`. `cost`:
    tokens of its line in the block, once that was made.
    """

    row: dict[str, Any]
    overlap: float = 0.0
    matched: int = 0
    matched_weight: float = 0.0
    length: float = 0.0
    cosine: float | None = None
    hubness: float | None = None
    score: float = 0.0
    rank: float = 0.0
    nearby: float = 0.0
    gap: float = 0.0
    margin: float = 0.0
    probability: float = 0.0
    feedback: float = 0.0
    cost: int | None = None
    decision: Decision = ""

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def tokens(self) -> int:
        """Of its line in the block, or, where none was made, of its text."""
        return int(self.row.get("tokens") or 0) if self.cost is None else self.cost

    def as_json(self) -> dict[str, Any]:
        """What `cems why --json` shows of a candidate."""
        row = self.row
        numbers = {
            "score": self.score, "rank": self.rank, "probability": self.probability, "cosine": self.cosine,
            "overlap": self.overlap, "hubness": self.hubness, "length": self.length, "gap": self.gap, "margin": self.margin,
            "feedback": self.feedback,
        }  # fmt: skip
        return {
            "id": self.id,
            "content": row["content"],
            "category": row["category"],
            "scope": row["scope"],
            "trust": row["trust"],
            "recorded_at": row["recorded_at"],
            "tokens": self.tokens,
            **{name: None if value is None else round(value, 4) for name, value in numbers.items()},
            "decision": self.decision,
        }


@dataclass(slots=True)
class Explanation:
    """Everything recall did for one prompt: what `cems why` shows and what the hook answers with (`block`)."""

    mode: Literal["hybrid", "keyword", "skipped"]
    reason: str = ""
    question: str = ""
    candidates: list[Candidate] = field(default_factory=list)
    block: str = ""
    tokens: int = 0
    stages: dict[str, Any] = field(default_factory=dict)

    @property
    def injected(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.decision == "injected"]

    def as_json(self) -> dict[str, Any]:
        """The document of `cems why --json`."""
        return {
            "candidates": [candidate.as_json() for candidate in self.candidates],
            "injected": [candidate.id for candidate in self.injected],
            "tokens": self.tokens,
            "stages": self.stages,
            "mode": self.mode,
            "reason": self.reason,
            "question": self.question,
            "block": self.block,
        }
