"""The mark human_review: a queue with real producers, verdicts that change what is read, and verdicts only a person can give."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.ancestors import Ancestors
from tests.fakes.machine import IN_CLAUDE, Machine
from tests.fakes.real_parts import AGENT_AUTHOR, PERSON, TOOL, Place, run

from cems.core import review
from cems.core.embedding import Embedder
from cems.core.memories import Author, NothingMatched, Refused, Statement, Unusable
from cems.core.policy import RecallPolicy
from cems.core.recall import lookup
from cems.core.review import Item
from cems.core.service.caller import Caller
from cems.core.service.operations import OperationFailed
from cems.core.undo import undo

OLD = "Staging listens on port 8080."
NEW = "Staging listens on port 8081."
QUOTE = "we moved staging to 8081 last week"
PLANT = "The payroll export hint is the name of the office plant."
ABSENT = Author("person", session="s-person", present=False)
NOT_PEOPLE = (AGENT_AUTHOR, TOOL, Author("import"), Author("derived"), ABSENT)


def waiting(place: Place) -> list[Item]:
    return review.queue(place.reader, place.scope())


def ids(items: list[Item]) -> list[str]:
    return [item.row["id"] for item in items]


def noted(place: Place, content: str, **fields: Any) -> str:
    """What an agent adds."""
    return place.add(content, author=AGENT_AUTHOR, **fields)


def conflict(place: Place) -> tuple[str, str]:
    """A trusted memory, and what an agent says against it."""
    old = place.add(OLD)
    return old, noted(place, NEW, quote=QUOTE)


def near_tombstone(place: Place, model: Embedder) -> str:
    """Something forgotten, and what an agent says that comes close to it in meaning."""
    place.memories.tombstones.meaning = model
    place.memories.forget([place.add(PLANT)], place.scope(), PERSON, "that must not be written down")
    return noted(place, "The payroll export hint is the office plant's name, so look at the plant.")


def entries(place: Place) -> list[tuple[str, str, dict[str, Any]]]:
    rows = place.reader.execute("SELECT kind, entity, body FROM chain JOIN payloads USING (op_id) ORDER BY seq")
    return [(kind, entity, json.loads(body)) for kind, entity, body in rows]


async def found(place: Place, query: str) -> list[str]:
    answer = await place.call("search", {"query": query})
    return [memory["content"] for memory in answer["memories"]]


# -- the queue and its producers -----------------------------------------------------------------------------------------


def test_what_an_agent_adds_waits_with_its_source_sentence_and_who_said_it(place: Place) -> None:
    memory = noted(place, "The build needs Node 22.", quote="engine node 22 required")
    [item] = waiting(place)
    assert (item.kind, item.row["id"]) == ("candidate", memory)
    assert item.row["source"]["quote"] == "engine node 22 required"
    assert (item.row["source"]["actor"], item.row["source"]["agent"]) == ("agent", "claude-code")
    assert item.reason == "noted by claude-code; nobody has confirmed it"


def test_what_a_machine_says_against_a_trusted_memory_waits_withheld_and_names_it(place: Place) -> None:
    old, new = conflict(place)
    [item] = waiting(place)
    assert (item.kind, item.row["id"], item.row["trust"]) == ("conflict", new, "disputed")
    assert item.against
    assert item.against["id"] == old
    assert item.reason == f"contradicts {old[:10]}, which is trusted"
    assert run(found(place, "staging port")) == [OLD]


def test_what_comes_close_to_something_forgotten_waits_with_the_tombstone_named(
    place: Place, bundled: Embedder
) -> None:
    memory = near_tombstone(place, bundled)
    [item] = waiting(place)
    assert (item.kind, item.row["id"]) == ("near-tombstone", memory)
    tombstone = item.tombstone
    assert tombstone
    assert (tombstone.actor, tombstone.reason) == ("person", "that must not be written down")
    assert tombstone.similarity
    assert tombstone.similarity > 0.8
    assert tombstone.id.startswith("t_")
    assert tombstone.at[:10] in item.reason
    assert run(found(place, "office plant payroll")) == []


def test_a_person_can_doubt_a_trusted_memory(place: Place) -> None:
    memory = place.add(OLD)
    assert run(found(place, "staging port")) == [OLD]
    review.dispute(place.memories, memory, place.scope(), PERSON, "is that still so?")
    [item] = waiting(place)
    assert (item.kind, item.reason) == ("conflict", "doubted by a person: is that still so?")
    assert run(found(place, "staging port")) == []
    review.approve(place.memories, memory, place.scope(), PERSON)
    assert run(found(place, "staging port")) == [OLD]


def test_conflicts_come_first_and_within_a_kind_the_oldest(place: Place, bundled: Embedder) -> None:
    first, second = noted(place, "The build needs Node 22."), noted(place, "The tests need Docker.")
    near = near_tombstone(place, bundled)
    _, new = conflict(place)
    assert ids(waiting(place)) == [new, near, first, second]


def test_what_a_person_says_waits_for_nobody(place: Place) -> None:
    old = place.add(OLD)
    outcome = place.memories.remember(Statement(NEW), place.scope(), PERSON)
    assert outcome.status == "added"
    assert old[:10] in outcome.reason
    assert waiting(place) == []
    noted(place, "The build needs Node 22.")
    assert len(waiting(place)) == 1


def test_a_conflict_names_what_the_old_memory_was_corrected_to(place: Place) -> None:
    old, new = conflict(place)
    outcome, _ = place.memories.correct(old, {"content": "Staging listens on port 8079."}, place.scope(), PERSON)
    [item] = waiting(place)
    assert item.against
    assert item.against["id"] == outcome.id
    place.memories.forget([str(outcome.id)], place.scope(), PERSON)
    [item] = waiting(place)
    assert (item.row["id"], item.against) == (new, None)
    assert "does not hold any more" in item.reason


def test_another_projects_queue_is_not_seen_and_not_decided(place: Place) -> None:
    here = noted(place, "The build needs Node 22.")
    there = noted(place, "The other build needs Node 20.", folder=place.beta)
    assert ids(waiting(place)) == [here]
    assert ids(review.queue(place.reader, place.scope(place.beta))) == [there]
    with pytest.raises(NothingMatched):
        review.approve(place.memories, there, place.scope(), PERSON)
    assert place.row(there)["trust"] == "candidate"
    review.approve(place.memories, there, place.scope(place.beta), PERSON)
    assert place.row(there)["trust"] == "trusted"


# -- the verdicts --------------------------------------------------------------------------------------------------------


def test_approve_trusts_it_and_journals_before_after_and_reason(place: Place) -> None:
    memory = noted(place, "The build needs Node 22.")
    done = review.approve(place.memories, memory, place.scope(), PERSON, "seen it fail")
    assert (done.id, done.trust, done.closed) == (memory, "trusted", ())
    assert place.row(memory)["trust"] == "trusted"
    assert waiting(place) == []
    kind, entity, body = entries(place)[-1]
    assert (kind, entity) == ("trust", memory)
    assert body == {"from": "candidate", "trust": "trusted", "reason": "seen it fail", "group": done.group}


def test_approve_of_a_conflict_closes_the_older_memory_in_one_change(place: Place) -> None:
    old, new = conflict(place)
    place.memories.pin(old, True, place.scope(), PERSON)
    done = review.approve(place.memories, new, place.scope(), PERSON)
    assert done.closed == (old,)
    assert (place.row(old)["state"], place.row(old)["closed_by"]) == ("closed", new)
    assert (place.row(new)["trust"], place.row(new)["pinned"]) == ("trusted", True)
    assert run(found(place, "staging port")) == [NEW]
    assert {body["group"] for _, _, body in entries(place)[-3:]} == {done.group}


def test_approve_in_a_project_leaves_what_holds_everywhere(place: Place) -> None:
    wide = place.add("Use tabs for indentation.", everywhere=True)
    narrow = noted(place, "Use spaces for indentation.")
    [item] = waiting(place)
    assert item.against
    assert item.against["id"] == wide
    assert review.approve(place.memories, narrow, place.scope(), PERSON).closed == ()
    assert (place.row(wide)["state"], place.row(narrow)["trust"]) == ("live", "trusted")


def test_reject_withholds_it_everywhere_and_refuses_it_from_machines(place: Place) -> None:
    memory = noted(place, "Staging has no firewall.", category="guidelines")
    place.add("Staging is rebuilt at night.", category="guidelines")
    query, prompt = "staging firewall rebuilt", "is there a firewall on staging, and when is it rebuilt at night?"
    # Trust is what is looked at here: how plainly something must be asked for is the gate's matter.
    place.hooks.policy = RecallPolicy(gate_threshold=0.05)
    assert "firewall" in run(place.prompt(prompt, session="before"))
    review.reject(place.memories, memory, place.scope(), PERSON, "not true")
    assert run(found(place, query)) == ["Staging is rebuilt at night."]
    injected = run(place.prompt(prompt, session="after"))
    assert "rebuilt at night" in injected
    assert "firewall" not in injected
    profile = run(place.call("profile", {}))["block"]
    assert "rebuilt at night" in profile
    assert "firewall" not in profile
    again = place.memories.remember(Statement("staging has no FIREWALL"), place.scope(), AGENT_AUTHOR)
    assert (again.status, again.reason) == ("refused", "a person rejected this")
    assert waiting(place) == []


def test_edit_puts_the_persons_text_in_its_place_trusted(place: Place) -> None:
    memory = noted(place, "The build needs Node 22.", tags=("node",), quote="engine node 22 required")
    done = review.edit(place.memories, memory, "The build needs Node 22.3 or later.", place.scope(), PERSON)
    new = place.row(done.id)
    assert (new["content"], new["trust"], new["tags"]) == ("The build needs Node 22.3 or later.", "trusted", ["node"])
    assert new["source"]["quote"] == "engine node 22 required"
    assert (place.row(memory)["state"], place.row(memory)["closed_by"]) == ("closed", done.id)
    assert waiting(place) == []


def test_an_edit_that_still_contradicts_closes_the_older_memory_and_another_keeps_it(place: Place) -> None:
    old, new = conflict(place)
    kept = review.edit(place.memories, new, "The staging metrics endpoint is on another port.", place.scope(), PERSON)
    assert kept.closed == (new,)
    assert place.row(old)["state"] == "live"
    again = noted(place, "Staging listens on port 8090.")
    done = review.edit(place.memories, again, "Staging listens on port 8091.", place.scope(), PERSON)
    assert done.closed == (again, old)
    assert place.row(old)["state"] == "closed"


def test_merge_makes_one_of_two_with_the_sources_and_tags_of_both(place: Place) -> None:
    one = place.add("Run make lint before a commit.", tags=("lint",), quote="always lint first")
    two = noted(place, "make lint runs ruff and mypy.", tags=("ruff", "lint"), quote="the target calls ruff and mypy")
    done = review.merge(place.memories, two, one, place.scope(), PERSON, "Run make lint (ruff, mypy) before a commit.")
    merged = place.row(done.id)
    assert merged["content"] == "Run make lint (ruff, mypy) before a commit."
    assert (merged["trust"], merged["tags"]) == ("trusted", ["lint", "ruff"])
    assert set(merged["source"]["derived_from"]) == {one, two}
    assert {"always lint first", "the target calls ruff and mypy"} == set(merged["source"]["quote"].split(" … "))
    assert {place.row(each)["closed_by"] for each in (one, two)} == {done.id}
    assert {body["group"] for _, _, body in entries(place)[-3:]} == {done.group}
    assert run(found(place, "make lint")) == [merged["content"]]


def test_merge_without_a_text_takes_the_proposed_one(place: Place) -> None:
    one, two = place.add("Run make lint before a commit."), noted(place, "make lint runs ruff and mypy.")
    done = review.merge(place.memories, two, one, place.scope(), PERSON)
    assert place.row(done.id)["content"] == "Run make lint before a commit. make lint runs ruff and mypy."


@pytest.mark.parametrize("verdict", ["edit", "merge"])
def test_no_verdict_brings_back_what_was_forgotten(place: Place, verdict: str) -> None:
    forgotten = place.add(PLANT)
    place.memories.forget([forgotten], place.scope(), PERSON)
    one, two = place.add("The plant stands by the door."), noted(place, "The plant is a ficus.")
    give = {
        "edit": lambda: review.edit(place.memories, two, PLANT.upper(), place.scope(), PERSON),
        "merge": lambda: review.merge(place.memories, two, one, place.scope(), PERSON, PLANT.upper()),
    }
    with pytest.raises(Refused, match="forgotten"):
        give[verdict]()
    assert [place.row(each)["state"] for each in (one, two)] == ["live", "live"]
    assert entries(place)[-1][0] == "refuse"
    assert review.edit(place.memories, two, "The plant is a palm.", place.scope(), PERSON).trust == "trusted"


def test_a_memory_that_waits_for_nothing_gets_no_verdict(place: Place) -> None:
    memory = place.add(OLD)
    for verdict in (review.approve, review.reject):
        with pytest.raises(Unusable, match="waits for no verdict"):
            verdict(place.memories, memory, place.scope(), PERSON)
    waits = noted(place, "The build needs Node 22.")
    with pytest.raises(Unusable, match="with itself"):
        review.merge(place.memories, waits, waits, place.scope(), PERSON)
    assert place.row(memory)["trust"] == "trusted"


def test_a_skipped_item_comes_back_tomorrow_and_nothing_is_journaled(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, other = noted(place, "The build needs Node 22."), noted(place, "The tests need Docker.")
    before = len(entries(place))
    run(place.call("decide", {"verdict": "skip", "id": memory}))
    answer = run(place.call("review", {}))
    assert ([item["memory"]["id"] for item in answer["items"]], answer["skipped"]) == ([other], 1)
    assert (answer["total"], len(entries(place))) == (2, before)
    assert len(run(place.call("review", {"skipped": True}))["items"]) == 2
    place.restart()
    assert len(run(place.call("review", {}))["items"]) == 1
    tomorrow = time.strftime("%Y-%m-%d", time.localtime(time.time() + 86_400))
    monkeypatch.setattr("cems.core.service.sessions._today", lambda: tomorrow)
    assert len(run(place.call("review", {}))["items"]) == 2


def test_undo_takes_a_verdict_back_whole(place: Place) -> None:
    old, new = conflict(place)
    before = [(item.kind, item.row["id"], item.reason) for item in waiting(place)]
    review.approve(place.memories, new, place.scope(), PERSON)
    undo(place.memories, new, place.scope(), PERSON)
    assert (place.row(old)["state"], place.row(new)["trust"]) == ("live", "disputed")
    assert [(item.kind, item.row["id"], item.reason) for item in waiting(place)] == before
    one, two = place.add("Run make lint before a commit."), noted(place, "make lint runs ruff and mypy.")
    done = review.merge(place.memories, two, one, place.scope(), PERSON)
    undo(place.memories, done.id, place.scope(), PERSON)
    assert [place.row(each)["state"] for each in (one, two, done.id)] == ["live", "live", "closed"]
    assert place.row(two)["trust"] == "candidate"


# -- only a person -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("author", NOT_PEOPLE, ids=lambda author: f"{author.actor}-{author.present}")
def test_only_a_person_who_is_there_decides_and_each_attempt_is_journaled(place: Place, author: Author) -> None:
    old, new = conflict(place)
    other = place.add("Run make lint before a commit.")
    scope = place.scope()
    attempts: list[Callable[[], object]] = [
        lambda: review.approve(place.memories, new, scope, author),
        lambda: review.reject(place.memories, new, scope, author),
        lambda: review.edit(place.memories, new, "Staging listens on port 1.", scope, author),
        lambda: review.merge(place.memories, new, other, scope, author),
        lambda: review.dispute(place.memories, old, scope, author),
        lambda: review.skippable(place.memories, new, scope, author),
    ]
    before = len(entries(place))
    for attempt in attempts:
        with pytest.raises(Refused, match="person"):
            attempt()
    assert [kind for kind, _, _ in entries(place)[before:]] == ["refuse"] * len(attempts)
    assert (place.row(new)["trust"], place.row(old)["trust"], place.row(old)["state"]) == (
        "disputed",
        "trusted",
        "live",
    )
    assert review.approve(place.memories, new, scope, PERSON).trust == "trusted"


@pytest.mark.parametrize(
    "caller",
    [
        {"client": "mcp", "agent": "claude-code"},
        {"client": "mcp"},
        {"client": "hook"},
        {"client": ""},
        {"client": "cli", "agent": "claude-code"},
        {"client": "cli", "tty": False},
    ],
    ids=str,
)
def test_no_other_caller_of_the_operation_decides(place: Place, caller: dict[str, Any]) -> None:
    memory = noted(place, "The build needs Node 22.")
    given: dict[str, Any] = {"cwd": str(place.alpha), "tty": True} | caller
    asking = Caller(**given)
    for verdict in review.VERDICTS:
        body = {"verdict": verdict, "id": memory, "content": "x", "other": memory}
        with pytest.raises(OperationFailed) as failed:
            run(place.call("decide", body, asking))
        assert failed.value.exit_status == 4, verdict
    assert run(place.call("review", {}, asking))["may_decide"] is False
    assert place.row(memory)["trust"] == "candidate"
    assert run(place.call("decide", {"verdict": "approve", "id": memory}))["trust"] == "trusted"


def test_no_mcp_tool_and_no_agents_shell_approves(machine: Machine, above: Ancestors) -> None:
    folder = machine.project()
    agent = machine.mcp(folder)
    memory = agent.call("memory_add", content="The build of the reviewed shop needs Node 22.").json["id"]
    tools = {tool["name"]: tool for tool in agent.ask("tools/list")["result"]["tools"]}
    assert "memory_add" in tools
    assert not [
        name for name in tools if any(word in name for word in ("review", "approve", "decide", "trust", "verdict"))
    ]
    assert not [name for name, tool in tools.items() if "trust" in tool["inputSchema"]["properties"]]
    for name in ("review", "decide", "memory_approve"):
        assert agent.call(name, verdict="approve", id=memory).exit == 1
    # Saying it again, correcting it with claims about itself: it stays what an agent said.
    agent.call("memory_add", content="The build of the reviewed shop needs Node 22.")
    assert _trust(machine, memory, folder) == "candidate"
    again = machine.cli("review", "approve", memory, folder=folder, terminal=True, env=IN_CLAUDE)
    assert again.exit == 4
    under = above.command("claude", run=[])
    assert machine.cli("review", "approve", memory, folder=folder, terminal=True, under=under).exit == 4
    assert machine.cli("review", "approve", memory, folder=folder, env=IN_CLAUDE).exit == 4
    for op in ("decide", "review"):
        assert (
            machine.call(op, {"verdict": "approve", "id": memory}, folder, CLAUDECODE="1") if op == "review" else True
        )
    assert _trust(machine, memory, folder) == "candidate"
    assert machine.call("decide", {"verdict": "approve", "id": memory}, folder)["trust"] == "trusted"
    assert _trust(machine, memory, folder) == "trusted"


def _trust(machine: Machine, memory: str, folder: Path) -> str:
    return str(machine.call("show", {"id": memory}, folder)["memory"]["trust"])


# -- where it shows ------------------------------------------------------------------------------------------------------


def test_status_counts_what_waits_here(place: Place, bundled: Embedder) -> None:
    conflict(place)
    near_tombstone(place, bundled)
    noted(place, "The build needs Node 22.")
    noted(place, "The other build needs Node 20.", folder=place.beta)
    assert run(place.call("status", {}))["review"] == 3
    assert run(place.call("status", {}, place.caller(place.beta)))["review"] == 1


def test_the_first_start_of_a_day_tells_what_waits_and_a_resume_has_the_same_profile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.add("Use tabs for indentation.", category="preferences")
    assert "review" not in run(place.hook("SessionStart", session="s0", source="startup"))
    noted(place, "The build needs Node 22.")
    first = run(place.hook("SessionStart", session="s1", source="startup"))
    assert "1 memory waits for this person's review" in first
    profile = first.partition("\n<cems-note>")[0]
    assert "Use tabs" in profile
    for source in ("resume", "compact", "clear", "startup"):
        assert run(place.hook("SessionStart", session="s1", source=source)) == profile, source
    place.restart()
    assert run(place.hook("SessionStart", session="s2", source="startup")) == profile
    tomorrow = time.strftime("%Y-%m-%d", time.localtime(time.time() + 86_400))
    monkeypatch.setattr("cems.core.service.sessions._today", lambda: tomorrow)
    assert run(place.hook("SessionStart", session="s3", source="resume")) == profile
    assert run(place.hook("SessionStart", session="s3", source="startup")) == first


def test_the_queue_can_be_emptied(place: Place, bundled: Embedder) -> None:
    conflict(place)
    near_tombstone(place, bundled)
    noted(place, "The build needs Node 22.")
    verdicts = (review.approve, review.reject, review.approve)
    for item, verdict in zip(waiting(place), verdicts, strict=True):
        verdict(place.memories, item.row["id"], place.scope(), PERSON)
    assert waiting(place) == []
    assert lookup.count_where(place.reader, place.scope().readable, lookup.WAITING) == 0
