"""The daemon's socket and the endpoint file that leads to it, and whether both are still there."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import socket
import stat
import sys
import tempfile
from pathlib import Path

from cems.core.paths import PRIVATE_DIR, PRIVATE_FILE, Home
from cems.core.service.endpoint import (
    DEFAULT_HOOK_DEADLINE,
    LOOPBACK,
    TCP,
    UNIX,
    Endpoint,
    bounded_deadline,
    read_endpoint,
)
from cems.core.service.hook_client import DEADLINE_VARIABLE

# 108 bytes on Linux, 104 on macOS, the closing NUL included.
MAX_SOCKET_PATH = 100
SOCKET_NAME = "daemon.sock"
BACKLOG = 512

logger = logging.getLogger("cems.daemon")


def choose_socket_path(home: Path) -> Path:
    """Where the socket of this home belongs: under 100 bytes, in a folder only this user can enter.

    `$XDG_RUNTIME_DIR` when it is such a folder, else `<tmp>/cems-<uid>-<digest>`, else a new random folder.
    Raises OSError when not even that can be made.
    """
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        path = Path(runtime) / f"cems-{digest}.sock"
        if is_private_folder(path.parent) and len(os.fsencode(path)) < MAX_SOCKET_PATH:
            return path
    for temporary in (Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108 - the folder in it is checked
        folder = temporary / f"cems-{os.getuid()}-{digest}"
        with contextlib.suppress(OSError):
            folder.mkdir(mode=PRIVATE_DIR)
        path = folder / SOCKET_NAME
        if is_private_folder(folder) and len(os.fsencode(path)) < MAX_SOCKET_PATH:
            return path
    return Path(tempfile.mkdtemp(prefix="cems-", dir="/tmp")) / SOCKET_NAME


def is_private_folder(folder: Path | str) -> bool:
    """Whether `folder` is a real folder (no link), ours, that nobody else can enter."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


class Listener:
    """A listening socket with its endpoint file. Made only by the holder of the daemon's lock."""

    def __init__(self, home: Home, *, tcp: bool = sys.platform == "win32") -> None:
        self._home = home
        self.deadline = bounded_deadline(os.environ.get(DEADLINE_VARIABLE, ""), DEFAULT_HOOK_DEADLINE)
        token = secrets.token_hex(32)
        if tcp:
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            if sys.platform == "win32":
                # Without it another program may bind the same port and take our connections.
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            self.socket.bind((LOOPBACK, 0))
            port = self.socket.getsockname()[1]
            self.endpoint = Endpoint(TCP, port=port, token=token, deadline=self.deadline)
            self._socket_file: os.stat_result | None = None
        else:
            path = choose_socket_path(home.root)
            self.socket = _bind_unix(path)
            self.endpoint = Endpoint(UNIX, path=str(path), token=token, deadline=self.deadline)
            self._socket_file = path.lstat()
        self.socket.listen(BACKLOG)
        self.socket.setblocking(False)
        self.publish()

    def publish(self) -> None:
        """Write the endpoint file, whole or not at all, readable by us alone."""
        temporary = self._home.endpoint.with_name(f"endpoint.{os.getpid()}")
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
        try:
            os.write(file, self.endpoint.encode())
        finally:
            os.close(file)
        temporary.replace(self._home.endpoint)

    def set_deadline(self, seconds: float) -> None:
        """The hooks' deadline from the settings: a hook has no time to read those itself."""
        if seconds != self.endpoint.deadline:
            self.endpoint.deadline = seconds
            self.publish()

    def is_published(self) -> bool:
        """Whether the endpoint file still leads here."""
        found = read_endpoint(self._home.endpoint)
        return found is not None and found.address == self.endpoint.address and found.token == self.endpoint.token

    def is_reachable(self) -> bool:
        """Whether the socket's name still leads to us; cleaners of /tmp remove what looks old."""
        if self._socket_file is None:
            return True
        try:
            return os.path.samestat(Path(self.endpoint.path).lstat(), self._socket_file)
        except OSError:
            return False

    def withdraw(self) -> None:
        """Take back the endpoint file, so that nobody new comes. Only ours: a successor may have written its
        own.
        """
        if self.is_published():
            self._home.endpoint.unlink(missing_ok=True)

    def close(self) -> None:
        """Withdraw, close and remove the socket's file."""
        self.withdraw()
        self.socket.close()
        if self.endpoint.kind == UNIX and self.is_reachable():
            with contextlib.suppress(OSError):
                path = Path(self.endpoint.path)
                path.unlink(missing_ok=True)
                if path.name == SOCKET_NAME:
                    path.parent.rmdir()


def _bind_unix(path: Path) -> socket.socket:
    # The lock is ours, so whoever made an older socket here is gone.
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    path.chmod(PRIVATE_FILE)
    return listening
