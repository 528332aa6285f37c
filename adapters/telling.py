"""Making events of what an agent's record says, the same way for every agent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cems.adapters.tools import BASH, subject
from cems.core.learn import spoken
from cems.core.learn.transcript import Cursor, Event, EventKind, OpenCall, SessionSource

MAX_TOOL_TEXT = 32_768
"""Characters of a call's input or of a result. Of a longer one the beginning and the end are kept: errors stand last."""
_KEPT_OF_THE_END = 8_192
_MOST_OPEN_CALLS = 64
_LONGEST_OPEN_SUBJECT = 2_048
_OUR_SERVER = "mcp__cems__"
_OUR_PROGRAM = re.compile(r"\s*(?:\S*/)?cems(?:\s|$)")
_SECONDS_BELOW = 1e11


@dataclass(slots=True)
class Teller:
    """The events of one reading, in their order. Texts with nothing left in them make no event."""

    source: SessionSource
    cursor: Cursor
    events: list[Event] = field(default_factory=list)
    _open: dict[str, OpenCall] = field(init=False)
    _again: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._open = {call.call: call for call in self.cursor.calls}

    @property
    def open_calls(self) -> tuple[OpenCall, ...]:
        """For the next cursor: the newest calls without a result."""
        return tuple(self._open.values())[-_MOST_OPEN_CALLS:]

    def begin_again(self) -> None:
        """The source is not the one that the cursor was made for: what the cursor said of open calls is forgotten, once."""
        if not self._again:
            self._again = True
            self._open.clear()

    def tool_of(self, call: str) -> str:
        """The tool of a call without a result yet, "" where it is not known."""
        return self._open[call].tool if call in self._open else ""

    def person(self, text: str, key: str, offset: int, *, machine: bool = False, **also: Any) -> None:
        # What a program typed is kept as it is written: its tags are what it says.
        said = spoken.by_assistant(text) if machine else spoken.by_person(text)
        self._tell("person", said, key, offset, machine=machine, **also)

    def assistant(self, text: str, key: str, offset: int, **also: Any) -> None:
        self._tell("assistant", spoken.by_assistant(text), key, offset, **also)

    def call(self, call: str, tool: str, given: Any, key: str, offset: int, **also: Any) -> None:
        """`given`: the input, an object or a text."""
        given = _cleaned(given)
        what = subject(tool, given) if isinstance(given, dict | str) else ""
        if call:
            self._open[call] = OpenCall(call, tool, what[:_LONGEST_OPEN_SUBJECT])
        text = _shortened(given if isinstance(given, str) else as_json(given))
        self._tell("tool_call", text, key, offset, tool=tool, subject=what, call=call, **also)

    def result(
        self, call: str, text: str, key: str, offset: int, *, ok: bool | None, tool: str = "", **also: Any
    ) -> None:
        """`tool` only where the result itself names it. What came out of our own memory is not kept: it is known."""
        asked = self._open.pop(call, OpenCall(call, tool, ""))
        tool = tool or asked.tool
        said = "" if _is_ours(tool, asked.subject) else _shortened(spoken.by_tool(text))
        self._tell("tool_result", said, key, offset, tool=tool, subject=asked.subject, call=call, ok=ok, **also)

    def _tell(self, kind: EventKind, text: str, key: str, offset: int, *, session: str = "", cwd: str = "",
              machine: bool = False, **also: Any) -> None:  # fmt: skip
        if not text and kind in ("person", "assistant"):
            return
        self.events.append(
            Event(
                kind=kind,
                text=text,
                key=f"{self.source.agent} {key}",
                session=session or self.source.session,
                offset=offset,
                cwd=cwd or self.source.cwd,
                machine=machine or self.source.machine,
                **also,
            )
        )


def _is_ours(tool: str, subject: str) -> bool:
    return tool.startswith(_OUR_SERVER) or (tool == BASH and bool(_OUR_PROGRAM.match(subject)))


def _cleaned(value: Any) -> Any:
    """An input with each text in it cleaned, before anything is shortened: a cut must not free what a tag hides."""
    try:
        if isinstance(value, str):
            return spoken.by_tool(value)
        if isinstance(value, dict):
            return {key: _cleaned(each) for key, each in value.items()}
        if isinstance(value, list):
            return [_cleaned(each) for each in value]
    except RecursionError:
        return None
    return value


def _shortened(text: str) -> str:
    if len(text) <= MAX_TOOL_TEXT:
        return text
    return f"{text[: MAX_TOOL_TEXT - _KEPT_OF_THE_END - 1]}\n{text[-_KEPT_OF_THE_END:]}"


def as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if value is not None else ""
    except (TypeError, ValueError, RecursionError):
        return ""


def object_of(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def list_of(record: Mapping[str, Any], key: str) -> list[Any]:
    value = record.get(key)
    return value if isinstance(value, list) else []


def number_of(record: Mapping[str, Any], key: str) -> int | None:
    value = record.get(key)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53 else None


def texts(content: Any, kinds: Iterable[str] = ("text",)) -> str:
    """The text parts of a message's content, a text or a list of `{"type", "text"}`, one below the other."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    wanted = tuple(kinds)
    found = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in wanted]
    return "\n".join(text for text in found if isinstance(text, str))


def instant(value: Any) -> float | None:
    """Seconds since 1970 of an ISO time, or of a number of seconds or milliseconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) < _SECONDS_BELOW else float(value) / 1000
    if not isinstance(value, str):
        return None
    try:
        told = datetime.fromisoformat(value)
    except ValueError:
        return None
    try:
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, OSError, ValueError):
        return None
