"""A statement made into a memory: its id, times, confidence and source. Nothing is written here."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime

from pydantic import ValidationError

from cems.core.memory import Memory, MemoryId, Source, memory_id, parse_time
from cems.core.scope import Scope
from cems.core.statement import Author, Statement, Unusable
from cems.core.trust import initial

_MACHINE_CONFIDENCE = 0.7
"""The most a machine's word counts for; what a model says of its own sureness is no evidence."""
_MAY_DATE = ("person", "import")


def compose(
    statement: Statement,
    target: Scope,
    author: Author,
    now: datetime,
    count_tokens: Callable[[str], int],
    *,
    doubted: bool = False,
) -> tuple[Memory, bytes]:
    """The memory that a statement makes at this instant, and the salt its id depends on. Raises Unusable."""
    salt = secrets.token_bytes(16)
    most = 1.0 if author.is_person else _MACHINE_CONFIDENCE
    confidence = most if statement.confidence is None else statement.confidence
    event = f"{author.session}|{now.isoformat()}"
    identity = memory_id(salt, content=statement.content, scope=target, category=statement.category, event=event)
    try:
        recorded = parse_time(statement.recorded_at) if statement.recorded_at else now
    except ValueError as error:
        raise Unusable(f"recorded_at: {error}") from None
    if recorded > now:
        raise Unusable(f"recorded_at: {statement.recorded_at} lies in the future")
    try:
        memory = Memory(
            id=identity, content=statement.content, title=statement.title, category=statement.category,
            kind=statement.kind, tags=statement.tags, scope=target,
            trust=initial(by_person=author.is_person, doubted=doubted), confidence=confidence,
            valid_from=statement.valid_from, valid_to=statement.valid_to,
            recorded_at=recorded if author.actor in _MAY_DATE else now, pinned=statement.pinned,
            source=Source(
                actor=author.actor, agent=author.agent, session=statement.session or author.session,
                place=statement.place, quote=statement.quote,
                derived_from=tuple(map(MemoryId, statement.derived_from)), recipe=statement.recipe,
            ),
            tokens=count_tokens(f"{statement.title} {statement.content}"),
        )  # fmt: skip
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "memory"
        raise Unusable(f"{name}: {first['msg'].removeprefix('Value error, ')}") from None
    return memory.model_copy(update={"confidence": min(memory.confidence, most)}), salt
