"""Marks move the gate, by so much and no more."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.real_parts import Place, run

from cems.core.recall import gate
from cems.core.recall.feedback import MOST, MOST_FOR_ALL, Marks, of_all, of_memory
from cems.core.service.sessions import Sessions

COUNTS = st.integers(0, 10_000)
PORT = "The staging database listens on port 5433."
QUESTION = "which port does the staging database listen on"


@given(COUNTS, COUNTS)
def test_no_number_of_marks_moves_it_further_than_the_bounds(useful: int, noise: int) -> None:
    assert abs(of_memory(Marks(useful, noise))) <= MOST
    assert abs(of_all(Marks(useful, noise))) < MOST_FOR_ALL


def test_useful_moves_up_and_noise_moves_down_twice_as_far() -> None:
    assert of_memory(Marks(1, 0)) == pytest.approx(0.4)
    assert of_memory(Marks(0, 1)) == pytest.approx(-0.8)
    assert of_all(Marks(20, 0)) == pytest.approx(MOST_FOR_ALL / 2)
    assert of_all(Marks(3, 3)) == 0
    assert of_memory(Marks()) == of_all(Marks()) == 0


def test_the_bounds_are_what_their_words_say() -> None:
    assert gate.shifted(0.30, -MOST) == pytest.approx(0.09, abs=0.005)
    assert gate.shifted(0.30, MOST) == pytest.approx(0.66, abs=0.005)
    assert gate.shifted(0.30, -MOST_FOR_ALL) == pytest.approx(0.18, abs=0.005)
    assert gate.shifted(0.30, MOST_FOR_ALL) == pytest.approx(0.46, abs=0.005)


@given(st.floats(-30, 30))
def test_what_is_certain_stays_certain(logits: float) -> None:
    assert gate.shifted(0.0, logits) == 0.0
    assert gate.shifted(1.0, logits) == 1.0
    assert 0 <= gate.shifted(0.5, logits) <= 1


def test_marks_count_at_once_and_after_they_were_written_and_after_a_restart(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "state.db")
    sessions.mark("m_1", useful=False)
    before = sessions.feedback(["m_1", "m_2"])
    assert before["m_1"] == pytest.approx(-0.8 + of_all(Marks(0, 1)))
    assert before["m_2"] == pytest.approx(of_all(Marks(0, 1)))
    sessions.flush()
    assert sessions.feedback(["m_1", "m_2"]) == before
    sessions.mark("m_1", useful=True)
    assert sessions.feedback(["m_1"])["m_1"] == pytest.approx(-0.4)
    sessions.close()
    again = Sessions(tmp_path / "state.db")
    assert again.feedback(["m_1"])["m_1"] == pytest.approx(-0.4)
    again.close()


def test_marks_that_cannot_be_read_stop_no_prompt(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "state.db")
    sessions.mark("m_1", useful=False)
    sessions.flush()
    with sqlite3.connect(tmp_path / "state.db") as other:
        other.execute("DROP TABLE usage")
    assert sessions.feedback(["m_1"]) == {}


def test_what_was_noise_must_be_asked_for_more_plainly(place: Place) -> None:
    memory = place.add(PORT)
    other = place.add("The staging database is restarted on Sundays.")
    first = {each.id: each for each in run(place.hooks.explain(QUESTION, place.scope())).candidates}
    place.hooks.sessions.mark(memory, useful=False)
    then = {each.id: each for each in run(place.hooks.explain(QUESTION, place.scope())).candidates}
    assert 0 < then[memory].probability < first[memory].probability
    assert then[memory].as_json()["feedback"] == pytest.approx(-0.8 + of_all(Marks(0, 1)), abs=1e-4)
    # The one mark moves everything else by a thirtieth of that.
    assert -0.05 < then[other].feedback < 0


def test_what_is_plainly_asked_for_is_given_all_the_same(place: Place) -> None:
    memory = place.add(PORT)
    for _ in range(50):
        place.hooks.sessions.mark(memory, useful=False)
    found = run(place.hooks.explain(QUESTION, place.scope()))
    assert [each.id for each in found.injected] == [memory]
