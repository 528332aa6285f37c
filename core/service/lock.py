"""The lock that makes one daemon per CEMS_HOME, held as long as the process lives, and who holds it.

`filelock` would do, but importing it costs 100 ms (it brings asyncio), and a daemon that finds the lock taken
should be gone before that. The kernel drops these locks with the process, however it dies.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# A client that asks whether the lock is taken holds it for microseconds itself.
PROBE_SECONDS = 0.1
DAEMON_MODULE = "cems.core.service.daemon"
# Windows locks are mandatory: lock a byte nobody reads.
WINDOWS_LOCKED_BYTE = 1 << 20


class DaemonLock:
    """The lock file. Its text, `pid start-time`, only says who holds it; the lock itself is the kernel's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1

    def acquire(self, wait: float = 0.0) -> bool:
        """Take the lock, trying for `wait` seconds (at least a tenth of one); False when another process has
        it.
        """
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        file = os.open(self._path, flags, 0o600)
        end = time.monotonic() + max(wait, PROBE_SECONDS)
        while not _try_lock(file):
            if time.monotonic() > end:
                os.close(file)
                return False
            time.sleep(0.01)
        self._file = file
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()} {_start_time(os.getpid())}\n".encode())
        return True

    def is_ours(self) -> bool:
        """Whether the file at the path is still the one we hold: a home that was removed is not ours any
        more.
        """
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._file))
        except OSError:
            return False

    def release(self) -> None:
        """Give the lock up; the file stays, because removing it would let two processes hold two locks."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock at `path`."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return not _try_lock(file)
    finally:
        os.close(file)


def lock_holder(path: Path) -> int | None:
    """The pid of the daemon that holds the lock; None when nobody does or the pid cannot be proven to be its.

    A pid alone proves nothing (it may be another program's by now): its start time or its command has to
    match.
    """
    if not is_locked(path):
        return None
    try:
        pid_text, _, started = path.read_text("ascii").strip().partition(" ")
        pid = int(pid_text)
    except (OSError, ValueError):
        return None
    if started:
        return pid if started == _start_time(pid) else None
    return pid if DAEMON_MODULE in _command(pid) else None


def process_state(pid: int) -> str:
    """The kernel's letter for a process's state (`R`, `S`, `T` stopped, `Z` zombie); "" where it is not
    known.
    """
    fields = _stat_fields(pid)
    return fields[0] if fields else ""


def _try_lock(file: int) -> bool:
    try:
        if sys.platform == "win32":
            os.lseek(file, WINDOWS_LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
            os.lseek(file, 0, os.SEEK_SET)
        else:
            # Not a POSIX record lock: those are lost when any descriptor of the file is closed in this
            # process.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat after the command's name, which may hold spaces and brackets itself."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _start_time(pid: int) -> str:
    """When the process started, in the kernel's ticks since boot; "" where /proc does not tell."""
    fields = _stat_fields(pid)
    return fields[19] if len(fields) > 19 else ""


def _command(pid: int) -> str:
    if sys.platform == "win32":
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        shown = subprocess.run(
            ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
        )
        return shown.stdout
    return ""
