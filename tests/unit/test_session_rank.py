"""Which past session a question is about."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.real_parts import Place

from cems.core.memories import Author
from cems.core.recall import lookup
from cems.core.recall.candidate import Candidate
from cems.core.recall.named_dates import LATER, NamedDate, named_dates
from cems.core.recall.question import ask
from cems.core.recall.session_context import TURN
from cems.core.recall.session_rank import RankedSession, SessionWords, rank_sessions

NO_WORDS = SessionWords({}, {})
ALONE = Author("person", present=True)


def candidate(session: str, rank: float, kind: str = TURN, name: str = "") -> Candidate:
    row: dict[str, Any] = {"id": name or f"m_{session}_{rank}", "kind": kind, "source": {"session": session}}
    return Candidate(row, rank=rank)


Held = dict[str, date]


def whole(
    *found: Candidate, words: SessionWords = NO_WORDS, text: str = "what", held: Held | None = None
) -> list[RankedSession]:
    return rank_sessions(found, words, ask(text), held)


def ranked(
    *found: Candidate, words: SessionWords = NO_WORDS, text: str = "what", held: Held | None = None
) -> list[str]:
    return [each.session for each in whole(*found, words=words, text=text, held=held)]


def test_one_good_turn_counts_for_more_than_many_middling_ones() -> None:
    many = [candidate("long", 0.5, name=f"m_{number}") for number in range(20)]
    assert ranked(*many, candidate("short", 0.6), candidate("short", 0.1)) == ["short", "long"]


def test_what_a_session_says_and_what_was_noted_of_it_add_up() -> None:
    both = (candidate("both", 0.5), candidate("both", 0.5, kind=""))
    weak = candidate("weak", 0.1)
    assert ranked(candidate("said", 0.55), candidate("noted", 0.55, kind=""), weak, *both)[0] == "both"


def test_a_session_without_notes_is_not_worse_than_one_with_the_worst_note() -> None:
    noted = (candidate("noted", 0.5), candidate("noted", 0.1, kind=""))
    assert ranked(candidate("said", 0.51), *noted) == ["said", "noted"]
    said = (candidate("said", 0.3), candidate("noted", 0.5, kind=""), candidate("said", 0.1, kind=""))
    assert ranked(*said) == ["noted", "said"]


def test_words_decide_between_sessions_that_look_alike() -> None:
    words = SessionWords({"cat": {"b": 3, "a": 1}}, {"a": 50, "b": 50, "c": 50})
    assert ranked(candidate("a", 0.5), candidate("b", 0.5), words=words) == ["b", "a"]
    assert ranked(candidate("a", 0.9), candidate("b", 0.5), words=words) == ["a", "b"]


def test_a_session_that_only_shares_words_is_ranked_too_and_last() -> None:
    words = SessionWords({"cat": {"never found": 1}}, {"a": 50, "never found": 50})
    found = whole(candidate("a", 0.9), candidate("a", 0.2), words=words)
    assert [each.session for each in found] == ["a", "never found"]
    assert [len(each.best) for each in found] == [2, 0]


def test_rare_words_and_short_sessions_weigh_more() -> None:
    lengths = {"a": 100, "b": 100, "c": 100, "long": 1_000}
    rare_or_usual = SessionWords({"rare": {"b": 1}, "usual": {"a": 1, "c": 1, "long": 1}}, lengths).bm25()
    assert rare_or_usual["b"] > rare_or_usual["a"]
    assert SessionWords({"rare": {"a": 1}, "usual": {"b": 1, "a": 0, "c": 1}}, lengths).bm25()["a"] == 1.0
    scores = SessionWords({"word": {"a": 2, "long": 2}}, lengths).bm25()
    assert scores["a"] == 1.0 > scores["long"] > 0


def test_the_session_of_the_day_that_is_named_comes_first() -> None:
    of_may, of_june = candidate("may", 0.5), candidate("june", 0.6)
    held = {"may": date(2023, 5, 8), "june": date(2023, 6, 9)}
    assert ranked(of_may, of_june, text="What did we do on 7 May 2023?", held=held) == ["may", "june"]
    assert ranked(of_may, of_june, text="What may we do?", held=held) == ["june", "may"]


def test_candidates_without_a_session_make_none() -> None:
    assert ranked(candidate("", 0.9), Candidate({"id": "m", "kind": ""}, rank=0.8)) == []


def test_equal_sessions_stay_in_the_order_of_their_names() -> None:
    first = [candidate("b", 0.5), candidate("a", 0.5)]
    assert ranked(*first) == ranked(*reversed(first)) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in July 2022", [NamedDate(2022, 7)]),
        ("the week before August 3, 2023", [NamedDate(2023, 8, 3)]),
        ("on 31 July, 2023", [NamedDate(2023, 7, 31)]),
        ("on the 3rd of march", [NamedDate(0, 3, 3)]),
        ("on 2024-02-29 or in 2024-03", [NamedDate(2024, 2, 29), NamedDate(2024, 3)]),
        ("In May we march", [NamedDate(0, 5)]),
        ("may I? we march on", []),
        ("version 2024-13, build 20240229", []),
    ],
)
def test_dates_in_a_text(text: str, expected: list[NamedDate]) -> None:
    assert named_dates(text) == expected


def test_what_has_just_happened_is_told_in_the_days_after() -> None:
    day, month = NamedDate(2023, 7, 31), NamedDate(2023, 7)
    assert [day.nearness(date(2023, 7, 30)), day.nearness(date(2023, 8, 4)), day.nearness(date(2023, 9, 4))] == [
        0,
        1,
        0,
    ]
    assert [month.nearness(date(2023, 7, 2)), month.nearness(date(2023, 8, 4)), month.nearness(date(2023, 6, 30))] == [
        1,
        LATER,
        0,
    ]
    assert NamedDate(0, 12).nearness(date(2024, 1, 5)) == LATER


@given(st.text(), st.dates())
def test_no_text_breaks_the_reading_of_dates(text: str, told: date) -> None:
    assert all(0 <= each.nearness(told) <= 1 for each in named_dates(text))


@given(st.integers(1, 12), st.integers(0, 31), st.dates(), st.integers(0, 9_999))
def test_any_named_date_can_be_compared(month: int, day: int, told: date, year: int) -> None:
    assert 0 <= NamedDate(year, month, day).nearness(told) <= 1


def test_words_are_counted_by_session_and_only_in_what_may_be_read(place: Place) -> None:
    for text in ("The cat sleeps on the cat", "A cat eats", "The dog barks"):
        place.add(text, session="s", author=ALONE)
    place.add("Another cat", session="t", author=ALONE)
    place.add("A cat without a session", author=Author("person"))
    place.add("A cat elsewhere", session="u", author=ALONE, folder=place.beta)
    scopes = place.scope().readable
    assert lookup.session_term_counts(place.reader, ["cat", "cow"], scopes) == {"cat": {"s": 2, "t": 1}}
    lengths = lookup.session_lengths(place.reader, scopes)
    assert lengths == {"s": len(["cat", "sleep", "cat", "cat", "eat", "dog", "bark"]), "t": 2}
