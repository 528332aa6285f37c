"""`cems mcp`: a thin process between an agent's MCP client (JSON-RPC lines over stdio) and the daemon's MCP server.

It answers `initialize`, `ping` and the lists itself, at once, and forwards the rest to the daemon's `/mcp/` in threads,
starting a daemon when none runs. It lives as long as the agent, so it is kept small: it runs under `python -I -S` and
imports built-ins only (`json` and `threading` alone would double the time of its start).
"""

import sys
from _json import encode_basestring_ascii
from _thread import allocate_lock, start_new_thread
from time import monotonic, sleep

from cems import __version__
from cems.core.agent_env import AGENT_VARIABLES
from cems.core.service import hook_client
from cems.core.service.context import HEADER, encode
from cems.core.service.endpoint import read_endpoint
from cems.core.service.hook_client import HookFailure, NoDaemon
from cems.core.service.launch import spawn_daemon
from cems.core.service.mcp_call import Call, CallFailed, Lost
from cems.core.service.mcp_messages import MAX_LINE, Lines, TooLong, parse, path_of, to_json, whole_characters

if sys.platform == "win32":
    import nt as system
else:
    import posix as system

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, NoReturn
elif sys.platform != "win32":
    import _signal

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MAX_AT_ONCE = 64
START_SECONDS = 30.0
# What is being answered when the client closes our input gets this long.
FAREWELL_SECONDS = 0.7
ROOTS_SECONDS = 1.0
RETRY_SECONDS = 0.02
PARENT_SECONDS = 0.5
DYING_SECONDS, DYING_RETRY_SECONDS = 2.0, 0.25
# How often a client that asked for progress hears that we still wait.
PROGRESS_SECONDS = 1.0

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL_ERROR = -32700, -32600, -32601, -32603
UNKNOWN_METHODS = ("server/discover",)
LISTS = {"tools/list": "tools", "resources/list": "resources", "prompts/list": "prompts"}
CAPABILITIES = '{"tools":{"listChanged":false},"resources":{"subscribe":false,"listChanged":false},"prompts":{"listChanged":false}}'


def main(home: str) -> "NoReturn":
    """Serve the client at our standard input and output until it closes them or ends. Never returns."""
    if sys.platform == "win32":
        import msvcrt

        for stream in (0, 1):
            msvcrt.setmode(stream, system.O_BINARY)
    else:
        # An interrupt ends us quietly; Python would print where it was.
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    Proxy(home).serve()
    system._exit(0)


class Proxy:
    """One client's connection. The main thread reads; each forwarded request has a thread of its own."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.version = VERSIONS[0]
        self.running = 0
        self._writing = allocate_lock()
        self._counting = allocate_lock()
        self._calls: dict[object, Call] = {}
        self._asks_roots = False
        self._roots: list[str] = []
        self._roots_asked = 0
        self._roots_answered = 0
        self._manifest: Any = None
        try:
            self._cwd = system.getcwd()
        except OSError:
            self._cwd = ""
        if sys.platform != "win32":
            start_new_thread(_leave_with_parent, (system.getppid(),))

    def serve(self) -> None:
        """Read lines until the end of input, then let running calls finish for a moment."""
        reader = Lines()
        while (line := reader.next()) is not None:
            if isinstance(line, TooLong):
                self.fail(line.guess_id(), INVALID_REQUEST, f"A message may have at most {MAX_LINE} bytes.")
            elif line.strip():
                self.receive(line)
        end = monotonic() + FAREWELL_SECONDS
        while self.running and monotonic() < end:
            sleep(0.01)

    def receive(self, line: bytes) -> None:
        """Handle one message."""
        try:
            message = parse(line)
        except ValueError:
            self.fail(None, PARSE_ERROR, "This line is not JSON in UTF-8.")
            return
        method = message.get("method") if isinstance(message, dict) else None
        if not isinstance(message, dict):
            self.fail(None, INVALID_REQUEST, "A message must be a JSON object; batches are not supported.")
        elif method is None:
            self._take_answer(message)
        elif not isinstance(method, str):
            self.fail(message.get("id"), INVALID_REQUEST, "`method` must be a string.")
        elif message.get("id") is None:
            self._take_notification(method, message)
        else:
            self._take_request(message["id"], method, message, line)

    def _take_request(self, request_id: object, method: str, message: "dict[str, Any]", line: bytes) -> None:
        if isinstance(request_id, (dict, list, bool)):
            self.fail(None, INVALID_REQUEST, "`id` must be a string or a number.")
        elif method == "initialize":
            self._initialize(request_id, message)
        elif method == "ping":
            self.answer(request_id, "{}")
        elif method in UNKNOWN_METHODS:
            self.fail(request_id, METHOD_NOT_FOUND, f"Method not found: {method}")
        elif method in LISTS:
            self.answer(request_id, to_json({LISTS[method]: self._read_manifest()[LISTS[method]]}))
        elif method == "resources/templates/list":
            self.answer(request_id, '{"resourceTemplates":[]}')
        else:
            while self.running >= MAX_AT_ONCE:
                sleep(RETRY_SECONDS)
            call = Call(request_id, method, message, whole_characters(line))
            with self._counting:
                self.running += 1
                self._calls[request_id] = call
            start_new_thread(self._forward, (call,))

    def _take_notification(self, method: str, message: "dict[str, Any]") -> None:
        if method == "notifications/cancelled":
            params = message.get("params")
            identifier = params.get("requestId") if isinstance(params, dict) else None
            call = self._calls.get(identifier) if isinstance(identifier, (str, int, float)) else None
            if call:
                call.cancel()
        elif self._asks_roots and method in ("notifications/initialized", "notifications/roots/list_changed"):
            self._roots_asked += 1
            self._send(f'{{"jsonrpc":"2.0","id":"cems-roots-{self._roots_asked}","method":"roots/list"}}'.encode())

    def _take_answer(self, message: "dict[str, Any]") -> None:
        """The client answers only what we asked: its roots. An error leaves the ones we knew."""
        if message.get("id") != f"cems-roots-{self._roots_asked}" or not self._roots_asked:
            return
        result = message.get("result")
        roots = result.get("roots") if isinstance(result, dict) else None
        if isinstance(roots, list):
            uris = [root.get("uri") for root in roots if isinstance(root, dict)]
            self._roots = [path for path in map(path_of, uris) if path]
        self._roots_answered = self._roots_asked

    def _initialize(self, request_id: object, message: "dict[str, Any]") -> None:
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if params.get("protocolVersion") in VERSIONS:
            self.version = params["protocolVersion"]
        capabilities = params.get("capabilities")
        self._asks_roots = isinstance(capabilities, dict) and isinstance(capabilities.get("roots"), dict)
        instructions = encode_basestring_ascii(self._read_manifest()["instructions"])
        self.answer(
            request_id,
            f'{{"protocolVersion":"{self.version}","capabilities":{CAPABILITIES},'
            f'"serverInfo":{{"name":"cems","title":"CEMS memory","version":"{__version__}"}},'
            f'"instructions":{instructions}}}',
        )
        # The first call should not have to wait for a cold start.
        start_new_thread(self._start_early, ())

    def _start_early(self) -> None:
        endpoint = read_endpoint(self.home + "/endpoint")
        try:
            if endpoint:
                hook_client._connect(endpoint, monotonic() + 1.0).close()
            else:
                spawn_daemon(self.home, sys.executable)
        except (NoDaemon, HookFailure, OSError):
            # The first call will start it, or say what is wrong.
            pass

    def _read_manifest(self) -> "Any":
        if self._manifest is None:
            folder = __file__.rpartition("mcp_proxy")[0]
            with open(folder + "mcp_manifest.json", "rb", buffering=0) as file:  # noqa: PTH123 - no pathlib here
                self._manifest = parse(file.read())
        return self._manifest

    def _forward(self, call: "Call") -> None:
        if call.wants_progress:
            start_new_thread(self._tell_of_waiting, (call,))
        try:
            answer = self._answer_of_daemon(call)
            call.finish()
            if not call.cancelled:
                self._send(answer)
        except CallFailed as failure:
            call.finish()
            if not call.cancelled:
                self.fail(call.id, INTERNAL_ERROR, str(failure))
        except BaseException as problem:  # noqa: BLE001 - a client that gets no answer waits for ever
            call.finish()
            if not call.cancelled:
                self.fail(call.id, INTERNAL_ERROR, f"cems mcp failed: {type(problem).__name__}")
        finally:
            call.finish()
            with self._counting:
                self.running -= 1
                if self._calls.get(call.id) is call:
                    del self._calls[call.id]

    def _tell_of_waiting(self, call: "Call") -> None:
        """Until the answer is there, or the daemon tells of its progress itself: that we wait, and for what."""
        told = 0
        while not call.finished_within(PROGRESS_SECONDS):
            told += 1
            what = "waiting for the memory daemon" if call.connected else "starting the memory daemon"
            # Always more than before, and less than the first step of the daemon.
            value = f"{told / (told + 10.0):.4f}"
            note = f'"progressToken":{to_json(call.progress_token)},"progress":{value},"message":"{what}"'
            line = f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{{{note}}}}}'
            if not call.tell(self._send, line.encode(), ours=True):
                return

    def _answer_of_daemon(self, call: "Call") -> bytes:
        until = monotonic() + ROOTS_SECONDS
        while self._roots_answered < self._roots_asked and monotonic() < until:
            sleep(RETRY_SECONDS)
        status, body = self._exchange(call)
        # A line is a message: what the daemon sends has line breaks between tokens at the most.
        line = body.replace(b"\r", b" ").replace(b"\n", b" ")
        try:
            message = parse(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise CallFailed(
                f"The memory daemon sent something unexpected (HTTP {status}). `cems daemon logs` may say why."
            )
        error = message.get("error")
        if message.get("id") == call.id and ("result" in message or error):
            return line
        said = error.get("message") if isinstance(error, dict) else None
        raise CallFailed(str(said or f"The memory daemon refused the call (HTTP {status})."))

    def _exchange(self, call: "Call") -> "tuple[int, bytes]":
        """Status and body of the daemon's answer, from a daemon that is started when there is none."""
        until = monotonic() + START_SECONDS
        patience = DYING_SECONDS
        while True:
            endpoint = read_endpoint(self.home + "/endpoint")
            try:
                if endpoint:
                    return call.exchange(endpoint, self._context(), self._send)
            except NoDaemon:
                pass
            except Lost:
                if call.not_twice:
                    raise CallFailed(
                        "The memory daemon went away during the call, which may or may not have been carried out. "
                        "Look with memory_search or memory_get before you repeat it."
                    ) from None
            except HookFailure as failure:
                if str(failure) == "stopped" and patience > 0 and not call.not_twice:
                    # One that was killed looks like it while the system takes it down.
                    patience -= DYING_RETRY_SECONDS
                    sleep(DYING_RETRY_SECONDS)
                    continue
                if str(failure) == "stopped":
                    raise CallFailed("The memory daemon is stopped. Run `cems daemon stop`, then try again.") from None
                raise CallFailed("The memory daemon did not answer in time. `cems doctor` may say why.") from None
            if call.cancelled:
                raise CallFailed("cancelled")
            self._spawn()
            if monotonic() >= until:
                raise CallFailed(
                    f"No memory daemon answers, and starting one failed within {START_SECONDS:g} s. Run `cems doctor`."
                )
            sleep(RETRY_SECONDS)

    def _spawn(self) -> None:
        try:
            spawn_daemon(self.home, sys.executable)
        except OSError as problem:
            raise CallFailed(f"The memory daemon cannot be started ({problem.strerror}). Run `cems doctor`.") from None

    def _context(self) -> bytes:
        context = {"client": "mcp", "version": __version__, "cwd": self._cwd}
        if self._roots:
            context["roots"] = "\n".join(self._roots)
        for name, value in hook_client._environment(AGENT_VARIABLES).items():
            if len(value) <= hook_client.MAX_VARIABLE:
                context[name] = value
        return (
            f"MCP-Protocol-Version: {self.version}\r\n{HEADER}: {encode(context)}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        ).encode()

    def answer(self, request_id: object, result: str) -> None:
        """Send a result, given as JSON."""
        self._send(f'{{"jsonrpc":"2.0","id":{to_json(request_id)},"result":{result}}}'.encode())

    def fail(self, request_id: object, code: int, message: str) -> None:
        """Send an error."""
        text = encode_basestring_ascii(message)
        error = f'{{"code":{code},"message":{text}}}'
        self._send(f'{{"jsonrpc":"2.0","id":{to_json(request_id)},"error":{error}}}'.encode())

    def _send(self, line: bytes) -> None:
        rest = memoryview(line + b"\n")
        with self._writing:
            try:
                while rest:
                    rest = rest[system.write(1, rest) :]
            except OSError:
                # Nobody reads us any more.
                system._exit(0)


def _leave_with_parent(parent: int) -> None:
    """End this process when its parent ends: somebody else may hold the other end of our input open."""
    if sys.platform == "win32":
        return
    try:
        import select

        file = system.pidfd_open(parent)
        watch = select.poll()
        watch.register(file, select.POLLIN)
        while system.getppid() == parent and not watch.poll(60_000):
            pass
    except (AttributeError, ImportError, OSError):
        # Not Linux, or an old one.
        while system.getppid() == parent:
            sleep(PARENT_SECONDS)
    system._exit(0)
