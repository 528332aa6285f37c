"""The HTTP server under the front door. Apart from `daemon`, because importing uvicorn takes most of the
first stage.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import uvicorn

from cems.core.service.asgi import FrontDoor

GRACEFUL_SECONDS = 5
KEEP_ALIVE_SECONDS = 60


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handling, which would end the process before the store is closed."""

    def __init__(self, app: FrontDoor) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
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
