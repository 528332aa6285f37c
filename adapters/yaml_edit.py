"""Edit a YAML file as text: put members and items in, take them out, and leave every other byte as it was.

    text = YamlText.parse(data)                          # NotReadable: broken, duplicate keys, several documents
    text.require(("extensions",), dict)                  # `extensions:` with nothing after it counts as a mapping
    text = text.with_member(("extensions",), "cems", {"enabled": True, "args": ["-x"], "envs": {"A": "b c"}})
    text = text.with_value(("extensions", "cems"), {"enabled": True})     # where it stands
    text = text.with_item(("slash_commands",), {"command": "x"})
    text.get(("extensions", "cems", "args")); text.line(("extensions", "cems"))
    text = text.without(("extensions", "cems"))          # `extensions:` stays, with nothing after it: `is_empty`
    data = bytes(text)

Mappings on the way need not be there; the ones made so stay as `extensions:` until they are taken out themselves.
In a block mapping the entry gets lines of its own, with the indentation of the others; in `{…}` it stays inside.

ruamel.yaml's round trip re-indents, re-wraps and re-quotes, so its parser only says where things are
(`yaml_scan`), edits are splices, and its safe loader says before and after each edit what the data is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Self

from cems.adapters.config_text import (
    BOM,
    ConfigText,
    Kind,
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
from cems.adapters.yaml_scan import Node, tree
from cems.adapters.yaml_spell import member, spell

_NOT_EXACT = "`{}` cannot be put in or taken out without a change to other parts of this file"
_TAB = re.compile(r"(?<=\S)[ \t]*\t[ \t]*(?=#|\r?$)", re.MULTILINE)


class YamlText(ConfigText):
    """One YAML document. Immutable: an edit gives a new document."""

    mapping = "a mapping"

    def __init__(self, text: str) -> None:
        """`text` as decoded by `parse`. Raises NotReadable."""
        self._text = text
        self._mark = BOM if text.startswith(BOM) else ""
        self._body = text.removeprefix(self._mark)
        self._value, (self._root, self._begin) = _load(self._body)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The document in `data`: UTF-8, with or without a byte order mark. Raises NotReadable."""
        return cls(decode(data))

    def require(self, path: Path, kind: Kind) -> None:
        """Raise NotReadable unless the value at `path` is absent, of `kind`, or not written at all (`key:`)."""
        if not self._unwritten(path):
            super().require(path, kind)

    def is_empty(self, path: Path) -> bool:
        """Whether a container without content is at `path`, or a key with nothing after it."""
        return super().is_empty(path) or self._unwritten(path)

    def with_member(self, path: Path, key: str, value: Any) -> Self:
        """The document with `key: value` in the mapping at `path`, which has no such key. Raises NotReadable."""
        for depth in range(len(path) + 1):
            self.require(path[:depth], list if isinstance((*path, key)[depth], int) else dict)
        there = next((depth for depth in range(len(path)) if not self.has(path[: depth + 1])), len(path))
        expected = plus(self._filled(path, {}), path, key, value)
        for step in reversed((*path, key)[there + 1 :]):
            value = {str(step): value}
        new = (*path, key)[: there + 1]
        for text in self._with_member(new[:-1], str(new[-1]), value):
            after = self._reread(text)
            if after and same(after._value, expected) and after._cut(new) == self._body:
                return after
        raise self._not_exact(new)

    def with_item(self, path: Path, value: Any) -> Self:
        """The document with `value` as the last item of the list at `path`, which is there. Raises NotReadable."""
        self.require(path, list)
        expected = plus(self._filled(path, []), path, None, value)
        place = len(self.get(path) or [])
        after = self._reread(self._with_item(path, value))
        if after and same(after._value, expected) and after._cut((*path, place)) == self._body:
            return after
        raise self._not_exact((*path, place))

    def with_value(self, path: Path, value: Any) -> Self:
        """The document with `value` in the place of what is at `path`, which is there. Raises NotReadable."""
        body, newline = self._body, line_end(self._body)
        start, end, lines = self._span(path)
        parent, place = self._parent(path)
        if lines and parent.kind == "map":
            pad = " " * parent.column
            block = newline.join(member(str(path[-1]), value, pad, self._unit()))
            put = block + (newline if body[:end].endswith("\n") else "")
        else:
            start, end = parent.values[place].start, parent.values[place].end
            put = ("" if body[:start].endswith((" ", "[", "{", ",")) else " ") + spell(value)
        after = self._reread(body[:start] + put + body[end:])
        if after and same(after._value, replaced(self._value, path, value)):
            return after
        raise self._not_exact(path)

    def without(self, path: Path) -> Self:
        """The document without what is at `path`, which is there. Raises NotReadable."""
        after = self._reread(self._cut(path))
        expected = minus(self._value, path)
        if after and same(after._value, expected):
            return after
        # The last member of a block went: nothing is written after the key any more.
        if (
            after
            and len(path) > 1
            and after._unwritten(path[:-1])
            and same(after._value, replaced(expected, path[:-1], None))
        ):
            return after
        raise self._not_exact(path)

    def _reread(self, body: str) -> Self | None:
        try:
            return type(self)(self._mark + body)
        except NotReadable:
            return None

    def _not_exact(self, path: Path) -> NotReadable:
        return NotReadable(self.line(path), _NOT_EXACT.format("/".join(map(str, path))))

    # -- where things are

    def _find(self, path: Path) -> Node | None:
        """The node at `path`; an alias is not followed."""
        node = self._root
        for step in path:
            if node is None:
                return None
            if node.kind == "map":
                places = [place for place, key in enumerate(node.keys) if key.value == str(step)]
                node = node.values[places[-1]] if places else None
            else:
                node = node.values[step] if isinstance(step, int) and step < len(node.values) else None
        return node

    def _parent(self, path: Path) -> tuple[Node, int]:
        """The container of what is at `path`, and the place in it. NotReadable when that is not written there."""
        parent = self._find(path[:-1])
        if parent is not None and self._find(path) is not None:
            if parent.kind == "seq":
                return parent, int(path[-1])
            return parent, max(place for place, key in enumerate(parent.keys) if key.value == str(path[-1]))
        raise self._not_exact(path)

    def _unwritten(self, path: Path) -> bool:
        node = self._find(path)
        return node is not None and node.nothing

    def _filled(self, path: Path, empty: Any) -> Any:
        return replaced(self._value, path, empty) if path and self._unwritten(path) else self._value

    def _start_of(self, path: Path) -> int:
        for depth in range(len(path), 0, -1):
            if self._find(path[:depth]) is not None:
                parent, place = self._parent(path[:depth])
                return len(self._mark) + (parent.keys or parent.values)[place].start
        return len(self._mark)

    def _span(self, path: Path) -> tuple[int, int, bool]:
        """From where to where what is at `path` is written, and whether that is whole lines."""
        body = self._body
        parent, place = self._parent(path)
        start = (parent.keys[place] if parent.kind == "map" else parent.values[place]).start
        if not parent.flow:
            start = parent.dashes[place] if parent.kind == "seq" else start
            line = body.rfind("\n", 0, start) + 1
            if not body[line:start].strip(" "):
                return line, _line_after(body, parent.values[place].end), True
        return start, parent.values[place].end, False

    # -- putting in

    def _with_member(self, path: Path, key: str, value: Any) -> Iterator[str]:
        """The text with the member, in each place that it may have."""
        node = self._find(path)
        if node is not None and node.flow:
            yield self._into_flow(node, f"{spell(key)}: {spell(value)}")
        elif node is not None and node.kind == "map":
            lines = member(key, value, " " * node.column, self._unit())
            yield self._insert(_line_after(self._body, node.end), lines)
            # Where block text at the end would take the lines, or their line end, for its own.
            yield self._insert(self._body.rfind("\n", 0, node.start) + 1, lines)
        elif not path:
            at = _line_after(self._body, self._begin) if self._begin else len(self._body)
            yield self._insert(at, member(key, value, "", self._unit()))
        elif node is not None and node.nothing:
            pad = " " * self._parent(path)[0].column + self._unit()
            yield self._insert(_line_after(self._body, node.end), member(key, value, pad, self._unit()))

    def _with_item(self, path: Path, value: Any) -> str:
        node = self._find(path)
        if node is None or node.kind == "alias":
            raise self._not_exact(path)
        if node.flow:
            return self._into_flow(node, spell(value))
        pad = " " * (self._parent(path)[0].column if node.nothing else node.column)
        return self._insert(_line_after(self._body, node.end), [f"{pad}- {spell(value)}"])

    def _into_flow(self, node: Node, added: str) -> str:
        at = node.values[-1].end if node.values else node.start + self._opening(node)
        return self._body[:at] + (", " if node.values else "") + added + self._body[at:]

    def _opening(self, node: Node) -> int:
        """How far past the node's start (its tag or anchor) its brace or bracket is."""
        found = re.compile(r"(?:[&!]\S*\s+)*[\[{]").match(self._body, node.start)
        return found.end() - node.start if found else 1

    def _insert(self, at: int, lines: list[str]) -> str:
        body, newline = self._body, line_end(self._body)
        block = newline.join(lines)
        if at and not body[:at].endswith("\n"):
            return body[:at] + newline + block + body[at:]
        return body[:at] + block + newline + body[at:]

    def _unit(self) -> str:
        """The document's step of indentation: that of its first mapping in a mapping."""
        inside = [
            value for value in (self._root.values if self._root else []) if value.kind == "map" and not value.flow
        ]
        steps = [value.column - self._root.column for value in inside if self._root and self._root.kind == "map"]
        return " " * next((step for step in steps if step > 0), 2)

    # -- taking out

    def _cut(self, path: Path) -> str:
        """The text without what is at `path`."""
        body = self._body
        start, end, lines = self._span(path)
        parent, place = self._parent(path)
        if lines:
            kept = body[:start] + body[end:]
            return kept.removesuffix(line_end(body)) if end == len(body) and not body.endswith("\n") else kept
        starts = [node.start for node in parent.keys or parent.values]
        if place and "#" not in body[parent.values[place - 1].end : start]:
            start = parent.values[place - 1].end if parent.flow else start
        elif place + 1 < len(starts):
            end = parent.dashes[place + 1] if parent.dashes else starts[place + 1]
        elif parent.flow:
            comma = re.compile(r"\s*,").match(body, end)
            end = comma.end() if comma else end
        return body[:start] + body[end:]


def _line_after(text: str, at: int) -> int:
    """Past the end of the line that what ends at `at` is on; block text ends past its line end."""
    return at if text[:at].endswith("\n") else text.find("\n", at) + 1 or len(text)


def _load(text: str) -> tuple[Any, tuple[Node | None, int]]:
    """The data, an absent document read as an empty mapping; the root's node; where the document begins."""
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import ComposerError
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError
    from ruamel.yaml.scanner import ScannerError

    try:
        try:
            value = YAML(typ="safe", pure=True).load(text)
        except ScannerError as error:
            # Agents' parsers take a tab for a space between a value and its comment; ruamel.yaml does not.
            text = _TAB.sub(lambda found: " " * len(found.group()), text)
            if error.problem is None or "'\\t'" not in error.problem:
                raise
            value = YAML(typ="safe", pure=True).load(text)
        value = _apart(value)
        found = tree(text)
    except ReaderError as error:
        raise NotReadable(line_at(text, error.position), f"not valid YAML: {error.reason}") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        if isinstance(error, DuplicateKeyError):
            raise NotReadable(line, "the same key twice; leave one of them") from None
        if isinstance(error, ComposerError) and "single document" in str(error.context):
            raise NotReadable(line, "a second document in the same file") from None
        raise NotReadable(line, f"not valid YAML: {error.problem}") from None
    except RecursionError:
        raise NotReadable(1, "nested too deeply") from None
    except (YAMLError, ValueError) as error:
        raise NotReadable(1, f"not readable: {' '.join(str(error).split())}") from None
    root = None if found.root is None or found.root.nothing else found.root
    return ({} if value is None and root is None else value), (root, found.begin)


def _apart(value: Any) -> Any:
    """The data with a copy for each alias, so that a change of one shows where it should not. A value inside itself
    is a RecursionError."""
    if isinstance(value, dict):
        return {key: _apart(item) for key, item in value.items()}
    return [_apart(item) for item in value] if isinstance(value, list) else value
