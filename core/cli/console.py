"""What a person or a program sees: text in UTF-8 whatever the locale says, JSON, styles, wrapping.

Standard library only: it is imported by every command.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TextIO

Document = dict[str, Any]

_SHORT_ID = len("m_") + 8
# Escape sequences and direction overrides in a memory must not steer the reader's terminal.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_MOST_COLUMNS = 110
_LEAST_COLUMNS = 40


class ReaderGone(Exception):
    """Whoever read our output has left. Not an OSError: typer would end the process with its own code."""


def prepare_streams() -> None:
    """UTF-8 on standard output and error, undecodable bytes as they came: cp1252 must not stop a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")


def emit(document: Document) -> None:
    """One JSON document on standard output."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    if not _is_text(text):
        text = json.dumps(document, indent=2)
    _write(sys.stdout, text)


def say(text: str = "") -> None:
    """One line (or block) for a person on standard output."""
    _write(sys.stdout, text)


def note(text: str) -> None:
    """One line on standard error."""
    _write(sys.stderr, f"cems: {text}")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person sits at this stream; False for a closed or missing one."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def confirm(question: str) -> bool:
    """Ask on standard error, answer on standard input; only `y` or `yes` is a yes."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def bold(text: str) -> str:
    return _styled("1", text)


def dim(text: str) -> str:
    return _styled("2", text)


def warning(text: str) -> str:
    return _styled("33", text)


def removed(text: str) -> str:
    """Struck through and red; in brackets where there are no styles."""
    styled = _styled("9;31", text)
    return styled if styled != text else f"[-{text}-]"


def inserted(text: str) -> str:
    """Underlined and green; in braces where there are no styles."""
    styled = _styled("4;32", text)
    return styled if styled != text else f"{{+{text}+}}"


def short_id(memory_id: str) -> str:
    """The form for people; any unambiguous beginning of an id is accepted wherever one is asked for."""
    return memory_id[:_SHORT_ID]


def scope_words(scope: str) -> str:
    """`project:github.com/org/repo` as `project github.com/org/repo`."""
    return visible(scope.replace(":", " ", 1)) if scope.startswith("project:") else visible(scope)


def day(moment: str | None) -> str:
    """The local date of an ISO instant; empty for none."""
    instant = _instant(moment)
    return instant.strftime("%Y-%m-%d") if instant else ""


def minute(moment: str | None) -> str:
    """The local date and time of an ISO instant; empty for none."""
    instant = _instant(moment)
    return instant.strftime("%Y-%m-%d %H:%M") if instant else ""


def visible(text: str) -> str:
    """`text` with control and direction characters spelled out; line feeds and tabs stay."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def one_line(text: str, most: int = 100) -> str:
    """`text` on one line, cut at `most` characters."""
    joined = " ".join(visible(text).split())
    return joined if len(joined) <= most else joined[: most - 1] + "…"


def paragraphs(text: str, indent: str = "    ") -> str:
    """`text` indented; wrapped to the window on a terminal, whole lines in a pipe."""
    lines = visible(text).expandtabs(4).splitlines() or [""]
    if is_terminal(sys.stdout):
        width = max(_LEAST_COLUMNS, columns()) - len(indent)
        lines = [piece for line in lines for piece in _wrapped(line, width)]
    return "\n".join((indent + line).rstrip() for line in lines)


def table(rows: Sequence[Sequence[str]], *, gap: str = "  ") -> str:
    """Left-aligned columns, as wide as their widest cell; the last one is not padded."""
    if not rows:
        return ""
    widths = [max(cells(row[index]) for row in rows) for index in range(len(rows[0]))]
    return "\n".join(
        gap.join(_padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def columns() -> int:
    """Width of the terminal, at most what is read with ease."""
    return min(shutil.get_terminal_size((80, 24)).columns, _MOST_COLUMNS)


def cells(text: str) -> int:
    """Columns of `text` on a terminal: two for wide characters, none for combining ones and our styles."""
    plain = re.sub("\x1b\\[[0-9;]*m", "", text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in plain
    )


def plural(count: int, one: str, many: str = "") -> str:
    """`1 memory`, `2 memories`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def memory_heading(memory: Document, *, full_id: bool = False) -> str:
    """One line about a memory: id, date, category, scope, trust, score and what sets it apart."""
    name = visible(str(memory.get("id") or ""))
    parts = [
        bold(name if full_id else short_id(name)),
        day(memory.get("valid_from") or memory.get("recorded_at")),
        visible(str(memory.get("category") or "")),
        scope_words(str(memory.get("scope") or "")),
        str(memory.get("trust") or ""),
    ]
    score = memory.get("score")
    parts.append(f"{score:.2f}" if isinstance(score, int | float) else "")
    parts += [
        "pinned" if memory.get("pinned") else "",
        f"closed {day(memory['expired_at'])}" if memory.get("expired_at") else "",
        f"archived {day(memory['archived_at'])}" if memory.get("archived_at") else "",
    ]
    return "  ".join(part for part in parts if part)


def say_memories(memories: Iterable[Document]) -> None:
    """Each memory as a heading, its title and its wrapped content."""
    for memory in memories:
        say(memory_heading(memory))
        if memory.get("title"):
            say(f"    {bold(one_line(str(memory['title'])))}")
        say(paragraphs(str(memory.get("content") or "")))


def _wrapped(line: str, width: int) -> list[str]:
    if cells(line) <= width:
        return [line]
    lines, current = [], ""
    for word in line.split(" "):
        candidate = f"{current} {word}" if current else word
        if cells(candidate) <= width:
            current = candidate
            continue
        if current:
            lines.append(current)
        while cells(word) > width:
            cut = _prefix(word, width)
            lines.append(word[:cut])
            word = word[cut:]
        current = word
    return [*lines, current]


def _prefix(word: str, width: int) -> int:
    taken = 0
    for index, char in enumerate(word):
        taken += cells(char)
        if taken > width:
            return max(1, index)
    return len(word)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def _instant(moment: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(moment).astimezone() if moment else None
    except (ValueError, OverflowError):
        return None


def _styled(code: str, text: str) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or os.name == "nt"
    return text if plain or not text or not is_terminal(sys.stdout) else f"\x1b[{code}m{text}\x1b[0m"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:
        return
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode()
    try:
        stream.write(text + "\n")
    except BrokenPipeError:
        raise ReaderGone from None
