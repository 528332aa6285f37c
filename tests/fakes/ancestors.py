"""Real processes with the names of agents: scripts that run what they are given and wait for it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

# The `exit` keeps the shell from becoming the program it runs.
_SCRIPT = '#!/bin/sh\n"$@"\nexit $?\n'


class Ancestors:
    """Programs of any name, kept in `folder`. Their process's name is that of their file, as for a real agent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def command(self, *names: str, run: Sequence[str | Path]) -> list[str]:
        """The command line that runs `run` under programs of these names, outermost first.

        `sh` is a plain shell between two of them, `setsid` a session of its own without a process in between.
        """
        words: list[str] = []
        for name in names:
            words += ["setsid"] if name == "setsid" else [str(self._program(name))]
        return [*words, *map(str, run)]

    def innermost(self, pid: int, named: str = "") -> int:
        """The pid at the end of the chain that starts with `pid`; waits until a program of that name is there."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            last = pid
            while children := Path(f"/proc/{last}/task/{last}/children").read_text().split():
                last = int(children[0])
            if named in ("", Path(f"/proc/{last}/comm").read_text().strip()):
                return last
            time.sleep(0.02)
        raise AssertionError(f"no {named} came up")

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End the whole chain that starts with `process`."""
        os.kill(self.innermost(process.pid), signal.SIGKILL)
        process.wait()

    def _program(self, name: str) -> Path:
        program = self._folder / name
        if not program.exists():
            program.write_text(_SCRIPT)
            program.chmod(0o700)
        return program
