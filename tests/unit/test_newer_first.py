"""Of two memories about one thing the newer stands first, and reaches the prompt where the older would."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.real_parts import Place, run

from cems.core.embedding import Embedder
from cems.core.recall.candidate import Candidate
from cems.core.recall.newer_first import SAME_SUBJECT, SAME_THING, newer_first
from cems.core.recall.terms import terms

OLD = "Storefront search is backed by Algolia (index products_prod)."
NEW = "Search on the storefront uses Typesense, index name products_v3, synced by the nightly job."
OTHER = "The header of the storefront is set in Inter, bold."


def candidate(content: str, day: int, rank: float, probability: float = 0.1, **row: Any) -> Candidate:
    known = {
        "id": content, "content": content, "terms": " ".join(terms(content)), "scope": "project:x", "kind": "",
        "recorded_at": f"2026-01-{day:02}T00:00:00.000Z", "valid_from": None,
    }  # fmt: skip
    return Candidate(known | row, rank=rank, probability=probability)


def lifted(older: Candidate, newer: Candidate, cosine: float | None) -> bool:
    before = newer.rank
    newer_first(sorted((older, newer), key=lambda each: -each.rank), lambda *_: cosine)
    return newer.rank > before


def test_a_newer_memory_about_the_same_thing_is_lifted_over_the_older() -> None:
    older, newer = candidate(OLD, 1, 0.6, 0.8), candidate(NEW, 2, 0.3, 0.1)
    assert lifted(older, newer, SAME_SUBJECT)
    assert newer.rank > older.rank == 0.6
    # On one subject only: in order, and not through the gate.
    assert newer.probability == 0.1
    assert not lifted(older, newer, SAME_THING)
    assert newer.probability == older.probability == 0.8


@pytest.mark.parametrize(
    ("older", "newer", "cosine"),
    [
        pytest.param(candidate(NEW, 2, 0.6), candidate(OLD, 1, 0.3), 0.9, id="the older is never lifted"),
        pytest.param(candidate(OLD, 1, 0.6), candidate(NEW, 2, 0.3), 0.5, id="not near enough"),
        pytest.param(candidate(OLD, 1, 0.6), candidate(NEW, 2, 0.3), None, id="no vectors"),
        pytest.param(candidate(OLD, 1, 0.6), candidate(NEW, 2, 0.3, scope="user"), 0.9, id="another scope"),
        pytest.param(candidate(OLD, 1, 0.6), candidate(NEW, 2, 0.3, kind="turn"), 0.9, id="a turn claims nothing"),
        pytest.param(candidate(OLD, 1, 0.6), candidate(NEW, 2, 0.3, 0.0), 0.9, id="no search found it"),
        pytest.param(candidate(OLD, 1, 0.6), candidate(NEW, 1, 0.3), 0.9, id="of one moment"),
    ],
)
def test_nothing_else_is_lifted(older: Candidate, newer: Candidate, cosine: float | None) -> None:
    before = newer.probability
    assert not lifted(older, newer, cosine)
    assert newer.probability == before


def test_since_when_it_holds_counts_before_when_it_was_recorded() -> None:
    older = candidate(OLD, 9, 0.6, valid_from="2025-01-01T00:00:00.000Z")
    assert lifted(older, candidate(NEW, 2, 0.3), 0.9)


BLACK = "Formatting is black with line length 88 and type checking is mypy."


@pytest.mark.parametrize(
    ("text", "goes"),
    [
        ("Ruff (line length 100) and pyright are enforced; black and mypy were removed.", True),
        ("We migrated the formatting of long lines from black to ruff.", True),
        ("The line length of black is no longer 88.", True),
        ("Ruff (line length 100) and pyright are enforced for type checking.", False),
        ("The Safari workaround was removed.", False),
    ],
)
def test_a_word_of_change_about_what_the_older_names_is_enough(text: str, goes: bool) -> None:
    older, newer = candidate(BLACK, 1, 0.6, 0.8), candidate(text, 2, 0.3, 0.1)
    assert lifted(older, newer, 0.4) == goes
    assert newer.probability == (0.8 if goes else 0.1)


def test_what_is_not_even_related_is_not_replaced_by_a_word_of_change() -> None:
    assert not lifted(candidate(BLACK, 1, 0.6), candidate("black and mypy were removed.", 2, 0.3), 0.2)


def test_a_prompt_in_the_words_of_the_old_one_gets_the_new_one_first(place: Place, bundled: Embedder) -> None:
    async def check() -> None:
        for text, day in ((OLD, "2025-10-10"), (NEW, "2026-08-01"), (OTHER, "2026-08-02")):
            place.add(text, recorded_at=day)
        async with place.with_vectors(bundled):
            found = await place.hooks.explain(
                "what is the Algolia index of the storefront search called", place.scope()
            )
            assert 0 < found.block.index(NEW) < found.block.index(OLD)

    run(check())
