"""Which form the records are in. Apart from `records.py`, so that the first stage can ask without importing it."""

from __future__ import annotations

import sqlite3

from cems.core.recall.terms import TERMS_VERSION

RECORDS_VERSION = 6
"""Goes up when the tables of `records.py` change: they are then made again from the journal."""

WANTED = f"{RECORDS_VERSION}.{TERMS_VERSION}"


def records_are_current(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there and of this version."""
    try:
        row = connection.execute("SELECT value FROM meta WHERE key = 'records_version'").fetchone()
    except sqlite3.OperationalError:
        return False
    return bool(row) and row[0] == WANTED
