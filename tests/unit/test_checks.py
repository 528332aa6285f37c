"""The daemon's part of `cems doctor`: each check finds what it is for, and says what to do."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from tests.fakes.real_parts import PERSON, Place, run

from cems.core.config import load
from cems.core.embedding import Embedder

PORT = "The staging database listens on port 5433."


async def checks(place: Place) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in (await place.call("check", {}))["checks"]}


def test_all_is_well_in_a_home_that_is(place: Place, bundled: Embedder) -> None:
    async def work() -> None:
        place.add(PORT)
        place.memories.forget([place.add("x y z")], place.scope(), PERSON)
        async with place.with_vectors(bundled):
            found = await checks(place)
        assert {"journal", "records", "embedding", "store"} <= set(found)
        assert all(each["ok"] and each["fix"] == "" for each in found.values()), found
        assert "1 memories" in found["store"]["detail"]

    run(work())


def test_a_changed_entry_of_the_journal_is_found(place: Place) -> None:
    place.add(PORT)
    with sqlite3.connect(place.home.journal) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE chain SET actor = 'agent' WHERE seq = 1")
    found = run(checks(place))["journal"]
    assert not found["ok"]
    assert "backup" in found["fix"]


def test_a_store_that_lacks_or_has_too_much_is_found(place: Place, bundled: Embedder) -> None:
    async def work() -> None:
        memory = place.add(PORT)
        place.add("Logs go to Loki.")
        async with place.with_vectors(bundled) as indexer:
            await indexer.store.delete([memory])
            found = (await checks(place))["store"]
            assert not found["ok"]
            assert "1 missing" in found["detail"]
            assert "cems rebuild" in found["fix"]
            await place.call("rebuild", {})
            assert (await checks(place))["store"]["ok"]

    run(work())


def test_a_missing_model_is_a_problem_and_one_switched_off_is_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.operations.equip(
        place.operations.searcher, None, None, "full text alone: the model is damaged", load(place.home)
    )
    found = run(checks(place))
    assert not found["embedding"]["ok"]
    assert "damaged" in found["embedding"]["detail"]
    assert found["store"]["ok"]
    monkeypatch.setenv("CEMS_EMBEDDING_MODEL", "none")
    place.operations.equip(place.operations.searcher, None, None, "switched off", load(place.home))
    assert run(checks(place))["embedding"]["ok"]


def test_a_store_that_did_not_open_beside_a_loaded_model_is_a_problem(place: Place, bundled: Embedder) -> None:
    place.operations.equip(
        place.operations.searcher, None, bundled, "the store cannot be used (OSError)", load(place.home)
    )
    found = run(checks(place))["store"]
    assert not found["ok"]
    assert found["fix"]
