"""One call of an operation: its arguments, checked, and what its caller may see and do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cems.core.memories import Author, Refused, Statement, Unusable
from cems.core.memory import category_name, format_time, parse_time
from cems.core.scope import Scope, SessionScope, project_scope, session_scope
from cems.core.service.caller import Caller
from cems.core.timeline import Moment

MAX_LIMIT = 500
_MAX_OFFSET = 10_000_000
_LAST_PLACE = 1_000_000_000
_STATEMENT_TEXTS = ("category", "title", "kind", "scope", "valid_from", "valid_to", "recorded_at", "quote", "session")
_CHANGED_TEXTS = ("content", "category", "title", "kind", "valid_from", "valid_to")


class Request:
    """`body` is the JSON object as sent. Every method raises Unusable for an argument of another kind than it takes."""

    def __init__(self, body: Mapping[str, Any], caller: Caller) -> None:
        self.body = body
        self.caller = caller
        self.scope: SessionScope = (
            SessionScope(project_scope(caller.project))
            if caller.project
            else session_scope(caller.cwd, caller.roots if caller.client == "mcp" else ())
        )

    @property
    def author(self) -> Author:
        caller = self.caller
        if caller.person:
            return Author("person", session=caller.session, present=caller.tty)
        return Author("agent", agent=caller.agent or caller.client or "unknown", session=caller.session)

    def text(self, name: str, default: str | None = None) -> str:
        """A text; one that must be given where there is no default."""
        value = self.body.get(name)
        if value is None:
            if default is None:
                raise Unusable(f"{name} is missing")
            return default
        return _text(name, value)

    def texts(self, name: str) -> list[str]:
        """A list of texts; empty where none is given."""
        return _texts(name, self.body.get(name))

    def flag(self, name: str, default: bool) -> bool:
        value = self.body.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise Unusable(f"{name} must be true or false")
        return value

    def seconds(self, name: str, default: float, most: float) -> float:
        value = self.body.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
            raise Unusable(f"{name} must be a number from 0 to {most:g}")
        return float(value)

    def limit(self, default: int) -> int:
        value = self.body.get("limit")
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_LIMIT:
            raise Unusable(f"limit must be a number from 1 to {MAX_LIMIT}")
        return value

    def offset(self) -> int:
        """Where a page begins: the `next` of the page before."""
        value = str(self.body.get("cursor") or 0)
        if not (value.isascii() and value.isdigit() and len(value) < 9 and int(value) <= _MAX_OFFSET):
            raise Unusable("cursor must be the `next` of the page before")
        return int(value)

    def categories(self) -> tuple[str, ...]:
        """The category asked for in its one spelling; empty for all."""
        named = self.text("category", "")
        return (category_name(named),) if named else ()

    def instant(self, name: str) -> str:
        """A date or instant as the records write instants; empty where none is given."""
        text = self.text(name, "")
        try:
            return (format_time(parse_time(text)) or "") if text else ""
        except ValueError as error:
            raise Unusable(f"{name}: {error}") from None

    def moment(self) -> Moment:
        """The times that are asked about: when it is to hold in the world, and when it was believed."""
        moment = Moment(self.instant("valid_at"), self.instant("as_of"))
        if moment and self.flag("include_closed", False):
            raise Unusable("include_closed asks about now; leave it out with valid_at and as_of")
        return moment

    def scopes(self) -> tuple[Scope, ...]:
        """The scopes to read: the session's, or the one of them that was named. Raises Refused for another one."""
        named = self.text("scope", "")
        readable = self.scope.readable
        if not named:
            return readable
        wanted = (self.scope.project or "project:none") if named == "project" else named
        chosen = tuple(scope for scope in readable if scope == wanted)
        if not chosen:
            raise Refused(f"the scope {named!r} is not this session's; its own are {', '.join(readable)}")
        return chosen

    def changes(self) -> dict[str, Any]:
        """The fields that a correction gives anew."""
        given: dict[str, Any] = {
            name: _text(name, self.body[name]) for name in _CHANGED_TEXTS if self.body.get(name) is not None
        }
        return given if self.body.get("tags") is None else given | {"tags": self.texts("tags")}

    def statement(self, item: Any) -> Statement:
        """A statement from a JSON object."""
        if not isinstance(item, dict):
            raise Unusable("an item must be an object")
        if item.get("content") is None:
            raise Unusable("content is missing")
        given: dict[str, Any] = {
            name: _text(name, item[name]) for name in _STATEMENT_TEXTS if item.get(name) is not None
        }
        if not self.caller.person:
            # What a model says of when and where it learned something is no evidence.
            given.pop("recorded_at", None)
            given.pop("session", None)
        confidence = item.get("confidence")
        if confidence is not None and (
            isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not math.isfinite(confidence)
        ):
            raise Unusable("confidence must be a number from 0 to 1")
        pinned = item.get("pin")
        if pinned is not None and not isinstance(pinned, bool):
            raise Unusable("pin must be true or false")
        place = item.get("place") if self.caller.person else None
        if place is not None and (
            isinstance(place, bool) or not isinstance(place, int) or not 0 <= place <= _LAST_PLACE
        ):
            raise Unusable("place must be the number of the memory in its session, from 0")
        return Statement(
            _text("content", item["content"]),
            place=place,
            tags=tuple(_texts("tags", item.get("tags"))),
            confidence=confidence,
            pinned=bool(pinned),
            **given,
        )


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Unusable(f"{name} must be text")
    # JSON can carry half characters, SQLite cannot.
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _texts(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise Unusable(f"{name} must be a list of texts")
    return [_text(name, each) for each in value]
