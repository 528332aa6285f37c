"""Many readers at once, or one who needs them all outside. For the coroutines of one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turnstile:
    """Lets any number read, until it is shut: then it waits for those inside, and keeps others out."""

    def __init__(self) -> None:
        self._inside = 0
        self._empty = asyncio.Event()
        self._opened: asyncio.Event | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        while self._opened is not None:
            await self._opened.wait()
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    @asynccontextmanager
    async def shut(self) -> AsyncIterator[None]:
        """For one at a time."""
        self._opened = opened = asyncio.Event()
        try:
            while self._inside:
                self._empty.clear()
                await self._empty.wait()
            yield
        finally:
            self._opened = None
            opened.set()
