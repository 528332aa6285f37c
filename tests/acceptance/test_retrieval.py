"""Acceptance: what a search and a prompt are given, and how much of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.machine import Machine
from tests.fakes.real_parts import Place, run

from cems.core.embedding import Embedder
from cems.core.policy import RecallPolicy

QUESTION = "which port does the staging database listen on"


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_retrieval_k_is_an_upper_bound(machine: Machine, limit: int) -> None:
    folder = machine.project()
    for number in range(12):
        machine.add(f"The staging database of shard {number} listens on port 54{number:02}.", folder)
    machine.settle()
    words = ("--limit", str(limit), "--json")
    assert len(machine.cli("search", QUESTION, *words, folder=folder).ok().json["memories"]) == limit
    assert len(machine.cli("list", *words, folder=folder).ok().json["memories"]) == limit
    assert len(machine.mcp(folder).call("memory_search", query=QUESTION, limit=limit).ok().json["memories"]) == limit
    assert len(machine.call("search", {"query": QUESTION, "limit": limit}, folder)["memories"]) == limit


def test_retrieval_k_is_an_upper_bound_for_a_prompt_too(place: Place, bundled: Embedder) -> None:
    async def work() -> None:
        for text in (
            "listens on port 5433",
            "port is 5433, not 5432",
            "takes connections on port 5433 from the office",
        ):
            place.add(f"The staging database {text}.")
        async with place.with_vectors(bundled):
            given = []
            for most in (1, 2, 8):
                place.hooks.policy = RecallPolicy(max_memories=most)
                given.append((await place.prompt(QUESTION, session=f"s{most}")).count("\n- [m_"))
            assert given[:2] == [1, 2]
            assert 2 <= given[2] <= 3

    run(work())


def test_deleting_50_of_60_and_asking_for_10_gives_10_live_ones(machine: Machine) -> None:
    folder = machine.project()
    texts = [f"The staging database of shard {number} listens on port 54{number:02}." for number in range(60)]
    ids = [machine.add(text, folder) for text in texts]
    machine.settle()
    before = machine.call("search", {"query": QUESTION, "limit": 60}, folder)["memories"]
    assert {each["id"] for each in before} == set(ids)
    assert len(machine.call("forget", {"ids": ids[:50]}, folder)["hidden"]) == 50
    for _ in range(2):
        # At once, and when the index has followed.
        found = machine.call("search", {"query": QUESTION, "limit": 10}, folder)
        assert {each["id"] for each in found["memories"]} == set(ids[50:])
        assert found["coverage"]["total"] == 10
        by_tool = machine.mcp(folder).call("memory_search", query=QUESTION, limit=10).ok().json["memories"]
        assert {each["id"] for each in by_tool} == set(ids[50:])
        machine.settle()


def test_a_memory_that_reaches_the_index_while_it_is_searched_is_found(
    place: Place, bundled: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the index and the look at what it lacks, it takes the memory in."""

    async def work() -> None:
        place.add("Violins are tuned in fifths.")
        async with place.with_vectors(bundled) as indexer:
            search = indexer.store.search_text

            async def slow(*arguments: Any) -> Any:
                hits = await search(*arguments)
                indexer.wake()
                assert await indexer.settled(30)
                return hits

            monkeypatch.setattr(indexer.store, "search_text", slow)
            late = place.add("The staging database listens on port 5433.")
            found = await place.call("search", {"query": QUESTION})
            assert late in json.dumps(found)

    run(work())
