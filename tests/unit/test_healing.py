"""Whatever happens to the store (crash, deleted folder, damage, a new model, failed writes), the journal fills it again."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.small_model import CountingModel, small_embedder
from tests.unit.conftest import PERSON, SHOP
from tests.unit.followed_store import PATIENCE, changed, equal, found, model_of, nothing, run

from cems.core import indexer as indexer_module
from cems.core.embedding import Embedder
from cems.core.indexer import Indexer
from cems.core.memories import Memories, Statement
from cems.core.paths import Home
from cems.core.store import Store, live_filter


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
