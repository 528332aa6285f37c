"""The store follows the journal by itself: after a crash, a deleted or damaged folder, a new model, a failed write."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes.small_model import CountingModel, small_embedder
from tests.unit.conftest import PERSON, SHOP

from cems.core import indexer as indexer_module
from cems.core import store as store_module
from cems.core.embedding import Embedder
from cems.core.indexer import Indexer
from cems.core.journal import connect
from cems.core.memories import Memories, Statement
from cems.core.paths import Home
from cems.core.recall.terms import terms
from cems.core.store import Store, live_filter

EMBEDDER = small_embedder()
PATIENCE = 30.0
TEXTS = ["deploy on fridays", "the build needs node 22", "数据库用三号端口", "use tabs"]


@pytest.fixture
def filled(memories: Memories) -> list[str]:
    """Four live memories, a closed one and a forgotten one; their ids in that order."""
    ids = [str(memories.remember(Statement(text), SHOP, PERSON).id) for text in TEXTS]
    old = str(memories.remember(Statement("old"), SHOP, PERSON).id)
    ids[3:4] = [str(memories.correct(ids[3], {"content": "use spaces"}, SHOP, PERSON)[0].id), ids[3]]
    memories.forget([old], SHOP, PERSON)
    return [*ids, old]


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


def test_a_store_left_alone_is_compacted_and_old_rows_are_pruned(
    home: Home, memories: Memories, filled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "_IDLE_OPTIMIZE_SECONDS", 0.05)
    monkeypatch.setattr(store_module, "_KEEP_VERSIONS", timedelta(seconds=0.2))

    async def work(indexer: Indexer) -> None:
        await changed(indexer, lambda: memories.forget([filled[1]], SHOP, PERSON))
        for _ in range(100):
            await asyncio.sleep(0.1)
            if not indexer.store.unoptimized and not indexer.store.unpruned and indexer.store._unpruned_since is None:
                break
        assert not any(b"node 22" in path.read_bytes() for path in home.store.rglob("*") if path.is_file())
        await equal(indexer)

    run(home, work)


# -- healing ---------------------------------------------------------------------------------------------------------


def test_a_rebuilt_store_holds_the_same(home: Home, filled: list[str]) -> None:
    async def work(indexer: Indexer) -> None:
        before = await indexer.store.entries()
        await indexer.store._table.update({"content": "tampered"}, where="state = 'live'")
        assert (await indexer.store.faults())[1]
        assert await indexer.rebuild() == 5
        assert await indexer.store.entries() == before
        await equal(indexer)
        assert await found(indexer, "node") == [filled[1]]
        assert await indexer.settled(PATIENCE)

    run(home, work)


def test_a_rebuild_that_fails_is_finished_by_itself(
    home: Home, filled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(indexer: Indexer) -> None:
        real = Store.upsert

        async def fail(self: Store, *arguments: Any) -> None:
            raise OSError("No space left on device")

        monkeypatch.setattr(Store, "upsert", fail)
        with pytest.raises(OSError, match="space"):
            await indexer.rebuild()
        assert indexer.busy
        monkeypatch.setattr(Store, "upsert", real)
        assert await indexer.settled(PATIENCE)
        await equal(indexer)

    run(home, work)


def test_a_deleted_folder_is_made_again(home: Home, filled: list[str]) -> None:
    run(home, nothing)
    shutil.rmtree(home.store)
    run(home, nothing)


def damage_manifest(store: Path) -> None:
    for path in store.rglob("*.manifest"):
        path.write_bytes(path.read_bytes()[:20])


def damage_data(store: Path) -> None:
    for path in store.rglob("*.lance"):
        if path.parent.name == "data":
            path.write_bytes(path.read_bytes()[:100])


def empty_data(store: Path) -> None:
    for path in store.rglob("*.lance"):
        if path.parent.name == "data":
            path.write_bytes(b"")


def lose_data(store: Path) -> None:
    for path in store.rglob("*.lance"):
        if path.parent.name == "data":
            path.unlink()


def a_file_instead(store: Path) -> None:
    shutil.rmtree(store)
    store.write_text("not a folder")


@pytest.mark.parametrize("damage", [damage_manifest, damage_data, empty_data, lose_data, a_file_instead])
def test_a_damaged_folder_is_set_aside_and_made_again(
    home: Home, filled: list[str], damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    run(home, nothing)
    damage(home.store)
    with caplog.at_level(logging.ERROR):
        run(home, nothing)
    assert "set aside as store.damaged-" in caplog.text
    assert len(list(home.root.glob("store.damaged-*"))) == 1
    damage(home.store)
    run(home, nothing)
    # One is kept to look at; they hold what may be forgotten since.
    assert len(list(home.root.glob("store.damaged-*"))) == 1

    async def rebuild(indexer: Indexer) -> None:
        await indexer.rebuild()
        await equal(indexer)

    run(home, rebuild)
    assert list(home.root.glob("store.damaged-*")) == []


def test_lost_indexes_are_made_again(home: Home, filled: list[str]) -> None:
    run(home, nothing)
    indexes = [path for path in home.store.rglob("_indices") if path.is_dir()]
    assert indexes

    async def drop(indexer: Indexer) -> None:
        for index in await indexer.store._table.list_indices():
            await indexer.store._table.drop_index(index.name)

    run(home, drop)

    async def work(indexer: Indexer) -> None:
        assert await found(indexer, "node") == [filled[1]]
        await equal(indexer)

    run(home, work)


def test_a_store_that_breaks_while_it_is_used_is_opened_anew(home: Home, memories: Memories, filled: list[str]) -> None:
    async def work(indexer: Indexer) -> None:
        shutil.rmtree(home.store)
        await changed(indexer, lambda: memories.remember(Statement("one more"), SHOP, PERSON))
        await equal(indexer)
        assert len(await found(indexer, "one more")) == 1

    run(home, work)


@pytest.mark.parametrize("reason", ["No space left on device", "Permission denied", "Too many open files"])
def test_a_sound_folder_is_not_set_aside_for_the_machines_troubles(
    home: Home, filled: list[str], monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    run(home, nothing)

    async def refuse(*_: object) -> None:
        raise OSError(reason)

    with monkeypatch.context() as patched:
        patched.setattr(indexer_module, "open_store", refuse)
        with pytest.raises(OSError, match=reason):
            run(home, nothing)
    assert list(home.root.glob("store.damaged-*")) == []
    run(home, nothing)


def test_a_failed_write_is_tried_again(
    home: Home, memories: Memories, filled: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = 0
    real = Store.upsert

    async def fail_twice(self: Store, *arguments: Any) -> None:
        nonlocal failures
        failures += 1
        if failures <= 2:
            raise RuntimeError("commit conflict with the text of a memory in it")
        await real(self, *arguments)

    async def work(indexer: Indexer) -> None:
        monkeypatch.setattr(Store, "upsert", fail_twice)
        await changed(indexer, lambda: memories.remember(Statement("one more"), SHOP, PERSON))
        await equal(indexer)

    run(home, work)
    assert failures >= 3
    assert "writing to the store failed (RuntimeError), trying again" in caplog.text
    assert "text of a memory" not in caplog.text


def test_a_model_that_fails_for_a_while_loses_nothing(home: Home, memories: Memories, filled: list[str]) -> None:
    embedder = small_embedder()
    model = model_of(embedder)

    async def work(indexer: Indexer) -> None:
        real = model.passage_embed
        calls = 0

        def fail_once(texts: list[str], **options: object) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise RuntimeError("out of memory")
            return real(texts, **options)

        model.passage_embed = fail_once  # type: ignore[method-assign, assignment]
        await changed(indexer, lambda: memories.remember(Statement("one more"), SHOP, PERSON))
        await equal(indexer)

    run(home, work, embedder)


def test_rows_of_another_model_are_embedded_again(home: Home, filled: list[str]) -> None:
    run(home, nothing, small_embedder("small@1"))
    other = small_embedder("small@2")

    async def work(indexer: Indexer) -> None:
        await equal(indexer)
        assert len(model_of(other).embedded) == 5
        assert indexer.store.model == "small@2"
        assert (
            len(
                await indexer.store.search_vector(
                    other.embed_query("node"), live_filter(SHOP.readable, ("trusted",), "2999"), 9
                )
            )
            == 4
        )

    run(home, work, other)


def test_a_model_of_another_dimension_gets_a_table_of_its_own(home: Home, filled: list[str]) -> None:
    run(home, nothing)
    for dimension in (48, 32):
        run(home, nothing, small_embedder(f"small@{dimension}", dimension))


def test_a_journal_restored_from_an_earlier_backup_is_followed_back(
    home: Home, memories: Memories, filled: list[str]
) -> None:
    backup = home.root / "backup.db"
    copy = sqlite3.connect(backup)
    memories._journal.connection.backup(copy)
    copy.close()
    memories.remember(Statement("after the backup"), SHOP, PERSON)
    memories.pin(filled[0], True, SHOP, PERSON)
    run(home, nothing)
    memories._journal.close()
    backup.replace(home.journal)
    for tail in ("-wal", "-shm"):
        home.journal.with_name(home.journal.name + tail).unlink(missing_ok=True)

    async def work(indexer: Indexer) -> None:
        await equal(indexer)
        assert await found(indexer, "backup") == []

    run(home, work)


def test_a_question_goes_before_the_rest_of_a_long_batch() -> None:
    """A prompt waits for its question's vector, never for a whole rebuild."""
    order: list[str] = []

    class Slow(CountingModel):
        def passage_embed(self, texts: Any, **options: object) -> Any:
            order.append("texts")
            asyncio.run(asyncio.sleep(0.02))
            return super().passage_embed(texts, **options)

        def query_embed(self, texts: Any) -> Any:
            order.append("question")
            return super().query_embed(texts)

    embedder = Embedder(Slow(8), "slow", 8)

    async def both() -> None:
        batch = asyncio.create_task(asyncio.to_thread(embedder.embed, [f"t{n}" for n in range(200)]))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(embedder.embed_query, "q")
        assert not batch.done()
        assert len(await batch) == 200

    asyncio.run(both())
    assert order.count("texts") == 25
    assert order.index("question") < 20
