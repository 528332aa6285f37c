"""Asking the daemon: who is asking and from where, and its errors as command errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cems.core.cli import console
from cems.core.cli.failures import UNREACHABLE, CommandError
from cems.core.paths import Home, cems_home

Document = dict[str, Any]

# Commands that say by themselves whether they are used where CEMS is paused.
_SAY_IT = frozenset(("pause", "resume", "pauses", "status", "check", "why"))
_said: list[Document] = []


def home() -> Home:
    """The CEMS_HOME in force. Raises CommandError where it cannot be told."""
    try:
        return cems_home()
    except (OSError, RuntimeError) as error:
        raise CommandError(f"cannot tell where CEMS keeps its files: {error}", next_step="set CEMS_HOME") from None


def working_folder() -> str:
    """The current folder; empty, with a notice, when it has been deleted under us."""
    try:
        return os.getcwd()  # noqa: PTH109 - a string is sent, and pathlib is not needed for it
    except OSError:
        console.note("this folder no longer exists; only what holds everywhere (scope user) is seen from here")
        return ""


def ask(op: str, payload: Document | None = None, *, start: bool = True, timeout: float = 30.0) -> Document:
    """The daemon's answer to one operation.

    `start` brings the daemon up when it is not running; `timeout` is in seconds. Raises CommandError: exit
    code 5 when the daemon cannot be reached, else the daemon's own.
    """
    from cems.core.service.client import Client

    # For its notice; the client sends the folder.
    working_folder()
    if op not in _SAY_IT:
        _say_paused()
    with translated():
        return Client(home()).call(op, payload or {}, start=start, timeout=timeout)


def paused(home: Home) -> Document | None:
    """The pause in force in the current folder, as the daemon's `status` tells it; None for none."""
    # Most people have none, and every command asks.
    if not os.path.lexists(home.pauses):
        return None
    from cems.core.pauses import read_pauses
    from cems.core.scope import session_scope

    try:
        folder = os.getcwd()  # noqa: PTH109
    except OSError:
        folder = ""
    return read_pauses(home.pauses).as_json(session_scope(folder).project)


def _say_paused() -> None:
    """Tell the person, once a command, that their agents see nothing of what they do here."""
    if not _said and (pause := paused(home())):
        from cems.core.cli.pause import described

        _said.append(pause)
        console.note(console.visible(f"CEMS is paused {described(pause)}"))


@contextmanager
def translated() -> Iterator[None]:
    """Errors of the daemon's client as CommandError."""
    from cems.core.service.client import DaemonUnreachable, OperationError

    try:
        yield
    except DaemonUnreachable as error:
        raise CommandError(str(error), exit_code=UNREACHABLE) from None
    except OperationError as error:
        raise CommandError(str(error), exit_code=error.exit_code, code=error.code) from None


def is_running(home: Home) -> bool:
    """Whether a daemon of this home lives, answering or not."""
    from cems.core.service import client

    return bool(client.is_running(home))
