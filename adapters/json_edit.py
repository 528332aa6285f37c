"""Edit a JSON file as text: put members and items in, take them out, and leave every other byte as it was.

Agents' configuration files belong to people, so a load-and-dump round trip will not do: it would change
indentation, escapes, number spellings, a byte order mark, line ends, and would drop duplicate keys. Of the
libraries that edit in place, `json-source-edit` refuses duplicate keys (agents take the last one),
`jsonc-edit` runs a Node.js process, and `json-five` prints the whole file anew. So: the standard library's
own scanner finds where values end, and edits are splices. Where an agent allows comments, the scanner reads a copy
of the text in which they are blank.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from json.decoder import JSONDecodeError
from json.decoder import scanstring as _scanstring  # type: ignore[attr-defined]
from typing import Any, NoReturn, Self

from cems.adapters.config_text import BOM, ConfigText, NotReadable, Path

_SPACE = re.compile(r"[ \t\r\n]*")
_MAX_DIGITS = 4000  # beyond it int() refuses, and no setting of ours is that long


class NotJson(NotReadable):
    """The text is not strict JSON, or does not have the shape an edit needs."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A member (with `key`) or an item, from `start` (the key's quote, or the value) to `end` (past it)."""

    start: int
    value: int
    end: int
    key: str | None = None


class JsonText(ConfigText):
    """One JSON document. Immutable: an edit gives a new document; of duplicate keys it reads the last, as agents do."""

    refusal = NotJson

    def __init__(self, text: str) -> None:
        """`text` as decoded by `parse`. Raises NotJson."""
        self._text = text
        self._plain, self._strict = self._blanked(text)
        self._root = _skip(self._strict, len(BOM) if text.startswith(BOM) else 0)
        self._value = _decode(self._strict, self._root)

    def _blanked(self, text: str) -> tuple[str, str]:
        """The text with spaces in the place of comments, and that with spaces in the place of what else is not strict."""
        return text, text

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The document in `data`: UTF-8, with or without a byte order mark; other bytes are kept."""
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise NotJson(1, "this is UTF-16 text, expected UTF-8")
        return cls(data.decode("utf-8", "surrogateescape"))

    def with_member(self, path: Path, key: str, value: Any) -> Self:
        """The document with `key: value` put last in the object at `path`, which has no such key."""
        start, parts, end = self._container(path)
        return self._insert(start, parts, end, self._colon(parts), key, value)

    def with_item(self, path: Path, value: Any) -> Self:
        """The document with `value` as the last item of the list at `path`."""
        start, parts, end = self._container(path)
        return self._insert(start, parts, end, None, "", value)

    def with_value(self, path: Path, value: Any) -> Self:
        """The document with `value` in the place of what is at `path`, which is there."""
        start, parts, _ = self._container(path[:-1])
        part = parts[self._find(parts, path[-1])]
        text = self._text
        line = text.rfind("\n", 0, part.value)
        if line < start:
            put = self._on_one_line(value)
        else:
            newline = "\r\n" if "\r\n" in text else "\n"
            put = _on_lines(value, newline + _indent(text, part.value), self._unit())
        return type(self)(text[: part.value] + put + text[part.end :])

    def without(self, path: Path) -> Self:
        """The document without the member or item at `path`, which is there. A comment that stands beside it stays."""
        start, parts, end = self._container(path[:-1])
        index = self._find(parts, path[-1])
        part, text = parts[index], self._text
        comma = _skip(self._plain, part.end)
        followed = self._plain[comma] == ","
        before = parts[index - 1].end if index > 0 else start + 1
        if not text[before : part.start].strip(" \t\r\n,"):
            if index > 0:
                return type(self)(text[:before] + text[part.end :])
            if followed and len(parts) > 1:
                return type(self)(text[: part.start] + text[_skip(text, comma + 1) :])
            if not text[part.end : end - 1].strip():
                return type(self)(text[:before] + text[end - 1 :])
        # A comment stands around it: what is ours goes with the space before it, and one comma.
        lead = before + len(text[before : part.start].rstrip())
        if followed:
            return type(self)(text[:lead] + text[comma + 1 :])
        if index > 0:
            before = self._plain.index(",", before)
            return type(self)(text[:before] + text[before + 1 : lead] + text[part.end :])
        return type(self)(text[:lead] + text[part.end :])

    # -- where things are

    def _start_of(self, path: Path) -> int:
        at = self._root
        for step in path:
            parts, _ = _parts(self._strict, at)
            at = parts[self._find(parts, step)].value
        return at

    @staticmethod
    def _find(parts: list[_Part], step: str | int) -> int:
        if isinstance(step, int):
            return step
        return max(index for index, part in enumerate(parts) if part.key == step)

    def _container(self, path: Path) -> tuple[int, list[_Part], int]:
        start = self._start_of(path)
        parts, end = _parts(self._strict, start)
        return start, parts, end

    # -- how things look

    def _insert(self, start: int, parts: list[_Part], end: int, colon: str | None, key: str, value: Any) -> Self:
        """Put `key` (with `colon`, for an object) and `value` last in the container at `start`..`end`."""
        text = self._text
        newline = "\r\n" if "\r\n" in text else "\n"
        outer = _indent(text, start)
        name = _dump(key) + colon if colon is not None else ""
        if parts:
            at, last = parts[-1].end, parts[-1].start
            pad = text[text.rfind("\n", 0, last) + 1 : last]
            if text.rfind("\n", start, last) < 0 or pad.strip(" \t"):  # siblings share a line: stay on it
                gap = "" if self._dense() else " "
                added = f",{gap}{name}{self._on_one_line(value)}"
            else:
                unit = pad[len(outer) :] if pad.startswith(outer) and len(pad) > len(outer) else self._unit()
                added = f",{newline}{pad}{name}" + _on_lines(value, newline + pad, unit)
            return type(self)(text[:at] + added + text[at:])
        if start != self._root and "\n" not in text[self._root :].rstrip() and not text[start + 1 : end - 1].strip():
            return type(self)(text[: start + 1] + name + self._on_one_line(value) + text[end - 1 :])
        unit = self._unit()
        pad = newline + outer + unit
        if inside := text[start + 1 : end - 1].rstrip():  # comments and nothing else
            at = start + 1 + len(inside)
            return type(self)(text[:at] + f"{pad}{name}{_on_lines(value, pad, unit)}" + text[at:])
        added = f"{pad}{name}{_on_lines(value, pad, unit)}{newline}{outer}"
        return type(self)(text[: start + 1] + added + text[end - 1 :])

    def _unit(self) -> str:
        """The document's step of indentation: what its first indented line has."""
        first = re.search(r"\n([ \t]+)\S", self._text)
        return first.group(1) if first else "  "

    def _colon(self, parts: list[_Part]) -> str:
        """What stands between key and value here."""
        if not parts:
            return ":" if self._dense() else ": "
        last = parts[-1]
        gap = self._text[_scanstring(self._strict, last.start + 1, True)[1] : last.value]
        return gap if not gap.strip(" \t:") else ": "

    def _dense(self) -> bool:
        return '":' in self._text and '": ' not in self._text

    def _on_one_line(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":") if self._dense() else None)


class JsonWithComments(JsonText):
    """JSON in which the agent allows `//` and `/* */`."""

    def _blanked(self, text: str) -> tuple[str, str]:
        plain = _TOKEN.sub(_without_comment, text)
        return plain, plain


class JsoncText(JsonWithComments):
    """JSON in which the agent allows comments and commas before a closing bracket."""

    def _blanked(self, text: str) -> tuple[str, str]:
        plain, _ = super()._blanked(text)
        return plain, _LAST_COMMA.sub(lambda found: found[1] or f" {found[2]}", plain)


_STRING = r'"(?:[^"\\\n]|\\.)*"'
_TOKEN = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_STRING})|,(\s*[\]}}])")


def _without_comment(found: re.Match[str]) -> str:
    token = found[0]
    if token.startswith('"'):
        return token
    if token.startswith("/*") and (len(token) < 4 or not token.endswith("*/")):
        raise NotJson(found.string.count("\n", 0, found.start()) + 1, "a comment that does not end")
    return re.sub(r"[^\r\n]", " ", token)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _indent(text: str, at: int) -> str:
    """The indentation of the line that holds `at`."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _int(digits: str) -> int | str:
    return int(digits) if len(digits) < _MAX_DIGITS else digits


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_int)


def _decode(text: str, start: int) -> Any:
    try:
        value, end = _DECODER.raw_decode(text, start)
        rest = _skip(text, end)
        if rest != len(text):
            raise JSONDecodeError("Extra data", text, rest)
    except JSONDecodeError as error:
        raise NotJson(error.lineno, _plain(error)) from None
    except ValueError as error:
        found = re.search(r"[\[,:\s](NaN|-?Infinity)", text)
        raise NotJson(text.count("\n", 0, found.start(1)) + 1 if found else 1, str(error)) from None
    except RecursionError:
        raise NotJson(1, "nested too deeply") from None
    return value


def _plain(error: JSONDecodeError) -> str:
    """The scanner's complaint, with a hint at the two things people usually did."""
    here, before = error.doc[error.pos : error.pos + 2], error.doc[: error.pos].rstrip()
    if here in ("//", "/*"):
        return "comments are not allowed here (the agent ignores the whole file)"
    if "trailing comma" in error.msg or (here[:1] in ("}", "]") and before.endswith(",")):
        return "a comma before the closing bracket (the agent ignores the whole file)"
    return f"not valid JSON: {error.msg[0].lower()}{error.msg[1:]}, column {error.colno}"


def _parts(text: str, start: int) -> tuple[list[_Part], int]:
    """The members or items of the container at `start` (the text is known to be JSON), and where it ends."""
    parts: list[_Part] = []
    at = _skip(text, start + 1)
    is_object = text[start] == "{"
    if not is_object and text[start] != "[":
        raise NotJson(text.count("\n", 0, start) + 1, "expected an object or a list")
    while text[at] not in "}]":
        begin, key = at, None
        if is_object:
            key, at = _scanstring(text, at + 1, True)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        parts.append(_Part(begin, at, end, key))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return parts, at + 1


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _on_lines(value: Any, pad: str, unit: str) -> str:
    """`value` on lines of its own, each further one after `pad` (a line end and an indentation)."""
    return pad.join(json.dumps(value, ensure_ascii=False, indent=unit).split("\n"))
