"""One daemon leaving for another: which version may take over, how often, and how it is started."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time

from cems.core.paths import PRIVATE_FILE, Home
from cems.core.service.launch import SUCCESSOR_WAIT, spawn_daemon

MAX_HANDOVERS = 2
HANDOVER_WINDOW = 600.0

_RELEASE = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,5}")


def is_newer(theirs: str, ours: str) -> bool:
    """Whether version `theirs` is higher than `ours`, by numbers; what is no version is never higher."""
    their_numbers, our_numbers = _numbers(theirs), _numbers(ours)
    return bool(their_numbers) and their_numbers > our_numbers


def may_hand_over(home: Home) -> bool:
    """Whether another handover is in the budget: two in ten minutes, so that two installs cannot take turns
    for ever.

    A True counts as one.
    """
    path = home.logs / "handovers"
    now = time.time()
    recent = []
    with contextlib.suppress(OSError, ValueError):
        recent = [float(line) for line in path.read_text("ascii").split()]
    recent = [when for when in recent if 0 <= now - when < HANDOVER_WINDOW]
    if len(recent) >= MAX_HANDOVERS:
        return False
    text = "".join(f"{int(when)}\n" for when in [*recent, now])
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
    return True


def start_successor(home: Home) -> None:
    """Start the daemon that takes the lock when we leave: the one of the install that the launcher belongs to
    now.

    Raises OSError when it cannot be started.
    """
    launcher = home.bin / "cems-hook"
    if launcher.exists():
        # We may be of the install that was replaced, and do not know where the new one lives. The launcher
        # does.
        subprocess.Popen(
            [launcher, "--start-daemon"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    else:
        spawn_daemon(str(home.root), sys.executable, wait_lock=SUCCESSOR_WAIT)


def _numbers(version: str) -> tuple[int, ...]:
    release = _RELEASE.match(version)
    if not release:
        return ()
    numbers = [int(part) for part in release[0].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers) or (0,)
