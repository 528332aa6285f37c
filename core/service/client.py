"""Asking, starting and stopping the daemon, for the CLI and the installer. Standard library only."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from cems import __version__
from cems.core.agent_env import AGENT_VARIABLES
from cems.core.paths import Home
from cems.core.service.ancestry import ancestor_agent
from cems.core.service.context import HEADER, encode
from cems.core.service.endpoint import LOOPBACK, UNIX, Endpoint, read_endpoint
from cems.core.service.launch import spawn_daemon
from cems.core.service.listening import is_private_folder
from cems.core.service.lock import is_locked, lock_holder, process_state
from cems.core.service.logs import read_start_failure

START_SECONDS = 10.0
ASK_SECONDS = 2.0
RETRY_SECONDS = 0.02
MAX_ATTEMPTS = 3
EXIT_UNREACHABLE = 5


class DaemonUnreachable(Exception):
    """No daemon answers. The message says what was tried and what to do; the program ends with status 5."""

    exit_code = EXIT_UNREACHABLE


class OperationError(Exception):
    """The daemon refused or failed: `code` for programs, the message for people, `exit_code` for the shell.

    `details` is the whole error object of the answer.
    """

    def __init__(self, code: str, message: str, exit_code: int, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.exit_code = exit_code
        self.details = dict(details or {})


class Client:
    """Asks the daemon of one home. Each call is a connection of its own, so a restarted daemon is no special
    case.
    """

    def __init__(self, home: Home, context: Mapping[str, str] | None = None) -> None:
        self._home = home
        self._context = dict(cli_context() if context is None else context)

    def call(self, op: str, payload: Mapping[str, Any], *, start: bool = True, timeout: float = 30.0) -> dict[str, Any]:
        """The answer of operation `op`. Starts the daemon when none runs and `start` is true.

        Waits at most `timeout` seconds, a start and a still loading daemon included. Raises
        DaemonUnreachable, or OperationError with what the daemon said.
        """
        end = time.monotonic() + timeout
        body = json.dumps(payload).encode("utf-8", "surrogatepass")
        attempts = 0
        while True:
            endpoint = self._endpoint(start, end)
            try:
                status, raw = _request(endpoint, "POST", f"/v1/{op}", body, self._context, end - time.monotonic())
            except (ConnectionError, FileNotFoundError, http.client.BadStatusLine) as problem:
                # It left between the two; a daemon that takes over comes back within the time. But what ends the
                # daemon each time it is asked must not be asked for ever.
                attempts += 1
                if not start or attempts == MAX_ATTEMPTS or time.monotonic() + RETRY_SECONDS > end:
                    raise DaemonUnreachable(self._absent()) from problem
                time.sleep(RETRY_SECONDS)
                continue
            except (OSError, http.client.HTTPException) as problem:
                raise DaemonUnreachable(self._silent(timeout)) from problem
            error = _error(raw) if status != 200 else None
            if error is None:
                return _object(raw, op)
            if error.code == "starting" and time.monotonic() + RETRY_SECONDS < end:
                time.sleep(RETRY_SECONDS)
                continue
            if error.code == "starting":
                raise DaemonUnreachable(str(error))
            raise error

    def health(self, timeout: float = ASK_SECONDS) -> dict[str, Any] | None:
        """What the running daemon says about itself (pid, version, state, uptime_s, reason); None when none
        answers.
        """
        endpoint = self._reachable()
        if endpoint is None:
            return None
        try:
            status, raw = _request(endpoint, "GET", "/health", b"", self._context, timeout)
            return _object(raw, "health") if status == 200 else None
        except (OSError, http.client.HTTPException, DaemonUnreachable):
            return None

    def start(self, timeout: float = START_SECONDS) -> None:
        """Make sure that a daemon listens; DaemonUnreachable when none does after `timeout` seconds."""
        self._endpoint(True, time.monotonic() + timeout)

    def _endpoint(self, start: bool, end: float) -> Endpoint:
        end = min(end, time.monotonic() + START_SECONDS)
        while True:
            endpoint = self._reachable()
            if endpoint is not None:
                holder = lock_holder(self._home.lock)
                if holder and process_state(holder) == "T":
                    raise DaemonUnreachable(f"The daemon (pid {holder}) is stopped. `cems daemon restart` replaces it.")
                return endpoint
            if not start or time.monotonic() > end:
                raise DaemonUnreachable(self._absent())
            try:
                self._home.create()
                spawn_daemon(str(self._home.root), sys.executable)
            except OSError as problem:
                raise DaemonUnreachable(f"The daemon could not be started: {problem}.") from problem
            time.sleep(RETRY_SECONDS)

    def _reachable(self) -> Endpoint | None:
        """The endpoint of a daemon that takes connections."""
        endpoint = read_endpoint(self._home.endpoint)
        if endpoint is None:
            return None
        try:
            connect(endpoint, ASK_SECONDS).close()
        except OSError:
            return None
        return endpoint

    def _absent(self) -> str:
        failure = read_start_failure(self._home)
        why = f" The last start failed: {failure[1]}." if failure else ""
        return f"No daemon answers for {self._home.root}.{why} Try `cems daemon start`, then `cems daemon logs`."

    def _silent(self, timeout: float) -> str:
        return (
            f"The daemon did not answer within {timeout:g} seconds. `cems daemon logs` may say why; "
            "`cems daemon restart` replaces it."
        )


def cli_context() -> dict[str, str]:
    """What the CLI says about its caller: folder, version, terminal or not, and the agent's variables."""
    context = {
        "client": "cli",
        "version": __version__,
        "tty": "1" if sys.stdin is not None and sys.stdin.isatty() else "0",
        "ancestor_agent": ancestor_agent(),
    }
    # The folder may have been removed under us.
    with contextlib.suppress(OSError):
        context["cwd"] = os.getcwd()  # noqa: PTH109 - kept as text: it may not be UTF-8
    context.update({name: os.environ[name] for name in AGENT_VARIABLES if name in os.environ})
    return context


def connect(endpoint: Endpoint, timeout: float) -> socket.socket:
    """A connection to the daemon at `endpoint`. Raises OSError, also when the socket's folder is not ours
    alone.
    """
    if endpoint.kind != UNIX:
        return socket.create_connection((LOOPBACK, endpoint.port), timeout)
    folder = os.path.dirname(endpoint.path)  # noqa: PTH120
    if not is_private_folder(folder):
        raise ConnectionRefusedError(f"{folder} is not a folder of ours alone")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(endpoint.path)
    except OSError:
        connection.close()
        raise
    return connection


def daemon_pid(home: Home) -> int | None:
    """The proven pid of the daemon that holds this home's lock; None when none runs or there is no proof."""
    return lock_holder(home.lock)


def is_running(home: Home) -> bool:
    """Whether a daemon holds this home's lock, whatever any file says."""
    return is_locked(home.lock)


def stop_daemon(home: Home, timeout: float = 10.0) -> bool:
    """Stop the daemon: asked, then told (SIGTERM), then killed, each only while it still holds the lock.

    False when none ran. Raises DaemonUnreachable when one runs on that is not proven to be ours.
    """
    if not is_running(home):
        return False
    steps: list[tuple[Callable[[], None], float]] = [
        (lambda: _ask_to_stop(home), timeout),
        (lambda: _signal(home, signal.SIGTERM), timeout / 2),
        (lambda: _signal(home, getattr(signal, "SIGKILL", signal.SIGTERM)), 5.0),
    ]
    for step, patience in steps:
        holder = daemon_pid(home)
        # A stopped process hears nothing but the last step; do not wait for it.
        deaf = holder is not None and process_state(holder) == "T"
        step()
        if _wait_until_free(home, 0.5 if deaf else patience):
            return True
    raise DaemonUnreachable(
        f"Something holds {home.lock} and does not stop; `cems daemon status` shows what is known about it."
    )


def _ask_to_stop(home: Home) -> None:
    endpoint = read_endpoint(home.endpoint)
    if endpoint is None:
        return
    with contextlib.suppress(OSError, http.client.HTTPException):
        _request(endpoint, "POST", "/v1/shutdown", b"{}", {}, ASK_SECONDS)


def _signal(home: Home, number: int) -> None:
    # Asked again each time: the pid may be somebody else's by now.
    pid = daemon_pid(home)
    if pid is not None and pid > 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            if sys.platform != "win32":
                os.kill(pid, signal.SIGCONT)


def _wait_until_free(home: Home, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while is_running(home):
        if time.monotonic() > end:
            return False
        time.sleep(RETRY_SECONDS)
    return True


class _Connection(http.client.HTTPConnection):
    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        super().__init__(LOOPBACK, timeout=timeout)
        self._endpoint = endpoint
        self._seconds = timeout

    def connect(self) -> None:
        self.sock = connect(self._endpoint, self._seconds)


def _request(
    endpoint: Endpoint, method: str, path: str, body: bytes, context: Mapping[str, str], timeout: float
) -> tuple[int, bytes]:
    connection = _Connection(endpoint, max(timeout, 0.05))
    try:
        headers = {
            "Authorization": f"Bearer {endpoint.token}",
            "Content-Type": "application/json",
            "Connection": "close",
            HEADER: encode(dict(context)),
        }
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _error(raw: bytes) -> OperationError:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        error = json.loads(raw)["error"]
        return OperationError(str(error["code"]), str(error["message"]), int(error["exit"]), error)
    return OperationError("internal", "The daemon failed without saying why; `cems daemon logs` may tell.", 1)


def _object(raw: bytes, op: str) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        answer = json.loads(raw)
        if isinstance(answer, dict):
            return answer
    raise DaemonUnreachable(f"What answers at the daemon's address does not speak our language ({op}).")
