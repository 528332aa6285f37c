"""Where the statements and values of a TOML text are. The text is known to be valid (`tomllib` has read it)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from cems.adapters.config_text import Path

_BLANK = re.compile(r"[ \t]*")
_FILLER = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")  # between the items of an array
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\[\s\S]|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'"
)
_SCALAR = re.compile(r"[^,\]}#\r\n]*")


@dataclass(frozen=True, slots=True)
class Statement:
    """A header or a `key = value`, as whole lines from `start` to `end` (past the line end).

    `path` is where it puts its value, with the place in each array of tables on the way; `section` is the path of
    the header it stands under (or is).
    """

    path: Path
    section: Path
    start: int
    end: int
    value: int  # where the value starts; -1 for a header

    @property
    def is_header(self) -> bool:
        return self.value < 0


@dataclass(frozen=True, slots=True)
class Part:
    """A member or an item of an inline container. `path`: its (dotted) key, or its place."""

    path: Path
    start: int
    value: int
    end: int


def statements(text: str, at: int) -> Iterator[Statement]:
    """Every statement from `at` on, in order."""
    section: Path = ()
    lengths: dict[Path, int] = {}
    while at < len(text):
        start = at
        at = _past(_BLANK, text, at)
        if text.startswith("[", at):
            doubled = text.startswith("[[", at)
            keys, at = _keys(text, at + (2 if doubled else 1))
            section = _resolve(keys, doubled, lengths)
            at = _line_end(text, at)
            yield Statement(section, section, start, at, -1)
        elif at < len(text) and text[at] not in "#\r\n":
            keys, at = _keys(text, at)
            value = _past(_BLANK, text, at + 1)
            at = _line_end(text, _value_end(text, value))
            yield Statement((*section, *keys), section, start, at, value)
        else:
            at = _line_end(text, at)


def parts_of(text: str, start: int) -> tuple[list[Part], int]:
    """The parts of the array or inline table at `start`, and where it ends. None for other values."""
    parts: list[Part] = []
    if text[start] not in "[{":
        return parts, _value_end(text, start)
    at = _past(_FILLER, text, start + 1)
    while text[at] not in "]}":
        begin, path = at, (len(parts),)  # type: tuple[int, Path]
        if text[start] == "{":
            path, at = _keys(text, at)
            at = _past(_FILLER, text, at + 1)
        end = _value_end(text, at)
        parts.append(Part(path, begin, at, end))
        at = _past(_FILLER, text, end)
        if text[at] == ",":
            at = _past(_FILLER, text, at + 1)
    return parts, at + 1


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _line_end(text: str, at: int) -> int:
    """Past the end of the line that `at` is on."""
    return text.find("\n", at) + 1 or len(text)


def _keys(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """The dotted key at `at`, and where what follows it (`=` or `]`) is."""
    keys: list[str] = []
    while True:
        at = _past(_BLANK, text, at)
        found = _BARE_KEY.match(text, at) or _STRING.match(text, at)
        if not found:
            raise ValueError(f"no key at {at}")
        spelled = found.group()
        keys.append(tomllib.loads(f"key = {spelled}")["key"] if spelled[0] in "\"'" else spelled)
        at = _past(_BLANK, text, found.end())
        if not text.startswith(".", at):
            return tuple(keys), at
        at += 1


def _value_end(text: str, at: int) -> int:
    if text[at] in "[{":
        return parts_of(text, at)[1]
    found = _STRING.match(text, at)
    return found.end() if found else at + len(_SCALAR.match(text, at)[0].rstrip(" \t"))  # type: ignore[index]


def _resolve(keys: tuple[str, ...], doubled: bool, lengths: dict[Path, int]) -> Path:
    """The path a header means: below the last element so far of each array of tables on its way."""
    path: Path = ()
    for depth, key in enumerate(keys, 1):
        path = (*path, key)
        if doubled and depth == len(keys):
            lengths[path] = lengths.get(path, 0) + 1
        if path in lengths:
            path = (*path, lengths[path] - 1)
    return path
