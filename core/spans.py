"""Cutting what stands between a tag and its end, in every spelling that agents give a tag. Light."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Agents show a tag as typed, or as HTML, JSON, URL or Python text would escape it.
_LT = r"(?:<|&(?:amp;){0,4}(?:lt|#0{0,4}60|#x0{0,4}3c);|\\{1,4}(?:u003c|x3c)|%3c)"
_GT = r"(?:>|&(?:amp;){0,4}(?:gt|#0{0,4}62|#x0{0,4}3e);|\\{1,4}(?:u003e|x3e)|%3e)"
_SLASH = r"\\{0,4}(?:/|&(?:amp;){0,4}(?:#0{0,4}47|#x0{0,4}2f|sol);|\\(?:u002f|x2f)|%2f)"
_PIECE = 64 * 1024


class Spans:
    """The spans of some tags: `<name …> … </name>`, also within each other.

    Linear in the length of the text. In doubt more is cut: an opening tag counts before its `>` was seen, a closing one
    only with it, and a span that is not closed reaches to the end of the text.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._reach = max(len(name) for name in self._names)
        named = "|".join(re.escape(name) for name in self._names)
        # A closing tag, an empty one (`<name/>`), an opening one.
        self._tag = re.compile(
            rf"{_LT}{_SLASH}(?P<closes>{named})\s{{0,16}}{_GT}"
            rf"|{_LT}(?P<empty>{named})\s{{0,16}}{_SLASH}{_GT}"
            rf"|{_LT}(?P<opens>{named})(?![\w-])",
            re.IGNORECASE,
        )

    def cut(self, text: str) -> tuple[str, int]:
        """The text without the spans, and how many were cut (one within another counts as part of it)."""
        if not self._named_in(text):
            return text, 0
        kept: list[str] = []
        # How many of each name are open. A closing tag ends what was opened after its opening tag as well.
        opened: list[str] = []
        count: dict[str, int] = {}
        spans = position = 0
        for tag in self._tag.finditer(text):
            if closes := tag["closes"]:
                name = closes.casefold()
                if count.get(name):
                    while (last := opened.pop()) != name:
                        count[last] -= 1
                    count[name] -= 1
                    position = tag.end()
                continue
            if not opened:
                kept.append(text[position : tag.start()])
                spans += 1
                position = tag.end()
            if opens := tag["opens"]:
                name = opens.casefold()
                opened.append(name)
                count[name] = count.get(name, 0) + 1
        if not spans:
            return text, 0
        kept.append("" if opened else text[position:])
        return _joined(kept), spans

    def _named_in(self, text: str) -> bool:
        """Whether any name stands in the text: nearly always not, and this is the quick way to know. In pieces, since a copy
        of a long text in another case is as long."""
        for start in range(0, max(len(text), 1), _PIECE):
            piece = text[start : start + _PIECE + self._reach].casefold()
            if any(name in piece for name in self._names):
                return True
        return False


def _joined(kept: list[str]) -> str:
    result = kept[0]
    parts = [result]
    last = result[-1:]
    for part in kept[1:]:
        # White space keeps the two sides from joining to a new tag or to one word; no tag has any inside its name.
        if part and last and not last.isspace() and not part[0].isspace():
            parts.append(" ")
        parts.append(part)
        last = part[-1:] or last
    return "".join(parts)
