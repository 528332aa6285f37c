"""One request of an MCP client on its way to the daemon and back.

Part of the proxy's process: built-ins only at the top.
"""

import _socket
from _thread import allocate_lock
from time import monotonic

from cems.core.service import hook_client
from cems.core.service.endpoint import LOOPBACK, Endpoint
from cems.core.service.hook_client import NoDaemon
from cems.core.service.mcp_messages import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_ANSWER = 64 * 1024 * 1024
CALL_SECONDS = 300.0
# Done twice, these would fail the second time, or undo what happened in between.
NOT_TWICE = ("memory_forget", "memory_update")
# What tells of its progress.
LONG = ("memory_maintenance",)


class CallFailed(Exception):
    """The daemon did not answer a call. The message says why and what to do."""


class Lost(Exception):
    """The daemon went away while it held a request that may have been carried out."""


class Call:
    """A request on its way to the daemon."""

    def __init__(self, request_id: object, method: str, message: "dict[str, Any]", body: bytes) -> None:
        self.id = request_id
        self.body = body
        params = message.get("params")
        self.not_twice = method == "tools/call" and isinstance(params, dict) and params.get("name") in NOT_TWICE
        meta = params.get("_meta") if isinstance(params, dict) else None
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        self.progress_token: str | int = token if isinstance(token, (str, int)) else ""
        self.wants_progress = token is not None and not isinstance(token, bool) and isinstance(token, (str, int))
        self.streamed = self.wants_progress and isinstance(params, dict) and params.get("name") in LONG
        self.cancelled = False
        self.connected = False
        self._told = False
        self._done = False
        self._telling = allocate_lock()
        self._finished = allocate_lock()
        self._finished.acquire()
        self._connection: _socket.socket | None = None

    def tell(self, send: "Callable[[bytes], None]", line: bytes, *, ours: bool = False) -> bool:
        """Send a word on the progress, unless the answer is on its way, or (`ours`, the proxy's) the daemon tells of it
        itself; returns whether it was sent.
        """
        with self._telling:
            if self._done or self.cancelled or (ours and self._told):
                return False
            self._told = self._told or not ours
            send(line)
            return True

    def finish(self) -> None:
        """From now on nothing but the answer is sent."""
        with self._telling:
            if not self._done:
                self._done = True
                self._finished.release()

    def finished_within(self, seconds: float) -> bool:
        """Wait for `finish`, at most so long."""
        return self._finished.acquire(True, seconds)

    def cancel(self) -> None:
        """Nobody waits for the answer any more: hang up."""
        self.cancelled = True
        connection = self._connection
        if connection:
            try:  # noqa: SIM105 - contextlib would cost the start of this process more than it saves here
                connection.shutdown(_socket.SHUT_RDWR)
            except OSError:
                pass

    def exchange(self, endpoint: Endpoint, headers: bytes, send: "Callable[[bytes], None]") -> "tuple[int, bytes]":
        """Send the request and read the answer; what comes before it in a stream goes to `send`. Raises NoDaemon while
        nothing was carried out, else Lost.
        """
        end = monotonic() + CALL_SECONDS
        connection = self._connection = hook_client._connect(endpoint, end)
        self.connected = True
        try:
            # A stream to an HTTP/1.0 client ends with the connection, and comes in no chunks.
            head = (
                f"POST /mcp/ HTTP/{'1.0' if self.streamed else '1.1'}\r\nHost: {LOOPBACK}\r\nConnection: close\r\n"
                f"Authorization: Bearer {endpoint.token}\r\nContent-Length: {len(self.body)}\r\n"
            ).encode()
            extra = b"X-Cems-Stream: 1\r\n" if self.streamed else b""
            rest = memoryview(head + headers + extra + b"\r\n" + self.body)
            try:
                while rest:
                    rest = rest[hook_client._wait(connection, end, connection.send, rest) :]
            except (BrokenPipeError, ConnectionResetError) as reset:
                # It may have refused before it had read all.
                try:
                    return self._read(connection, end, send)
                except Lost:
                    raise NoDaemon from reset
            return self._read(connection, end, send)
        finally:
            self._connection = None
            connection.close()

    def _read(self, connection: "_socket.socket", end: float, send: "Callable[[bytes], None]") -> "tuple[int, bytes]":
        received = bytearray()
        expected = -1
        while expected < 0 or len(received) < expected:
            part = self._receive(connection, end)
            received += part
            if expected < 0 and self.streamed and is_stream(received):
                return 200, self._read_events(connection, end, received, send)
            if expected < 0:
                expected = answer_length(received)
            if not part and (expected < 0 or len(received) < expected):
                raise Lost
            if len(received) > MAX_ANSWER:
                raise CallFailed("The memory daemon's answer is too long.")
        start = received.index(b"\r\n\r\n") + 4
        return int(received[9:12]), bytes(received[start:expected])

    def _read_events(
        self, connection: "_socket.socket", end: float, received: bytearray, send: "Callable[[bytes], None]"
    ) -> bytes:
        """The answer, which is the last message of a stream of events; those before it are sent on."""
        del received[: received.index(b"\r\n\r\n") + 4]
        while True:
            while (stop := received.find(b"\n")) >= 0:
                line = bytes(received[:stop]).strip()
                del received[: stop + 1]
                if line.startswith(b"data:"):
                    data = line[5:].strip()
                    message = parse(data) if data else None
                    if isinstance(message, dict) and "method" not in message:
                        return data
                    if message is not None:
                        self.tell(send, data)
            part = self._receive(connection, end)
            received += part
            if not part:
                raise Lost
            if len(received) > MAX_ANSWER:
                raise CallFailed("The memory daemon's answer is too long.")

    def _receive(self, connection: "_socket.socket", end: float) -> bytes:
        try:
            part: bytes = hook_client._wait(connection, end, connection.recv, 1 << 18)
        except ConnectionResetError as reset:
            raise Lost from reset
        return part


def is_stream(received: bytearray) -> bool:
    """Whether the head has come whole, and says that events follow."""
    head, gap, _ = bytes(received[: 1 << 16]).partition(b"\r\n\r\n")
    return bool(gap) and head[9:12] == b"200" and b"content-type: text/event-stream" in head.lower()


def answer_length(received: bytearray) -> int:
    """Bytes of the whole answer, head included; -1 while the head is not complete."""
    head, gap, _ = bytes(received[: 1 << 16]).partition(b"\r\n\r\n")
    if not gap:
        return -1
    status, *lines = head.split(b"\r\n")
    lengths = [
        value.strip()
        for name, _, value in (line.partition(b":") for line in lines)
        if name.lower() == b"content-length"
    ]
    if (
        not status.startswith(b"HTTP/1.1 ")
        or not status[9:12].isdigit()
        or len(lengths) != 1
        or not lengths[0].isdigit()
    ):
        raise CallFailed("What listens at the memory daemon's address is not one of ours. Run `cems doctor`.")
    return len(head) + len(gap) + int(lengths[0])
