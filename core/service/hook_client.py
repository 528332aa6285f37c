"""The hook process: standard input to the daemon, the daemon's answer to standard output, in one deadline.

It runs before every prompt and around every tool call, so it costs what a bare interpreter costs: it runs
under `python -I -S` and imports built-ins only (`socket`, `json` or `os` would each cost as much as
everything here). Whatever goes wrong, it prints nothing, exits 0 and leaves one line in
`<CEMS_HOME>/logs/hook-failures`.
"""

import _socket
import sys
from time import monotonic, sleep, time

from cems import __version__
from cems.core.agent_env import AGENT_VARIABLES, CONTEXT_PID, GUARD_VARIABLE
from cems.core.service.context import HEADER, OWNER, TO_FILE, encode
from cems.core.service.endpoint import (
    DEFAULT_HOOK_DEADLINE,
    LOOPBACK,
    MAX_ENDPOINT_BYTES,
    UNIX,
    Endpoint,
    bounded_deadline,
    parse_endpoint,
)

if sys.platform == "win32":
    import nt as system
else:
    import posix as system

# `typing` itself would cost more than this whole module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")
    R = TypeVar("R")
else:
    import _signal

DEADLINE_VARIABLE = "CEMS_HOOK_DEADLINE"
START_DAEMON = "--start-daemon"

MAX_INPUT = 16 * 1024 * 1024
MAX_ANSWER = 1024 * 1024
MAX_HEAD = 16 * 1024
# A process that cannot be killed by its own write: whoever reads our output and stalls gets this long.
WRITE_SECONDS = 10.0
RETRY_SECONDS = 0.01
# A working daemon answers well before this; only then is it worth asking the kernel whether it is stopped.
SUSPICIOUS_SECONDS = 0.15
MAX_FAILURES_BYTES = 64 * 1024
# Longer values of an agent's variables are not ids or folders.
MAX_VARIABLE = 4096
SO_PEERCRED = 17


class HookFailure(Exception):
    """The hook prints nothing. Its argument is the word that goes to the failure log."""


class NoDaemon(Exception):
    """Nothing listens, or what listened went away before it answered: worth starting one and asking again."""


def run(home: str) -> None:
    """What the launcher calls: find the script named on the command line in an adapter's `hooks` folder and
    run it.

    A name no adapter has is not an error: an agent's configuration may be newer than this program. Never
    returns.
    """
    try:
        script = sys.argv[1] if len(sys.argv) > 1 else ""
        if script == START_DAEMON:
            _start_daemon(home, successor=True)
        elif script.startswith("cems_") and script.isidentifier() and (folder := _script_folder(script)):
            sys.path.append(folder)
            __import__(script).main(home)
    except BaseException as problem:  # noqa: BLE001 - the fail-open edge: an agent must never see a hook fail
        _note(home, "launcher", type(problem).__name__)
    system._exit(0)


def main(script: str, home: str) -> None:
    """Answer one hook event and end the process with status 0. `home` is CEMS_HOME. Never returns."""
    try:
        if GUARD_VARIABLE not in _environment((GUARD_VARIABLE,)):
            _answer(script, home)
    except HookFailure as failure:
        _note(home, script, str(failure))
    except BaseException as problem:  # noqa: BLE001 - the fail-open edge, counted for `cems doctor`
        _note(home, script, type(problem).__name__)
    # Straight out: the interpreter's own farewell costs a millisecond and could still print.
    system._exit(0)


def _answer(script: str, home: str) -> None:
    began = monotonic()
    given = _environment((DEADLINE_VARIABLE,)).get(DEADLINE_VARIABLE, "")
    seconds = bounded_deadline(given, 0.0)
    _limit(seconds or DEFAULT_HOOK_DEADLINE, script, home)
    endpoint = _endpoint(home)
    if not seconds:
        seconds = endpoint.deadline if endpoint else DEFAULT_HOOK_DEADLINE
        if seconds != DEFAULT_HOOK_DEADLINE:
            _limit(seconds, script, home)
    end = began + seconds

    # The agent reads it once a prompt, whatever becomes of us: an old answer must not stand there.
    owner = _environment((CONTEXT_PID,)).get(CONTEXT_PID, "")
    if owner:
        from cems.core.service import context_file

        owner = context_file.emptied(home, owner)
    body = _read_input()
    started = False
    while True:
        if endpoint:
            try:
                answer, to_file = _exchange(endpoint, script, body, end, owner)
            except NoDaemon:
                pass
            else:
                break
        if not started:
            started = True
            _start_daemon(home)
        if monotonic() + RETRY_SECONDS >= end:
            raise HookFailure("no-daemon")
        sleep(RETRY_SECONDS)
        endpoint = _endpoint(home)
    if not to_file:
        _write_output(answer)
    elif owner and answer:
        _finish_late()
        context_file.put(home, owner, answer)


def _limit(seconds: float, script: str, home: str) -> None:
    """End the process quietly after `seconds`, also out of a system call that never returns."""
    if sys.platform == "win32":
        return

    def expire(_number: int, _frame: object) -> None:
        _note(home, script, "deadline")
        system._exit(0)

    _signal.signal(_signal.SIGALRM, expire)
    # The agent may have started us with the signal blocked.
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGALRM,))
    _signal.setitimer(_signal.ITIMER_REAL, seconds)


def _environment(names: "tuple[str, ...]") -> "dict[str, str]":
    """The variables of these names that are set; undecodable bytes as surrogates."""
    found = {}
    if sys.platform == "win32":
        for name in names:
            if name in system.environ:
                found[name] = system.environ[name]
    else:
        for name in names:
            value = system.environ.get(name.encode())
            if value is not None:
                found[name] = value.decode("utf-8", "surrogateescape")
    return found


def _endpoint(home: str) -> "Endpoint | None":
    try:
        file = system.open(home + "/endpoint", system.O_RDONLY)
    except OSError:
        return None
    try:
        return parse_endpoint(system.read(file, MAX_ENDPOINT_BYTES + 1))
    except OSError:
        return None
    finally:
        system.close(file)


def _read_input() -> bytes:
    parts = []
    size = 0
    while part := system.read(0, 1 << 20):
        parts.append(part)
        size += len(part)
        if size > MAX_INPUT:
            raise HookFailure("input-too-long")
    return b"".join(parts)


def _request(endpoint: Endpoint, script: str, body: bytes, owner: str = "") -> bytes:
    context = {"client": "hook", "version": __version__}
    if owner:
        context[OWNER] = owner
    # A folder that was deleted under the agent has no name; the agent's input often says it anyway.
    try:
        if sys.platform == "win32":
            context["cwd"] = system.getcwd()
        else:
            context["cwd"] = system.getcwdb().decode("utf-8", "surrogateescape")
    except OSError:
        pass
    for name, value in _environment(AGENT_VARIABLES).items():
        if len(value) <= MAX_VARIABLE:
            context[name] = value
    head = (
        f"POST /hook/{script} HTTP/1.1\r\nHost: {LOOPBACK}\r\nConnection: close\r\n"
        f"Authorization: Bearer {endpoint.token}\r\n{HEADER}: {encode(context)}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _exchange(endpoint: Endpoint, script: str, body: bytes, end: float, owner: str) -> "tuple[bytes, bool]":
    """The daemon's answer, and whether it goes into the context file; NoDaemon when nobody is there, HookFailure when it
    is not an answer of ours."""
    connection = _connect(endpoint, end)
    try:
        request = memoryview(_request(endpoint, script, body, owner))
        while request:
            request = request[_wait(connection, end, connection.send, request) :]
        received = b""
        while (answer := read_answer(received)) is None:
            part = _wait(connection, end, connection.recv, 1 << 16)
            if not part:
                if received:
                    raise HookFailure("short-answer")
                raise NoDaemon
            received += part
        return answer, goes_to_file(received)
    except (BrokenPipeError, ConnectionResetError) as reset:
        raise NoDaemon from reset
    finally:
        connection.close()


def _connect(endpoint: Endpoint, end: float) -> _socket.socket:
    unix = endpoint.kind == UNIX
    if unix and not _private(endpoint.path):
        raise NoDaemon
    connection = _socket.socket(_socket.AF_UNIX if unix else _socket.AF_INET, _socket.SOCK_STREAM)
    while True:
        try:
            _wait(connection, end, connection.connect, endpoint.path if unix else (LOOPBACK, endpoint.port))
            return connection
        except (ConnectionRefusedError, FileNotFoundError) as absent:
            connection.close()
            raise NoDaemon from absent
        except BlockingIOError:
            # Every place in its queue is taken.
            sleep(RETRY_SECONDS)


def _private(path: str) -> bool:
    """Whether the socket's folder is ours alone. A cleaner may remove it from /tmp, and anybody make it
    again.
    """
    if sys.platform == "win32":
        return True
    try:
        found = system.lstat(path.rpartition("/")[0])
    except OSError:
        return False
    return found.st_uid == system.geteuid() and found.st_mode & 0o170022 == 0o040000


def _wait(connection: _socket.socket, end: float, step: "Callable[[T], R]", argument: "T") -> "R":
    """`step(argument)`, repeated while the deadline allows and the daemon is not stopped."""
    suspicious = False
    while (remaining := end - monotonic()) > 0:
        connection.settimeout(remaining if suspicious else min(remaining, SUSPICIOUS_SECONDS))
        try:
            return step(argument)
        except TimeoutError:
            suspicious = True
            if _stopped(connection):
                raise HookFailure("stopped") from None
    raise HookFailure("deadline")


def _stopped(connection: _socket.socket) -> bool:
    """Whether the daemon is stopped or a zombie: Linux tells, elsewhere the deadline has to do."""
    if sys.platform != "linux":
        return False
    try:
        peer = int.from_bytes(connection.getsockopt(_socket.SOL_SOCKET, SO_PEERCRED, 12)[:4], sys.byteorder)
        file = system.open(f"/proc/{peer}/stat", system.O_RDONLY)
    except OSError:
        return False
    try:
        return system.read(file, 512).rpartition(b")")[2][1:2] in (b"T", b"t", b"Z")
    except OSError:
        return False
    finally:
        system.close(file)


def read_answer(received: bytes) -> "bytes | None":
    """The body of a complete answer, None while more must come; HookFailure for anything but an answer of
    ours.
    """
    head, gap, body = received.partition(b"\r\n\r\n")
    if not gap:
        if len(head) > MAX_HEAD or not received.startswith(b"HTTP/1.1 200"[: len(received)]):
            raise HookFailure("bad-answer")
        return None
    status, headers = _head(head)
    lengths = [value for name, value in headers if name == b"content-length"]
    if (
        not status.startswith(b"HTTP/1.1 200 ")
        or (b"x-cems", b"1") not in headers
        or len(lengths) != 1
        or not lengths[0].isdigit()
        or len(lengths[0]) > 8
        or any(name == b"transfer-encoding" for name, _ in headers)
    ):
        raise HookFailure("bad-answer")
    length = int(lengths[0])
    if length > MAX_ANSWER or len(body) > length:
        raise HookFailure("bad-answer")
    return body if len(body) == length else None


def goes_to_file(received: bytes) -> bool:
    """Whether a complete answer is for the agent's context file and not for standard output."""
    return (b"x-cems-to", TO_FILE) in _head(received.partition(b"\r\n\r\n")[0])[1]


def _head(head: bytes) -> "tuple[bytes, list[tuple[bytes, bytes]]]":
    status, *lines = head.split(b"\r\n")
    return status, [(name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]


def _finish_late() -> None:
    """From here on half an answer would be worse than a late one; but nobody waits for a dead reader for ever."""
    if sys.platform != "win32":
        _signal.setitimer(_signal.ITIMER_REAL, WRITE_SECONDS)


def _write_output(answer: bytes) -> None:
    _finish_late()
    try:
        while answer:
            answer = answer[system.write(1, answer) :]
    except OSError:
        # The agent has closed our output: it wants no answer any more.
        pass


def _script_folder(script: str) -> str:
    """The `hooks` folder of the adapter that brings `script`, or "". Adapters are found, never named, in the
    core.
    """
    for package in sys.modules["cems"].__path__:
        adapters = package + "/adapters"
        try:
            agents = system.listdir(adapters)
        except OSError:
            continue
        for agent in agents:
            folder = f"{adapters}/{agent}/hooks"
            try:
                system.stat(f"{folder}/{script}.py")
            except OSError:
                continue
            return folder
    return ""


def _start_daemon(home: str, *, successor: bool = False) -> None:
    from cems.core.service.launch import SUCCESSOR_WAIT, spawn_daemon

    spawn_daemon(home, sys.executable, wait_lock=SUCCESSOR_WAIT if successor else 0.0)


def _note(home: str, script: str, reason: str) -> None:
    """Add one line (unix time, script, reason) to the failure log, which never grows past 64 KB."""
    try:
        file = system.open(home + "/logs/hook-failures", system.O_WRONLY | system.O_APPEND | system.O_CREAT, 0o600)
        if system.fstat(file).st_size < MAX_FAILURES_BYTES:
            system.write(file, f"{int(time())} {script} {reason}\n".encode())
    except OSError:
        # A full disk or a missing folder; there is nowhere left to say so.
        pass
