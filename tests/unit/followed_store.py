"""A store that follows a home's journal, and ways to ask whether the two agree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.fakes.small_model import CountingModel, small_embedder
from tests.unit.conftest import SHOP

from cems.core.embedding import Embedder
from cems.core.indexer import Indexer
from cems.core.journal import connect
from cems.core.paths import Home
from cems.core.recall.terms import terms
from cems.core.store import live_filter

EMBEDDER = small_embedder()
PATIENCE = 30.0


@asynccontextmanager
async def following(home: Home, embedder: Embedder = EMBEDDER, *, running: bool = True) -> AsyncIterator[Indexer]:
    reader = connect(home.journal, write=False)
    indexer = Indexer(home.store, reader, embedder)
    await indexer.open()
    task = asyncio.create_task(indexer.run()) if running else None
    try:
        if running:
            assert await indexer.settled(PATIENCE)
        yield indexer
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        indexer.store.close()
        reader.close()


def run(home: Home, work: Callable[[Indexer], Awaitable[None]], embedder: Embedder = EMBEDDER) -> None:
    async def followed() -> None:
        async with following(home, embedder) as indexer:
            await work(indexer)

    asyncio.run(followed())


async def equal(indexer: Indexer) -> None:
    """The store holds what the records hold, each row sound."""
    wanted = dict(indexer._connection.execute("SELECT id, seq FROM records WHERE state != 'hidden'").fetchall())
    assert await indexer.store.faults() == (wanted, [])
    assert wanted


async def found(indexer: Indexer, words: str) -> list[str]:
    hits = await indexer.store.search_text(terms(words), live_filter(SHOP.readable, ("trusted",), "2999"), 10)
    return [hit.id for hit in hits]


async def changed(indexer: Indexer, change: Callable[[], object]) -> None:
    await asyncio.to_thread(change)
    indexer.wake()
    assert await indexer.settled(PATIENCE)


async def nothing(indexer: Indexer) -> None:
    await equal(indexer)


def model_of(embedder: Embedder) -> CountingModel:
    assert isinstance(embedder._model, CountingModel)
    return embedder._model
