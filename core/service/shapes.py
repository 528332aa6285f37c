"""The operations' JSON: a memory, an outcome, an entry of a history, as every interface shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cems.core.fold import Operation
from cems.core.memories import Outcome
from cems.core.memory import format_time
from cems.core.recall.candidate import Candidate
from cems.core.recall.engine import is_valid

_RELATED_COSINE = 0.2
_RELATED_NEARBY = 0.5
_FIELDS = ("id", "content", "title", "category", "kind", "tags", "scope", "trust", "valid_from", "valid_to", "recorded_at",
           "expired_at", "archived_at", "confidence", "pinned", "tokens", "source")  # fmt: skip


def memory_json(row: Mapping[str, Any], score: float | None = None, model: str = "") -> dict[str, Any]:
    """A memory; `model` is the identity of the embedder whose vector the store keeps for it."""
    return {name: row.get(name) for name in _FIELDS} | {
        "score": None if score is None else round(score, 4),
        "valid_now": is_valid(dict(row)),
        "model": model,
    }


def without_content(memory: dict[str, Any]) -> dict[str, Any]:
    """A forgotten memory: that it was there, when and from whom, but nothing it said."""
    source = {**(memory["source"] or {}), "quote": ""}
    return memory | {"content": "", "title": "", "tags": [], "source": source}


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """What became of a statement."""
    return {"id": outcome.id, "status": outcome.status, "reason": outcome.reason, "redacted": outcome.redacted}


def event_json(operation: Operation) -> dict[str, Any]:
    """One entry of a memory's history."""
    return {
        "op": operation.kind,
        "at": format_time(operation.at),
        "actor": operation.actor,
        "agent": operation.agent,
        "reason": str(operation.body.get("reason", "")),
    }


def is_related(candidate: Candidate) -> bool:
    """Whether a search should show it at all: it shares a word with the question, comes near in meaning, or stands in
    its session beside what was asked for."""
    near = (candidate.cosine or 0.0) >= _RELATED_COSINE
    return near or candidate.matched > 0 or candidate.nearby >= _RELATED_NEARBY
