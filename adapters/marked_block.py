"""A block of ours between two marker lines in a text file that belongs to somebody else, such as an AGENTS.md.

    text = MarkedText.parse(path.read_bytes() if path.exists() else b"")   # NotReadable: a broken marker, with its line
    text = text.with_block("What the memory knows.\\n")    # put at the end, or in place of the block that is there
    text.block                                             # the lines between the markers, None without a block
    text.line()                                            # the line its first marker is on
    text = text.without_block()                            # exactly the bytes from before
    data = bytes(text)                                     # b"": nothing but our block was in the file

The markers are HTML comments, which Markdown does not show. A block at the end has an empty line before it, takes
the file's kind of line end, and leaves the file's end as it was: with a line end or without. Two blocks, or half of
one, are refused: which text is ours is not known then.
"""

from __future__ import annotations

import re
from typing import Self

from cems.adapters.config_text import BOM, NotReadable, line_at, line_end

# What follows the first words may differ between versions; the block is found all the same.
_BEGIN = re.compile(r"^\ufeff?[ \t]*<!-- cems:begin\b[^\n]*-->[ \t\r]*$", re.MULTILINE)
_END = re.compile(r"^\ufeff?[ \t]*<!-- cems:end -->[ \t\r]*$", re.MULTILINE)
BEGIN = "<!-- cems:begin (CEMS writes this block; what you change in it is overwritten) -->"
END = "<!-- cems:end -->"


class MarkedText:
    """One text with at most one block of ours. Immutable: an edit gives a new one."""

    def __init__(self, text: str) -> None:
        """`text` as decoded by `parse`. Raises NotReadable."""
        self._text = text
        self._first = len(BOM) if text.startswith(BOM) else 0
        self._span = _find(text)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The text in `data`: UTF-8, with or without a byte order mark; other bytes are kept. Raises NotReadable."""
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise NotReadable(1, "this is UTF-16 text, expected UTF-8")
        return cls(data.decode("utf-8", "surrogateescape"))

    def __bytes__(self) -> bytes:
        return self._text.encode("utf-8", "surrogateescape")

    @property
    def block(self) -> str | None:
        """The lines between the markers, each ended by a line feed; None without a block."""
        if self._span is None:
            return None
        lines = self._text[slice(*self._span)].replace("\r\n", "\n").rstrip("\n").split("\n")
        return "".join(line + "\n" for line in lines[1:-1])

    def line(self) -> int:
        """The line the first marker is on, from 1; 1 without a block."""
        return line_at(self._text, self._span[0]) if self._span else 1

    def with_block(self, content: str) -> Self:
        """The text with `content` (whole lines) as its block. ValueError when a line of it is a marker itself."""
        if _BEGIN.search(content) or _END.search(content):
            raise ValueError("the block's content has a marker line in it")
        text, newline = self._text, line_end(self._text)
        lines = [BEGIN, *content.replace("\r\n", "\n").removesuffix("\n").split("\n"), END] if content else [BEGIN, END]
        block = "".join(line + newline for line in lines)
        if self._span:
            start, end = self._span
            return type(self)(text[:start] + (block if end < len(text) else self._ended(block)) + text[end:])
        if not text[self._first :]:
            return type(self)(text + block)
        return type(self)(text + newline + (block if text.endswith("\n") else newline + block.removesuffix(newline)))

    def without_block(self) -> Self:
        """The text without its block, and without the empty line before it; itself when there is none."""
        if self._span is None:
            return self
        start, end = self._span
        before, after = self._text[:start], self._text[end:]
        empty = re.search(r"(?:(?<=\n)|(?<=\A)|(?<=\A\ufeff))\r?\n\Z", before)
        kept = before[: empty.start()] if empty else before
        if not after and not self._text.endswith("\n") and kept[self._first :]:
            kept = kept.removesuffix(line_end(self._text))
        return type(self)(kept + after)

    def _ended(self, block: str) -> str:
        return block if self._text.endswith("\n") else block.removesuffix(line_end(self._text))


def _find(text: str) -> tuple[int, int] | None:
    """From the first marker's line to past the last one's line end; None without markers."""
    begins, ends = list(_BEGIN.finditer(text)), list(_END.finditer(text))
    if not begins and not ends:
        return None
    if not begins:
        raise NotReadable(line_at(text, ends[0].start()), f"`{END}` without the line before it that begins the block")
    if not ends or ends[0].start() < begins[0].start():
        at = begins[0] if not ends else ends[0]
        reason = "the block that begins here does not end" if not ends else f"`{END}` comes before the block begins"
        raise NotReadable(line_at(text, at.start()), reason + (f"; expected `{END}`" if not ends else ""))
    if len(begins) > 1 or len(ends) > 1:
        more = begins[1] if len(begins) > 1 else ends[1]
        raise NotReadable(line_at(text, more.start()), "a second block of CEMS's; leave one of them")
    start = begins[0].start() + begins[0].group().startswith(BOM)
    return start, text.find("\n", ends[0].end()) + 1 or len(text)
