"""Undo: every kind of change can be taken back, comes back as it was, and what is in the way is named."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.marks.test_bitemporal import KEY, changed_somehow, in_memory
from tests.unit.conftest import AGENT, NOWHERE, PERSON, SHOP, SHOP_2
from tests.unit.gateway import ABSENT, added, entries, live, refusals, row

from cems.core import promotion, review
from cems.core.journal import Journal
from cems.core.memories import Memories, NothingMatched, Refused, Unusable
from cems.core.purge import Purge
from cems.core.recall import lookup
from cems.core.scope import SHARED, USER
from cems.core.timeline import retract
from cems.core.undo import Undone, undo

TABS = "Use tabs in the shop's templates."
SPACES = "Use spaces in the shop's templates."
OTHER = "Releases happen on Thursdays."


def taken_back(memories: Memories, what: str | int, author: Any = PERSON) -> Undone:
    return undo(memories, str(what), SHOP, author)


def last(memories: Memories) -> int:
    """The number of the last entry."""
    return int(memories.connection.execute("SELECT MAX(seq) FROM chain").fetchone()[0])


def whole(memories: Memories) -> dict[str, Any]:
    """Every memory, byte by byte, with what decides on it, and the values that are forgotten."""
    connection = memories.connection
    rows = connection.execute(
        "SELECT id, body, scope, category, trust, state, valid_from, valid_to, pinned, value_key, closed_by, forgotten, asked, terms "
        "FROM records"
    )
    buried = connection.execute("SELECT value_key, scope FROM tombstones WHERE lifted = 0")
    return {each[0]: each[1:] for each in rows} | {"tombstones": sorted(buried.fetchall())}


def came_back(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Everything is as it was; what was new is closed (or hidden, where its value is forgotten by now)."""
    new = after.keys() - before.keys()
    assert {name: after[name] for name in before} == before
    assert all(after[name][4] in ("closed", "hidden") and after[name][9] == "" for name in new)


# -- each kind of change -----------------------------------------------------------------------------------------------


def correction(memories: Memories, one: str, _: str) -> None:
    memories.correct(one, {"content": SPACES}, SHOP, PERSON, "the linter says so")


def correction_since(memories: Memories, one: str, _: str) -> None:
    memories.correct(one, {"content": SPACES, "valid_from": "2026-05-01T00:00:00Z"}, SHOP, PERSON)


def category_changed(memories: Memories, one: str, _: str) -> None:
    memories.correct(one, {"category": "guidelines"}, SHOP, PERSON)


def made_equal(memories: Memories, one: str, other: str) -> None:
    memories.correct(one, {"content": OTHER}, SHOP, PERSON)


def derived(memories: Memories, one: str, other: str) -> str:
    from cems.core.memories import Statement

    outcome = memories.derive(Statement("Tabs, and Thursdays."), [one, other], "summary", SHOP, PERSON)
    assert outcome.id, outcome
    return outcome.id


def archived(memories: Memories, one: str, _: str) -> None:
    memories.append([memories.draft("archive", one, {}, PERSON)])


KINDS: dict[str, Callable[[Memories, str, str], object]] = {
    "add": lambda memories, _one, _other: added(memories, "Node 22 builds the shop."),
    "add by an agent": lambda memories, _one, _other: added(memories, "Node 22 builds the shop.", author=AGENT),
    "derive": derived,
    "correct": correction,
    "correct since a day": correction_since,
    "correct the category": category_changed,
    "correct into what is there": made_equal,
    "forget": lambda memories, one, _: memories.forget([one], SHOP, PERSON, "never true"),
    "forget several": lambda memories, one, other: memories.forget([one, other], SHOP, PERSON),
    "forget by text": lambda memories, _one, _other: memories.forget_text(TABS.upper(), SHOP, PERSON),
    "pin": lambda memories, one, _: memories.pin(one, True, SHOP, PERSON),
    "widen": lambda memories, one, _: memories.widen(one, USER, SHOP, PERSON),
    "widen to the team": lambda memories, one, _: memories.widen(one, SHARED, SHOP, PERSON),
    "archive": archived,
    "retract": lambda memories, one, _: retract(memories, one, SHOP, PERSON),
    "retract from a day on": lambda memories, one, _: retract(
        memories, one, SHOP, PERSON, at="2026-05-01T00:00:00.000Z"
    ),
    "dispute": lambda memories, one, _: review.dispute(memories, one, SHOP, PERSON, "not sure"),
    "promote": lambda memories, one, _: promotion.ask(memories, one, SHOP, AGENT, "it is about the person"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_change_comes_back_byte_by_byte(memories: Memories, kind: str) -> None:
    one, other = added(memories, TABS, category="preferences", tags=("style",)), added(memories, OTHER)
    before = whole(memories)
    KINDS[kind](memories, one, other)
    changed = whole(memories)
    assert changed != before
    taken_back(memories, last(memories))
    came_back(before, whole(memories))
    # And the other way again, but for the instant at which it happened.
    taken_back(memories, last(memories))
    again = whole(memories)
    assert {name: each[4] if name != "tombstones" else each for name, each in again.items()} == {
        name: each[4] if name != "tombstones" else each for name, each in changed.items()
    }
    assert memories.connection.execute("SELECT COUNT(*) FROM records WHERE state = 'live'").fetchone()[0] == sum(
        each[4] == "live" for name, each in changed.items() if name != "tombstones"
    )


CANDIDATES: dict[str, Callable[[Memories, str, str], object]] = {
    "approve": lambda memories, one, _: review.approve(memories, one, SHOP, PERSON),
    "reject": lambda memories, one, _: review.reject(memories, one, SHOP, PERSON, "planted"),
    "edit in review": lambda memories, one, _: review.edit(memories, one, SPACES, SHOP, PERSON),
    "merge": lambda memories, one, other: review.merge(memories, one, other, SHOP, PERSON, "Tabs, and Thursdays."),
    "approve a promotion": lambda memories, one, _: review.approve(memories, one, SHOP, PERSON),
    "reject a promotion": lambda memories, one, _: review.reject(memories, one, SHOP, PERSON),
    "edit a promotion": lambda memories, one, _: review.edit(memories, one, SPACES, SHOP, PERSON),
    "say it again": lambda memories, _one, _other: memories.remember(statement(TABS, pinned=True), SHOP, PERSON),
}


@pytest.mark.parametrize("kind", CANDIDATES)
def test_each_verdict_comes_back_byte_by_byte(memories: Memories, kind: str) -> None:
    one, other = added(memories, TABS, author=AGENT), added(memories, OTHER, author=AGENT)
    before = whole(memories)
    if kind.endswith("promotion"):
        promotion.ask(memories, one, SHOP, AGENT)
        before = whole(memories)
    CANDIDATES[kind](memories, one, other)
    assert whole(memories) != before
    taken_back(memories, last(memories))
    came_back(before, whole(memories))


def statement(text: str, **fields: Any) -> Any:
    from cems.core.memories import Statement

    return Statement(text, **fields)


def test_a_merge_is_one_change_whichever_of_its_entries_is_named(memories: Memories) -> None:
    one, other = added(memories, TABS, author=AGENT), added(memories, OTHER, author=AGENT)
    first = last(memories) + 1
    merged = review.merge(memories, one, other, SHOP, PERSON, "Tabs, and Thursdays.").id
    assert live_ids(memories) == {merged}
    for named in (
        first,
        merged,
        memories.connection.execute("SELECT op_id FROM chain WHERE seq = ?", (first + 1,)).fetchone()[0],
    ):
        done = taken_back(memories, named)
        assert {each["id"] for each in done.restored} == {one, other}
        assert [each["id"] for each in done.removed] == [merged]
        assert live_ids(memories) == {one, other}
        taken_back(memories, last(memories))
        assert live_ids(memories) == {merged}


def live_ids(memories: Memories) -> set[str]:
    return {each["id"] for each in lookup.listed_rows(memories.connection, SHOP.readable)}


def test_an_undone_forget_lifts_the_tombstone_and_brings_back_all_that_went_with_it(memories: Memories) -> None:
    one, other = added(memories, TABS), added(memories, OTHER)
    summary = derived(memories, one, other)
    memories.forget([one], SHOP, PERSON, "never true")
    assert live_ids(memories) == {other}
    assert memories.remember(statement(TABS), SHOP, PERSON).status == "refused"
    done = taken_back(memories, one)
    assert {each["id"] for each in done.restored} == {one, summary} == live_ids(memories) - {other}
    assert memories.remember(statement(TABS), SHOP, PERSON).status == "duplicate"
    assert memories.connection.execute("SELECT COUNT(*) FROM tombstones WHERE lifted = 0").fetchone() == (0,)


def test_a_value_that_stays_forgotten_elsewhere_stays_so(memories: Memories) -> None:
    here, everywhere = added(memories, TABS), added(memories, TABS, NOWHERE)
    memories.forget([everywhere], SHOP, PERSON)
    memories.forget([here], SHOP, PERSON)
    taken_back(memories, here)
    assert live_ids(memories) == {here}
    assert memories.remember(statement(TABS, scope="user"), SHOP, PERSON).status == "refused"


def test_undoing_a_lift_forgets_again_unless_it_was_used(memories: Memories) -> None:
    memories.forget([added(memories, TABS)], SHOP, PERSON)
    memories.lift(TABS, SHOP, PERSON)
    lift = last(memories)
    taken_back(memories, lift)
    undoing = last(memories)
    assert memories.remember(statement(TABS), SHOP, PERSON).status == "refused"
    taken_back(memories, undoing)
    again = added(memories, TABS)
    with pytest.raises(Refused, match=f"{again[:10]} was remembered since it was lifted"):
        taken_back(memories, lift)


def test_an_undone_addition_is_not_brought_back_by_a_machine(memories: Memories) -> None:
    added(memories, TABS, author=AGENT)
    taken_back(memories, last(memories))
    assert memories.remember(statement(TABS), SHOP, AGENT).status == "refused"
    assert memories.remember(statement(TABS), SHOP, PERSON).status == "added"


def test_restating_is_undone_with_the_closing_it_caused(memories: Memories) -> None:
    """A → B → A, and back to B."""
    first = added(memories, TABS)
    second = str(memories.correct(first, {"content": SPACES}, SHOP, PERSON)[0].id)
    added(memories, TABS)
    assert live_ids(memories).isdisjoint({first, second})
    taken_back(memories, last(memories))
    assert live_ids(memories) == {second}


def test_a_memorys_id_stands_for_its_changes_from_the_last_to_the_first(memories: Memories) -> None:
    memory = added(memories, TABS, author=AGENT)
    memories.pin(memory, True, SHOP, PERSON)
    review.approve(memories, memory, SHOP, PERSON)
    states = []
    for _ in range(3):
        taken_back(memories, memory[:12])
        found = row(memories, memory)
        states.append((found["state"], found["trust"], found["pinned"]))
    assert states == [("live", "candidate", True), ("live", "candidate", False), ("closed", "candidate", False)]
    with pytest.raises(NothingMatched, match=r"every change of .* is undone"):
        taken_back(memories, memory)


# -- it is an entry itself ---------------------------------------------------------------------------------------------


def test_an_undo_is_in_the_journal_with_what_it_undid(memories: Memories, journal: Journal) -> None:
    memory = added(memories, TABS)
    memories.correct(memory, {"content": SPACES}, SHOP, PERSON)
    undone = [each[0] for each in journal.connection.execute("SELECT op_id FROM chain WHERE seq > 1 ORDER BY seq")]
    undo(memories, "2", SHOP, PERSON, "the other repository")
    told = entries(journal)[3:]
    assert [kind for kind, _, _ in told] == ["reopen", "close"]
    assert all(body["undoes"] == undone and body["reason"] == "the other repository" for _, _, body in told)
    assert len({body["group"] for _, _, body in told}) == 1
    assert journal.verify() == []


@pytest.mark.parametrize("author", [AGENT, ABSENT], ids=["an agent", "a person who is not there"])
def test_only_a_person_who_is_there_undoes_and_the_attempt_is_noted(
    memories: Memories, journal: Journal, author: Any
) -> None:
    memory = added(memories, TABS)
    memories.forget([memory], SHOP, PERSON)
    for what in (memory, 2):
        with pytest.raises(Refused, match="undoing a change is a person's act"):
            taken_back(memories, what, author)
    assert refusals(journal) == ["undoing a change is a person's act"] * 2
    assert live(journal) == []
    taken_back(memories, memory)
    assert live(journal) == [TABS]


# -- what cannot be undone ---------------------------------------------------------------------------------------------


def test_what_stands_on_a_change_is_named(memories: Memories, journal: Journal) -> None:
    first = added(memories, TABS)
    second = str(memories.correct(first, {"content": SPACES}, SHOP, PERSON)[0].id)
    memories.pin(second, True, SHOP, PERSON)
    before = whole(memories)
    with pytest.raises(
        Refused, match=rf"later changes stand on it: 2 \(remember {second[:10]}\), 3 \(close {first[:10]}\)"
    ):
        taken_back(memories, 1)
    with pytest.raises(Refused, match=rf"later changes stand on it: 4 \(pin {second[:10]}\)"):
        taken_back(memories, 3)
    assert whole(memories) == before
    assert len(refusals(journal)) == 2
    for what in (4, 3, 1):
        taken_back(memories, what)
    assert live(journal) == []


def test_what_was_derived_stands_on_its_sources(memories: Memories) -> None:
    one, other = added(memories, TABS), added(memories, OTHER)
    summary = derived(memories, one, other)
    with pytest.raises(Refused, match=rf"3 \(remember {summary[:10]}\)"):
        taken_back(memories, other)


def test_changes_of_other_parts_of_a_memory_do_not_stand_in_the_way(memories: Memories) -> None:
    memory = added(memories, TABS, author=AGENT)
    memories.pin(memory, True, SHOP, PERSON)
    review.approve(memories, memory, SHOP, PERSON)
    taken_back(memories, 2)
    found = row(memories, memory)
    assert (found["pinned"], found["trust"]) == (False, "trusted")


def test_an_undone_change_is_not_undone_again_but_its_undo_is(memories: Memories) -> None:
    memory = added(memories, TABS)
    memories.pin(memory, True, SHOP, PERSON)
    taken_back(memories, 2)
    with pytest.raises(Refused, match="undone already, by entry 3"):
        taken_back(memories, 2)
    undoing = 3
    taken_back(memories, undoing)
    assert row(memories, memory)["pinned"]
    with pytest.raises(Refused, match="undone already, by entry 5"):
        taken_back(memories, undoing)
    taken_back(memories, 2)
    assert not row(memories, memory)["pinned"]


def test_what_was_forgotten_since_does_not_come_back_by_an_undo(memories: Memories, journal: Journal) -> None:
    first = added(memories, TABS)
    memories.correct(first, {"content": SPACES}, SHOP, PERSON)
    memories.forget([first], SHOP, PERSON)
    with pytest.raises(Refused, match=rf"was forgotten since, by entry 4 \(forget {first[:10]}\)"):
        taken_back(memories, 2)
    assert live(journal) == [SPACES]
    taken_back(memories, 4)
    taken_back(memories, 2)
    assert live(journal) == [TABS]


def test_widening_is_not_undone_into_a_project_that_forgot_it(memories: Memories) -> None:
    other = added(memories, TABS)
    memories.widen(other, USER, SHOP, PERSON)
    here = str(memories.remember(statement(TABS), SHOP, PERSON).id)
    with pytest.raises(Refused, match=f"{here[:10]} says the same by now"):
        taken_back(memories, 2)
    memories.forget([here], SHOP, PERSON)
    with pytest.raises(Refused, match="was forgotten since"):
        taken_back(memories, 2)


def test_no_value_comes_to_be_there_twice(memories: Memories) -> None:
    memory = added(memories, TABS)
    retract(memories, memory, SHOP, PERSON)
    again = added(memories, TABS)
    with pytest.raises(Refused, match=f"{again[:10]} says the same by now"):
        taken_back(memories, memory)


def test_a_purge_and_what_it_erased_cannot_be_undone(memories: Memories, journal: Journal) -> None:
    kept = added(memories, OTHER)
    memory = added(memories, "The payroll export hint is the office plant.")
    purging = Purge(memories, journal)
    purging.carry_out(purging.by_id([memory], SHOP, PERSON), PERSON)
    assert live_ids(memories) == {kept}
    kinds = {kind: seq for seq, kind in journal.connection.execute("SELECT seq, kind FROM chain ORDER BY seq")}
    for seq in (2, kinds["purge"]):
        with pytest.raises((Refused, NothingMatched)):
            undo(memories, str(seq), SHOP, PERSON)
    assert live_ids(memories) == {kept}


def test_a_refusal_changed_nothing(memories: Memories) -> None:
    memory = added(memories, TABS, NOWHERE)
    with pytest.raises(Refused):
        memories.widen(memory, SHARED, SHOP, AGENT)
    with pytest.raises(Refused, match="is a refusal"):
        taken_back(memories, 2)


def test_another_projects_change_is_not_found(memories: Memories) -> None:
    memory = added(memories, TABS)
    memories.pin(memory, True, SHOP, PERSON)
    for what in ("2", memory):
        with pytest.raises(NothingMatched):
            undo(memories, what, SHOP_2, PERSON)
    assert row(memories, memory)["pinned"]
    op_id = memories.connection.execute("SELECT op_id FROM chain WHERE seq = 2").fetchone()[0]
    with pytest.raises(NothingMatched):
        undo(memories, op_id, SHOP_2, PERSON)
    undo(memories, op_id[:12], SHOP, PERSON)
    assert not row(memories, memory)["pinned"]


def test_a_number_is_never_the_beginning_of_an_id(memories: Memories) -> None:
    """A mistyped number must not undo another change, whatever ids there are; the same digits after `m_` mean the id."""
    beginnings: list[str] = []
    for number in range(200):
        digits = re.match(r"m_([1-9]\d{2,8})", memory := added(memories, f"The gate {number} is opened by hand."))
        if digits and int(digits[1]) > number + 1:
            beginnings.append(digits[1])
            break
    (beginning,) = beginnings
    with pytest.raises(NothingMatched, match="no entry"):
        taken_back(memories, beginning)
    assert row(memories, memory)["state"] == "live"
    taken_back(memories, f"m_{beginning}")
    assert row(memories, memory)["state"] == "closed"


@pytest.mark.parametrize("what", ["", "999", "m_ffffffff", "zz", "0", "-1", "abcdef01"])
def test_what_names_nothing_is_said_to(memories: Memories, what: str) -> None:
    added(memories, TABS)
    with pytest.raises((NothingMatched, Unusable)):
        taken_back(memories, what)
    assert last(memories) == 1


# -- any changes, in any order -----------------------------------------------------------------------------------------

STEPS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


@given(STEPS)
def test_undoing_everything_from_the_last_to_the_first_ends_where_it_began(steps: list[tuple[int, int, int]]) -> None:
    """After each change the state is noted; taken back one by one, every state is met again on the way."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        memories = Memories(in_memory(connection), KEY, len)
        states: list[tuple[int, dict[str, Any]]] = []
        for step in steps:
            before, at = whole(memories), last_or_none(connection)
            changed_somehow(memories, *step)
            if wrote_a_change(connection, at):
                states.append((at + 1, before))
        for seq, before in reversed(states):
            undo(memories, str(seq), SHOP, PERSON)
            after = whole(memories)
            came_back(without_times(before), without_times(after))
            assert {name: each for name, each in after.items() if each[4:5] == ("live",)} == {
                name: each for name, each in before.items() if each[4:5] == ("live",)
            }
    finally:
        connection.close()


def last_or_none(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT COALESCE(MAX(seq), 0) FROM chain").fetchone()[0])


def wrote_a_change(connection: sqlite3.Connection, after: int) -> bool:
    query = "SELECT COUNT(*) FROM chain WHERE seq > ? AND kind != 'refuse'"
    return bool(connection.execute(query, (after,)).fetchone()[0])


def without_times(state: dict[str, Any]) -> dict[str, Any]:
    """A change that was undone and made again was made at another time: when a closed memory was closed is left out."""
    return {
        name: each if name == "tombstones" else (json.loads(each[0]) | {"expired_at": None}, *each[1:])
        for name, each in state.items()
    }
