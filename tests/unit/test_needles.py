"""What is looked for: the text in any spelling, not a piece of another word, and how it looks as raw bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cems.core.needles import (
    PURGED,
    anywhere_in,
    cut_everywhere,
    holds,
    lines_of,
    needles_for,
    raw_forms,
    says_nothing,
    without,
)

SECRET = needles_for(["The Zebra  sleeps at 5."])
PIN = needles_for(["4711"])


@pytest.mark.parametrize(
    "text",
    [
        "the zebra sleeps at 5",
        "We know: THE ZEBRA\n sleeps at 5. Really.",
        "the ze\u200bbra sleeps at 5",
        "the z\u0435bra sleeps at 5",  # a Cyrillic letter
        "x" * 5_000 + " the zebra sleeps at 5 " + "y" * 5_000,
    ],
)
def test_a_text_is_found_in_any_case_white_space_and_letters_that_look_the_same(text: str) -> None:
    assert holds(text, SECRET)
    cut = without(text, SECRET)
    assert PURGED in cut
    assert not holds(cut, SECRET)


def test_other_texts_do_not_hold_it_and_stay_as_they_are() -> None:
    for text in ("the zebra sleeps at 6", "the zebra", ""):
        assert not holds(text, SECRET)
        assert without(text, SECRET) == text


def test_a_short_text_must_stand_by_itself() -> None:
    assert holds("the pin is 4711.", PIN)
    assert not holds("m_4711ab, 54711", PIN)
    assert without("4711 or 547112", PIN) == f"{PURGED} or 547112"
    assert raw_forms(PIN) == {}


def test_only_a_whole_value_counts_where_a_text_is_no_sign_of_itself() -> None:
    (needle,) = needles_for(["Use uv"], whole_up_to=15)
    assert needle.whole
    assert holds("use  UV.", (needle,))
    assert not holds("Use uv and ruff", (needle,))
    assert without("Use uv.", (needle,)) == PURGED


def test_every_string_of_a_value_is_looked_at_and_cut() -> None:
    body = {"memory": {"content": "a", "tags": ["The zebra sleeps at 5"], "n": 7}, "by": None}
    assert anywhere_in(body, SECRET)
    assert cut_everywhere(body, SECRET) == {"memory": {"content": "a", "tags": [PURGED], "n": 7}, "by": None}


def test_a_text_says_nothing_once_only_marks_are_left() -> None:
    assert says_nothing(f"{PURGED}. ")
    assert not says_nothing(f"{PURGED} at night")


def test_the_longer_lines_of_a_text_are_looked_for_by_themselves() -> None:
    lines = lines_of(needles_for(["first line of a key\nAB\nlast line of a key"]))
    assert [each.text for each in lines] == ["first line of a key", "last line of a key"]
    assert lines_of(SECRET) == ()


@given(st.text(min_size=8, max_size=60))
def test_every_form_a_file_may_have_is_among_the_raw_ones(text: str) -> None:
    needles = needles_for([text])
    forms = raw_forms(needles)
    if not forms:
        return
    core = text.strip()
    for data in (
        core.encode("utf-8", "surrogatepass"),
        core.encode("utf-16-le", "surrogatepass"),
        core.encode("utf-16-be", "surrogatepass"),
        json.dumps({"a": core}).encode(),
        json.dumps({"a": core}, ensure_ascii=False).encode("utf-8", "surrogatepass"),
        json.dumps(json.dumps({"a": core})).encode(),
    ):
        assert any(form in data.lower() for form in forms), data


@given(st.text(max_size=200), st.text(min_size=3, max_size=20))
def test_nothing_of_it_stays_whatever_it_is_cut_from(text: str, part: str) -> None:
    needles = needles_for([part])
    if needles and not needles[0].is_in("[purged]"):
        assert not holds(without(f"{text} {part} {text}", needles), needles)
