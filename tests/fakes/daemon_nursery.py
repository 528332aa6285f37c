"""Real daemons by the dozen: everything is imported once, and each daemon is a fork of that. Only the model is a small one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fakes.daemon_home import REPOSITORY, wait_for

from cems.core.paths import Home
from cems.core.service.client import Client

_SOURCE = """
import os, sys
sys.path[:] = eval(sys.argv[1])
import lancedb, numpy, pyarrow, uvicorn
from cems.core.redact import clean
from cems.core.service import daemon, hooks, http_server, listening, routes, runtime
from cems.core.tokens import count_tokens
from tests.fakes.small_model import small_embedder

runtime.load_embedder = lambda *_, **__: small_embedder()
count_tokens("warm")
clean("warm")
os.write(1, b"ready\\n")
for line in sys.stdin:
    child = os.fork()
    if not child:
        daemon.run(["--home", line.strip()])
    os.write(1, b"%d\\n" % child)
    os.waitpid(child, 0)
    os.write(1, b"ended\\n")
"""


class Nursery:
    """Starts one daemon after the other, each for a home; `end` ends them all."""

    def __init__(self, root: Path) -> None:
        self.pid = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SOURCE, repr([str(REPOSITORY / "src"), str(REPOSITORY), *sys.path])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
            # The folder is named, so that whatever is left of a failed test is found and ended.
            env={**os.environ, "CEMS_TEST_ROOT": str(root), "TOKENIZERS_PARALLELISM": "false", "LANCEDB_LOG": "error"},
        )  # fmt: skip
        assert self._line() == "ready"

    def start(self, home: Home) -> Person:
        """A daemon that has loaded everything, or knows why it cannot; returns who can ask it."""
        assert self._process.stdin
        assert not self.pid
        self._process.stdin.write(f"{home.root}\n")
        self._process.stdin.flush()
        self.pid = int(self._line())
        asking = Person(home)
        wait_for(lambda: asking.answers(self.pid), 60)
        return asking

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to leave, and wait until it has."""
        self._end(signal.SIGTERM)

    def end(self) -> None:
        self.leave_none()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        assert self._process.wait(timeout=30) == 0

    def leave_none(self) -> None:
        if self.pid:
            self.kill()

    def _end(self, how: signal.Signals) -> None:
        os.kill(self.pid, how)
        assert self._line() == "ended"
        self.pid = 0

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()


class Person:
    """Asks the daemon of a home over its socket, from a folder of its own."""

    def __init__(self, home: Home) -> None:
        self._home = home
        # Of the run, not of the home: a copied home is asked from the same project.
        folder = Path.home() / "shop"
        folder.mkdir(exist_ok=True)
        self._client = Client(home, {"client": "cli", "tty": "1", "cwd": str(folder)})

    def __call__(self, name: str, body: Mapping[str, Any] | None = None, timeout: float = 60.0) -> dict[str, Any]:
        return self._client.call(name, body or {}, start=False, timeout=timeout)

    def answers(self, pid: int) -> bool:
        health = self._client.health(timeout=5.0)
        return health is not None and health.get("pid") == pid and health.get("state") != "keyword"

    def checks(self) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in self("check")["checks"]}

    def settled(self) -> dict[str, dict[str, Any]]:
        """The checks once the store holds everything."""
        end = time.monotonic() + 60
        while not self("settle", {"seconds": 30})["settled"]:
            assert time.monotonic() < end, "the store was not filled within a minute"
        return self.checks()


def cli(home: Home, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command line of this tree, for a home."""
    code = (
        f"import sys; sys.path[:] = {[str(REPOSITORY / 'src'), *sys.path]!r}; from cems.core.cli.main import run; run()"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *words], env={**os.environ, "CEMS_HOME": str(home.root)},
        cwd=folder or home.root.parent, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
