"""Where the values of a YAML text are: a tree of the spans that ruamel.yaml's parser reports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_COLON = re.compile(r"\s*:")


@dataclass(slots=True)
class Node:
    """One value. `end` is past its last character that is no comment; for nothing written, past the `:` or `-`."""

    kind: str  # "scalar", "alias", "map", "seq"
    start: int
    column: int
    end: int
    value: str = ""  # a scalar's text
    flow: bool = False  # braces or brackets
    nothing: bool = False  # an empty value without tag, anchor or quotes: null
    keys: list[Node] = field(default_factory=list)
    values: list[Node] = field(default_factory=list)
    dashes: list[int] = field(default_factory=list)  # where each item of a block sequence has its dash


@dataclass(slots=True)
class Tree:
    """`root` is None where there is no document at all; `begin` is past `---` where that is written, else 0."""

    root: Node | None
    begin: int


def tree(text: str) -> Tree:
    """The tree of a text of one document, which the loader has read. ruamel.yaml's errors pass through."""
    from ruamel.yaml import YAML

    events = iter(YAML(typ="safe", pure=True).parse(text))
    begin = 0
    for event in events:
        if type(event).__name__ == "DocumentStartEvent":
            begin = event.end_mark.index if event.explicit else 0
            return Tree(_node(text, next(events), events, begin), begin)
    return Tree(None, 0)


def _node(text: str, event: Any, events: Iterator[Any], at: int) -> Node:
    """The node that `event` opens; `at` is past what stands before it."""
    kind = type(event).__name__
    start, end, column = event.start_mark.index, event.end_mark.index, event.start_mark.column
    if kind == "AliasEvent":
        return Node("alias", start, column, end)
    if kind == "ScalarEvent":
        if start == end:
            return Node("scalar", at, column, at, nothing=True)
        return Node("scalar", start, column, end, value=event.value)
    flow = bool(event.flow_style)
    if kind == "SequenceStartEvent":
        return _sequence(text, Node("seq", start, column, end, flow=flow), events)
    node = Node("map", start, column, end, flow=flow)
    for inner in events:
        if type(inner).__name__ == "MappingEndEvent":
            node.end = inner.end_mark.index if flow else node.values[-1].end
            break
        key = _node(text, inner, events, node.end)
        if not flow:
            _from_mark(text, key)
        colon = _COLON.match(text, key.end)
        node.keys.append(key)
        node.values.append(_node(text, next(events), events, colon.end() if colon else key.end))
        node.end = node.values[-1].end
    if not flow:
        node.start, node.column = node.keys[0].start, node.keys[0].column
    return node


def _from_mark(text: str, key: Node) -> None:
    """A key after `? ` starts there."""
    line = text[text.rfind("\n", 0, key.start) + 1 : key.start]
    if line.rstrip(" ").endswith("?"):
        back = len(line) - line.rindex("?")
        key.start, key.column = key.start - back, key.column - back


def _sequence(text: str, node: Node, events: Iterator[Any]) -> Node:
    dash = node.start
    for inner in events:
        if type(inner).__name__ == "SequenceEndEvent":
            node.end = inner.end_mark.index if node.flow else node.values[-1].end
            break
        if not node.flow:
            dash = _dash(text, node, dash)
            node.dashes.append(dash)
        node.values.append(_node(text, inner, events, node.end if node.flow else dash + 1))
        node.end = node.values[-1].end
    return node


def _dash(text: str, node: Node, first: int) -> int:
    """Where the dash of the next item is: the first one is where the sequence starts (past a tag or an anchor)."""
    if not node.values:
        found = re.compile(r"-(?=\s|\Z)").search(text, first)
        at = found.start() if found else first
        node.column = at - (text.rfind("\n", 0, at) + 1)
        return at
    found = re.compile(rf"^[ ]{{{node.column}}}-(?=\s|\Z)", re.MULTILINE).search(text, node.values[-1].end)
    return found.end() - 1 if found else node.values[-1].end
