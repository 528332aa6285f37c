"""The gateway: what may become a memory, and that a refusal is written down like a change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.conftest import AGENT, PERSON, SHOP, SHOP_2
from tests.unit.gateway import IMPORT, TABS, TOKEN, added, entries, files_with, live, refusals, row

from cems.core.journal import Journal
from cems.core.memories import (
    Author,
    Memories,
    NothingMatched,
    Outcome,
    Statement,
    Unusable,
)
from cems.core.memory import MAX_CONTENT
from cems.core.paths import Home
from cems.core.recall import lookup

# -- what is kept ----------------------------------------------------------------------------------------------------


def test_a_persons_statement_is_trusted_and_keeps_what_was_given(memories: Memories) -> None:
    memory = added(
        memories, "  Deploys run on Fridays.\n", category="Decision", title="Deploys", kind="decision", tags=("ci", "ci", " "),
        valid_from="2026-01-01T00:00:00+02:00", valid_to="2030-01-01T00:00:00Z", quote="we decided", pinned=True, confidence=0.8,
    )  # fmt: skip
    kept = row(memories, memory)
    assert kept["content"] == "Deploys run on Fridays."
    assert (kept["category"], kept["title"], kept["kind"], kept["tags"]) == ("decisions", "Deploys", "decision", ["ci"])
    assert (kept["valid_from"], kept["valid_to"]) == ("2025-12-31T22:00:00.000Z", "2030-01-01T00:00:00.000Z")
    assert (kept["trust"], kept["confidence"], kept["pinned"], kept["scope"]) == ("trusted", 0.8, True, SHOP.project)
    assert kept["source"]["quote"] == "we decided"
    assert kept["tokens"] > 0


def test_an_agents_statement_is_a_candidate_and_its_sureness_is_no_evidence(memories: Memories) -> None:
    outcome = memories.remember(Statement("The build needs Node 22.", confidence=1.0), SHOP, AGENT)
    assert outcome.status == "candidate"
    assert outcome.id
    kept = row(memories, outcome.id)
    assert (kept["trust"], kept["confidence"]) == ("candidate", 0.7)
    assert kept["source"] | {"place": None} == {
        "actor": "agent", "agent": "claude-code", "session": "s1", "place": None, "quote": "", "derived_from": [],
        "recipe": "",
    }  # fmt: skip


def test_a_person_who_says_the_same_confirms_an_agents_candidate(memories: Memories, journal: Journal) -> None:
    candidate = added(memories, "The build needs Node 22.", author=AGENT)
    outcome = memories.remember(Statement("the build needs node 22", pinned=True), SHOP, PERSON)
    assert (outcome.status, outcome.id) == ("added", candidate)
    kept = row(memories, candidate)
    assert (kept["trust"], kept["pinned"]) == ("trusted", True)
    assert len(live(journal)) == 1


@pytest.mark.parametrize(
    "again",
    ["Use TABS in the shop's templates", "use\u200b tabs  in the shop\u2019s templates!".replace("\u2019", "'"), TABS],
)
def test_the_same_statement_again_is_a_duplicate(memories: Memories, journal: Journal, again: str) -> None:
    first = added(memories, TABS)
    for author in (PERSON, AGENT):
        outcome = memories.remember(Statement(again, category="other"), SHOP, author)
        assert (outcome.status, outcome.id) == ("duplicate", first)
    assert len(live(journal)) == 1


def test_another_project_may_know_the_same(memories: Memories, journal: Journal) -> None:
    added(memories, TABS)
    added(memories, TABS, SHOP_2)
    assert len(live(journal)) == len(live(journal, SHOP_2)) == 1


def test_a_statement_that_holds_again_is_not_a_duplicate_of_one_that_is_over(
    memories: Memories, journal: Journal
) -> None:
    over = added(memories, "The office is closed.", valid_from="2026-01-01", valid_to="2026-01-08")
    machine = memories.remember(Statement("The office is closed."), SHOP, AGENT)
    assert (machine.status, machine.id) == ("duplicate", over)
    assert added(memories, "The office is closed.", valid_from="2026-07-01") != over


# -- secrets ---------------------------------------------------------------------------------------------------------


def test_secrets_and_private_spans_never_reach_the_disk(home: Home, memories: Memories, journal: Journal) -> None:
    hidden = "the moat is on the left"
    private = f"<private>{hidden}</private>"
    outcome = memories.remember(
        Statement(
            f"The deploy token is {TOKEN}. {private} Keep it.", title=f"Token {TOKEN}", tags=(f"t {TOKEN}", "ci"),
            quote=f"{private} {TOKEN} was said", kind="<private>moat</private>", category=f"decisions {private}",
        ),
        SHOP, PERSON,
    )  # fmt: skip
    assert outcome.id
    assert outcome.redacted >= 7
    memories.pin(outcome.id, True, SHOP, PERSON)
    memories.correct(
        outcome.id, {"content": f"It is {TOKEN} now {private}"}, SHOP, PERSON, reason=f"because {TOKEN} {private}"
    )
    with pytest.raises(NothingMatched):
        memories.forget_text(f"never said {TOKEN}", SHOP, PERSON, reason=TOKEN)
    memories.remember(Statement(private), SHOP, PERSON)
    memories.remember(Statement("x" * 40_000 + TOKEN), SHOP, AGENT)
    new = lookup.listed_rows(journal.connection, SHOP.readable)[0]["id"]
    memories.forget([new], SHOP, PERSON, reason=f"{TOKEN} {private}")
    assert files_with(home, TOKEN, TOKEN[4:], hidden, "moat") == []
    assert "journal.db-wal" in {path.name for path in home.root.iterdir()}
    journal.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert files_with(home, TOKEN, TOKEN[4:], hidden, "moat") == []
    # The positive control: what was kept is found by the same look.
    assert files_with(home, "The deploy token is [redacted:")


def test_what_is_private_as_a_whole_is_refused_and_the_refusal_tells_nothing(
    memories: Memories, journal: Journal
) -> None:
    outcome = memories.remember(Statement("<private>all of it</private>"), SHOP, PERSON)
    assert (outcome.status, outcome.id) == ("refused", None)
    assert refusals(journal) == ["nothing is left once private text is cut"]


def test_a_text_forgotten_with_its_secret_is_found_as_it_was_kept(memories: Memories) -> None:
    said = f"The deploy token is {TOKEN}"
    added(memories, said)
    assert len(memories.forget_text(said, SHOP, PERSON)) == 1
    assert memories.remember(Statement(said), SHOP, AGENT).status == "refused"
    assert memories.lift(said, SHOP, PERSON) == 1


# -- what is not kept ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", " ", "\n\t", "\x00", "\u200b\u2060", "\u3164", "\u202e"])
def test_a_text_of_nothing_is_unusable(memories: Memories, content: str) -> None:
    with pytest.raises(Unusable, match="the text is empty"):
        memories.remember(Statement(content), SHOP, PERSON)


def test_a_text_that_is_too_long_is_refused_with_a_sentence_and_not_cut(memories: Memories, journal: Journal) -> None:
    outcome = memories.remember(Statement("汉" * (MAX_CONTENT + 1)), SHOP, PERSON)
    assert outcome.status == "refused"
    assert outcome.reason == "a memory has at most 32,000 characters, this has 32,001; keep what matters of it"
    assert refusals(journal) == [outcome.reason]
    assert added(memories, "汉" * MAX_CONTENT)


def test_a_text_that_grows_too_long_when_secrets_are_marked_is_refused_too(memories: Memories) -> None:
    text = "".join(f"password='a{n:04d}Zq9' " for n in range(MAX_CONTENT // 22))
    assert len(text) <= MAX_CONTENT
    assert memories.remember(Statement(text), SHOP, PERSON).status == "refused"


@pytest.mark.parametrize(
    ("given_", "complaint"),
    [
        ({"valid_from": "2026-02-01", "valid_to": "2026-01-01"}, "valid_to must lie after valid_from"),
        ({"valid_from": "2026-02-01", "valid_to": "2026-02-01"}, "valid_to must lie after valid_from"),
        ({"valid_from": "2026-02-01T00:00:00.0001Z", "valid_to": "2026-02-01T00:00:00.0009Z"}, "must lie after"),
        ({"valid_from": "yesterday"}, "valid_from: 'yesterday' is not a date; write 2026-01-31"),
        ({"valid_to": "2026-02-30"}, "valid_to: '2026-02-30' is not a date"),
        ({"valid_to": "0000-00-00"}, "is not a date"),
        ({"recorded_at": "soon"}, "recorded_at: 'soon' is not a date"),
        ({"recorded_at": "2999-01-01"}, "lies in the future"),
        ({"confidence": 1.5}, "confidence: "),
        ({"confidence": float("nan")}, "confidence: "),
        ({"title": "x" * 201}, "title: at most 200"),
        ({"kind": "x" * 41}, "kind: at most 40"),
        ({"quote": "x" * 4_001}, "quote: at most 4,000"),
        ({"tags": ("a",) * 33}, "tags: at most 32"),
        ({"scope": "shared"}, "cems share"),
    ],
)
def test_what_no_caller_may_give_is_named(
    memories: Memories, journal: Journal, given_: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(Unusable, match=complaint):
        memories.remember(Statement(TABS, **given_), SHOP, PERSON)
    assert live(journal) == []


def test_control_characters_and_half_surrogates_do_not_stop_it(memories: Memories) -> None:
    memory = added(
        memories, "Use\x00 t\x07abs\ud83d in\x0bthe\r\nshop \U0001f642", title="\udc00a\x00", tags=("\ud800x",), kind="k\x00",
        quote="\udfff",
    )  # fmt: skip
    kept = row(memories, memory)
    assert kept["content"] == "Use tabs? in the\r\nshop \U0001f642"
    assert (kept["title"], kept["tags"], kept["kind"]) == ("?a", ["?x"], "k")


def test_an_author_from_a_broken_environment_does_not_stop_it(memories: Memories) -> None:
    memory = added(memories, TABS, author=Author("agent", agent="a\udcff\x00" * 500, session="\ud800"))
    assert row(memories, memory)["source"]["session"] == "?"


@given(st.text(max_size=200), st.text(max_size=40), st.lists(st.text(max_size=20), max_size=4), st.text(max_size=30))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_text_is_kept_refused_or_named_unusable_and_the_journal_holds(
    memories: Memories, journal: Journal, content: str, title: str, tags: list[str], session: str
) -> None:
    author = Author("person", session=session, present=True)
    try:
        outcome = memories.remember(Statement(content, title=title, tags=tuple(tags)), SHOP, author)
    except Unusable:
        return
    if outcome.id and outcome.status == "added":
        assert memories.find(outcome.id, SHOP)["content"]
        memories.forget([outcome.id], SHOP, author, reason=title)
    assert journal.verify() == []


# -- time ------------------------------------------------------------------------------------------------------------


def test_a_person_may_say_when_it_was_learnt_and_a_machine_may_not(memories: Memories) -> None:
    past = "2020-05-01T10:00:00Z"
    assert row(memories, added(memories, "old fact", recorded_at=past))["recorded_at"] == "2020-05-01T10:00:00.000Z"
    assert row(memories, added(memories, "imported", author=IMPORT, recorded_at=past))["recorded_at"].startswith("2020")
    assert not row(memories, added(memories, "claimed", author=AGENT, recorded_at=past))["recorded_at"].startswith(
        "2020"
    )


def test_with_the_clock_set_back_a_correction_is_not_older_than_what_it_corrects(
    memories: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = added(memories, TABS)
    monkeypatch.setattr("cems.core.journal.time.time", lambda: datetime.now(UTC).timestamp() - 86_400 * 30)
    outcome, _ = memories.correct(old, {"content": "Use spaces."}, SHOP, PERSON)
    assert outcome.id
    assert row(memories, outcome.id)["recorded_at"] >= row(memories, old)["recorded_at"]
    assert row(memories, old)["expired_at"] >= row(memories, old)["recorded_at"]


# -- pins, and the account -------------------------------------------------------------------------------------------


def test_pinning_twice_writes_once(memories: Memories, journal: Journal) -> None:
    memory = added(memories, TABS)
    for _ in range(2):
        memories.pin(memory, True, SHOP, PERSON)
    memories.pin(memory, False, SHOP, PERSON)
    assert [body["pinned"] for kind, _, body in entries(journal) if kind == "pin"] == [True, False]
    assert row(memories, memory)["pinned"] is False


def test_every_change_says_who_when_and_why(memories: Memories, journal: Journal) -> None:
    began = datetime.now(UTC) - timedelta(seconds=1)
    memory = added(memories, TABS, author=AGENT)
    memories.forget([memory], SHOP, PERSON, reason="  it was\x00 wrong ")
    remembered, forgotten = memories.history(memory)
    assert (remembered.actor, remembered.agent, remembered.session) == ("agent", "claude-code", "s1")
    assert (forgotten.kind, forgotten.actor, forgotten.body["reason"]) == ("forget", "person", "it was wrong")
    assert began <= remembered.at <= forgotten.at <= datetime.now(UTC) + timedelta(seconds=1)
    assert journal.verify() == []


def test_the_forgotten_value_itself_is_not_in_the_list_of_forgotten_values(
    memories: Memories, journal: Journal
) -> None:
    memories.forget([added(memories, TABS)], SHOP, PERSON)
    dumped = repr(journal.connection.execute("SELECT * FROM tombstones").fetchall())
    assert "tabs" not in dumped.lower()


def test_a_rejected_value_is_refused_to_machines_and_taken_from_a_person(memories: Memories, journal: Journal) -> None:
    from cems.core.journal import Draft

    memory = added(memories, TABS, author=AGENT)
    journal.append([Draft("trust", memory, {"trust": "rejected"})])
    assert memories.remember(Statement(TABS), SHOP, AGENT).reason == "a person rejected this"
    assert memories.remember(Statement(TABS), SHOP, PERSON) == Outcome(
        "added", row(memories, memory)["id"], "it was there, unverified; now it is trusted"
    )
