"""Progress of a long operation, for whoever waits for it and wants to know; for nobody else it costs nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

Listener = Callable[[float, float | None, str], Awaitable[None]]

listener: ContextVar[Listener | None] = ContextVar("cems-progress", default=None)
"""Set by the caller around its call; the operation runs in the same task."""


async def report(done: float, total: float | None, what: str) -> None:
    """`what` begins now, after `done` of `total` steps."""
    if (tell := listener.get()) is not None:
        await tell(done, total, what)
