"""Keeps the suite away from the real home folder: reaching for an agent's or our own files there raises.

An audit hook sees every open, rename, delete and child process of this interpreter, also where the code under
test catches the error; what it stopped is kept in `violations`, so that no `except` can hide it.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

PROTECTED_NAMES = (
    ".agents",
    ".cems",
    ".claude",
    ".claude.json",
    ".codex",
    ".config/goose",
    ".config/opencode",
    ".config/systemd/user",
    ".copilot",
    ".cursor",
    ".gemini",
    ".local/bin/cems",
    ".local/bin/cems-observer",
    ".pi",
    "Library/LaunchAgents",
)
"""What CEMS or an agent keeps in a home folder. Not all of it: the repository itself may stand there."""

_PATH_EVENTS = {
    "open": 1,
    "os.chmod": 1,
    "os.link": 2,
    "os.listdir": 1,
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rename": 2,
    "os.rmdir": 1,
    "os.scandir": 1,
    "os.symlink": 2,
    "os.truncate": 1,
    "os.utime": 1,
    "sqlite3.connect": 1,
}
"""How many of an event's first arguments are paths."""

_CHILD_EVENTS = {"subprocess.Popen": 3, "os.exec": 2, "os.posix_spawn": 2}
"""Which of an event's arguments is the child's environment."""


class RealHomeTouched(BaseException):
    """A test, or code it runs, reached for the real home. No `Exception`: fail-open code lets it pass."""


def real_homes(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The person's home folders before any redirection: the account's, and `HOME` where it differs."""
    named = {pwd.getpwuid(os.getuid()).pw_dir, environ.get("HOME", "")}
    return tuple(sorted({os.path.realpath(home) for home in named if home} | {home for home in named if home}))


class HomeGuard:
    """`repository` is never protected, wherever it stands (agents keep worktrees in their own folders)."""

    def __init__(self, homes: Iterable[str], repository: Path) -> None:
        self.homes = tuple(homes)
        self.violations: list[str] = []
        self._repository = f"{repository}/"
        self._protected = tuple(f"{home.rstrip('/')}/{name}" for home in self.homes for name in PROTECTED_NAMES)

    def start(self) -> None:
        """Python has no way to remove an audit hook: it stays until the interpreter ends."""
        sys.addaudithook(self._audit)

    def protects(self, path: str) -> bool:
        """Whether a path is one of the protected places, or inside one."""
        full = os.path.abspath(path)  # noqa: PTH100 - Path.resolve would touch the file
        if f"{full}/".startswith(self._repository):
            return False
        return any(full == place or full.startswith(f"{place}/") for place in self._protected)

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in _PATH_EVENTS:
            for value in arguments[: _PATH_EVENTS[event]]:
                if isinstance(value, str | bytes | os.PathLike) and self.protects(os.fsdecode(value)):
                    self._stop(f"{event} of {os.fsdecode(value)}")
        elif event in _CHILD_EVENTS:
            environment = arguments[_CHILD_EVENTS[event]]
            if isinstance(environment, Mapping):
                self._check_child(arguments[0], environment)

    def _check_child(self, program: object, environment: Mapping[object, object]) -> None:
        home = environment.get("HOME", environment.get(b"HOME"))
        if home is None:
            # A program without HOME asks the account for it, and finds the real one.
            self._stop(f"{program!r} started without HOME; give it a temporary one")
        elif isinstance(home, str | bytes) and os.path.realpath(os.fsdecode(home)) in self.homes:
            self._stop(f"{program!r} started with HOME={os.fsdecode(home)}")

    def _stop(self, what: str) -> None:
        self.violations.append(what)
        raise RealHomeTouched(what)
