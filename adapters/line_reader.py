"""What the readers of agents that keep a session as a file of JSON lines have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cems.adapters.telling import Teller
from cems.core.learn.lines import Lines
from cems.core.learn.transcript import LIMIT_BYTES, Cursor, Reading, SessionSource


class LineReader(ABC):
    """See `cems.core.learn.transcript.ReadsTranscripts`. An agent's own says where the files are and what a line tells."""

    def sessions(self, home: Path, environ: Mapping[str, str], since: float = 0.0) -> Iterable[SessionSource]:
        for path in self.files(home, environ):
            if changed(path, since):
                source = self.source(path)
                if source is not None:
                    yield source

    @abstractmethod
    def files(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        """The records of all sessions."""

    @abstractmethod
    def source(self, path: Path) -> SessionSource | None:
        """The session that the file is of; None where it is of none."""

    @abstractmethod
    def tell(self, record: dict[str, Any], offset: int, teller: Teller) -> None:
        """Add what the line says."""

    def read(self, source: SessionSource, cursor: Cursor, limit_bytes: int = LIMIT_BYTES) -> Reading:
        lines = Lines(source.path, cursor, limit_bytes)
        teller = Teller(source, cursor)
        for offset, record in lines.records():
            if lines.again:
                teller.begin_again()
            self.tell(record, offset, teller)
            del record
        if lines.again:
            teller.begin_again()
        after = replace(lines.cursor, calls=teller.open_calls)
        return Reading(tuple(teller.events), after, tuple(lines.skipped), lines.more, lines.again)


def found(folder: Path, *patterns: str) -> Iterator[Path]:
    """Files below a folder, in the order of their names; nothing where it cannot be read."""
    for pattern in patterns:
        try:
            yield from sorted(folder.glob(pattern))
        except OSError:
            continue


def changed(path: Path, since: float) -> bool:
    """Whether it is a file that was written at `since` or later."""
    try:
        found_out = path.stat()
    except OSError:
        return False
    return path.is_file() and found_out.st_mtime >= since
