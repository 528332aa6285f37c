"""Reading a file of JSON lines that somebody else writes, a bounded piece at a time. Light.

Whatever the file holds, no more than one line of it is in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from cems.core.learn.transcript import LONGEST_RECORD, Cursor, Skipped, TranscriptUnreadable, digest

HEAD_BYTES = 4096
TAIL_BYTES = 512
_SKIP_AT_ONCE = 256 * 1024
_BOM = b"\xef\xbb\xbf"
# A machine that lost its power leaves zeros.
_BLANK = b"\0 \t\r\n"
_BEGINNING = b'{"'
_MOST_BEGINNINGS = 16

Record = dict[str, Any]


@dataclass(slots=True)
class Lines:
    """One reading of a file. Iterate `records` first; what the other fields say is then true."""

    path: Path
    cursor: Cursor
    limit_bytes: int
    longest: int = LONGEST_RECORD
    skipped: list[Skipped] = field(default_factory=list)
    more: bool = False
    again: bool = False

    def records(self) -> Iterator[tuple[int, Record]]:
        """Each whole line that holds a JSON object, and the byte it begins at. Raises TranscriptUnreadable."""
        try:
            with self.path.open("rb") as file:
                if not _continues(file, self.cursor):
                    self.again = True
                    self.cursor = Cursor()
                start = offset = self.cursor.offset
                skipping = self.cursor.skipping
                file.seek(offset)
                while True:
                    if offset - start >= self.limit_bytes:
                        self.more = bool(file.read(1))
                        break
                    if skipping:
                        part = file.readline(_SKIP_AT_ONCE)
                        if not part:
                            break
                        offset += len(part)
                        skipping = not part.endswith(b"\n")
                        continue
                    line = file.readline(self.longest + 1)
                    if not line:
                        break
                    whole = line.endswith(b"\n")
                    if not whole and len(line) > self.longest:
                        self.skipped.append(Skipped(offset, len(line), "too long"))
                        offset += len(line)
                        skipping = True
                        continue
                    record = _object(line, first=not offset)
                    if record is None and not whole:
                        # No beginning of an object is an object: without its end, this one is still being written.
                        break
                    if record is None:
                        record = _glued(line)
                    begin, offset = offset, offset + len(line)
                    if record is None and line.strip(_BLANK):
                        self.skipped.append(Skipped(begin, len(line), "unreadable"))
                    # What is not needed is not held while the next line is read: lines can be long.
                    del line
                    if record is not None:
                        yield begin, record
                    del record
                head, tail = _marks(file, offset)
        except OSError as error:
            raise TranscriptUnreadable(self.path, error.strerror or type(error).__name__) from error
        self.cursor = Cursor(offset, head, tail, skipping)


def first_records(path: Path, most: int = 512 * 1024) -> list[Record]:
    """The objects on the whole lines among the first `most` bytes of a file. Never raises."""
    try:
        with path.open("rb") as file:
            data = file.read(most)
    except OSError:
        return []
    whole = data if len(data) < most else data[: data.rfind(b"\n") + 1]
    found = (_object(line, first=not at) for at, line in enumerate(whole.split(b"\n")))
    return [record for record in found if record is not None]


def _continues(file: BinaryIO, cursor: Cursor) -> bool:
    return not cursor.offset or _marks(file, cursor.offset) == (cursor.head, cursor.tail)


def _marks(file: BinaryIO, offset: int) -> tuple[str, str]:
    """Digests of the first and of the last bytes before `offset`."""
    if not offset:
        return "", ""
    file.seek(0)
    head = file.read(min(HEAD_BYTES, offset))
    begin = max(0, offset - TAIL_BYTES)
    file.seek(begin)
    return digest(head), digest(file.read(offset - begin))


def _glued(line: bytes) -> Record | None:
    """The object at the end of a line that a killed process left half written, so that the next one stands behind it."""
    at = 0
    for _ in range(_MOST_BEGINNINGS):
        at = line.find(_BEGINNING, at + 1)
        if at < 0:
            break
        record = _object(line[at:])
        if record is not None:
            return record
    return None


def _object(line: bytes, *, first: bool = False) -> Record | None:
    if first:
        line = line.removeprefix(_BOM)
    if not line.startswith(b"{") or line[-3:].rstrip(b"\r\n").endswith(b"\0"):
        line = line.strip(_BLANK)
        if not line.startswith(b"{"):
            return None
    try:
        found = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
