"""What the readers of agents that keep all sessions in one SQLite database have in common."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cems.adapters.line_reader import changed
from cems.adapters.telling import Teller
from cems.core.learn.rows import opened
from cems.core.learn.transcript import (
    LIMIT_BYTES,
    LONGEST_RECORD,
    Cursor,
    Reading,
    SessionSource,
    Skipped,
    TranscriptUnreadable,
    digest,
)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a session: its number, its id, how long its data is, and the data, {} where that is too long."""

    number: int
    name: str
    length: int
    data: Mapping[str, Any]


class RowReader(ABC):
    """See `cems.core.learn.transcript.ReadsTranscripts`. An agent's own says which rows, and what one tells.

    A cursor is the number of the last row read, and a digest of that row's id: SQLite gives the number of a deleted row to
    the next one, and an agent that goes back in a session deletes rows.
    """

    def sessions(self, home: Path, environ: Mapping[str, str], since: float = 0.0) -> Iterable[SessionSource]:
        path = self.database(home, environ)
        # In WAL mode only the file beside it changes.
        if not any(changed(each, since) for each in (path, path.with_name(path.name + "-wal"))):
            return
        try:
            with opened(path) as connection:
                found = list(self.sources(connection, path, since))
        except TranscriptUnreadable:
            return
        yield from found

    @abstractmethod
    def database(self, home: Path, environ: Mapping[str, str]) -> Path:
        """Where the database is, were it not there."""

    @abstractmethod
    def sources(self, connection: sqlite3.Connection, path: Path, since: float) -> Iterator[SessionSource]:
        """The sessions in it that changed since then."""

    @abstractmethod
    def row_name(self, connection: sqlite3.Connection, source: SessionSource, number: int) -> str | None:
        """The id of a row of this session; None where there is no such row."""

    @abstractmethod
    def rows(self, connection: sqlite3.Connection, source: SessionSource, after: int) -> Iterator[Row]:
        """The session's rows after a number, in order, as far as they are finished."""

    @abstractmethod
    def tell(self, row: Row, teller: Teller) -> None:
        """Add what the row says."""

    def read(self, source: SessionSource, cursor: Cursor, limit_bytes: int = LIMIT_BYTES) -> Reading:
        teller = Teller(source, cursor)
        skipped: list[Skipped] = []
        again = more = False
        taken = 0
        with opened(source.path) as connection:
            # One transaction: what is checked is what is read.
            connection.execute("BEGIN")
            offset, tail = cursor.offset, cursor.tail
            if offset:
                name = self.row_name(connection, source, offset)
                if name is None or digest(name.encode()) != tail:
                    again, offset, tail = True, 0, ""
                    teller.begin_again()
            for row in self.rows(connection, source, offset):
                # What is too long is not loaded.
                weight = row.length if row.length <= LONGEST_RECORD else 0
                if taken and taken + weight > limit_bytes:
                    more = True
                    break
                taken += weight
                offset, tail = row.number, digest(row.name.encode())
                if row.length > LONGEST_RECORD:
                    skipped.append(Skipped(row.number, row.length, "too long"))
                elif not row.data:
                    skipped.append(Skipped(row.number, row.length, "unreadable"))
                else:
                    self.tell(row, teller)
        after = Cursor(offset, "", tail, calls=teller.open_calls)
        return Reading(tuple(teller.events), after, tuple(skipped), more, again)
