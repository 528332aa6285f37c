"""Many readers at once, or one who needs them all outside. For the coroutines of one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turnstile:
    """Lets any number read, until it is shut: then it waits for those inside, and keeps others out."""

    def __init__(self) -> None:
        self._inside: set[asyncio.Event] = set()
        self._opened: asyncio.Event | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        while self._opened is not None:
            await self._opened.wait()
        left = asyncio.Event()
        self._inside.add(left)
        try:
            yield
        finally:
            self._inside.discard(left)
            left.set()

    async def passed(self) -> None:
        """Wait until those who are inside now have left. Others may come and go."""
        for left in list(self._inside):
            await left.wait()

    @asynccontextmanager
    async def shut(self) -> AsyncIterator[None]:
        """For one at a time."""
        self._opened = opened = asyncio.Event()
        try:
            await self.passed()
            yield
        finally:
            self._opened = None
            opened.set()
