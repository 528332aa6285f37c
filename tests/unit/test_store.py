"""The store: what is written is found, inside the filter only, and damage does not go unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.small_model import small_embedder

from cems.core import store as store_module
from cems.core.recall.terms import terms
from cems.core.store import Store, StoreDamaged, embedded_text, live_filter, open_store

EMBEDDER = small_embedder()
SHOP, SHOP_2 = "project:github.com/org/shop", "project:github.com/org/shop-2"
NOW = "2026-06-01T00:00:00.000Z"


def row(number: int, content: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"m_{number:024x}", "content": content, "title": "", "category": "general", "kind": "", "tags": ["ci"],
        "scope": SHOP, "trust": "trusted", "state": "live", "confidence": 0.7, "valid_from": None, "valid_to": None,
        "recorded_at": "2026-01-01T00:00:00.000Z", "expired_at": None, "archived_at": None, "pinned": False,
        "tokens": 5, "source": {"actor": "person"}, "terms": " ".join(terms(content)), "seq": number,
    } | more  # fmt: skip


async def put(store: Store, *rows: dict[str, Any]) -> None:
    await store.upsert(rows, EMBEDDER.embed([embedded_text(each) for each in rows]))


def live(*scopes: str) -> str:
    return live_filter(scopes or (SHOP,), ("trusted", "candidate"), NOW)


def run(folder: Path, work: Callable[[Store], Awaitable[None]], model: str = EMBEDDER.identity) -> None:
    async def with_store() -> None:
        async with opened(folder, model) as store:
            await work(store)

    asyncio.run(with_store())


@asynccontextmanager
async def opened(folder: Path, model: str = EMBEDDER.identity) -> AsyncIterator[Store]:
    store, _ = await open_store(folder, model, 32)
    try:
        yield store
    finally:
        store.close()


async def by_text(store: Store, query: str, where: str = "", limit: int = 10) -> list[str]:
    return [hit.id for hit in await store.search_text(terms(query), where or live(), limit)]


async def by_vector(store: Store, query: str, where: str = "", limit: int = 10) -> list[str]:
    return [hit.id for hit in await store.search_vector(EMBEDDER.embed_query(query), where or live(), limit)]


def test_a_memory_is_found_by_its_words_and_by_its_meaning(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        first, second = row(1, "deploy the server on fridays"), row(2, "数据库用三号端口")
        await put(store, first, second)
        assert await by_text(store, "deploying") == [first["id"]]
        assert await by_text(store, "数据库") == [second["id"]]
        assert (await by_vector(store, "deploy the server"))[0] == first["id"]
        hit = (await store.search_text(terms("deploy"), live(), 5))[0]
        assert hit.vector is not None
        assert np.allclose(hit.vector, EMBEDDER.embed([first["content"]])[0])

    run(tmp_path, work)


def test_looking_at_the_files_changes_nothing(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        memory = row(1, "deploy the server on fridays")
        await put(store, memory)
        version = await store._table.version()
        beside = await store.as_on_disk()
        # No index yet: that is not found, and not an index made by whoever only looks.
        assert not await beside.probe(memory)
        assert await store._table.list_indices() == []
        assert await store._table.version() == version
        await store.ensure_indexes()
        beside = await store.as_on_disk()
        assert await beside.probe(memory)
        assert not await beside.probe(row(2, "something else"))

    run(tmp_path, work)


def test_an_empty_store_finds_nothing(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        assert await by_text(store, "anything") == []
        assert await by_vector(store, "anything") == []
        assert await store.mean_vector(SHOP) is None
        assert await store.faults() == ({}, [])
        await put(store)
        await store.delete([])
        assert await store.optimize(force=True)

    run(tmp_path, work)


def test_writing_a_memory_again_replaces_it(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await put(store, row(1, "use tabs"))
        await put(store, row(1, "use spaces", seq=7))
        assert await store.count() == await store.size() == 1
        assert await by_text(store, "tabs") == []
        assert await store.entries() == {row(1, "")["id"]: 7}

    run(tmp_path, work)


@pytest.mark.parametrize(
    "other",
    [
        {"scope": SHOP_2}, {"scope": "project:github.com/org"}, {"scope": "user"}, {"trust": "rejected"}, {"trust": "disputed"},
        {"state": "closed"}, {"state": "archived"}, {"valid_to": NOW}, {"valid_from": "2026-06-01T00:00:00.001Z"},
    ],
)  # fmt: skip
def test_what_the_filter_keeps_out_is_not_found_beside_what_it_lets_in(tmp_path: Path, other: dict[str, Any]) -> None:
    async def work(store: Store) -> None:
        wanted = row(1, "deploy the shop on fridays", valid_from=NOW, valid_to="2026-06-01T00:00:00.001Z")
        # Better matches, and more of them than are asked for: the filter comes before the ranking.
        await put(store, wanted, *(row(n, "deploy deploy", **other) for n in range(2, 80)))
        assert await by_text(store, "deploy", limit=5) == [wanted["id"]]
        assert await by_vector(store, "deploy", limit=5) == [wanted["id"]]

    run(tmp_path, work)


@pytest.mark.parametrize(
    "scope", ["path:/it's here", 'path:/a"b', "path:/a\\b", "path:/a%_b", "path:/ü 汉", "path:/x') OR ('1'='1"]
)
def test_a_scope_of_any_spelling_is_a_value_and_no_part_of_the_query(tmp_path: Path, scope: str) -> None:
    async def work(store: Store) -> None:
        mine, other = row(1, "deploy", scope=scope), row(2, "deploy")
        await put(store, mine, other)
        assert (
            await by_text(store, "deploy", live(scope)) == await by_vector(store, "deploy", live(scope)) == [mine["id"]]
        )
        assert await store.mean_vector(scope) is not None
        await store.delete([mine["id"], "m_'); DROP TABLE x; --"])
        assert await store.count() == 1

    run(tmp_path, work)


def test_odd_words_in_a_question_neither_fail_nor_mean_anything_else(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("odd")
    loop = asyncio.new_event_loop()
    store, _ = loop.run_until_complete(open_store(folder, EMBEDDER.identity, 32))
    texts = [
        "OR AND NOT NEAR",
        'say "hello" (world)',
        "C++ c# .NET",
        "a:b^2 ~x *",
        "naïve façade",
        "हिन्दी भाषा",
        "ไทย",
        "🙂 emoji",
        "x" * 500,
    ]
    loop.run_until_complete(put(store, *(row(n, text) for n, text in enumerate(texts))))
    for n, text in enumerate(texts):
        if terms(text):
            assert loop.run_until_complete(by_text(store, text))[0] == row(n, "")["id"]

    @given(st.text(max_size=60))
    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    def any_text(text: str) -> None:
        loop.run_until_complete(by_text(store, text))
        # Terms that did not go through `terms` must not reach a parser either.
        loop.run_until_complete(
            store.search_text([*text.encode("utf-8", "replace").decode().split(), '"', "+"], live(), 3)
        )

    any_text()
    store.close()
    loop.close()


def test_three_hundred_single_writes_stay_searchable_and_are_compacted(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        optimized = 0
        for n in range(300):
            await put(store, row(n, f"fact number w{n}x"))
            optimized += await store.optimize()
            if n % 60 == 0:
                assert await by_text(store, f"w{n}x") == [row(n, "")["id"]]
        assert optimized == 300 // store_module._OPTIMIZE_EVERY
        assert store.unoptimized == 0
        assert await by_text(store, "w299x") == [row(299, "")["id"]]
        # Words share the small model's dimensions: about one in thirty is as near.
        assert row(150, "")["id"] in await by_vector(store, "fact number w150x", limit=40)
        assert await store.count() == 300
        data = list(tmp_path.rglob("*.lance"))
        versions = list(tmp_path.rglob("*.manifest"))
        assert len([path for path in data if path.parent.name == "data"]) < 10
        assert len(versions) < 60

    run(tmp_path, work)


def test_what_was_deleted_is_pruned_from_the_disk(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await put(store, row(1, "the unicorn is pink"), row(2, "kept"))
        assert any(b"unicorn" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        await store.delete([row(1, "")["id"]])
        assert store.unpruned
        await store.optimize(force=True)
        assert not store.unpruned
        assert await store.count() == 1
        assert not any(b"unicorn" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    run(tmp_path, work)


def test_the_mean_of_a_scope_follows_every_change(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        one, two = row(1, "alpha"), row(2, "beta")
        vectors = EMBEDDER.embed(["alpha", "beta"])
        await put(store, one)
        assert np.allclose(await store.mean_vector(SHOP), vectors[0])  # type: ignore[arg-type]
        await put(store, two)
        assert np.allclose(await store.mean_vector(SHOP), vectors.mean(axis=0))  # type: ignore[arg-type]
        assert await store.mean_vector("user") is None
        await put(store, one | {"scope": "user"})
        assert np.allclose(await store.mean_vector(SHOP), vectors[1])  # type: ignore[arg-type]
        assert np.allclose(await store.mean_vector("user"), vectors[0])  # type: ignore[arg-type]
        await store.delete([two["id"]])
        assert await store.mean_vector(SHOP) is None

    run(tmp_path, work)


_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete"]), st.sets(st.integers(0, 7), min_size=1, max_size=4),
        st.sampled_from([SHOP, SHOP_2, "user"]), st.sampled_from(["live", "closed"]), st.integers(0, 3),
    ),
    max_size=12,
)  # fmt: skip


@given(changes=_CHANGES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_means_that_are_kept_are_those_of_a_scan(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, set[int], str, str, int]]
) -> None:
    async def work(store: Store) -> None:
        await put(store, row(90, "it was there before"))
        await store.take_stock()
        for what, numbers, scope, state, words in changes:
            if what == "delete":
                await store.delete([row(n, "")["id"] for n in numbers])
            else:
                await put(store, *(row(n, f"words {n} {words}", scope=scope, state=state) for n in numbers))
        kept = [await store.mean_vector(scope) for scope in (SHOP, SHOP_2, "user")]
        assert store._centroids is not None
        store._centroids = None
        for mean, scanned in zip(
            kept, [await store.mean_vector(scope) for scope in (SHOP, SHOP_2, "user")], strict=True
        ):
            assert (mean is None) == (scanned is None)
            assert mean is None or scanned is None or np.abs(mean - scanned).max() < 1e-5

    run(tmp_path_factory.mktemp("store"), work)


def test_a_write_that_fails_half_way_leaves_no_mean_that_may_be_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(store: Store) -> None:
        await put(store, row(1, "alpha"), row(2, "beta"))
        await store.take_stock()

        def broken(_: str) -> Any:
            raise OSError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(store._table, "merge_insert", broken)
            with pytest.raises(OSError, match="no space"):
                await put(store, row(1, "gamma"))
        assert store._centroids is None
        await store.take_stock()
        expected = EMBEDDER.embed(["alpha", "beta"]).mean(axis=0)
        assert np.allclose(await store.mean_vector(SHOP), expected)  # type: ignore[arg-type]
        # Rows that came or went behind its back.
        await store._table.delete(f"id = '{row(2, '')['id']}'")
        await store.optimize(force=True)
        await store.take_stock()
        assert np.allclose(await store.mean_vector(SHOP), EMBEDDER.embed(["alpha"])[0])  # type: ignore[arg-type]

    run(tmp_path, work)


def test_old_versions_are_removed_once_nobody_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_PRUNE_PATIENCE", 0.05)

    async def work(store: Store) -> None:
        await put(store, row(1, "the unicorn is pink"), row(2, "kept"))
        connection = await lancedb.connect_async(store._connection.uri)
        old = await connection.open_table(store._table.name)
        beside = await store.as_on_disk()
        async with beside._gate.reading():
            await store.delete([row(1, "")["id"]])
            await store.optimize(force=True)
            assert store.unpruned
            # Whoever came before still reads what there was.
            assert len(await old.query().to_list()) == 2
        await store.optimize(force=True)
        assert not store.unpruned
        # Whoever only looked, and looks again now, reads what there is.
        assert await beside.count() == 1
        assert await beside.entries() == {row(2, "")["id"]: 2}

    run(tmp_path, work)


def test_the_rows_are_counted_once_between_two_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(store: Store) -> None:
        await put(store, row(1, "deploy"))
        await by_text(store, "deploy")
        await by_vector(store, "deploy")
        counted = 0
        real = Store.count

        async def count(self: Store, where: str | None = None) -> int:
            nonlocal counted
            counted += 1
            return await real(self, where)

        monkeypatch.setattr(Store, "count", count)
        for _ in range(5):
            await by_text(store, "deploy")
            await by_vector(store, "deploy")
        assert counted == 0

    run(tmp_path, work)


def test_searches_and_writes_at_one_time_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await put(store, row(0, "deploy w0x"))

        async def write(n: int) -> None:
            await put(store, row(n, f"deploy w{n}x"))
            await store.optimize(force=n % 5 == 0)

        results = await asyncio.gather(
            *(write(n) for n in range(1, 21)),
            *(by_text(store, "deploy") for _ in range(20)),
            *(by_vector(store, "deploy") for _ in range(20)),
        )
        assert all(result for result in results[20:])
        assert await store.count() == 21

    run(tmp_path, work)


def test_rows_of_another_model_are_kept_apart(tmp_path: Path) -> None:
    async def first(store: Store) -> None:
        await put(store, row(1, "deploy the server"))

    async def second(store: Store) -> None:
        assert await store.entries() == {row(1, "")["id"]: -1}
        assert await by_vector(store, "deploy the server") == []
        hits = await store.search_text(terms("deploy"), live(), 5)
        assert [(hit.id, hit.vector) for hit in hits] == [(row(1, "")["id"], None)]
        assert await store.mean_vector(SHOP) is None
        assert await store.vectors([row(1, "")["id"]]) == {}

    run(tmp_path, first, "model@1")
    run(tmp_path, second, "model@2")


def test_a_row_that_was_changed_or_doubled_is_named(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await put(store, row(1, "one"), row(2, "two"), row(3, "three"), row(4, "four"))
        assert await store.faults() == ({row(n, "")["id"]: n for n in (1, 2, 3, 4)}, [])
        await store._table.update({"content": "ONE"}, where="content = 'one'")
        await store._table.update({"text_digest": "x"}, where="content = 'two'")
        doubled = await store._table.query().where("content = 'four'").to_arrow()
        await store._table.add(doubled)
        sound, bad = await store.faults()
        assert sound == {row(3, "")["id"]: 3}
        assert sorted(bad) == [row(n, "")["id"] for n in (1, 2, 4)]

    run(tmp_path, work)


def test_a_flipped_byte_in_a_data_file_is_noticed_wherever_it_lies(tmp_path: Path) -> None:
    async def write(store: Store) -> None:
        await put(store, *(row(n, f"the secret of number {n} is {n * 7919}") for n in range(40)))

    run(tmp_path / "store", write)
    data = next(path for path in (tmp_path / "store").rglob("*.lance") if path.parent.name == "data")
    whole = data.read_bytes()
    # Where content and vectors lie; between the pages is padding, which nothing reads.
    places = [whole.index(b"the secret of number 17") + 4, whole.index(b"github.com") + 1]
    vectors = EMBEDDER.embed(["the secret of number 3 is 23757"])[0].astype("<f4").tobytes()
    places.append(whole.index(vectors) + 9)
    for place in places:
        data.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])

        async def look(store: Store) -> None:
            try:
                _, bad = await store.faults()
            except StoreDamaged:
                return
            assert bad

        run(tmp_path / "store", look)
    data.write_bytes(whole)


def test_a_data_file_cut_short_is_reported_as_damage(tmp_path: Path) -> None:
    async def write(store: Store) -> None:
        await put(store, *(row(n, f"number {n}") for n in range(40)))

    run(tmp_path, write)
    data = next(path for path in tmp_path.rglob("*.lance") if path.parent.name == "data")
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])

    async def look(store: Store) -> None:
        for read in (store.entries, store.faults):
            with pytest.raises(StoreDamaged, match="cems rebuild"):
                await read()

    run(tmp_path, look)


def test_being_cancelled_is_not_taken_for_damage(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await put(store, row(1, "one"))
        task = asyncio.ensure_future(store.entries())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(tmp_path, work)
