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
        followed, last = self._plain[comma] == ",", index == len(parts) - 1
        before = parts[index - 1].end if index > 0 else start + 1
        lead, tail = text[before : part.start], text[part.end : end - 1]
        if not lead.strip(" \t\r\n,") and not (followed and last):
            if index > 0:
                return type(self)(text[:before] + text[part.end :])
            if not last:
                return type(self)(text[: part.start] + text[_skip(text, comma + 1) :])
            if not tail.strip():
                kept = tail if not lead or _APART.match(lead) else ""
                return type(self)(text[:before] + kept + text[end - 1 :])
        # A comment or a last comma stands beside it: what is ours goes with the space before it, and one comma.
        cut = before + len(lead.rstrip())
        rest = text[comma + 1 :] if followed else text[part.end :]
        if _in_line_comment(text, cut) and not rest.lstrip(" \t").startswith(("\n", "\r\n")):
            cut = part.start  # the comment would swallow what follows on this line
        if index > 0 and not followed:
            before = self._plain.index(",", before)
            return type(self)(text[:before] + text[before + 1 : cut] + rest)
        return type(self)(text[:cut] + rest)

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
        unit = self._unit()
        if parts:
            last = parts[-1]
            comma = _skip(self._plain, last.end)
            followed = self._plain[comma] == ","
            # A comment on the line of the one before stays with it.
            beside = _BESIDE.match(text, comma + 1 if followed else last.end)
            at = beside.end() if beside else comma + 1 if followed else last.end
            pad = text[text.rfind("\n", 0, last.start) + 1 : last.start]
            if text.rfind("\n", start, last.start) >= 0 and not pad.strip(" \t"):
                unit = pad[len(outer) :] if pad.startswith(outer) and len(pad) > len(outer) else unit
                added = f"{newline}{pad}{name}" + _on_lines(value, newline + pad, unit)
            elif beside and beside["line"]:
                added = f"{newline}{outer}{unit}{name}{self._on_one_line(value)}"
            else:  # siblings share a line: stay on it
                added = f"{'' if self._dense() else ' '}{name}{self._on_one_line(value)}"
            inner, outer = ("", ",") if followed else (",", "")
            return type(self)(text[: last.end] + inner + text[last.end : at] + added + outer + text[at:])
        inside = text[start + 1 : end - 1]
        if start != self._root and "\n" not in text[self._root :].rstrip() and not inside.strip():
            return type(self)(text[: start + 1] + name + self._on_one_line(value) + text[start + 1 :])
        pad = newline + outer + unit
        added = f"{pad}{name}{_on_lines(value, pad, unit)}"
        if inside.strip():  # comments and nothing else
            at = start + 1 + len(inside.rstrip())
            return type(self)(text[:at] + added + text[at:])
        # An empty line says that the space in the brackets was there before.
        added = f"{newline}{added}" if inside else f"{added}{newline}{outer}"
        return type(self)(text[: start + 1] + added + text[start + 1 :])

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
_BESIDE = re.compile(r"(?:[ \t]*(?:/\*[^\n]*?\*/|(?P<line>//[^\r\n]*)))+")
_APART = re.compile(r"(?:\r?\n){2}")
_LAST_COMMA = re.compile(rf"({_STRING})|,(\s*[\]}}])")


def _without_comment(found: re.Match[str]) -> str:
    token = found[0]
    if token.startswith('"'):
        return token
    if token.startswith("/*") and (len(token) < 4 or not token.endswith("*/")):
        raise NotJson(found.string.count("\n", 0, found.start()) + 1, "a comment that does not end")
    return re.sub(r"[^\r\n]", " ", token)


def _in_line_comment(text: str, at: int) -> bool:
    """Whether what ends at `at` is, or ends in, a `//` comment."""
    return any(found[0].startswith("//") and found.start() < at <= found.end() for found in _TOKEN.finditer(text))


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
