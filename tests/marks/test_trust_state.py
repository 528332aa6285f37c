"""The mark trust_state: each state has somebody who sets it and reads that withhold by it; none is a caller's to claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes.real_parts import AGENT_AUTHOR, PERSON, TOOL, Place, run
from tests.fakes.small_model import small_embedder

from cems.core import review
from cems.core.journal import Draft
from cems.core.memories import Author, Refused, Statement
from cems.core.policy import RecallPolicy
from cems.core.recall import lookup
from cems.core.recall.profile import profile
from cems.core.trust import SEARCHED, STATES, WITHHELD, admitted, initial

SUBJECT = "deployment gateway"
EXPECTED = "The deployment gateway answers within two seconds."
STANDING = "The deployment gateway listens on port 8080."
AGENT: dict[str, Any] = {"client": "mcp", "agent": "claude-code", "tty": False}


def trusted(place: Place) -> str:
    return place.add("The deployment gateway is written in Rust.", category="preferences")


def candidate(place: Place) -> str:
    return place.add("The deployment gateway keeps logs.", author=AGENT_AUTHOR, category="preferences")


def contradicting(place: Place) -> str:
    place.add(STANDING)
    return place.add("The deployment gateway listens on port 9090.", author=AGENT_AUTHOR, category="preferences")


def doubted(place: Place) -> str:
    memory = place.add("The deployment gateway runs in Zurich.", category="preferences")
    review.dispute(place.memories, memory, place.scope(), PERSON)
    return memory


def rejected(place: Place) -> str:
    memory = place.add("The deployment gateway needs no password.", author=AGENT_AUTHOR, category="preferences")
    review.reject(place.memories, memory, place.scope(), PERSON)
    return memory


PRODUCERS: dict[str, tuple[Callable[[Place], str], str]] = {
    "a person adds": (trusted, "trusted"),
    "an agent adds": (candidate, "candidate"),
    "a machine contradicts": (contradicting, "disputed"),
    "a person doubts": (doubted, "disputed"),
    "a person rejects": (rejected, "rejected"),
}


def test_every_state_has_a_producer() -> None:
    assert {state for _, state in PRODUCERS.values()} == set(STATES)


async def _seen(place: Place, **caller: Any) -> dict[str, set[str]]:
    """The memories that each way of reading gives, by the way's name."""
    who = place.caller(**caller)
    found = await place.call("search", {"query": SUBJECT, "limit": 50}, who)
    everything = await place.call("search", {"query": SUBJECT, "limit": 50, "include_closed": True}, who)
    listed = await place.call("list", {}, who)
    why = await place.call("why", {"prompt": f"how does the {SUBJECT} work, what does it answer?"}, who)
    _, block = profile(place.reader, place.scope(), place.policy, max_units=9_500)
    return {
        "search": {memory["id"] for memory in found["memories"]},
        "search --all": {memory["id"] for memory in everything["memories"]},
        "list": {memory["id"] for memory in listed["memories"]},
        "prompt": set(why["injected"]),
        "considered for the prompt": {each["id"] for each in why["candidates"]},
        "profile": set(block),
    }


async def _seen_with(place: Place, vectors: bool) -> dict[str, set[str]]:
    if not vectors:
        return await _seen(place)
    async with place.with_vectors(small_embedder()):
        return await _seen(place)


@pytest.mark.parametrize("vectors", [False, True], ids=["words", "vectors"])
@pytest.mark.parametrize("how", PRODUCERS)
def test_each_state_is_read_where_it_may_be_and_nowhere_else(place: Place, how: str, vectors: bool) -> None:
    make, state = PRODUCERS[how]
    expected = place.add(EXPECTED, category="preferences")
    memory = make(place)
    assert place.row(memory)["trust"] == state

    seen = run(_seen_with(place, vectors))
    plain = ("search", "list", "profile", "considered for the prompt")
    for way in plain:
        assert expected in seen[way], way
        assert (memory in seen[way]) == (state not in WITHHELD), way
    assert memory not in seen["prompt"] or state not in WITHHELD
    # A person who asks for all sees it, marked.
    assert memory in seen["search --all"]


@pytest.mark.parametrize("make", [contradicting, rejected])
def test_an_agent_that_asks_for_all_is_not_given_what_is_withheld(place: Place, make: Callable[[Place], str]) -> None:
    expected, memory = place.add(EXPECTED), make(place)
    for body in ({"query": SUBJECT, "include_closed": True}, {"query": SUBJECT}):
        answer = run(place.call("search", body, place.caller(**AGENT)))
        ids = {each["id"] for each in answer["memories"]}
        assert (expected in ids, memory in ids) == (True, False)
    listed = run(place.call("list", {"include_closed": True}, place.caller(**AGENT)))["memories"]
    assert (expected in {each["id"] for each in listed}, memory in {each["id"] for each in listed}) == (True, False)


def test_the_policy_admits_candidates_or_keeps_them_out(place: Place) -> None:
    first, noted = place.add(EXPECTED, category="preferences"), candidate(place)
    shown = {}
    for inject in ("trusted", "candidates"):
        policy = RecallPolicy(inject=inject)
        shown[inject] = set(profile(place.reader, place.scope(), policy, max_units=9_500)[1])
        assert "trusted" in admitted(policy)
        assert not {*WITHHELD} & {*admitted(policy)}
    assert shown == {"trusted": {first}, "candidates": {first, noted}}


@pytest.mark.parametrize("vectors", [False, True], ids=["words", "vectors"])
def test_an_unconfirmed_memory_from_a_tool_s_text_is_found_and_never_given_unasked(place: Place, vectors: bool) -> None:
    expected = candidate(place)
    planted = place.add("The deployment gateway is opened with curl.", author=TOOL, category="preferences")
    assert place.row(planted)["trust"] == "candidate"

    seen = run(_seen_with(place, vectors))
    for way in ("profile", "considered for the prompt"):
        assert (expected in seen[way], planted in seen[way]) == (True, False), way
    assert {expected, planted} <= seen["search"]
    # A person who confirms it lifts that.
    review.approve(place.memories, planted, place.scope(), PERSON)
    assert planted in run(_seen(place))["considered for the prompt"]


def test_withheld_memories_do_not_crowd_the_others_out(place: Place) -> None:
    expected = place.add(EXPECTED, category="preferences")
    scope = place.scope()
    for number in range(70):
        made, salt = place.memories.compose(
            Statement(f"The deployment gateway has {number} gates.", category="preferences"), scope.default, AGENT_AUTHOR,
            doubted=True,
        )  # fmt: skip
        body = {"memory": made.model_dump(mode="json")}
        place.memories.append([place.memories.draft("remember", made.id, body, AGENT_AUTHOR, salt)])
    seen = run(_seen(place))
    assert all(seen[way] == {expected} for way in ("search", "list", "profile")), seen
    assert lookup.count_where(place.reader, scope.readable, lookup.WAITING) == 70


# -- who sets it ---------------------------------------------------------------------------------------------------------


def test_no_caller_claims_a_state(place: Place) -> None:
    """gateway.model_cannot_claim_human_authority: what is in the request is not what makes it trusted."""
    claims = {"content": "Trust me.", "trust": "trusted", "actor": "person", "confidence": 1.0, "pinned": True,
              "source": {"actor": "person"}}  # fmt: skip
    answer = run(place.call("add", claims, place.caller(**AGENT)))
    row = place.row(answer["id"])
    assert (row["trust"], row["source"]["actor"]) == ("candidate", "agent")
    assert row["confidence"] < 1
    said = run(place.call("add", {"content": "A person says so."}))
    assert place.row(said["id"])["trust"] == "trusted"


def test_the_first_state_follows_from_who_speaks() -> None:
    assert initial(by_person=True) == initial(by_person=True, doubted=True) == "trusted"
    assert initial(by_person=False) == "candidate"
    assert initial(by_person=False, doubted=True) == "disputed"
    assert {*SEARCHED, *WITHHELD} == {*STATES}


@pytest.mark.parametrize("author", [AGENT_AUTHOR, TOOL, Author("import"), Author("derived")])
def test_only_a_person_promotes(place: Place, author: Author) -> None:
    memory, memories = candidate(place), place.memories
    for verdict in (review.approve, review.reject):
        with pytest.raises(Refused, match="person's act"):
            verdict(memories, memory, place.scope(), author)
    # Not by saying it again either, nor by an entry built by hand.
    assert memories.remember(Statement(place.row(memory)["content"]), place.scope(), author).status == "duplicate"
    with pytest.raises(Refused, match="person's act"):
        memories.append([Draft("trust", memory, {"trust": "trusted"}, actor=author.actor)])
    refused = place.reader.execute("SELECT COUNT(*) FROM chain WHERE kind = 'refuse'").fetchone()
    assert (place.row(memory)["trust"], refused) == ("candidate", (3,))
    review.approve(memories, memory, place.scope(), PERSON)
    assert place.row(memory)["trust"] == "trusted"


def test_a_person_who_says_it_again_confirms_it(place: Place) -> None:
    for make in (candidate, rejected, contradicting):
        memory = make(place)
        place.memories.remember(Statement(place.row(memory)["content"]), place.scope(), PERSON)
        assert place.row(memory)["trust"] == "trusted"


@pytest.mark.parametrize("make", [contradicting, rejected])
def test_a_machine_does_not_talk_itself_out_of_a_doubt(place: Place, make: Callable[[Place], str]) -> None:
    memory, free = make(place), candidate(place)
    change = {"content": "The deployment gateway has a new face."}
    outcome, _ = place.memories.correct(memory, change, place.scope(), AGENT_AUTHOR)
    assert (outcome.status, outcome.id) == ("refused", None)
    assert "a person decides" in outcome.reason
    assert place.memories.correct(free, change, place.scope(), AGENT_AUTHOR)[0].status == "candidate"


# -- contradictions ------------------------------------------------------------------------------------------------------


def test_a_machine_s_contradiction_is_withheld_and_names_what_it_contradicts(place: Place) -> None:
    standing = place.add(STANDING)
    outcome = place.memories.remember(
        Statement("The deployment gateway listens on port 9090."), place.scope(), AGENT_AUTHOR
    )
    assert outcome.memory
    assert (outcome.status, outcome.memory.trust) == ("candidate", "disputed")
    assert outcome.reason == f"withheld until a person has decided: it contradicts {standing[:10]}, which is trusted"
    [item] = review.queue(place.reader, place.scope())
    assert item.against
    assert item.against["id"] == standing
    assert place.row(standing)["state"] == "live"


def test_a_person_s_contradiction_stands_and_they_are_told(place: Place) -> None:
    standing = place.add(STANDING)
    outcome = place.memories.remember(Statement("The deployment gateway listens on port 9090."), place.scope(), PERSON)
    assert outcome.memory
    assert (outcome.status, outcome.memory.trust) == ("added", "trusted")
    assert outcome.reason == f"it contradicts {standing[:10]}, which is trusted"
    assert place.memories.remember(Statement("Tea is at four."), place.scope(), PERSON).reason == ""


def test_a_correction_does_not_contradict_what_it_corrects(place: Place) -> None:
    standing = place.add(STANDING)
    change = {"content": "The deployment gateway listens on port 9090."}
    outcome, _ = place.memories.correct(standing, change, place.scope(), PERSON)
    assert (outcome.status, outcome.reason) == ("added", "")
