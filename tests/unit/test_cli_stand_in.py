"""A stand-in for the daemon on a real socket, for the tests of the command line."""

from __future__ import annotations

import json
import os
import pty
import select
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from cems.core.paths import Home
from cems.core.service import context
from cems.core.service.endpoint import Endpoint
from cems.core.service.lock import DaemonLock

# The suite takes PYTHONPATH out of the environment, so a child is told where this copy of the program is.
WITH_PATH = f"import sys; sys.path[:] = {sys.path!r}\n"
PROGRAM = [sys.executable, "-c", f"{WITH_PATH}from cems.core.cli.main import run; run()"]
Document = dict[str, Any]
Answer = Document | Callable[[Document], Document]

MEMORY: Document = {
    "id": "m_1a2b3c4d5e6f70819a2b3c4d",
    "content": "Staging listens on port 8081",
    "title": "",
    "category": "decisions",
    "kind": "",
    "tags": ["ports"],
    "scope": "project:github.com/org/repo",
    "trust": "trusted",
    "valid_from": "2026-03-01T12:00:00.000Z",
    "valid_to": None,
    "recorded_at": "2026-03-02T12:00:00.000Z",
    "expired_at": None,
    "archived_at": None,
    "confidence": 0.9,
    "pinned": False,
    "score": 0.8314,
    "source": {"actor": "person", "agent": "", "session": "", "quote": ""},
    "model": "bundled/all-MiniLM-L6-v2",
    "tokens": 7,
}


class StandIn(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Speaks the daemon's HTTP: records each operation and answers from `answers`, else with an error."""

    daemon_threads = True

    def __init__(self, home: Home, socket_path: str) -> None:
        super().__init__(socket_path, _Handler)
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, Document]] = []
        self.contexts: list[dict[str, str]] = []
        self.home = home
        home.create()
        self._lock = DaemonLock(home.lock)
        assert self._lock.acquire()
        home.endpoint.write_bytes(Endpoint("unix", path=socket_path, token="ab" * 32).encode())
        home.endpoint.chmod(0o600)

    def refuse(self, op: str, code: str, message: str, exit_code: int) -> None:
        """Answer `op` with an error."""
        self.answers[op] = {"error": {"code": code, "message": message, "exit": exit_code}}

    def payload(self, op: str) -> Document:
        """The only payload that was sent for `op`."""
        [found] = [payload for name, payload in self.asked if name == op]
        return found

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A command that was interrupted does not wait for its answer."""

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        self._lock.release()


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_POST(self) -> None:
        op = self.path.removeprefix("/v1/")
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((op, payload))
        self.server.contexts.append(context.decode(self.headers[context.HEADER]))
        found = self.server.answers.get(op, {"error": {"code": "unknown", "message": f"no {op} here", "exit": 1}})
        answer = found(payload) if callable(found) else found
        body = json.dumps(answer).encode()
        self.send_response(400 if "error" in answer else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "a unix socket"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        pass


@contextmanager
def standing_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A stand-in for the daemon of `<folder>/cems`; the current folder is a clone of github.com/org/repo."""
    # A socket's path may have 100 bytes; pytest's own folders are longer.
    with tempfile.TemporaryDirectory(prefix="cems-t") as short:
        monkeypatch.setenv("CEMS_HOME", str(folder / "cems"))
        monkeypatch.setenv("TZ", "UTC")
        repository = folder / "repo"
        (repository / ".git").mkdir(parents=True)
        url = "git@github.com:org/repo.git"
        (repository / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {url}\n')
        monkeypatch.chdir(repository)
        server = StandIn(Home(folder / "cems"), f"{short}/daemon.sock")
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.stop()
        monkeypatch.chdir(folder)


def page(*memories: Document, **more: Any) -> Document:
    """The answer of `search` and `list`."""
    coverage = {"considered": 40, "total": 40}
    return {"memories": list(memories), "coverage": coverage, "next": None, **more}


def on_a_terminal(words: list[str], typed: str = "", cwd: Path | None = None, **environment: str) -> tuple[int, str]:
    """Run a command with all three streams on a terminal; returns its exit code and all it wrote."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env={**os.environ, "TERM": "xterm", **environment},
    )
    os.close(theirs)
    written = b""
    if typed:
        os.write(ours, typed.encode())
    end = time.monotonic() + 30
    while time.monotonic() < end and select.select([ours], [], [], 30)[0]:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    return process.wait(timeout=30), written.decode()


def test_the_stand_in_listens_and_holds_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standing_in(tmp_path, monkeypatch) as daemon, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(daemon.server_address))
        assert not DaemonLock(daemon.home.lock).acquire()
