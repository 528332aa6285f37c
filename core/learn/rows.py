"""Reading a database that somebody else writes, without ever writing to it. Light."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from cems.core.learn.transcript import TranscriptUnreadable

_PATIENCE = 1.0


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that can only read, with rows by name. Raises TranscriptUnreadable, also for what is raised inside.

    A database in WAL mode that nobody has open needs a file beside it even to be read; where the folder cannot be written,
    the database is taken as it lies there.
    """
    try:
        with closing(_connected(path)) as connection:
            yield connection
    except (sqlite3.Error, OSError) as error:
        raise TranscriptUnreadable(path, str(error) or type(error).__name__) from error


def _connected(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise FileNotFoundError(2, "no such file")
    address = path.absolute().as_uri()
    for options in ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(f"{address}?{options}", uri=True, timeout=_PATIENCE, isolation_level=None)
        # Agents store what models and tools gave them, and not all of that is text.
        connection.text_factory = _text
        connection.row_factory = sqlite3.Row
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            if "unable to open" not in str(error) or "immutable" in options:
                raise
            continue
        return connection
    raise sqlite3.OperationalError("unable to open database file")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
