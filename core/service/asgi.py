"""The daemon's front door: hooks are answered at once; everything else waits for the second stage and goes to
its app.

A plain ASGI callable, because it serves before Starlette and pydantic are imported.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Literal, Protocol

from cems import __version__
from cems.core.events import ContextFile
from cems.core.service.ancestry import AGENTS, PEER
from cems.core.service.context import BOUND, HEADER, TO_FILE, decode, encode
from cems.core.service.handover import is_newer
from cems.core.service.logs import where

MAX_BODY = 16 * 1024 * 1024
STARTING_SECONDS = 30.0

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
State = Literal["keyword", "ready", "broken"]

logger = logging.getLogger("cems.daemon")
_SCRIPT_PATH = re.compile(r"/hook/(cems_[a-z_]{1,64})")
_CONTEXT_HEADER = HEADER.lower().encode()
_LOCAL_HOSTS = (b"127.0.0.1", b"localhost")


class HookAnswerer(Protocol):
    """What the front door needs of the hook service."""

    async def answer(self, script: str, context: dict[str, str], raw: bytes) -> bytes:
        """The bytes for the hook's standard output, or a ContextFile; empty for nothing to say."""


class FrontDoor:
    """The ASGI callable. `settle` or `fail` is called once, when the second stage is there or will not be.

    `token` is demanded of every request when it is not empty (TCP). `on_newer` is called after a caller with
    a higher version has been answered, `on_shutdown` after a shutdown request has been.
    """

    def __init__(
        self,
        hooks: HookAnswerer,
        *,
        token: str = "",
        version: str = __version__,
        on_newer: Callable[[], None] = lambda: None,
        on_shutdown: Callable[[], None] = lambda: None,
        starting_seconds: float = STARTING_SECONDS,
    ) -> None:
        self._hooks = hooks
        self._token = token.encode()
        self._version = version
        self._on_newer = on_newer
        self._on_shutdown = on_shutdown
        self._starting_seconds = starting_seconds
        self._app: App | None = None
        self._settled = asyncio.Event()
        self._began = time.monotonic()
        self.state: State = "keyword"
        self.reason = ""
        self.running = 0
        self.last_request = time.monotonic()

    def settle(self, app: App) -> None:
        """The second stage is there: requests that waited go to `app`."""
        self._app = app
        self.state = "ready"
        self._settled.set()

    def fail(self, reason: str) -> None:
        """The second stage will not come: say why, in one line, to everybody but the hooks."""
        self.reason = reason
        self.state = "broken"
        self._settled.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        self.running += 1
        try:
            refusal = self._refusal(headers)
            if refusal:
                await _respond(send, *refusal)
                return
            context = _context(headers)
            if context is not None:
                context |= _connected(scope)
                scope = _with_context(scope, context)
            context = context or {}
            await self._route(scope, context, receive, send)
            if is_newer(context.get("version", ""), self._version):
                self._on_newer()
        finally:
            self.running -= 1
            self.last_request = time.monotonic()

    def _refusal(self, headers: dict[bytes, bytes]) -> tuple[int, bytes] | None:
        if self._token:
            # A web page can make a browser ask any port of this machine, under any host name it likes.
            host = headers.get(b"host", b"").rpartition(b":")[0] or headers.get(b"host", b"")
            if host not in _LOCAL_HOSTS or b"origin" in headers:
                return 403, _error("forbidden", "Requests from web pages are not answered.", 4)
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self._token):
                return 401, _error("unauthorized", "The token of this daemon is missing or wrong.", 4)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > MAX_BODY:
            return 413, _error("too-large", f"A request may have at most {MAX_BODY} bytes.", 2)
        return None

    async def _route(self, scope: Scope, context: dict[str, str], receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        hook = _SCRIPT_PATH.fullmatch(path)
        if hook and method == "POST":
            await self._hook(hook[1], context, receive, send)
        elif path == "/health" and method == "GET":
            await _respond(send, 200, json.dumps(self.health()).encode())
        elif path == "/v1/shutdown" and method == "POST":
            await _respond(send, 200, b"{}")
            self._on_shutdown()
        else:
            await self._forward(scope, receive, send)

    def health(self) -> dict[str, Any]:
        """What `cems daemon status` shows, also while the second stage is not there."""
        return {
            "pid": os.getpid(),
            "version": self._version,
            "state": self.state,
            "uptime_s": round(time.monotonic() - self._began, 1),
            "reason": self.reason,
        }

    async def _hook(self, script: str, context: dict[str, str], receive: Receive, send: Send) -> None:
        raw = await _read(receive)
        if raw is None:
            return
        try:
            answer = await self._hooks.answer(script, context, raw)
        except Exception as problem:  # noqa: BLE001 - an agent must never see a hook fail
            logger.error("hook %s failed: %s", script, where(problem))
            answer = b""
        more = [(b"x-cems-to", TO_FILE)] if isinstance(answer, ContextFile) else []
        await _respond(send, 200, answer, content_type=b"application/octet-stream", more=more)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.wait_for(self._settled.wait(), self._starting_seconds)
        except TimeoutError:
            message = "The daemon is still starting. Try again in a moment."
            await _respond(send, 503, _error("starting", message, 5))
            return
        if self._app is None:
            await _respond(send, 500, _error("broken", self.reason, 1))
            return
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, _capped(receive), watched_send)
        except _TooLargeError:
            if not started:
                await _respond(send, 413, _error("too-large", f"A request may have at most {MAX_BODY} bytes.", 2))
        except Exception as problem:  # noqa: BLE001 - the server would log the message, which may quote a memory
            logger.error("%s %s failed: %s", scope["method"], scope["path"], where(problem))
            if not started:
                message = f"The daemon failed ({type(problem).__name__}); `cems daemon logs` shows where."
                await _respond(send, 500, _error("internal", message, 1))


class _TooLargeError(Exception):
    """A body without a stated length went over the limit."""


def _capped(receive: Receive) -> Receive:
    size = 0

    async def capped() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_BODY:
            raise _TooLargeError
        return message

    return capped


async def _read(receive: Receive) -> bytes | None:
    """The whole body, or None when the caller left first or sends too much."""
    parts = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            return None
        if not message.get("more_body"):
            return b"".join(parts)


def _context(headers: dict[bytes, bytes]) -> dict[str, str] | None:
    """What the caller says about itself, without what only we or the kernel may say of it; None for an unreadable header."""
    try:
        said = decode(headers.get(_CONTEXT_HEADER, b"").decode("ascii"))
    except ValueError:
        return None
    return {key: value for key, value in said.items() if key not in (PEER, AGENTS, BOUND)}


def _with_context(scope: Scope, context: dict[str, str]) -> Scope:
    others = [pair for pair in scope["headers"] if pair[0] != _CONTEXT_HEADER]
    return {**scope, "headers": [*others, (_CONTEXT_HEADER, encode(context).encode())]}


def _connected(scope: Scope) -> dict[str, str]:
    """The process that is at the other end, where the server could tell."""
    pid = (scope.get("state") or {}).get(PEER)
    return {PEER: str(pid)} if pid else {}


def _error(code: str, message: str, exit_code: int) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, "exit": exit_code}}).encode()


async def _respond(
    send: Send,
    status: int,
    body: bytes,
    *,
    content_type: bytes = b"application/json",
    more: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    headers = [
        *more,
        (b"content-type", content_type),
        (b"content-length", str(len(body)).encode()),
        (b"x-cems", b"1"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
