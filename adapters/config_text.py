"""What the editors of configuration files have in common: a document is text that stays, and the data in it.

    text = TomlText.parse(path.read_bytes())            # or YamlText.parse, JsonText.parse; raises NotReadable
    text.require(("mcp_servers",), dict)                # NotReadable unless absent or a table
    text.get(("mcp_servers", "other", "command"))       # a value, or None
    if not text.has(("mcp_servers", "cems")):
        text = text.with_member(("mcp_servers",), "cems", {"command": "cems-mcp", "args": []})
    bytes(text)                                         # every other byte as it was
    text = text.with_value(("mcp_servers", "cems"), {"command": "cems-mcp", "args": ["new"]})
    text = text.without(("mcp_servers", "cems"))        # exactly the bytes from before

A document is immutable: an edit gives a new one. Nothing else in the file changes, and what one edit puts in,
`without` takes out to the identical bytes; where that cannot be, the edit raises NotReadable with a line.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

BOM = "\ufeff"

Path = tuple[str | int, ...]
Kind = type[dict[str, Any]] | type[list[Any]]


class NotReadable(ValueError):
    """The text is not what its format says, or cannot take the edit. `line` counts from 1, `reason` is plain words."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


class ConfigText(ABC):
    """One document: `_text` as decoded, `_value` as its agent reads it."""

    refusal: ClassVar[type[NotReadable]] = NotReadable
    mapping: ClassVar[str] = "an object"  # the format's word for it

    _text: str
    _value: Any

    def __bytes__(self) -> bytes:
        return self._text.encode("utf-8", "surrogateescape")

    def get(self, path: Path = (), default: Any = None) -> Any:
        """The value at `path`, or `default`."""
        value = self._value
        for step in path:
            inside = step in value if isinstance(value, dict) else isinstance(value, list) and step in range(len(value))
            if not inside:
                return default
            value = value[step]
        return value

    def has(self, path: Path) -> bool:
        """Whether something is at `path`, were it null."""
        return self.get(path, ABSENT) is not ABSENT

    def is_empty(self, path: Path) -> bool:
        """Whether a container without content is at `path`."""
        return self.get(path) in ({}, [])

    def line(self, path: Path = ()) -> int:
        """The line the value at `path` starts on, from 1."""
        return line_at(self._text, self._start_of(path))

    def require(self, path: Path, kind: Kind) -> None:
        """Raise NotReadable unless the value at `path` is absent or of `kind`."""
        value = self.get(path, ABSENT)
        if value is not ABSENT and not isinstance(value, kind):
            name = "/".join(str(step) for step in path) or "the file"
            wanted = self.mapping if kind is dict else "a list"
            raise self.refusal(self.line(path), f"`{name}` should be {wanted}, it is {self._kind(value)}")

    def is_blank(self) -> bool:
        """Whether the text is nothing, or an empty mapping and nothing else, not even a comment."""
        return "".join(self._text.removeprefix(BOM).split()) in ("", "{}")

    @classmethod
    @abstractmethod
    def parse(cls, data: bytes) -> Self:
        """The document in `data`. Raises NotReadable."""

    @abstractmethod
    def with_member(self, path: Path, key: str, value: Any) -> Self:
        """The document with `key: value` put last in the mapping at `path`, which has no such key."""

    @abstractmethod
    def with_item(self, path: Path, value: Any) -> Self:
        """The document with `value` as the last item of the list at `path`, which is there."""

    @abstractmethod
    def without(self, path: Path) -> Self:
        """The document without the member or item at `path`, which is there."""

    def with_value(self, path: Path, value: Any) -> Self:
        """The document with `value` for what is at `path`, which is there; a mapping may stand elsewhere then."""
        return self.without(path).with_member(path[:-1], str(path[-1]), value)

    @abstractmethod
    def _start_of(self, path: Path) -> int:
        """Where in the text the value at `path`, which is there, starts."""

    def _kind(self, value: Any) -> str:
        if isinstance(value, dict):
            return self.mapping
        names = {list: "a list", str: "text", bool: "true or false", type(None): "null", int: "a number"}
        return names.get(type(value), "a number" if isinstance(value, float) else "something else")


ABSENT = object()


def decode(data: bytes) -> str:
    """UTF-8, with or without a byte order mark. Raises NotReadable at the first line that is something else."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise NotReadable(1, "this is UTF-16 text, expected UTF-8")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotReadable(data.count(b"\n", 0, error.start) + 1, "not UTF-8 text") from None


def line_at(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def line_end(text: str) -> str:
    """The line end the text uses: that of its first line."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def plus(data: Any, path: Path, key: str | None, value: Any) -> Any:
    """`data` with `value` put in at `path`: as the member `key` (missing mappings are made), or as the last item."""
    changed = copy.deepcopy(data)
    inside = changed
    for depth, step in enumerate(path, 1):
        made: Any = [] if key is None and depth == len(path) else {}
        inside = inside.setdefault(step, made) if isinstance(inside, dict) else inside[step]
    if key is None:
        inside.append(value)
    else:
        inside[key] = value
    return changed


def replaced(data: Any, path: Path, value: Any) -> Any:
    """`data` with `value` at `path`, where something is."""
    changed = copy.deepcopy(data)
    inside = changed
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    return changed


def minus(data: Any, path: Path) -> Any:
    """`data` without what is at `path`."""
    changed = copy.deepcopy(data)
    inside = changed
    for step in path[:-1]:
        inside = inside[step]
    del inside[path[-1]]
    return changed


def same(one: Any, other: Any) -> bool:
    """Equal in value and type at every depth: 1 is not true, nor 1.0; not-a-number is itself; order is free in mappings."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)
