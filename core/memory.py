"""What a memory is. Frozen: a change is a new operation in the journal, never an assignment."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Literal, NewType

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator, model_validator

from cems.core.trust import Trust

MemoryId = NewType("MemoryId", str)
Actor = Literal["person", "agent", "tool", "import", "derived"]
State = Literal["live", "closed", "hidden", "archived"]

MAX_CONTENT = 32_000
"""Characters of one memory. Longer texts are documents: they are refused, not cut."""
_ID_HEX = 24
_BETWEEN_WORDS = re.compile(r"[\W_]+")

CATEGORIES = (
    "preferences", "decisions", "guidelines", "gate-rules", "learnings", "patterns", "context", "general",
    "architecture", "conventions", "workflow", "commands", "debugging", "errors", "environment", "dependencies",
    "api", "security", "performance", "testing", "deployment", "people", "tasks",
)  # fmt: skip
_ALIASES = {
    "preference": "preferences", "pref": "preferences", "decision": "decisions", "guideline": "guidelines",
    "rule": "guidelines", "rules": "guidelines", "gate-rule": "gate-rules", "learning": "learnings", "lesson": "learnings",
    "pattern": "patterns", "note": "general", "notes": "general", "fact": "general", "facts": "general",
    "memory": "general", "convention": "conventions", "style": "conventions", "command": "commands", "bug": "debugging",
    "bugs": "debugging", "error": "errors", "fix": "debugging", "env": "environment", "setup": "environment",
    "dependency": "dependencies", "apis": "api", "test": "testing", "tests": "testing", "deploy": "deployment",
    "ops": "deployment", "person": "people", "team": "people", "task": "tasks", "todo": "tasks",
}  # fmt: skip


def category_name(text: str) -> str:
    """A category in its one spelling: lower case, hyphens, aliases resolved. Unknown ones are the person's own."""
    slug = _BETWEEN_WORDS.sub("-", text.lower()).strip("-")[:40].strip("-")
    return _ALIASES.get(slug, slug) or "general"


class Source(BaseModel):
    """Who said it, where, and in which words."""

    model_config = ConfigDict(frozen=True)

    actor: Actor = "person"
    agent: str = ""
    session: str = ""
    place: int | None = None
    quote: str = ""
    derived_from: tuple[MemoryId, ...] = ()
    recipe: str = ""


class Memory(BaseModel):
    """One remembered statement with its scope, trust, two times and source. Times are aware and in UTC."""

    model_config = ConfigDict(frozen=True)

    id: MemoryId
    content: Annotated[str, Field(min_length=1, max_length=MAX_CONTENT)]
    title: Annotated[str, Field(max_length=200)] = ""
    category: str = "general"
    kind: Annotated[str, Field(max_length=40)] = ""
    tags: tuple[Annotated[str, Field(max_length=60)], ...] = ()
    scope: str
    trust: Trust = "trusted"
    confidence: Annotated[float, Field(ge=0, le=1)] = 1.0
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    recorded_at: datetime
    expired_at: datetime | None = None
    archived_at: datetime | None = None
    pinned: bool = False
    source: Source = Source()
    tokens: int = 0

    @field_validator("valid_from", "valid_to", "recorded_at", "expired_at", "archived_at", mode="before")
    @classmethod
    def _instant(cls, value: Any) -> Any:
        return parse_time(value) if isinstance(value, str) else value

    @field_validator("valid_from", "valid_to", "recorded_at", "expired_at", "archived_at")
    @classmethod
    def _in_utc(cls, value: datetime | None) -> datetime | None:
        # To the millisecond, as it is written: what is valid now must be valid when it is read back.
        return value and value.astimezone(UTC).replace(microsecond=value.microsecond // 1000 * 1000)

    @field_serializer("valid_from", "valid_to", "recorded_at", "expired_at", "archived_at")
    def _as_text(self, value: datetime | None) -> str | None:
        # One form, so that the text sorts as the instants do.
        return format_time(value)

    @model_validator(mode="after")
    def _ordered(self) -> Memory:
        if self.valid_from and self.valid_to and self.valid_from >= self.valid_to:
            raise ValueError("valid_to must lie after valid_from")
        return self

    @property
    def state(self) -> State:
        return "closed" if self.expired_at else "archived" if self.archived_at else "live"


def memory_id(salt: bytes, *, content: str, scope: str, category: str, event: str) -> MemoryId:
    """`m_` and 24 hex digits of the salted digest of the record; the salt lies beside the payload and goes with it."""
    record = json.dumps([content, scope, category, event], ensure_ascii=True).encode()
    return MemoryId("m_" + hashlib.sha256(salt + record).hexdigest()[:_ID_HEX])


def parse_time(text: str) -> datetime:
    """An ISO 8601 date or instant in UTC. A bare date, and an instant without an offset, are the person's local time."""
    text = text.strip()
    try:
        if len(text) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(text), time()).astimezone(UTC)
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is not a date; write 2026-01-31 or 2026-01-31T14:00:00+02:00") from None


def format_time(value: datetime | None) -> str | None:
    """ISO 8601 in UTC with `Z`, to the millisecond."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
