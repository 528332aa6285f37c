"""Scores from words: rare words weigh more, small scopes are filled up, numbers stay within their bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.real_parts import PERSON, Place

from cems.core.recall import background, lexical, lookup
from cems.core.recall.candidate import Candidate
from cems.core.recall.lexical import Weights
from cems.core.recall.question import ask


def weights(place: Place, question: str) -> Weights:
    return Weights(place.reader, ask(question), place.scope().readable)


def test_a_rare_word_weighs_more_than_a_common_one(place: Place) -> None:
    for i in range(30):
        place.add(f"the deploy of service number {i}")
    place.add("the deploy uses kaniko")
    found = weights(place, "deploy kaniko")
    assert found.idf["kaniko"] > 3 * found.idf["deploy"]


def test_overlap_is_the_share_of_the_questions_weight(place: Place) -> None:
    place.add("database port")
    found = weights(place, "database port")
    share, matched, weight = found.overlap({"databas", "port"})
    assert (share, weight) == pytest.approx((1.0, found.total))
    assert matched == 2
    assert found.overlap({"port"})[0] == pytest.approx(found.idf["port"] / found.total)
    assert found.overlap(set())[0] == 0


def test_words_of_another_project_do_not_change_the_weights(place: Place) -> None:
    place.add("database port")
    before = weights(place, "database port").idf
    for i in range(5):
        place.add(f"database number {i}", folder=place.beta)
    assert weights(place, "database port").idf == before


def test_a_forgotten_memorys_words_no_longer_count(place: Place) -> None:
    before = weights(place, "database port").idf
    memory = place.add("database port")
    assert weights(place, "database port").idf != before
    place.memories.forget([memory], place.scope(), PERSON)
    assert weights(place, "database port").idf == before


def test_a_small_scope_is_filled_up_and_a_large_one_is_not(place: Place) -> None:
    assert weights(place, "x").padding == background.FULL_SCOPE
    for i in range(background.FULL_SCOPE):
        place.add(f"statement number {i}")
    assert weights(place, "x").padding == 0


def test_gap_and_margin_are_taken_from_the_top_of_the_list() -> None:
    candidates = [Candidate({"id": str(score), "terms": ""}, score=score) for score in (0.2, 0.9, 0.5)]
    lexical.place(candidates, [0.4, 0.3, 0.1])
    assert [each.score for each in candidates] == [0.9, 0.5, 0.2]
    assert [each.gap for each in candidates] == pytest.approx([0, 0.4, 0.7])
    # The sixth best of all, those that fill a small scope up included, is 0.1.
    assert [each.margin for each in candidates] == pytest.approx([0.8, 0.4, 0.1])


def test_nothing_to_place_is_no_error() -> None:
    lexical.place([], [])


@given(
    question=st.text(st.characters(exclude_categories=()), max_size=200),
    content=st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
)
def test_any_question_can_be_searched_for(
    tmp_path_factory: pytest.TempPathFactory, question: str, content: str
) -> None:
    place = _shared(tmp_path_factory)
    asked = ask(question)
    found = Weights(place.reader, asked, place.scope().readable)
    lookup.keyword_rows(place.reader, asked.terms, place.scope().readable, 60)
    share, matched, _ = found.overlap(set(ask(content).terms))
    assert 0 <= share <= 1 + 1e-9
    assert matched <= len(set(asked.terms))


_places: list[Place] = []


def _shared(factory: pytest.TempPathFactory) -> Place:
    """One home for all examples: making one takes longer than an example."""
    if not _places:
        _places.append(Place(factory.mktemp("lexical")))
        _places[0].add("the database listens on 5433")
    return _places[0]


def test_a_question_of_very_many_words_is_searched_for(place: Place) -> None:
    place.add("部署之前先审批")
    asked = ask("部署之前" * 500)
    assert lookup.keyword_rows(place.reader, asked.terms, place.scope().readable, 60)
