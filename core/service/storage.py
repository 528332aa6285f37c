"""What a storage error means to the person who meets it."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cems.core.paths import Home

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def storage_problem(error: sqlite3.Error, home: Home) -> str:
    """One sentence: what is wrong, and what to do. Nothing of a memory is in it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(home)):
        return f"no space left on the disk of {home.root}, so nothing was changed; free some and try again"
    if code in _DAMAGE:
        return f"the journal is damaged: {error}; `cems doctor` says what to restore"
    return f"the journal cannot be used: {error}; `cems doctor` says more"


def _is_full(home: Home) -> bool:
    """SQLite reports some writes that found no room as a plain input or output error."""
    import shutil

    try:
        return shutil.disk_usage(home.root).free < 1 << 20
    except OSError:
        return False
