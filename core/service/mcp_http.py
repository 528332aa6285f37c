"""Streamable HTTP for MCP clients: a port on the loopback while there is a token, and the door behind it.

Whoever comes in by it is an agent in the project of their token, whatever they say of themselves. Only `POST /mcp` is
answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import socket
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from cems.core.service.context import BOUND, HEADER, encode
from cems.core.service.endpoint import LOOPBACK
from cems.core.service.http_server import HttpServer
from cems.core.service.http_tokens import HttpTokens, Token

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 4 * 1024 * 1024
_PATHS = ("/mcp", "/mcp/")
_HOSTS = (b"127.0.0.1", b"localhost")
_BACKLOG = 64
_AGAIN_SECONDS = 2.0
# What the client says under these names is ours to say.
_OURS = (HEADER.lower().encode(), b"x-cems-stream", b"authorization", b"host")

logger = logging.getLogger("cems.daemon")


class McpHttp:
    """The port of one daemon. `app` serves `/mcp/`; `tokens` says who may come, and `changed` that they are others now."""

    def __init__(self, tokens: HttpTokens, app: App) -> None:
        self.tokens = tokens
        self.failure = tokens.damage
        """Why nobody is listened to although there is a token."""
        self.last_used: dict[str, float] = {}
        self._app = app
        self._changed = asyncio.Event()
        self._settled = asyncio.Condition()
        self._server: HttpServer | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def wanted(self) -> bool:
        """Whether somebody may come at any time, so that the daemon stays."""
        return bool(self.tokens.all)

    @property
    def url(self) -> str:
        """Where clients find us; empty while we do not listen."""
        return f"http://{LOOPBACK}:{self.tokens.port}/mcp" if self._server is not None else ""

    async def apply(self, seconds: float = 5.0) -> None:
        """Open or close the port as the tokens want it, and wait for that, at most so long."""
        # What failed before is tried again, and may not fail now.
        self.failure = self.tokens.damage
        self._changed.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._as_wanted(), seconds)

    async def _as_wanted(self) -> None:
        async with self._settled:
            await self._settled.wait_for(lambda: bool(self._server) == self.wanted or bool(self.failure))

    async def run(self) -> None:
        """Keep the port as the tokens want it, until cancelled."""
        try:
            while True:
                self._changed.clear()
                if self.wanted and self._server is None:
                    self._open()
                elif not self.wanted:
                    self._close()
                async with self._settled:
                    self._settled.notify_all()
                again = _AGAIN_SECONDS if self.wanted and self._server is None else None
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), again)
        finally:
            self._close()
            await asyncio.gather(*self._serving, return_exceptions=True)

    def _open(self) -> None:
        try:
            listening = _listen(self.tokens.port)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = "another program has it" if taken else error.strerror
            failure = f"port {self.tokens.port} of {LOOPBACK} cannot be listened to: {why}"
            if failure != self.failure:
                logger.error("MCP over HTTP: %s", failure)
            self.failure = failure
            return
        try:
            self.tokens.keep_port(listening.getsockname()[1])
        except OSError as error:
            # Without it kept, clients would have another address after the next start.
            listening.close()
            self.failure = f"the port cannot be kept: {error.strerror}"
            return
        self.failure = ""
        self._server = HttpServer(self)
        serving = asyncio.create_task(self._server.serve(sockets=[listening]), name="cems-mcp-http")
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        logger.info("MCP clients with a token are answered on port %d of the loopback", self.tokens.port)

    def _close(self) -> None:
        """Let nobody in any more; who is in is answered."""
        if self._server is not None:
            for each in getattr(self._server, "servers", []):
                each.close()
            self._server.should_exit = True
            self._server = None

    # -- the door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        if refusal := _refusal(scope, headers):
            await _respond(send, *refusal)
            return
        token = self._bearer(headers.get(b"authorization", b""))
        if token is None:
            await _respond(send, 401, "The token is missing or not in force; `cems mcp token` makes one.")
            return
        self.last_used[token.id] = time.time()
        await self._app(_as_ours(scope, headers, token), receive, send)

    def _bearer(self, given: bytes) -> Token | None:
        scheme, _, text = given.partition(b" ")
        if scheme.lower() != b"bearer" or not text:
            return None
        return self.tokens.bearer(text.strip().decode("utf-8", "replace"))


def _refusal(scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
    """Why a request is not looked at any further: it is a web page's, or none for us."""
    host, colon, port = headers.get(b"host", b"").partition(b":")
    if host.lower() not in _HOSTS or (colon and not port.isdigit()) or b"origin" in headers:
        return 403, "Requests from web pages are not answered."
    if scope["path"] not in _PATHS:
        return 404, "There is only /mcp here."
    if scope["method"] != "POST":
        return 405, "Only POST is answered: no stream is kept open, and there is no session to end."
    length = headers.get(b"content-length", b"")
    if length and (not length.isdigit() or int(length[:20]) > MAX_BODY):
        return 413, f"A request may have at most {MAX_BODY} bytes."
    return None


def _as_ours(scope: Scope, headers: dict[bytes, bytes], token: Token) -> Scope:
    """The request as the proxy would have sent it for an agent of the token's name in the token's project."""
    context = {"client": "mcp", "ancestor_agent": token.name, BOUND: token.project}
    kept = [(name, value) for name, value in scope["headers"] if name not in _OURS]
    kept += [(b"host", LOOPBACK.encode()), (HEADER.lower().encode(), encode(context).encode())]
    if b"text/event-stream" in headers.get(b"accept", b"").lower():
        kept.append((b"x-cems-stream", b"1"))
    return {**scope, "path": "/mcp/", "raw_path": b"/mcp/", "headers": kept}


def _listen(port: int) -> socket.socket:
    """A socket on the loopback, on a free port where it is 0. Raises OSError."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            # What a daemon before us closed a moment ago is no other program's.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


async def _respond(send: Send, status: int, message: str) -> None:
    body = json.dumps({"error": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    headers += [(b"allow", b"POST")] if status == 405 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
