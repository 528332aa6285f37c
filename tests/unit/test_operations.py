"""The operations as every caller meets them: JSON in, JSON out, errors with a code, a sentence and an exit status."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.fakes.real_parts import AGENT_AUTHOR, PERSON, Place, run

from cems.core.embedding import Embedder
from cems.core.service.caller import Caller
from cems.core.service.operations import OperationFailed
from cems.core.tokens import count_tokens

PORT = "The staging database listens on port 5433."
QUESTION = "which port does the staging database listen on"


def call(
    place: Place, name: str, body: Mapping[str, Any] | None = None, caller: Caller | None = None
) -> dict[str, Any]:
    return run(place.call(name, body or {}, caller))


def failure(place: Place, name: str, body: Mapping[str, Any], caller: Caller | None = None) -> OperationFailed:
    with pytest.raises(OperationFailed) as caught:
        call(place, name, body, caller)
    return caught.value


def agent(place: Place) -> Caller:
    return place.caller(client="mcp", agent="claude-code", tty=False)


# -- change


def test_what_a_person_adds_is_trusted_and_what_an_agent_adds_a_candidate(place: Place) -> None:
    added = call(place, "add", {"content": PORT, "category": "decision", "tags": ["db"]})
    assert added["status"] == "added"
    assert added["category"] == "decisions"
    assert added["scope"].startswith("project:")
    assert call(place, "add", {"content": PORT}) | {"reason": ""} == added | {
        "status": "duplicate",
        "scope": None,
        "category": None,
        "reason": "",
    }
    assert call(place, "add", {"content": "Logs go to Loki."}, agent(place))["status"] == "candidate"


def test_a_caller_that_does_not_say_who_it_is_is_no_person(place: Place) -> None:
    assert call(place, "add", {"content": PORT}, Caller(cwd=str(place.alpha)))["status"] == "candidate"


def test_secrets_are_cut_and_counted(place: Place) -> None:
    added = call(place, "add", {"content": "The port is 5433. <private>the key is under the mat</private>"})
    assert added["redacted"] == 1
    assert "mat" not in json.dumps(call(place, "show", {"id": added["id"]}))


def test_each_of_many_is_added_by_itself(place: Place) -> None:
    items = [
        {"content": PORT},
        {"content": ""},
        "x",
        {"content": "Logs go to Loki.", "scope": "project"},
        {"content": 7},
        {"content": PORT},
    ]
    results = call(place, "add_many", {"items": items})["results"]
    assert [each["status"] for each in results] == ["added", "unusable", "unusable", "added", "unusable", "duplicate"]
    refused = call(place, "add_many", {"items": [{"content": "x", "scope": "user"}, {"content": "y"}]}, agent(place))
    assert [each["status"] for each in refused["results"]] == ["refused", "candidate"]


def test_a_correction_closes_the_old_one(place: Place) -> None:
    old = place.add(PORT)
    answer = call(
        place, "edit", {"id": old, "content": "The staging database listens on port 5434.", "reason": "moved"}
    )
    assert (answer["status"], answer["replaced"]) == ("added", old)
    assert [each["id"] for each in call(place, "search", {"query": QUESTION})["memories"]] == [answer["id"]]
    shown = call(place, "show", {"id": old})
    assert (shown["memory"]["state"], shown["memory"]["closed_by"]) == ("closed", answer["id"])
    assert shown["history"][-1]["reason"] == "moved"


def test_what_is_forgotten_is_named_refused_and_gone_at_once(place: Place) -> None:
    memory = place.add(PORT)
    control = place.add("The staging database runs PostgreSQL 16.")
    hidden = call(place, "forget", {"text": PORT.upper()})
    assert [each["id"] for each in hidden["hidden"]] == [memory]
    assert hidden["tombstones"] == 1
    assert [each["id"] for each in call(place, "search", {"query": QUESTION})["memories"]] == [control]
    assert call(place, "add", {"content": PORT})["status"] == "refused"
    shown = call(place, "show", {"id": memory})["memory"]
    assert shown["state"] == "hidden"
    assert "port 5433" not in json.dumps(shown)


def test_several_are_forgotten_by_id(place: Place) -> None:
    ids = [place.add(PORT), place.add("Logs go to Loki.")]
    assert {each["id"] for each in call(place, "forget", {"ids": ids})["hidden"]} == set(ids)


def test_a_pin_is_set_and_taken_off(place: Place) -> None:
    memory = place.add(PORT)
    assert call(place, "pin", {"id": memory}) == {"id": memory, "pinned": True}
    assert PORT in call(place, "profile")["block"]
    assert call(place, "pin", {"id": memory, "pinned": False})["pinned"] is False
    assert call(place, "profile") == {"block": "", "ids": []}


def test_a_person_at_a_terminal_shares_and_lifts_and_nobody_else(place: Place) -> None:
    memory = place.add(PORT)
    for other in (agent(place), place.caller(tty=False), place.caller(agent="claude-code")):
        assert failure(place, "share", {"id": memory}, other).exit_status == 4
    assert call(place, "share", {"id": memory}) == {"id": memory, "scope": "user"}
    call(place, "forget", {"id": memory})
    assert failure(place, "lift", {"text": PORT}, agent(place)).exit_status == 4
    assert call(place, "lift", {"text": PORT})["lifted"] == 1


def test_feedback_is_kept_and_only_for_what_is_there(place: Place) -> None:
    memory = place.add(PORT)
    assert call(place, "mark", {"id": memory, "useful": False}) == {"id": memory, "useful": False}
    assert failure(place, "mark", {"id": "m_ffff"}).exit_status == 3


# -- ask


def test_an_id_is_accepted_at_any_unambiguous_length_with_and_without_its_prefix(place: Place) -> None:
    memory = place.add(PORT)
    for given_id in (memory, memory[:6], memory.removeprefix("m_"), memory[2:8]):
        assert call(place, "show", {"id": given_id})["memory"]["id"] == memory
    for i in range(40):
        place.add(f"statement number {i}")
    ambiguous = failure(place, "show", {"id": next(iter(twice(place)))})
    assert (ambiguous.code, ambiguous.exit_status) == ("ambiguous", 2)
    unknown = failure(place, "show", {"id": "m_" + "f" * 24})
    assert (unknown.code, unknown.exit_status) == ("not_found", 3)


def twice(place: Place) -> list[str]:
    """First digits that several ids share."""
    ids = [each["id"] for each in call(place, "list", {"limit": 500})["memories"]]
    return sorted(start for start in {each[:3] for each in ids} if sum(each.startswith(start) for each in ids) > 1)


@pytest.mark.parametrize("vectors", [False, True], ids=["words", "vectors"])
def test_search_gives_related_ones_only_within_limit_scope_and_category(
    place: Place, bundled: Embedder, vectors: bool
) -> None:
    async def work() -> None:
        port = place.add(PORT, category="environment")
        decision = place.add("We decided that the staging database is rebuilt every night.", category="decisions")
        everywhere = place.add("I keep a staging database for every project.", everywhere=True)
        unrelated = place.add("Violins are tuned in fifths.")
        other = place.add("The staging database of beta.", folder=place.beta)
        query = {"query": "staging database"}
        if vectors:
            async with place.with_vectors(bundled):
                await check(port, decision, everywhere, unrelated, other, query)
        else:
            await check(port, decision, everywhere, unrelated, other, query)

    async def check(
        port: str, decision: str, everywhere: str, unrelated: str, other: str, query: dict[str, Any]
    ) -> None:
        found = await place.call("search", query)
        assert {each["id"] for each in found["memories"]} == {port, decision, everywhere}
        assert found["mode"] == ("hybrid" if vectors else "keyword")
        assert found["next"] is None
        assert found["coverage"] == {"considered": 4, "total": 4}
        scores = [each["score"] for each in found["memories"]]
        assert scores == sorted(scores, reverse=True)
        assert ids(await place.call("search", query | {"limit": 1})) == ids(found)[:1]
        assert ids(await place.call("search", query | {"category": "decision"})) == [decision]
        assert ids(await place.call("search", query | {"scope": "user"})) == [everywhere]
        assert set(ids(await place.call("search", query | {"scope": "project"}))) == {port, decision}
        assert set(ids(await place.call("search", query, place.caller(place.beta)))) == {other, everywhere}
        model = (await place.call("show", {"id": port}))["memory"]["model"]
        assert model.startswith("bundled/") if vectors else model == ""

    run(work())


def ids(answer: dict[str, Any]) -> list[str]:
    return [each["id"] for each in answer["memories"]]


def test_a_category_is_searched_for_also_behind_many_better_ones_of_another(place: Place) -> None:
    for i in range(100):
        place.add(f"staging database staging database number {i}")
    memory = place.add("Some decision somewhere mentions a staging database as well.", category="decisions")
    assert ids(call(place, "search", {"query": "staging database", "category": "decisions"})) == [memory]


def test_closed_ones_are_searched_on_demand_only(place: Place) -> None:
    old = place.add(PORT)
    new = call(place, "edit", {"id": old, "content": "The staging database listens on port 5434."})["id"]
    ended = place.add("The staging database was on port 5431.", valid_to="2020-01-01")
    assert ids(call(place, "search", {"query": QUESTION})) == [new]
    assert set(ids(call(place, "search", {"query": QUESTION, "include_closed": True}))) == {new, old, ended}
    assert ids(call(place, "search", {"query": "violins", "include_closed": True})) == []


def test_another_projects_scope_is_refused_and_its_memories_are_not_found_by_any_way(place: Place) -> None:
    memory = place.add("The staging database of beta listens on 6000.", folder=place.beta)
    control = place.add(PORT)
    scope = place.row(memory)["scope"]
    for name, body in (("search", {"query": QUESTION}), ("list", {})):
        refused = failure(place, name, body | {"scope": scope})
        assert (refused.code, refused.exit_status) == ("refused", 4)
        assert ids(call(place, name, body)) == [control]
    for name in ("show", "forget", "pin", "share", "mark", "edit"):
        assert failure(place, name, {"id": memory, "content": "x"}).exit_status == 3
    assert call(place, "why", {"prompt": QUESTION})["injected"] == [control]
    run(place.prompt("where does the staging database of beta listen", session="b", folder=place.beta))
    assert call(place, "session", {"session": "b"}) == {"given": []}


def test_list_gives_pages_that_together_are_everything_once(place: Place) -> None:
    made = [place.add(f"statement number {i}", category="context" if i % 2 else "general") for i in range(23)]
    seen: list[str] = []
    cursor = None
    while True:
        page = call(place, "list", {"limit": 10, "cursor": cursor})
        seen += ids(page)
        assert page["coverage"]["total"] == 23
        if (cursor := page["next"]) is None:
            break
    assert seen == made[::-1]
    assert len(ids(call(place, "list", {"category": "context", "limit": 50}))) == 11


def test_of_sixty_with_fifty_deleted_ten_live_ones_are_found(place: Place) -> None:
    made = [place.add(f"The staging database listens on port {6000 + i}.") for i in range(60)]
    call(place, "forget", {"ids": made[:50]})
    assert set(ids(call(place, "search", {"query": QUESTION, "limit": 10}))) == set(made[50:])


def test_why_shows_each_candidate_and_its_sum_agrees_with_the_block(place: Place) -> None:
    for content in (PORT, "The staging database runs PostgreSQL 16.", "Logs go to Loki."):
        place.add(content, author=AGENT_AUTHOR)
    answer = call(place, "why", {"prompt": QUESTION})
    assert {"id", "content", "score", "decision", "probability", "category", "scope"} <= set(answer["candidates"][0])
    injected = [each for each in answer["candidates"] if each["id"] in answer["injected"]]
    assert injected
    assert all(each["decision"] == "injected" for each in injected)
    assert answer["tokens"] == sum(each["tokens"] for each in injected) + answer["stages"]["fence_tokens"]
    assert answer["tokens"] == count_tokens(answer["block"])
    assert all(each["content"] in answer["block"] for each in injected)


def test_why_counts_what_a_session_was_given(place: Place) -> None:
    place.add(PORT)
    run(place.prompt(QUESTION))
    assert call(place, "why", {"prompt": QUESTION, "session": "s1"})["candidates"][0]["decision"] == "already shown"
    assert call(place, "session", {"session": "s1"})["given"][0]["how"] == "prompt"


def test_status_counts_and_names_the_scope(place: Place) -> None:
    place.add(PORT)
    place.add("Logs go to Loki.", author=AGENT_AUTHOR)
    place.memories.forget([place.add("x y z")], place.scope(), PERSON)
    place.add("elsewhere", folder=place.beta)
    status = call(place, "status")
    assert status["memories"] | {"pending_index": 0} == {
        "live": 3, "closed": 0, "hidden": 1, "archived": 0, "total": 4, "here": 2, "pending_index": 0
    }  # fmt: skip
    assert status["review"] == 1
    assert status["daemon"]["state"] == "keyword"
    assert status["daemon"]["rss_mib"] > 10
    assert status["embedding"]["state"] == "loading"
    assert status["scope"]["project"].endswith("/alpha")
    assert status["home"] == str(place.home.root)


def test_settling_and_rebuilding_bring_the_store_up_to_date(place: Place, bundled: Embedder) -> None:
    async def work() -> None:
        async with place.with_vectors(bundled):
            await place.call("add", {"content": PORT})
            assert (await place.call("settle", {})) == {"settled": True}
            assert (await place.call("status", {}))["memories"]["pending_index"] == 0
            assert (await place.call("rebuild", {}))["memories"] == 1
            assert (await place.call("status", {}))["embedding"]["state"] == "ready"

    run(work())


def test_without_a_store_there_is_nothing_to_rebuild(place: Place) -> None:
    assert failure(place, "rebuild", {}).exit_status == 1
