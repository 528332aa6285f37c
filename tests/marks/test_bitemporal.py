"""Mark: bitemporal. When a fact holds, and when we believed it, are two times; "true at T" and "believed at T" are two
questions, asked from the command line and over MCP; a correction closes intervals and overwrites nothing.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.machine import Machine
from tests.fakes.real_parts import AGENT_AUTHOR, PERSON, TOOL, Place, run
from tests.unit.conftest import SHOP, records_of

from cems.core.embedding import Embedder
from cems.core.journal import Journal
from cems.core.journal_schema import migrate
from cems.core.memories import Author, Memories, NothingMatched, Refused, Statement, Unusable
from cems.core.recall import lookup
from cems.core.records import Records
from cems.core.review import reject
from cems.core.scope import SHARED, USER
from cems.core.service.operations import OperationFailed
from cems.core.timeline import Moment, believed_rows
from cems.core.undo import undo

ANN = "Ann is on call for the billing service."
BOB = "Bob is on call for the billing service."
EVE = "Eve is on call for the billing service."
QUESTION = "who is on call for the billing service"
OTHER = "The billing service is deployed with make ship."
KEY = b"k" * 32
DAY = 86_400.0


class Clock:
    """The wall clock that the journal sees. It goes on by a second each time somebody looks."""

    def __init__(self) -> None:
        self.now = 1_780_000_000.0

    def time(self) -> float:
        self.now += 1
        return self.now

    def instant(self) -> str:
        """The present, for a question about it later."""
        return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self.time()))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "time", made.time)
    return made


def call(place: Place, name: str, body: dict[str, Any], **caller: Any) -> dict[str, Any]:
    return run(place.call(name, body, place.caller(**caller)))


def found(place: Place, query: str = QUESTION, **times: str) -> list[str]:
    return sorted(each["content"] for each in call(place, "search", {"query": query, **times})["memories"])


def listed(place: Place, **times: str) -> list[str]:
    return sorted(each["content"] for each in call(place, "list", times)["memories"])


def _dated(since: str) -> dict[str, Any]:
    return {"valid_from": since} if since else {}


def corrected(place: Place, memory: str, text: str, author: Author = PERSON, **changes: str) -> str:
    outcome, _ = place.memories.correct(memory, {"content": text, **changes}, place.scope(), author)
    assert outcome.id, outcome
    return outcome.id


# -- two times ---------------------------------------------------------------------------------------------------------


def test_a_fact_may_hold_before_its_row_was_written(place: Place) -> None:
    memory = place.add(ANN, valid_from="2020-01-01T00:00:00Z", valid_to="2021-01-01T00:00:00Z")
    row = place.row(memory)
    assert row["valid_from"] < row["valid_to"] < row["recorded_at"]
    assert found(place, valid_at="2020-06-01") == [ANN]
    assert found(place, valid_at="2019-06-01") == found(place, valid_at="2021-06-01") == found(place) == []


def test_a_fact_that_held_once_reaches_no_prompt_and_is_found_at_its_time(place: Place) -> None:
    place.add(ANN, valid_from="2020-01-01", valid_to="2021-01-01")
    place.add(BOB, valid_from="2021-01-01")
    prompted = run(place.prompt(QUESTION))
    assert BOB in prompted
    assert ANN not in prompted
    assert (found(place), listed(place)) == ([BOB], [BOB])
    assert found(place, valid_at="2020-06-01") == listed(place, valid_at="2020-06-01") == [ANN]


def test_validity_begins_with_its_instant_and_ends_before_it(place: Place) -> None:
    place.add(ANN, valid_from="2020-01-01T00:00:00Z", valid_to="2021-01-01T00:00:00Z")
    place.add(BOB, valid_from="2021-01-01T00:00:00Z")
    assert found(place, valid_at="2020-01-01T00:00:00Z") == [ANN]
    assert found(place, valid_at="2020-12-31T23:59:59.999Z") == [ANN]
    assert found(place, valid_at="2021-01-01T00:00:00Z") == [BOB]


def test_what_was_believed_is_told_apart_from_what_is(place: Place, clock: Clock) -> None:
    before = clock.instant()
    old = place.add(ANN)
    then = clock.instant()
    corrected(place, old, BOB)
    after = clock.instant()
    assert found(place) == [BOB]
    assert [found(place, as_of=t) for t in (before, then, after)] == [[], [ANN], [BOB]]
    assert [listed(place, as_of=t) for t in (before, then, after)] == [[], [ANN], [BOB]]
    # A correction without a date says that the old statement was wrong, of the past too.
    assert found(place, valid_at="2020-01-01") == [BOB]


def test_both_questions_combine(place: Place, clock: Clock) -> None:
    """What did we believe in the morning about May, and what in the evening?"""
    old = place.add(ANN, valid_from="2026-01-01T00:00:00Z")
    morning = clock.instant()
    corrected(place, old, BOB, valid_from="2026-05-01T00:00:00Z")
    evening = clock.instant()
    may, april = "2026-05-15T00:00:00Z", "2026-04-15T00:00:00Z"
    assert found(place, as_of=morning, valid_at=may) == [ANN]
    assert found(place, as_of=evening, valid_at=may) == found(place, valid_at=may) == [BOB]
    assert found(place, as_of=morning, valid_at=april) == found(place, as_of=evening, valid_at=april) == [ANN]
    assert found(place, as_of=evening, valid_at="2025-01-01") == []
    assert found(place, as_of=evening) == [ANN, BOB]


def test_the_store_answers_both_questions_as_the_words_do(place: Place, clock: Clock, bundled: Embedder) -> None:
    """Searched by meaning too, and right after a change that the store has not seen."""
    place.add(OTHER)

    async def scenario() -> None:
        async with place.with_vectors(bundled) as indexer:
            old = place.add(ANN, valid_from="2026-01-01T00:00:00Z")
            first = clock.instant()
            ended = corrected(place, old, BOB, valid_from="2026-05-01T00:00:00Z")
            second = clock.instant()
            corrected(place, ended, EVE)
            for seen in (False, True):
                if seen:
                    indexer.wake()
                    assert await indexer.settled(60)
                    assert await indexer.store.count() == 4

                async def ask(**times: str) -> set[str]:
                    answer = await place.call("search", {"query": "on call billing", **times})
                    assert answer["mode"] == "hybrid"
                    return {each["content"] for each in answer["memories"]} - {OTHER}

                assert await ask() == {EVE}
                assert await ask(as_of=first) == {ANN}
                assert await ask(as_of=second) == {ANN, BOB}
                assert await ask(as_of=second, valid_at="2026-06-01") == {BOB}
                assert await ask(valid_at="2026-06-01") == {EVE}
                assert await ask(valid_at="2026-02-01") == {ANN}

    run(scenario())


def test_what_the_store_has_not_heard_of_yet_counts_for_the_past_too(
    place: Place, clock: Clock, bundled: Embedder
) -> None:
    """Forgotten, or moved out of this scope, a moment ago: the store still has the rows."""
    forgotten, narrowed, kept = place.add(ANN), place.add(BOB, folder=place.beta), place.add(EVE)
    place.memories.widen(narrowed, USER, place.scope(place.beta), PERSON)
    then = clock.instant()

    async def scenario() -> None:
        async with place.with_vectors(bundled):
            body = {"query": QUESTION, "as_of": then}
            before = {each["id"] for each in (await place.call("search", body))["memories"]}
            assert before == {forgotten, narrowed, kept}
            place.memories.forget([forgotten], place.scope(), PERSON)
            undo(place.memories, narrowed, place.scope(place.beta), PERSON)
            answer = await place.call("search", body)
            assert answer["mode"] == "hybrid"
            assert [each["id"] for each in answer["memories"]] == [kept]

    run(scenario())


def test_many_later_memories_do_not_crowd_out_what_was_believed(place: Place, clock: Clock, bundled: Embedder) -> None:
    old = [place.add(f"Shard {n} of the billing service is on call.") for n in range(12)]
    then = clock.instant()
    for n in range(90):
        memory = place.add(f"Replica {n} of the billing service is on call.")
        if n < 12:
            corrected(place, old[n], f"Shard {n} of the billing service is off call.")
        if n % 2:
            place.memories.append([place.memories.draft("close", memory, {"by": ""}, PERSON)])
    body = {"query": "billing service on call", "as_of": then, "limit": 10}

    async def scenario() -> None:
        assert len((await place.call("search", body))["memories"]) == 10
        async with place.with_vectors(bundled):
            answer = await place.call("search", body)
            assert answer["mode"] == "hybrid"
            assert len(answer["memories"]) == 10
            assert all(each["content"].endswith("is on call.") for each in answer["memories"])

    run(scenario())


def test_the_answer_says_which_time_was_asked(place: Place) -> None:
    place.add(ANN)
    asked = {"valid_at": "2026-01-01T00:00:00.000Z", "as_of": "2027-01-01T00:00:00.000Z"}
    for name, body in (("search", {"query": QUESTION}), ("list", {})):
        assert call(place, name, body)["at"] is None
        assert call(place, name, {**body, **asked})["at"] == asked
        assert call(place, name, {**body, "as_of": asked["as_of"]})["at"] == {**asked, "valid_at": None}


@pytest.mark.parametrize("name", ["valid_at", "as_of"])
def test_a_time_that_is_none_is_refused_with_how_to_write_one(place: Place, name: str) -> None:
    for operation, body in (("search", {"query": QUESTION}), ("list", {})):
        with pytest.raises(OperationFailed, match=f"{name}: 'yesterday' is not a date; write 2026-01-31"):
            call(place, operation, {**body, name: "yesterday"})
        with pytest.raises(OperationFailed, match="include_closed asks about now"):
            call(place, operation, {**body, name: "2026-01-01", "include_closed": True})


def test_pages_of_the_past_are_complete(place: Place, clock: Clock) -> None:
    texts = [f"Node {n} stands in rack {n}." for n in range(23)]
    for text in texts:
        place.add(text)
    then = clock.instant()
    for memory in [row["id"] for row in lookup.listed_rows(place.reader, place.scope().readable)][::2]:
        place.memories.append([place.memories.draft("close", memory, {"by": ""}, PERSON)])
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = call(place, "list", {"as_of": then, "limit": 10, **({"cursor": cursor} if cursor else {})})
        assert page["coverage"]["total"] == 23
        seen += [each["content"] for each in page["memories"]]
        if (cursor := page["next"]) is None:
            break
    assert sorted(seen) == sorted(texts)
    assert len(listed(place)) == 11


# -- as it was then, with the care of today ----------------------------------------------------------------------------


def test_trust_is_what_it_was(place: Place, clock: Clock) -> None:
    noted = place.add(ANN, author=AGENT_AUTHOR)
    place.add(OTHER)
    then = clock.instant()
    place.add(ANN)
    later = clock.instant()
    trust = {}
    for name, times in (("then", {"as_of": then}), ("later", {"as_of": later}), ("now", {})):
        answer = call(place, "search", {"query": QUESTION, **times})["memories"]
        trust[name] = next(each["trust"] for each in answer if each["id"] == noted)
    assert trust == {"then": "candidate", "later": "trusted", "now": "trusted"}


def test_the_answer_says_what_became_of_a_belief(place: Place, clock: Clock) -> None:
    old, kept = place.add(ANN), place.add(OTHER)
    then = clock.instant()
    new = corrected(place, old, BOB)
    by_id = {each["id"]: each for each in call(place, "list", {"as_of": then})["memories"]}
    assert by_id[old]["expired_at"] is None
    assert by_id[old]["now"]["state"] == "closed"
    assert by_id[old]["now"]["closed_by"] == new
    assert by_id[old]["now"]["expired_at"] == place.row(old)["expired_at"]
    assert "now" not in by_id[kept]


def test_what_is_forgotten_today_is_in_no_past(place: Place, clock: Clock) -> None:
    secret, old = place.add("The billing on call phone is 555 0100."), place.add(ANN)
    then = clock.instant()
    corrected(place, old, BOB)
    place.memories.forget([secret], place.scope(), PERSON)
    assert found(place, as_of=then) == listed(place, as_of=then) == [ANN]
    place.memories.forget([old], place.scope(), PERSON)
    assert found(place, as_of=then) == []


def test_what_a_person_rejected_since_is_told_of_then_to_a_person_only(place: Place, clock: Clock) -> None:
    noted = place.add(ANN, author=AGENT_AUTHOR)
    place.add(OTHER)
    then = clock.instant()
    reject(place.memories, noted, place.scope(), PERSON)
    assert ANN not in found(place)
    assert ANN in found(place, as_of=then)
    assert ANN in listed(place, as_of=then)
    for body, name in (({"query": QUESTION, "as_of": then}, "search"), ({"as_of": then}, "list"), ({}, "list")):
        told = call(place, name, body, agent="claude-code")["memories"]
        assert [each["content"] for each in told] == [OTHER]


def test_a_memory_lies_in_its_scope_of_then_and_of_today(place: Place, clock: Clock) -> None:
    """Widened since: it was not believed elsewhere. Narrowed since: it is not shown elsewhere any more."""
    memory = place.add(ANN)
    narrow = clock.instant()
    place.memories.widen(memory, USER, place.scope(), PERSON)
    wide = clock.instant()
    asked = {"query": QUESTION}

    def seen(folder: Path, **times: str) -> bool:
        return bool(call(place, "search", {**asked, **times}, folder=folder)["memories"])

    assert seen(place.alpha, as_of=narrow)
    assert seen(place.alpha, as_of=narrow, scope="project")
    assert not seen(place.alpha, as_of=wide, scope="project")
    assert not seen(place.beta, as_of=narrow)
    assert seen(place.beta, as_of=wide)
    undo(place.memories, memory, place.scope(), PERSON)
    assert seen(place.alpha, as_of=wide)
    assert not seen(place.beta, as_of=wide)


def test_out_of_recall_then_is_out_of_what_was_believed(place: Place, clock: Clock) -> None:
    memory = place.add(ANN)
    for kind, seen in (("archive", []), ("restore", [ANN])):
        place.memories.append([place.memories.draft(kind, memory, {}, PERSON)])
        assert found(place, as_of=clock.instant()) == found(place) == seen


def test_a_memory_brought_from_elsewhere_was_believed_there(place: Place) -> None:
    place.add(ANN, author=Author("import"), recorded_at="2020-01-01T00:00:00Z")
    place.add(BOB)
    assert found(place, as_of="2020-06-01") == listed(place, as_of="2020-06-01") == [ANN]
    assert found(place, as_of="2019-06-01") == []


def test_a_clock_set_back_does_not_mix_the_order_of_beliefs(place: Place, clock: Clock) -> None:
    old = place.add(ANN)
    before = clock.instant()
    clock.now -= 3 * DAY
    new = corrected(place, old, BOB)
    last = corrected(place, new, EVE)
    rows = [place.row(each) for each in (old, new, last)]
    assert rows[0]["recorded_at"] <= rows[0]["expired_at"] <= rows[1]["expired_at"]
    assert rows[0]["recorded_at"] <= rows[1]["recorded_at"] <= rows[2]["recorded_at"]
    assert found(place) == found(place, as_of=before) == [EVE]
    clock.now += 3 * DAY
    assert found(place, as_of=clock.instant()) == [EVE]


STEPS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=14)


@given(STEPS)
def test_any_past_is_told_as_it_was_when_it_was_the_present(steps: list[tuple[int, int, int]]) -> None:
    """After any changes, what was believed at each moment between is what the records said at that moment, without what
    is hidden by now."""
    clock, monkey = Clock(), pytest.MonkeyPatch()
    monkey.setattr(time, "time", clock.time)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        journal = in_memory(connection)
        memories = Memories(journal, KEY, len)
        snapshots = []
        for step in steps:
            changed_somehow(memories, *step)
            snapshots.append((clock.instant(), state_of(connection)))
        hidden = {row[0] for row in connection.execute("SELECT id FROM records WHERE state = 'hidden'")}
        for instant, state in snapshots:
            moment = Moment(as_of=instant)
            told = {row["id"]: shape(row) for row in believed_rows(connection, SHOP.readable, moment, SHOP.readable)}
            assert told == {memory: each for memory, each in state.items() if memory not in hidden}
    finally:
        connection.close()
        monkey.undo()


def in_memory(connection: sqlite3.Connection) -> Journal:
    """A journal that no disk slows down."""
    journal = Journal.__new__(Journal)
    migrate(connection)
    journal._connection, journal._projection, journal._witness, journal._asked_now = connection, Records(KEY), None, ""
    journal.device = "d"
    journal._projection.prepare(connection)
    return journal


def shape(row: lookup.Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("content", "trust", "scope", "pinned", "valid_from", "valid_to"))


def state_of(connection: sqlite3.Connection) -> dict[str, tuple[Any, ...]]:
    return {row["id"]: shape(row) for row in lookup.listed_rows(connection, SHOP.readable, limit=1_000)}


def changed_somehow(memories: Memories, what: int, one: int, other: int) -> None:
    """One of the changes there are, on one of the memories there are; what cannot be done is left."""
    rows = lookup.listed_rows(memories.connection, SHOP.readable, limit=1_000)
    target = rows[one % len(rows)]["id"] if rows else ""
    text = f"Rack {other} has a spare."
    author = PERSON if one % 2 else AGENT_AUTHOR
    try:
        match what if target else 0:
            case 0 | 1:
                memories.remember(Statement(text), SHOP, author)
            case 2:
                memories.correct(target, {"content": text}, SHOP, author)
            case 3:
                memories.correct(target, {"content": text, "valid_from": f"2026-0{other + 1}-01"}, SHOP, PERSON)
            case 4:
                memories.pin(target, other % 2 == 0, SHOP, PERSON)
            case 5:
                memories.widen(target, (USER, SHARED)[other % 2], SHOP, PERSON)
            case 6:
                memories.forget([target], SHOP, PERSON)
            case _:
                undo(memories, str(other + 1), SHOP, PERSON)
    except (NothingMatched, Refused, Unusable):
        pass


# -- a correction closes and overwrites nothing ------------------------------------------------------------------------


def test_a_correction_leaves_every_earlier_entry_as_it_was(place: Place) -> None:
    old = place.add(ANN)
    query = "SELECT * FROM chain JOIN payloads USING (op_id) ORDER BY seq"
    before = place.journal.connection.execute(query).fetchall()
    corrected(place, old, BOB)
    after = place.journal.connection.execute(query).fetchall()
    assert after[: len(before)] == before
    assert len(after) == len(before) + 2
    row = place.row(old)
    assert (row["content"], row["state"]) == (ANN, "closed")
    assert row["recorded_at"] < row["expired_at"]


def test_a_change_in_the_world_ends_the_old_and_keeps_it_true_of_before(place: Place) -> None:
    old = place.add(ANN, valid_from="2026-01-01T00:00:00Z", pinned=True)
    new = corrected(place, old, BOB, valid_from="2026-05-01T00:00:00Z")
    ended, begun = place.row(old), place.row(new)
    assert (ended["valid_from"], ended["valid_to"]) == ("2026-01-01T00:00:00.000Z", "2026-05-01T00:00:00.000Z")
    assert (ended["expired_at"], ended["closed_by"]) == (None, new)
    assert (begun["valid_from"], begun["valid_to"], begun["pinned"]) == ("2026-05-01T00:00:00.000Z", None, True)
    assert found(place) == listed(place) == [BOB]
    assert ANN not in run(place.prompt(QUESTION)) + run(place.hook("SessionStart", source="startup"))
    assert found(place, valid_at="2026-03-01") == [ANN]


def test_what_holds_from_next_year_on_leaves_the_old_one_in_use_until_then(place: Place) -> None:
    corrected(place, place.add(ANN), BOB, valid_from="2099-01-01")
    assert found(place) == [ANN]
    assert ANN in run(place.prompt(QUESTION))
    assert found(place, valid_at="2099-06-01") == [BOB]


def test_the_old_one_never_holds_longer_than_it_said_itself(place: Place) -> None:
    old = place.add(ANN, valid_to="2025-01-01T00:00:00Z")
    new = corrected(place, old, BOB, valid_from="2026-01-01T00:00:00Z")
    assert place.row(old)["valid_to"] == "2025-01-01T00:00:00.000Z"
    assert place.row(new)["valid_to"] is None
    assert found(place, valid_at="2025-06-01") == []


@pytest.mark.parametrize("since", ["2026-01-01T00:00:00Z", "2020-01-01"])
def test_a_correction_from_the_beginning_says_the_old_one_was_wrong(place: Place, since: str) -> None:
    old = place.add(ANN, valid_from="2026-01-01T00:00:00Z")
    corrected(place, old, BOB, valid_from=since)
    assert place.row(old)["state"] == "closed"
    assert found(place, valid_at="2026-03-01") == [BOB]


def test_correcting_only_the_dates_leaves_no_trace_of_the_wrong_ones_in_the_world(place: Place) -> None:
    old = place.add(ANN)
    new, _ = place.memories.correct(old, {"valid_from": "2026-02-01T00:00:00Z"}, place.scope(), PERSON)
    assert place.row(old)["state"] == "closed"
    assert found(place, valid_at="2026-01-01") == []
    assert found(place, valid_at="2026-03-01") == [ANN]
    assert place.row(str(new.id))["valid_from"] == "2026-02-01T00:00:00.000Z"


@pytest.mark.parametrize("since", ["", "2026-05-01T00:00:00Z"])
@pytest.mark.parametrize("author", [AGENT_AUTHOR, TOOL, Author("derived")], ids=lambda author: author.actor)
def test_a_superseded_value_repeated_ten_times_stays_superseded(place: Place, since: str, author: Author) -> None:
    old = place.add(ANN, valid_from="2026-01-01T00:00:00Z")
    corrected(place, old, BOB, **_dated(since))
    for _ in range(10):
        outcome = place.memories.remember(Statement(ANN), place.scope(), author)
        assert outcome.status == "refused"
        assert "corrected before" in outcome.reason
    assert found(place) == [BOB]
    assert ANN not in run(place.prompt(QUESTION))


@pytest.mark.parametrize("since", ["", "2026-05-01T00:00:00Z"])
def test_a_person_restating_the_old_value_wins_and_a_machine_does_not(place: Place, since: str) -> None:
    """A → B → A."""
    dated = _dated(since)
    first = place.add(ANN, valid_from="2026-01-01T00:00:00Z")
    second = corrected(place, first, BOB, **dated)
    assert place.memories.remember(Statement(ANN), place.scope(), AGENT_AUTHOR).status == "refused"
    assert place.memories.correct(second, {"content": ANN}, place.scope(), AGENT_AUTHOR)[0].status == "refused"
    assert found(place) == [BOB]
    again = place.add(ANN)
    assert again not in (first, second)
    assert found(place) == [ANN]
    assert place.row(second)["closed_by"] == again


def test_going_back_to_an_earlier_value_from_a_day_on_keeps_both_before(place: Place) -> None:
    """Ann, from May Bob, from July Ann again."""
    first = place.add(ANN, valid_from="2026-01-01T00:00:00Z")
    second = corrected(place, first, BOB, valid_from="2026-05-01T00:00:00Z")
    corrected(place, second, ANN, valid_from="2026-07-01T00:00:00Z")
    asked = [found(place, valid_at=f"2026-0{month}-15") for month in (3, 6, 8)]
    assert asked == [[ANN], [BOB], [ANN]]
    assert found(place) == [ANN]


def test_correction_survives_reindex(place: Place, clock: Clock, bundled: Embedder) -> None:
    place.add(OTHER)
    old = place.add(ANN)
    then = clock.instant()
    new = corrected(place, old, BOB)
    ended = place.add("Port 8080 is used by staging.")
    corrected(place, ended, "Port 8081 is used by staging.", valid_from="2026-05-01T00:00:00Z")
    kept = records_of(place.journal.connection)

    async def answers() -> list[Any]:
        asked: list[dict[str, str]] = [{}, {"as_of": then}, {"valid_at": "2026-01-01"}]
        return [
            sorted(each["content"] for each in (await place.call("search", {"query": query, **times}))["memories"])
            for query in (QUESTION, "which port does staging use")
            for times in asked
        ]

    async def scenario() -> None:
        async with place.with_vectors(bundled) as indexer:
            before = await answers()
            assert before[0] == [BOB] or BOB in before[0]
            assert all(ANN not in each for each in (before[0], before[2]))
            assert ANN in before[1]
            place.journal.refold()
            assert await indexer.rebuild() == 5
            assert await answers() == before

    run(scenario())
    assert records_of(place.journal.connection) == kept
    assert place.row(old)["closed_by"] == new
    assert place.memories.remember(Statement(ANN), place.scope(), AGENT_AUTHOR).status == "refused"


# -- retraction --------------------------------------------------------------------------------------------------------


def test_correction_retraction_without_replacement(place: Place, clock: Clock) -> None:
    memory, kept = place.add(ANN), place.add(OTHER)
    then = clock.instant()
    answer = call(place, "retract", {"id": memory, "reason": "nobody is on call any more"})
    assert answer["memory"]["state"] == "closed"
    assert place.row(memory)["closed_by"] == ""
    assert (found(place), listed(place)) == ([OTHER], [OTHER])
    prompted = run(place.prompt(f"{QUESTION}, and how is the billing service deployed"))
    assert OTHER in prompted
    assert ANN not in prompted
    assert ANN in found(place, as_of=then)
    outcome = place.memories.remember(Statement(ANN), place.scope(), AGENT_AUTHOR)
    assert (outcome.status, outcome.reason) == ("refused", "this was retracted before; only a person can restate it")
    assert place.reader.execute("SELECT COUNT(*) FROM tombstones").fetchone() == (0,)
    assert place.add(ANN) not in (memory, kept)
    assert ANN in found(place)


def test_what_is_retracted_from_a_day_on_held_before(place: Place) -> None:
    memory = place.add(ANN, valid_from="2026-01-01T00:00:00Z")
    answer = call(place, "retract", {"id": memory, "at": "2026-05-01T00:00:00Z"})
    assert answer["memory"]["valid_to"] == "2026-05-01T00:00:00.000Z"
    assert found(place) == listed(place) == []
    assert found(place, valid_at="2026-04-01") == [ANN]
    assert found(place, valid_at="2026-06-01") == []
    for at, problem in (("2025-01-01", "it holds from"), ("2026-06-01", "it ends at")):
        with pytest.raises(OperationFailed, match=problem):
            call(place, "retract", {"id": memory, "at": at})
    with pytest.raises(OperationFailed, match="not a date"):
        call(place, "retract", {"id": memory, "at": "soon"})


def test_only_what_is_live_and_here_can_be_retracted(place: Place) -> None:
    gone, mine = place.add(ANN), place.add(BOB, everywhere=True)
    call(place, "retract", {"id": gone})
    for memory, folder in ((gone, place.alpha), (place.add(OTHER), place.beta)):
        with pytest.raises(OperationFailed) as refused:
            call(place, "retract", {"id": memory}, folder=folder)
        assert refused.value.exit_status == 3
    with pytest.raises(OperationFailed, match="a person's act"):
        call(place, "retract", {"id": mine}, agent="claude-code")
    assert place.row(mine)["state"] == "live"


# -- offsets and local time --------------------------------------------------------------------------------------------


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_offsets_name_the_same_instant_everywhere(place: Place) -> None:
    place.add(ANN, valid_from="2026-03-01T00:30:00+09:00")
    assert found(place, valid_at="2026-03-01T00:30:00+09:00") == [ANN]
    assert found(place, valid_at="2026-02-28T15:30:00Z") == [ANN]
    assert found(place, valid_at="2026-02-28T23:30:00+09:00") == []
    assert found(place, valid_at="2026-02-28T10:29:59-05:00") == []


@pytest.mark.usefixtures("new_york")
def test_a_local_evening_is_the_next_day_elsewhere(place: Place) -> None:
    place.add(ANN, valid_from="2026-03-01T23:30")
    assert call(place, "list", {"valid_at": "2026-03-01T23:30"})["at"]["valid_at"] == "2026-03-02T04:30:00.000Z"
    assert listed(place, valid_at="2026-03-02T04:30:00Z") == listed(place, valid_at="2026-03-01T23:30") == [ANN]
    assert listed(place, valid_at="2026-03-01T23:29") == []
    # A date is its first instant here, not in Greenwich.
    place.add(BOB, valid_from="2026-07-01")
    assert listed(place, valid_at="2026-07-01T03:59:59Z") == [ANN]
    assert listed(place, valid_at="2026-07-01T04:00:00Z") == [ANN, BOB]


# -- history -----------------------------------------------------------------------------------------------------------


def chain(place: Place, memory: str) -> list[dict[str, Any]]:
    links: list[dict[str, Any]] = call(place, "history", {"id": memory})["chain"]
    return links


def test_history_tells_the_corrections_before_and_after_from_every_member(place: Place) -> None:
    first = place.add(ANN, valid_from="2026-01-01T00:00:00Z")
    second, _ = place.memories.correct(
        first, {"content": BOB, "valid_from": "2026-05-01T00:00:00Z"}, place.scope(), PERSON, "Bob took over"
    )
    third, _ = place.memories.correct(str(second.id), {"content": EVE}, place.scope(), AGENT_AUTHOR, "a mix-up")
    place.add(OTHER)
    told = chain(place, first)
    assert [link["content"] for link in told] == [ANN, BOB, EVE]
    for memory in (str(second.id), str(third.id)):
        assert chain(place, memory) == told
    assert told[0]["valid"] == {"from": "2026-01-01T00:00:00.000Z", "to": "2026-05-01T00:00:00.000Z"}
    assert told[0]["believed"]["to"] is None
    assert told[1]["believed"]["to"] == place.row(str(second.id))["expired_at"]
    assert [(link["closed"] or {}).get("reason") for link in told] == ["Bob took over", "a mix-up", None]
    assert [(link["closed"] or {}).get("actor") for link in told] == ["person", "agent", None]
    assert [link["source"]["actor"] for link in told] == ["person", "person", "agent"]


def test_history_shows_nothing_of_what_is_forgotten(place: Place) -> None:
    first = place.add("The billing on call phone is 555 0100.")
    second = corrected(place, first, ANN)
    place.memories.forget([first], place.scope(), PERSON, "private")
    told = call(place, "history", {"id": second})
    assert [link["state"] for link in told["chain"]] == ["hidden", "live"]
    assert told["chain"][1]["content"] == ANN
    assert "555 0100" not in json.dumps(told)


def test_history_leaves_out_what_lies_in_other_projects(place: Place) -> None:
    everywhere = place.add(ANN, everywhere=True)
    here = place.add(ANN, folder=place.beta)
    place.memories.widen(here, USER, place.scope(place.beta), PERSON)
    told = call(place, "history", {"id": everywhere})
    assert [link["id"] for link in told["chain"]] == [everywhere]
    assert told["elsewhere"] == 1
    assert len(call(place, "history", {"id": everywhere}, folder=place.beta)["chain"]) == 2


def test_what_an_undo_took_back_is_no_part_of_a_history(place: Place) -> None:
    first = place.add(ANN)
    second = corrected(place, first, BOB)
    undo(place.memories, second, place.scope(), PERSON)
    assert [link["content"] for link in chain(place, first)] == [ANN]


# -- on the machine ----------------------------------------------------------------------------------------------------


def test_both_questions_from_the_command_line_and_over_mcp(machine: Machine) -> None:
    folder = machine.project()
    machine.cli("add", ANN, "--valid-from", "2026-01-01", folder=folder).ok()
    old = machine.cli("list", "--json", folder=folder).ok().json["memories"][0]
    time.sleep(0.01)
    machine.cli("edit", old["id"], BOB, "--valid-from", "2026-05-01", folder=folder).ok()
    [new] = machine.cli("list", "--json", folder=folder).ok().json["memories"]
    time.sleep(0.01)
    machine.cli("edit", new["id"], EVE, folder=folder).ok()
    agent = machine.mcp(folder)

    def by_cli(command: str, **times: str) -> list[str]:
        options = [word for name, value in times.items() for word in (f"--{name.replace('_', '-')}", value)]
        words = ["search", QUESTION] if command == "search" else ["list"]
        answer = machine.cli(*words, *options, "--json", folder=folder).json
        return sorted(each["content"] for each in answer["memories"])

    def by_mcp(**times: str) -> list[str]:
        answer = agent.call("memory_search", query=QUESTION, **times)
        assert answer.exit == 0, answer
        return sorted(each["content"] for each in answer.json["memories"])

    questions: list[tuple[dict[str, str], list[str]]] = [
        ({}, [EVE]),
        ({"valid_at": "2026-03-01"}, [ANN]),
        ({"valid_at": "2026-06-01"}, [EVE]),
        ({"as_of": old["recorded_at"]}, [ANN]),
        ({"as_of": new["recorded_at"]}, [ANN, BOB]),
        ({"as_of": new["recorded_at"], "valid_at": "2026-06-01"}, [BOB]),
        ({"as_of": "2020-01-01"}, []),
    ]
    for times, expected in questions:
        assert by_cli("search", **times) == by_cli("list", **times) == by_mcp(**times) == expected, times


def test_a_person_and_a_model_are_told_which_time_an_answer_is_about(machine: Machine) -> None:
    folder = machine.project()
    old = machine.add(ANN, folder)
    recorded = machine.call("show", {"id": old}, folder)["memory"]["recorded_at"]
    time.sleep(0.01)
    machine.cli("edit", old, BOB, folder=folder).ok()
    said = machine.cli("search", QUESTION, "--as-of", recorded, folder=folder).ok().out
    assert said.startswith("what was believed at ")
    assert "closed since, at " in said
    told = machine.mcp(folder).call("memory_search", query=QUESTION, as_of=recorded).err
    assert told.startswith("This is what was believed at ")
    assert f"No longer believed today: {old[:10]}." in told
    assert "what was" not in machine.cli("search", QUESTION, folder=folder).ok().out
    assert machine.cli("list", "--all", "--as-of", recorded, folder=folder).exit == 2


def test_history_and_retract_from_the_command_line(machine: Machine) -> None:
    folder = machine.project()
    old = machine.add(ANN, folder)
    machine.cli("edit", old, BOB, "--reason", "she left", folder=folder).ok()
    said = machine.cli("history", old[:10], folder=folder).ok().out
    assert said.index(ANN) < said.index(BOB)
    assert "she left" in said
    [new] = machine.cli("list", "--json", folder=folder).ok().json["memories"]
    machine.cli("retract", new["id"], "--at", "2026-05-01", folder=folder).ok()
    assert machine.cli("list", "--json", folder=folder).ok().json["memories"] == []
    assert (
        machine.cli("list", "--valid-at", "2026-04-01", "--json", folder=folder).ok().json["memories"][0]["content"]
        == BOB
    )
    assert machine.cli("history", "ffffffffff", folder=folder).exit == 3
