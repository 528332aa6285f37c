"""The HTTP server under the front door. Apart from `daemon`, because importing uvicorn takes most of the
first stage.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from cems.core.service.ancestry import PEER
from cems.core.service.asgi import App

GRACEFUL_SECONDS = 5
KEEP_ALIVE_SECONDS = 60
# Of <sys/un.h> on macOS; Python has no names for them.
_SOL_LOCAL, _LOCAL_PEERPID = 0, 2


class PeerProtocol(H11Protocol):
    """Puts the pid of whoever connected into each request's state."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        pid = peer_pid(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, PEER: pid} if pid else self.app_state


def peer_pid(connection: Any) -> int:
    """The process at the other end of a unix socket; 0 where the kernel does not tell."""
    if connection is None or connection.family != getattr(socket, "AF_UNIX", None):
        return 0
    try:
        if sys.platform == "linux":
            return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
        return int.from_bytes(connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4), sys.byteorder)
    except OSError:
        return 0


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handling, which would end the process before the store is closed."""

    def __init__(self, app: App) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=PeerProtocol,
                loop="asyncio",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACEFUL_SECONDS,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
