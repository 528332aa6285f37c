"""A copy of the journal and its keys for each of the last days: what there is to restore when the journal is damaged."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cems.core.journal import JournalDamaged
from cems.core.paths import PRIVATE_DIR, PRIVATE_FILE
from cems.core.value import KeyLost

if TYPE_CHECKING:
    from cems.core.paths import Home

KEPT = 7
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z")


class CopyDamaged(Exception):
    """The copy of the journal is not sound, so it was not kept; the older ones stay."""


def copies(home: Home) -> list[Path]:
    """The folders of the daily copies, newest first; each has `journal.db` and `keys/`."""
    if not home.backups.is_dir():
        return []
    found = [path for path in home.backups.iterdir() if _DAY.match(path.name) and (path / "journal.db").is_file()]
    return sorted(found, reverse=True)


def copy_daily(home: Home) -> Path | None:
    """Make today's copy unless it is there; returns its folder when it was made. An empty journal is not copied.

    Safe beside a daemon that writes. Raises sqlite3.Error, OSError, CopyDamaged.
    """
    target = home.backups / datetime.now(UTC).strftime("%Y-%m-%d")
    if target.exists() or not home.journal.is_file():
        return None
    for folder in (home.backups, making := target.with_name(f".{target.name}.{os.getpid()}")):
        folder.mkdir(mode=PRIVATE_DIR, exist_ok=True)
    try:
        if not _copy_journal(home.journal, making / "journal.db"):
            return None
        shutil.copytree(home.keys, making / "keys", copy_function=_copy_private)
        making.rename(target)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    for old in copies(home)[KEPT:]:
        shutil.rmtree(old)
    return target


def replace_all(home: Home) -> None:
    """Remove every copy and make a new one: older ones hold what was purged since."""
    if home.backups.is_dir():
        for path in home.backups.iterdir():
            if _DAY.match(path.name.lstrip(".")[:10]) and path.is_dir():
                shutil.rmtree(path)
    copy_daily(home)


def restore_advice(home: Home) -> str:
    """What a person does about a journal or a key that cannot be read: a sentence that names the newest copy."""
    found = copies(home)
    if not found:
        return f"restore {home.root} from your own backup; no copy was kept in {home.backups}"
    return (
        f"restore {found[0]}/journal.db (cems daemon stop; rm {home.journal}*; cp -r {found[0]}/. {home.root}/); "
        "what was changed after that day is not in it"
    )


@contextmanager
def advising(home: Home) -> Iterator[None]:
    """Around the opening of the journal: a damaged or lost one, or its key, is reported with what to restore.

    Raises JournalDamaged, KeyLost.
    """
    if is_missing(home):
        raise JournalDamaged(f"{home.journal} is gone or empty, and this home has had one; {restore_advice(home)}")
    try:
        yield
    except (JournalDamaged, KeyLost) as error:
        raise type(error)(f"{error}; {restore_advice(home)}") from error


def is_missing(home: Home) -> bool:
    """Whether the journal is gone or emptied although this home has had one: a new one must not take its place."""
    try:
        if home.journal.stat().st_size:
            return False
    except FileNotFoundError:
        pass
    wal = home.journal.with_name(f"{home.journal.name}-wal")
    # SQLite deletes the WAL beside an empty file, and begins anew.
    left = wal.exists() and wal.stat().st_size > 0
    return left or bool(copies(home)) or any(home.store.glob("*.lance"))


def _copy_journal(source: Path, target: Path) -> bool:
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY, PRIVATE_FILE))
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as reading,
        closing(sqlite3.connect(target)) as writing,
    ):
        reading.backup(writing)
        # A copy that needs no other file beside it.
        writing.execute("PRAGMA journal_mode=DELETE")
        if writing.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise CopyDamaged(f"the copy of {source} is damaged, so it was not kept")
        return bool(writing.execute("SELECT EXISTS (SELECT 1 FROM chain)").fetchone()[0])


def _copy_private(source: str, target: str) -> None:
    with open(source, "rb") as file, open(os.open(target, os.O_CREAT | os.O_WRONLY, PRIVATE_FILE), "wb") as copy:  # noqa: PTH123
        shutil.copyfileobj(file, copy)
        copy.flush()
        os.fsync(copy.fileno())
