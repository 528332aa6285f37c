"""What a caller hands to the gateway, who the caller is, and what becomes of it; text is made fit to be kept here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cems.core.memory import MAX_CONTENT, Actor, Memory, MemoryId, category_name
from cems.core.redact import clean
from cems.core.value import has_visible_text

# Invisible, and never meant: they go without a trace, so that no word is parted by them. Form feeds are white space.
_CONTROL: dict[int, str | None] = {
    **dict.fromkeys((*range(9), *range(14, 32), *range(127, 133), *range(134, 160))),
    **dict.fromkeys((11, 12, 133), " "),
}
_LIMITS = {"title": 200, "kind": 40, "quote": 4_000, "category": 200, "session": 200}
_MAX_TAGS = 32
_MAX_TAG = 60
_MAX_REASON = 500
_MAX_NAME = 200


class Unusable(Exception):
    """Input that no caller may give (a bad date, an empty text): a usage error."""


class NotKept(Exception):
    """A statement that is well formed and all the same not kept; the refusal is journaled."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes a memory. `present` is true for a person at a terminal outside any agent."""

    actor: Actor
    agent: str = ""
    session: str = ""
    present: bool = False

    def __post_init__(self) -> None:
        # They come from environment variables, which may hold anything.
        for name in ("agent", "session"):
            object.__setattr__(self, name, _storable(getattr(self, name))[:_MAX_NAME])

    @property
    def is_person(self) -> bool:
        return self.actor == "person"


@dataclass(frozen=True, slots=True)
class Statement:
    """What is to be remembered, as given. `scope` empty means the session's own. `session` and `place`: the session it
    comes from, where that is not the author's, and its place in it.

    `derived_from` and `recipe` are the gateway's to set (`Memories.derive`); no caller outside gives them.
    """

    content: str
    category: str = "general"
    title: str = ""
    kind: str = ""
    tags: tuple[str, ...] = ()
    scope: str = ""
    confidence: float | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    recorded_at: str | None = None
    quote: str = ""
    session: str = ""
    place: int | None = None
    pinned: bool = False
    derived_from: tuple[str, ...] = ()
    recipe: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a statement. `redacted` counts secrets and private spans cut from it."""

    status: Literal["added", "duplicate", "candidate", "refused"]
    id: MemoryId | None
    reason: str = ""
    redacted: int = 0
    memory: Memory | None = field(default=None, compare=False)


def tidy(text: str) -> tuple[str, int]:
    """The text as it may be kept (secrets and private spans cut, no control characters), and how much was cut."""
    redacted = clean(_storable(text))
    return redacted.text.strip(), len(redacted.secrets) + redacted.private_spans


def tidy_reason(text: str) -> str:
    """A reason as it may stand in the journal."""
    return tidy(text[: 2 * _MAX_REASON])[0][:_MAX_REASON]


def tidy_statement(statement: Statement) -> tuple[Statement, int]:
    """The statement as it may be kept, and the number of cuts. Raises NotKept, Unusable."""
    _check_length(statement.content)
    for name, most in _LIMITS.items():
        if len(getattr(statement, name)) > most:
            raise Unusable(f"{name}: at most {most:,} characters")
    if len(statement.tags) > _MAX_TAGS:
        raise Unusable(f"tags: at most {_MAX_TAGS} of them")
    if not has_visible_text(statement.content):
        raise Unusable("there is nothing to remember: the text is empty")
    tidied: dict[str, Any] = {}
    cuts = 0
    for name in ("content", *_LIMITS):
        tidied[name], cut = tidy(getattr(statement, name))
        cuts += cut
    tags = [tidy(tag) for tag in statement.tags]
    cuts += sum(cut for _, cut in tags)
    tidied["tags"] = tuple(dict.fromkeys(short for tag, _ in tags if (short := tag[:_MAX_TAG].strip())))
    tidied["category"] = category_name(tidied["category"])
    if not has_visible_text(tidied["content"]):
        raise NotKept("nothing is left once private text is cut")
    _check_length(tidied["content"])
    return replace(statement, **tidied), cuts


def _check_length(content: str) -> None:
    if len(content) > MAX_CONTENT:
        raise NotKept(
            f"a memory has at most {MAX_CONTENT:,} characters, this has {len(content):,}; keep what matters of it"
        )


def _storable(text: str) -> str:
    """Valid Unicode without control characters; half of a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8").translate(_CONTROL)
