"""Starting an agent that reads a file of ours, so that what we say of its prompts reaches it: `cems run`. Light."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from cems.core.paths import PRIVATE_DIR, PRIVATE_FILE, Home
from cems.core.service.context_file import path_of


class Launch(NamedTuple):
    """The program (None where it is not found), the variables it needs besides, and what the person should know."""

    program: Path | None
    variables: Mapping[str, str]
    note: str = ""


class Launches(Protocol):
    """What an adapter has besides whose agent reads a file of ours (`reads_context_file`)."""

    @property
    def title(self) -> str: ...

    def launch(self, home: Path, environ: Mapping[str, str], context: Path) -> Launch:
        """How to start the agent so that it reads `context`. `home` and `environ` are the person's. Starts nothing."""


def make_context_file(home: Home) -> Path:
    """An empty file (0600) for this very process, whose pid stays the same when it becomes the agent. Those of processes
    that are gone are removed. Raises OSError."""
    home.run.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
    if os.name == "posix" and home.run.stat().st_mode & 0o077:
        home.run.chmod(PRIVATE_DIR)
    path = Path(path_of(str(home.root), os.getpid()))
    for other in home.run.glob("context-*"):
        pid = other.name.removeprefix("context-")
        if other == path or not pid.isdecimal() or not _lives(int(pid)):
            with suppress(FileNotFoundError):
                other.unlink()
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
    return path


def _lives(pid: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True
