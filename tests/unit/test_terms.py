"""Index terms: the same for what is stored and what is asked, in every script, and safe in both indexes."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.unit.conftest import NOWHERE, PERSON

from cems.core.journal import Journal
from cems.core.memories import Memories, Statement, Unusable
from cems.core.recall import lookup
from cems.core.recall.terms import terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Deploying the servers", ["deploy", "server"]),
        ("useQueryClient", ["usequerycli", "queri", "client"]),
        ("snake_case_name", ["snakecasenam", "snake", "case", "name"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("kebab-case", ["kebabcas", "kebab", "case"]),
        ("python 3.11", ["python", "3", "11"]),
        ("v2 iOS", ["v2", "io"]),
        ("café", ["café"]),
        ("cafe\u0301", ["café"]),
        ("ＡＰＩ", ["api"]),
        ("数据库", ["数据", "据库"]),
        ("用API接口", ["用", "api", "接口"]),
        ("データベース", ["デー", "ータ", "タベ", "ベー", "ース"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ไทย", ["ไท", "ทย"]),
        ("ГОРОД", ["город"]),
        ("the and of", []),
        ("", []),
        ("!?… — ''", []),
        ("\ud800", []),
    ],
)
def test_the_terms_of_a_text(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_an_identifier_is_found_however_it_is_written() -> None:
    forms = [set(terms(form)) for form in ("fetchUserData", "fetch_user_data", "fetch-user-data", "fetch user data")]
    assert all(forms[3] <= form for form in forms)
    assert terms("fetchUserData")[0] == terms("fetch_user_data")[0] == terms("FetchUserData")[0]


@given(st.text())
def test_terms_are_short_have_no_space_and_are_always_the_same(text: str) -> None:
    found = terms(text)
    assert found == terms(text)
    assert all(term and len(term) <= 90 and not any(c.isspace() for c in term) for term in found)
    assert " ".join(found).split() == found


@given(st.text(st.characters(blacklist_categories=["Cs"])))
def test_composed_and_decomposed_text_have_the_same_terms(text: str) -> None:
    assert terms(unicodedata.normalize("NFD", text)) == terms(unicodedata.normalize("NFC", text))


def test_a_long_text_without_spaces_takes_no_time() -> None:
    for text in ("x" * 32_000, "汉" * 32_000, "a_" * 16_000, "-" * 32_000, "a\u0301" * 16_000, "aB" * 16_000):
        terms(text)


@given(st.text(max_size=80))
@example("हिन्दी")
@example("a AND b OR NOT c NEAR d")
@example("²½ Ⅷ \U0001d7d8 ௧")
@example("İstanbul ŉ ǰ")
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_term_of_a_memory_finds_it_in_the_keyword_index(memories: Memories, journal: Journal, text: str) -> None:
    try:
        memory = memories.remember(Statement(text), NOWHERE, PERSON).id
    except Unusable:
        return
    if memory is None:
        return
    row = lookup.rows_by_id(journal.connection, [memory])[memory]
    for term in set(row["terms"].split()):
        assert memory in {each["id"] for each in lookup.keyword_rows(journal.connection, [term], NOWHERE.readable, 500)}
    lookup.keyword_rows(journal.connection, terms(text), NOWHERE.readable, 5)


def test_a_question_of_very_many_terms_is_answered(memories: Memories, journal: Journal) -> None:
    memories.remember(Statement("the needle7999x is here"), NOWHERE, PERSON)
    many = [f"needle{n}x" for n in range(8_000)]
    assert len(lookup.keyword_rows(journal.connection, many, NOWHERE.readable, 5)) == 1
    assert lookup.term_counts(journal.connection, many, NOWHERE.readable) == {"needle7999x": 1}
    assert lookup.keyword_rows(journal.connection, [], NOWHERE.readable, 5) == []
    assert lookup.term_counts(journal.connection, [], NOWHERE.readable) == {}


def test_in_a_large_home_the_rare_words_of_a_question_are_looked_up(
    memories: Memories, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(12):
        memories.remember(Statement(f"the kettle number {n} whistles"), NOWHERE, PERSON)
    rare = memories.remember(Statement("the kettle in the zeppelin whistles"), NOWHERE, PERSON).id
    asked = terms("kettle zeppelin whistles submarine")

    def found(limit: int = 20) -> list[str]:
        return [row["id"] for row in lookup.keyword_rows(journal.connection, asked, NOWHERE.readable, limit)]

    assert len(found()) == 13
    monkeypatch.setattr(lookup, "_MOST_RANKED", 5)
    assert found() == [rare]
    # The rarest is looked up however common it is.
    everywhere = lookup.keyword_rows(journal.connection, terms("kettle"), NOWHERE.readable, 20)
    assert len(everywhere) == 13
    assert lookup.keyword_rows(journal.connection, terms("submarine"), NOWHERE.readable, 20) == []
    # The counts are of live memories: a question about others is asked with every word.
    assert len(lookup.keyword_rows(journal.connection, asked, NOWHERE.readable, 20, lookup.ANY)) == 13
