"""Changing a file of the person's: through links, whole or not at all, and only as it was read."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK_WAIT = 2.0
LOCK_POLL = 0.05


class CannotWrite(Exception):
    """A file or folder that the person has made unwritable, on purpose or not; we do not go round that."""


class ChangedMeanwhile(Exception):
    """The file is not as it was read: somebody else wrote it in between. Read it again and plan anew."""


def real_path(path: Path) -> Path:
    """Where the bytes of `path` are: the end of its links. Raises CannotWrite where that is nowhere."""
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise CannotWrite(f"{path} is a link to {target}, and that folder does not exist. Mend the link first.")
    return target


def check_writable(path: Path) -> None:
    """Raise CannotWrite unless `path` may be written, or made, by a polite program.

    A rename would replace a read-only file without a complaint, and root may write anything; so the mode is
    asked.
    """
    target = real_path(path)
    if target.exists():
        if not target.is_file():
            raise CannotWrite(f"{path} is not a file.")
        if not target.stat().st_mode & 0o222 or not os.access(target, os.W_OK):
            raise CannotWrite(f"{path} is read-only. Make it writable (chmod u+w) or edit it yourself.")
    folder = next(parent for parent in target.parents if parent.exists())
    if not folder.is_dir() or not folder.stat().st_mode & 0o222 or not os.access(folder, os.W_OK | os.X_OK):
        raise CannotWrite(f"{folder} does not allow new files, so {path} cannot be written safely.")


def write(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace the content of `path` at once, or leave it. A file that exists keeps its mode and owner."""
    target = real_path(path)
    existing = target.stat() if target.exists() else None
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".cems", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if existing is not None and hasattr(os, "chown") and os.geteuid() == 0:
            os.chown(temporary, existing.st_uid, existing.st_gid)
        temporary.chmod(existing.st_mode & 0o7777 if existing is not None else mode)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def replace_content(path: Path, before: bytes | None, after: bytes | None, *, mode: int, lock: Path | None) -> None:
    """Take `path` from `before` to `after` (None: no file) and read it back. Its folder exists.

    Raises ChangedMeanwhile when it holds something else than `before`, or does not hold `after` in the end.
    """
    with _locked(lock):
        if _content(path) != before:
            raise ChangedMeanwhile(f"{path} was changed while this ran and was not written; run it again.")
        if after is None:
            path.unlink()
        else:
            write(path, after, mode=mode)
    if _content(path) != after:
        raise ChangedMeanwhile(f"{path} does not hold what was written to it; another program wrote it too.")


def make_folders(folder: Path) -> list[Path]:
    """Make `folder` and what it lies in; those that were missing, outermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o755)
    return missing[::-1]


def remove_if_empty(folders: tuple[Path, ...]) -> None:
    """Remove those of `folders` (outermost first) that hold nothing now."""
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


@contextmanager
def _locked(folder: Path | None) -> Iterator[None]:
    """Hold an agent's lock folder. One that stays is from a crash: the check of the content has to do."""
    held = False
    end = time.monotonic() + LOCK_WAIT
    while folder is not None and not held and folder.parent.is_dir():
        try:
            folder.mkdir()
            held = True
        except FileExistsError:
            if time.monotonic() > end:
                break
            time.sleep(LOCK_POLL)
    try:
        yield
    finally:
        if held and folder is not None:
            with suppress(OSError):
                folder.rmdir()


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
