"""Neighbours in a session: they bring the answer up, and nothing that may not be read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.real_parts import AGENT_AUTHOR, PERSON, Place, run

from cems.core.embedding import Embedder
from cems.core.memories import Author
from cems.core.recall import lookup
from cems.core.recall.engine import Within
from cems.core.recall.question import ask

QUESTION = "what port does the ticket gateway listen on?"
ASKED = "Ana: What port does the ticket gateway listen on?"
ANSWER = "Ben: 4817, and it was always that way."
ALONE = Author("person", present=True)


def said(place: Place, session: str, *turns: str, **more: Any) -> list[str]:
    return [
        place.add(text, kind="turn", session=session, place=number, author=ALONE, **more)
        for number, text in enumerate(turns)
    ]


async def found(place: Place, embedder: Embedder, question: str = QUESTION, **body: Any) -> list[str]:
    async with place.with_vectors(embedder):
        answer = await place.call("search", {"query": question, "limit": 200, **body})
    return [memory["id"] for memory in answer["memories"]]


def test_the_answer_beside_the_question_is_ranked_above_the_same_words_elsewhere(
    place: Place, bundled: Embedder
) -> None:
    other = said(place, "s2", "Ana: The cat sleeps.", "Ben: 4711, and it was always this way.", "Ana: Good.")
    asked, answer = said(place, "s1", ASKED, ANSWER)
    ids = run(found(place, bundled))
    assert ids[:2] == [asked, answer]
    assert not set(other) & set(ids)


def test_a_neighbour_is_found_that_no_search_would_find(place: Place, bundled: Embedder) -> None:
    for number in range(150):
        said(place, f"filler {number}", f"Ana: the port of the ticket gateway number {number} is open")
    _, answer = said(place, "s1", ASKED, "Ben: Forty-eight seventeen.")
    assert answer in run(found(place, bundled))


def test_the_order_is_that_of_the_places_and_else_of_the_telling(place: Place) -> None:
    first = place.add("told first", session="s", author=ALONE)
    second = place.add("told second", session="s", author=ALONE)
    late = place.add("said last", session="t", place=7, author=ALONE)
    early = place.add("said before", session="t", place=3, author=ALONE)
    rows = lookup.session_rows(place.reader, ["s", "t"], place.scope().readable, 10)
    assert [memory for memory, *_ in rows] == [first, second, early, late]
    # What lies in another project, or is not in use, is not even counted.
    place.add("said in another project", session="t", place=5, author=ALONE, folder=place.beta)
    place.memories.forget([early], place.scope(), PERSON)
    rows = lookup.session_rows(place.reader, ["s", "t"], place.scope().readable, 10)
    assert [memory for memory, *_ in rows] == [first, second, late]
    assert lookup.session_rows(place.reader, [], place.scope().readable, 10) == []


@pytest.mark.parametrize("what", ["forgotten", "of another project", "withheld"])
def test_what_may_not_be_read_is_no_neighbour(place: Place, bundled: Embedder, what: str) -> None:
    for number in range(150):
        said(place, f"filler {number}", f"Ana: the port of the ticket gateway number {number} is open")
    asked = said(place, "s1", ASKED)[0]
    answer = place.add(
        "Ben: Forty-eight seventeen.", kind="turn", session="s1", place=1, author=ALONE,
        folder=place.beta if what == "of another project" else None,
    )  # fmt: skip
    if what == "forgotten":
        place.memories.forget([answer], place.scope(), PERSON)
    if what == "withheld":
        from cems.core import review

        review.dispute(place.memories, answer, place.scope(), PERSON)
    ids = run(found(place, bundled))
    assert asked in ids
    assert answer not in ids


def test_neighbours_do_not_move_the_gate(place: Place, bundled: Embedder) -> None:
    said(place, "s1", ASKED, ANSWER)

    async def why() -> dict[str, Any]:
        async with place.with_vectors(bundled):
            return await place.call("why", {"prompt": QUESTION})

    answer = next(each for each in run(why())["candidates"] if each["content"] == ANSWER)
    assert answer["rank"] != answer["score"]
    assert answer["decision"] == "below gate"


def test_what_no_search_found_changes_no_probability_and_has_none(place: Place, bundled: Embedder) -> None:
    for number in range(150):
        said(place, f"filler {number}", f"Ana: the port of the ticket gateway number {number} is open")
    [asked] = said(place, "s1", ASKED)

    async def probabilities() -> dict[str, float]:
        async with place.with_vectors(bundled):
            within = Within(place.scope().readable, ("trusted",), for_prompt=True)
            found = await place.operations.searcher.search(ask(QUESTION), within)
        return {each.id: each.probability for each in found.candidates}

    before = run(probabilities())
    beside = place.add("Ben: The ticket office is blue.", kind="turn", session="s1", place=1, author=ALONE)
    after = run(probabilities())
    assert beside in after
    assert after[beside] == 0.0
    assert after[asked] == pytest.approx(before[asked], abs=0.02)


def test_a_corrected_turn_keeps_its_place(place: Place) -> None:
    first, second, third = said(place, "s1", "Ana: One?", "Ben: Tow.", "Ana: Three.")
    outcome, _ = place.memories.correct(second, {"content": "Ben: Two."}, place.scope(), PERSON)
    rows = lookup.session_rows(place.reader, ["s1"], place.scope().readable, 10)
    assert [memory for memory, *_ in rows] == [first, outcome.id, third]


def test_only_a_person_says_which_session_something_is_from(place: Place) -> None:
    item = {"content": "The gateway is green.", "session": "s9", "place": 4}
    kept = run(place.call("add_many", {"items": [item, {**item, "content": "x is y", "place": -1}]}))["results"]
    assert [each["status"] for each in kept] == ["added", "unusable"]
    source = place.row(kept[0]["id"])["source"]
    assert (source["session"], source["place"]) == ("s9", 4)
    agent = place.caller(client="mcp", agent="claude-code", tty=False, session="own")
    noted = run(place.call("add", {**item, "content": "The gateway is blue."}, agent))
    source = place.row(noted["id"])["source"]
    assert (source["session"], source["place"]) == ("own", None)


def test_memories_of_no_session_are_ranked_by_their_score(place: Place, bundled: Embedder) -> None:
    place.add("The ticket gateway listens on port 4817.", author=ALONE)
    place.add("The gateway of the tickets has a log.", author=AGENT_AUTHOR)

    async def why() -> dict[str, Any]:
        async with place.with_vectors(bundled):
            return await place.call("why", {"prompt": QUESTION})

    alone = next(each for each in run(why())["candidates"] if "4817" in each["content"])
    assert alone["rank"] == alone["score"]
