"""The store follows the journal by itself, and keeps itself small."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from tests.fakes.small_model import small_embedder
from tests.unit.conftest import PERSON, SHOP
from tests.unit.followed_store import changed, equal, found, model_of, nothing, run

from cems.core import indexer as indexer_module
from cems.core.indexer import Indexer
from cems.core.memories import Memories, Statement
from cems.core.paths import Home
from cems.core.recall.engine import Within
from cems.core.recall.hybrid import HybridSearcher
from cems.core.recall.question import ask

# -- following -------------------------------------------------------------------------------------------------------


def test_the_store_gets_what_the_journal_has_but_not_what_is_forgotten(home: Home, filled: list[str]) -> None:
    async def work(indexer: Indexer) -> None:
        await equal(indexer)
        assert set(await indexer.store.entries()) == set(filled[:5])
        assert indexer.waiting == 0
        assert await found(indexer, "node") == [filled[1]]

    run(home, work)


def test_each_change_reaches_the_store(home: Home, memories: Memories, filled: list[str]) -> None:
    async def work(indexer: Indexer) -> None:
        mean = await indexer.store.mean_vector(str(SHOP.project))
        await changed(indexer, lambda: memories.remember(Statement("the cat is asleep"), SHOP, PERSON))
        assert len(await found(indexer, "cat")) == 1
        assert not np.allclose(mean, await indexer.store.mean_vector(str(SHOP.project)))  # type: ignore[arg-type]
        await changed(indexer, lambda: memories.pin(filled[0], True, SHOP, PERSON))
        await changed(indexer, lambda: memories.correct(filled[1], {"content": "node 24"}, SHOP, PERSON))
        await changed(indexer, lambda: memories.forget([filled[2]], SHOP, PERSON))
        assert filled[2] not in await indexer.store.entries()
        await equal(indexer)

    run(home, work)


def test_a_change_that_leaves_the_text_alone_embeds_nothing(home: Home, memories: Memories, filled: list[str]) -> None:
    embedder = small_embedder()

    async def work(indexer: Indexer) -> None:
        before = len(model_of(embedder).embedded)
        assert before == 5
        await changed(indexer, lambda: memories.pin(filled[0], True, SHOP, PERSON))
        assert len(model_of(embedder).embedded) == before
        await equal(indexer)

    run(home, work, embedder)


def test_opening_an_up_to_date_store_writes_and_embeds_nothing(home: Home, filled: list[str]) -> None:
    run(home, nothing)
    files = sorted(path.name for path in home.store.rglob("*") if path.is_file())
    embedder = small_embedder()
    run(home, nothing, embedder)
    assert sorted(path.name for path in home.store.rglob("*") if path.is_file()) == files
    assert model_of(embedder).embedded == []


def test_more_changes_than_one_batch_all_arrive(
    home: Home, memories: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "_BATCH", 3)

    async def work(indexer: Indexer) -> None:
        await changed(indexer, lambda: [memories.remember(Statement(f"fact {n}"), SHOP, PERSON) for n in range(10)])
        await equal(indexer)
        assert await indexer.store.count() == 10

    memories.remember(Statement("first"), SHOP, PERSON)
    memories.forget_text("first", SHOP, PERSON)
    run(home, work)


def test_changes_in_one_go_are_written_in_one_go(
    home: Home, memories: Memories, filled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "_GATHER_SECONDS", 0.5)

    async def work(indexer: Indexer) -> None:
        before = indexer.store.unoptimized
        for n in range(20):
            memories.remember(Statement(f"one of many: {n}"), SHOP, PERSON)
            indexer.wake()
            await asyncio.sleep(0.001)
        assert await indexer.settled(30)
        await equal(indexer)
        assert indexer.store.unoptimized - before <= 3

    run(home, work)


def test_what_comes_alone_is_found_at_once_and_written_when_nothing_more_comes(
    home: Home, memories: Memories, filled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "_IDLE_WRITE_SECONDS", 0.5)
    embedder = small_embedder()

    async def work(indexer: Indexer) -> None:
        searcher = HybridSearcher(indexer._connection, indexer, embedder)
        written = indexer.store.unoptimized
        new = (await asyncio.to_thread(memories.remember, Statement("the cat is asleep"), SHOP, PERSON)).id
        indexer.wake()
        while str(new) not in indexer.fresh:
            await asyncio.sleep(0.01)
        embedded = len(model_of(embedder).embedded)
        within = Within(SHOP.readable, ("trusted",))
        first = (await searcher.search(ask("where is the cat"), within)).candidates[0]
        assert (first.id, first.cosine is not None) == (new, True)
        assert indexer.store.unoptimized == written
        for _ in range(100):
            await asyncio.sleep(0.05)
            if not indexer.busy:
                break
        await equal(indexer)
        assert indexer.fresh == {}
        assert len(model_of(embedder).embedded) == embedded

    run(home, work, embedder)


def test_many_single_changes_are_written_together(
    home: Home, memories: Memories, filled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "_ENOUGH", 10)
    monkeypatch.setattr(indexer_module, "_GATHER_SECONDS", 0.001)

    async def work(indexer: Indexer) -> None:
        before = indexer.store.unoptimized
        for n in range(40):
            await asyncio.to_thread(memories.remember, Statement(f"one of many: {n}"), SHOP, PERSON)
            indexer.wake()
            await asyncio.sleep(0.01)
        assert await indexer.settled(30)
        await equal(indexer)
        assert 1 <= indexer.store.unoptimized - before <= 5

    run(home, work)


def test_a_store_left_alone_is_compacted_and_old_rows_are_pruned(
    home: Home, memories: Memories, filled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "_IDLE_OPTIMIZE_SECONDS", 0.05)
    monkeypatch.setattr(indexer_module, "_LONG_IDLE_SECONDS", 0.05)

    async def work(indexer: Indexer) -> None:
        await changed(indexer, lambda: memories.forget([filled[1]], SHOP, PERSON))
        for _ in range(100):
            await asyncio.sleep(0.1)
            if not indexer.store.unoptimized and not indexer.store.unpruned:
                break
        assert not any(b"node 22" in path.read_bytes() for path in home.store.rglob("*") if path.is_file())
        await equal(indexer)

    run(home, work)
