"""Edit a TOML file as text: put tables, values and items in, take them out, and leave every other byte as it was.

    text = TomlText.parse(data)                                         # NotReadable: broken, with its line
    text = text.with_member(("mcp_servers",), "cems", {"command": "x", "env": {"A": "b"}})  # [mcp_servers.cems] …
    text = text.with_member(("mcp_servers", "cems", "tools"), "forget", {"approval_mode": "prompt"})
    text = text.with_member((), "notify", ["x"])                        # a line before the first table
    text = text.with_item(("notify",), "y")                             # also [[arrays.of.tables]], value a dict
    text.get(("mcp_servers", "cems")); text.line(("mcp_servers", "cems"))
    text = text.without(("mcp_servers", "cems"))                        # with all its sub-tables, wherever they are
    data = bytes(text)

Tables on the way need not be there: `[a.b]` makes `a`, and taking `a.b` out takes it away again. A mapping
becomes a table at the end of the file after an empty line; inside an inline table it stays inline.

tomlkit keeps comments, but not bytes: putting a table in and deleting it moves comments and adds empty lines, its
new lines end in LF in a CRLF file, and it refuses a byte order mark. So a scanner (`toml_scan`) finds where
things are, edits are splices, and `tomllib` says before and after each edit what the data is.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any, Self

from cems.adapters.config_text import (
    BOM,
    ConfigText,
    NotReadable,
    Path,
    decode,
    line_at,
    line_end,
    minus,
    plus,
    replaced,
    same,
)
from cems.adapters.toml_scan import Statement, parts_of, statements
from cems.adapters.toml_spell import dotted, spell

_NOT_EXACT = "`{}` cannot be put in or taken out without a change to other parts of this file"


class TomlText(ConfigText):
    """One TOML document. Immutable: an edit gives a new document."""

    mapping = "a table"

    def __init__(self, text: str) -> None:
        """`text` as decoded by `parse`. Raises NotReadable."""
        self._text = text
        self._begin = len(BOM) if text.startswith(BOM) else 0
        self._value: dict[str, Any] = _load(text[self._begin :])
        self._statements = list(statements(text, self._begin))

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The document in `data`: UTF-8, with or without a byte order mark. Raises NotReadable."""
        return cls(decode(data))

    def with_member(self, path: Path, key: str, value: Any) -> Self:
        """The document with `key = value` in the table at `path`, which has no such key. Raises NotReadable."""
        for depth in range(1, len(path) + 1):
            self.require(path[:depth], list if isinstance((*path, key)[depth], int) else dict)
        holder = self._holder(path)
        if holder:
            text = self._into_inline(holder, path, key, value)
        elif isinstance(value, dict):
            text = self._at_the_end(_table((*self._names(path), key), value))
        else:
            text = self._as_line(path, key, value)
        return self._checked(text, (*path, key), plus(self._value, path, key, value))

    def with_item(self, path: Path, value: Any) -> Self:
        """The document with `value` as the last item of the list at `path`; a mapping may be the first of its array of
        tables. Raises NotReadable."""
        self.require(path, list)
        holder = self._holder(path)
        if holder:
            text = self._into_inline(holder, path, None, value)
        elif not isinstance(value, dict):
            raise self._not_exact(path)
        else:
            names = (*self._names(path[:-1]), str(path[-1]))
            text = self._at_the_end(_table(names, value, "[[", "]]"))
        place = len(self.get(path, []))
        return self._checked(text, (*path, place), plus(self._value, path, None, value))

    def with_value(self, path: Path, value: Any) -> Self:
        """The document with `value` in the place of what is at `path`: a line or an inline value where it stands, a
        table (or the last one of an array of tables) anew at the end. Raises NotReadable."""
        span = self._value_span(path)
        if span:
            after = self._reread(self._text[: span[0]] + spell(value) + self._text[span[1] :])
        elif isinstance(path[-1], int):
            after = self.without(path).with_item(path[:-1], value)
        else:
            after = self.without(path).with_member(path[:-1], path[-1], value)
        if not after or not same(after._value, replaced(self._value, path, value)):
            raise self._not_exact(path)
        return after

    def without(self, path: Path) -> Self:
        """The document without what is at `path`. Raises NotReadable."""
        after = self._reread(self._cut(path))
        if after is None:
            raise self._not_exact(path)
        expected = minus(self._value, path)
        # A table that was there only because of this one goes with it.
        for depth in range(len(path) - 1, 0, -1):
            if same(after._value, expected) or _at(expected, path[:depth]) not in ({}, []):
                break
            expected = minus(expected, path[:depth])
        if not same(after._value, expected):
            raise self._not_exact(path)
        return after

    def _checked(self, text: str, path: Path, expected: Any) -> Self:
        """The new document, if it holds the expected data and gives back the old bytes."""
        after = self._reread(text)
        if after is None or not same(after._value, expected) or after._cut(path) != self._text:
            raise self._not_exact(path)
        return after

    def _reread(self, text: str) -> Self | None:
        try:
            return type(self)(text)
        except NotReadable:
            return None

    def _not_exact(self, path: Path) -> NotReadable:
        return NotReadable(self.line(path), _NOT_EXACT.format("/".join(map(str, path))))

    # -- where things are

    def _start_of(self, path: Path) -> int:
        for depth in range(len(path), 0, -1):
            for found in self._statements:
                if found.path[:depth] == path[:depth]:
                    return found.start
            holder = self._holder(path[:depth])
            if holder:
                return self._inline(holder, path[:depth])[0]
        return self._begin

    def _holder(self, path: Path) -> Statement | None:
        """The `key = value` that has the container at `path` inside its value."""
        found = (s for s in self._statements if not s.is_header and s.path == path[: len(s.path)])
        return next(found, None)

    def _inline(self, holder: Statement, path: Path) -> tuple[int, Path]:
        """Where the inline container at `path` starts, and the rest of the path if dotted keys in it make that."""
        start, rest = holder.value, path[len(holder.path) :]
        while rest:
            inside = next((p for p in parts_of(self._text, start)[0] if p.path == rest[: len(p.path)]), None)
            if not inside:
                break
            start, rest = inside.value, rest[len(inside.path) :]
        return start, rest

    def _value_span(self, path: Path) -> tuple[int, int] | None:
        """From where to where the value at `path` is spelled; None for what headers or dotted keys make."""
        holder = self._holder(path)
        if holder is None:
            return None
        if holder.path == path:
            return holder.value, parts_of(self._text, holder.value)[1]
        start, rest = self._inline(holder, path[:-1])
        parts, _ = parts_of(self._text, start)
        return next(((part.value, part.end) for part in parts if part.path == (*rest, path[-1])), None)

    def _names(self, path: Path) -> tuple[str, ...]:
        """`path` as a header spells it: a header means the last element of each array of tables on its way."""
        for depth, step in enumerate(path):
            if isinstance(step, int) and step != len(self.get(path[:depth])) - 1:
                raise self._not_exact(path)
        return tuple(step for step in path if isinstance(step, str))

    # -- putting in

    def _into_inline(self, holder: Statement, path: Path, key: str | None, value: Any) -> str:
        text = self._text
        start, rest = self._inline(holder, path)
        parts, _ = parts_of(text, start)
        added = spell(value) if key is None else f"{dotted((*map(str, rest), key))} = {spell(value)}"
        at = parts[-1].end if parts else start + 1
        return text[:at] + (", " if parts else "") + added + text[at:]

    def _at_the_end(self, lines: list[str]) -> str:
        text, newline = self._text, line_end(self._text)
        block = "".join(line + newline for line in lines)
        if not text[self._begin :]:
            return text + block
        if text.endswith("\n"):
            return text + newline + block
        return text + newline + newline + block.removesuffix(newline)

    def _as_line(self, path: Path, key: str, value: Any) -> str:
        """One more line in the table at `path`; the way there is spelled out when the table has no header."""
        text, newline = self._text, line_end(self._text)
        header = next((s for s in self._statements if s.is_header and s.path == path), None)
        inside = [s for s in self._statements if not s.is_header and s.path[: len(path)] == path]
        beside = [s for s in inside if len(s.section) <= len(path)]
        section = path if header else beside[-1].section if beside else ()
        last = beside[-1] if beside else header or self._last_of_root()
        line = f"{dotted((*map(str, path[len(section) :]), key))} = {spell(value)}"
        if last is None and any(s.is_header for s in self._statements):
            at = self._begin
        else:
            at = last.end if last else len(text)
        if at > self._begin and not text[:at].endswith("\n"):
            return text[:at] + newline + line
        return text[:at] + line + newline + text[at:]

    def _last_of_root(self) -> Statement | None:
        root = [s for s in self._statements if not s.is_header and not s.section]
        return root[-1] if root else None

    # -- taking out

    def _cut(self, path: Path) -> str:
        """The text without what is at `path`."""
        spans = list(self._spans(path))
        if not spans:
            holder = self._holder(path)
            if holder is None:
                raise self._not_exact(path)
            return self._cut_inline(holder, path)
        text, newline = self._text, line_end(self._text)
        open_end = not text.endswith("\n")
        kept, at = "", 0
        for start, end in spans:
            if start >= at:
                kept += text[at:start]
            at = max(at, end)
        kept += text[at:]
        if open_end and at == len(text) and kept[self._begin :]:
            kept = kept.removesuffix(newline)
        return kept

    def _spans(self, path: Path) -> Iterator[tuple[int, int]]:
        """Whole lines: each table at or below `path`, with an empty line before it, and each dotted key."""
        for place, found in enumerate(self._statements):
            if found.path[: len(path)] != path:
                continue
            end = found.end
            if found.is_header:
                for inside in self._statements[place + 1 :]:
                    if inside.is_header:
                        break
                    end = inside.end
                empty = re.search(r"(?:(?<=\n)|(?<=\A)|(?<=\A\ufeff))\r?\n\Z", self._text[: found.start])
                yield empty.start() if empty else found.start, end
            elif found.section[: len(path)] != path:
                yield found.start, end

    def _cut_inline(self, holder: Statement, path: Path) -> str:
        text = self._text
        start, rest = self._inline(holder, path[:-1])
        wanted: Path = (*rest, path[-1])
        while True:
            parts, end = parts_of(text, start)
            found = [i for i, part in enumerate(parts) if part.path[: len(wanted)] == wanted]
            if not found:
                return text
            place = found[-1]
            part = parts[place]
            before = parts[place - 1].end if place else start + 1
            after = parts[place + 1].start if place + 1 < len(parts) else end - 1
            if place and "#" not in text[before : part.start]:
                cut = (before, part.end)
            elif place + 1 < len(parts) and "#" not in text[part.end : after]:
                cut = (part.start, after)
            else:
                comma = re.match(r"((?:[ \t\r\n]|#[^\n]*)*),", text[part.end : after])
                cut = (part.start, part.end)
                if comma:
                    text = text[: part.end] + comma.group(1) + text[part.end + comma.end() :]
            text = text[: cut[0]] + text[cut[1] :]
            if isinstance(wanted[-1], int):
                return text


def _load(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line = int(found.group(1)) if found and found.group(1) else line_at(text, len(text.rstrip()))
        plain = str(error)[: found.start()] if found else str(error)
        raise NotReadable(line, f"not valid TOML: {plain[:1].lower()}{plain[1:]}") from None
    except RecursionError:
        raise NotReadable(1, "nested too deeply") from None
    except ValueError as error:  # such as a number of more digits than int() takes
        raise NotReadable(1, f"not readable: {error}") from None


def _at(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


def _table(names: tuple[str, ...], value: dict[str, Any], opening: str = "[", closing: str = "]") -> list[str]:
    """The lines of a table and, after an empty line each, of the tables in it. Empty ones stay inline."""
    tables = {key: inside for key, inside in value.items() if isinstance(inside, dict) and inside}
    lines = [f"{dotted((key,))} = {spell(inside)}" for key, inside in value.items() if key not in tables]
    blocks = [_table((*names, key), inside) for key, inside in tables.items()]
    if lines or not blocks or opening == "[[":
        blocks.insert(0, [f"{opening}{dotted(names)}{closing}", *lines])
    return [line for place, block in enumerate(blocks) for line in ([""] if place else []) + block]
