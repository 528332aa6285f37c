"""`cems update`: from the release index to a program that runs, or back to the one that ran."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cems.core.paths import Home
from cems.core.service.client import Client, DaemonUnreachable, OperationError, is_running
from cems.core.service.lock import DaemonLock
from cems.installer import environment
from cems.installer.environment import UpdateFailed
from cems.installer.release_index import Release, fetch

_SETUP_SECONDS = 900.0
_ASK_SECONDS = 10.0
_HANDOVER_SECONDS = 60.0
_POLL_SECONDS = 0.5

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Updated:
    """`trouble` is what the new version's setup had to say where it did not end well; the program itself works."""

    version: str
    trouble: str = ""


def sessions_alive(home: Home) -> int:
    """How many agents' sessions the running daemon knows; 0 where none runs."""
    return int(_asked(home).get("sessions") or 0)


def update(home: Home, release: Release, say: Say, environ: Mapping[str, str] = os.environ) -> Updated:
    """Put the release in place of what is installed. Raises UpdateFailed, IndexProblem; then all is as it was.

    This process runs from the environment that is replaced, so once that has happened it imports nothing more.
    """
    lock = DaemonLock(home.root / "update.lock")
    if not lock.acquire():
        raise UpdateFailed("another update is running")
    try:
        say(f"Fetching {release.filename}")
        with tempfile.TemporaryDirectory(prefix="proof-", dir=home.root) as folder:
            wheel = fetch(release, Path(folder))
            say("Installing it into a copy of the environment")
            copy = environment.copy(home)
            try:
                environment.install(copy, wheel, release.digest, environ)
                say("Trying it out")
                environment.prove(home, copy, release.version, environ)
                _change_over(home, copy, release.version, environ)
            finally:
                # The copy where something failed, else what ran before.
                environment.remove(copy)
        return _finish(home, release.version, say, environ)
    finally:
        lock.release()


def _change_over(home: Home, copy: Path, version: str, environ: Mapping[str, str]) -> None:
    try:
        environment.exchange(home.env, copy)
    except OSError as problem:
        raise UpdateFailed(f"{home.env} cannot be replaced ({problem.strerror})") from None
    status, said = environment.run([home.bin / "cems", "--version"], environ, _ASK_SECONDS * 6)
    if status != 0 or said.strip() != f"cems {version}":
        environment.exchange(home.env, copy)
        raise UpdateFailed(f"the release does not start from {home.bin / 'cems'}: {said.strip()[:200]}")


def _finish(home: Home, version: str, say: Say, environ: Mapping[str, str]) -> Updated:
    """The new version's own setup, and its daemon in the place of the old one's."""
    say("Setting it up")
    command = (home.bin / "cems", "setup", "--yes")
    variables = {**environ, "CEMS_HOME": str(home.root)}
    status, said = environment.run(command, variables, _SETUP_SECONDS)
    lines = [line for line in said.splitlines() if line.startswith("cems: ")]
    trouble = "" if status == 0 else (lines or said.splitlines() or [f"exit {status}"])[-1]
    _hand_over(home, version, variables)
    return Updated(version, trouble.removeprefix("cems: "))


def _hand_over(home: Home, version: str, environ: Mapping[str, str]) -> None:
    """Any caller of a higher version makes the old daemon leave to a new one; one that does not is stopped."""
    client = Client(home, context={})
    end = time.monotonic() + _HANDOVER_SECONDS
    while time.monotonic() < end:
        running = client.health(_ASK_SECONDS)
        if running is None and not is_running(home):
            # None runs: the next that is started is the new one.
            return
        now = (running or {}).get("version")
        if now == version and running and running.get("state") != "keyword":
            return
        if running and now != version:
            environment.run([home.bin / "cems", "daemon", "status", "--json"], environ, _ASK_SECONDS * 3)
        time.sleep(_POLL_SECONDS)
    if (client.health(_ASK_SECONDS) or {}).get("version") != version:
        environment.run([home.bin / "cems", "daemon", "restart"], environ, _HANDOVER_SECONDS)


def _asked(home: Home) -> dict[str, Any]:
    """The running daemon's status; empty where none answers."""
    try:
        return Client(home, context={}).call("status", {}, start=False, timeout=_ASK_SECONDS)
    except (DaemonUnreachable, OperationError, OSError):
        return {}
