"""The score with vectors, and another embedder's cosines on the scale of the one that everything was fitted for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.fakes.real_parts import Place, run

from cems.core.embedding import Embedder
from cems.core.recall import background, gate
from cems.core.recall.semantic import BackgroundVectors, background_vectors

PORT = "The staging database listens on port 5433."
OTHERS = (
    "Deploys go out with `make ship`.",
    "The header font is bold.",
    "Invoices are sent on the first of the month.",
)
QUESTION = "which port does the staging database listen on"
RAISED = 0.5


class Narrow:
    """A real model whose cosines all lie near each other: `c` becomes `RAISED + (1 - RAISED) * c`."""

    def __init__(self, real: Embedder) -> None:
        self._real = real

    def query_embed(self, texts: Iterable[str]) -> Iterator[Any]:
        return iter(self._narrowed(list(texts)))

    def passage_embed(self, texts: Iterable[str], **_: object) -> Iterator[Any]:
        return iter(self._narrowed(list(texts)))

    def _narrowed(self, texts: list[str]) -> Any:
        vectors = self._real.embed(texts)
        return np.hstack([vectors * np.sqrt(1 - RAISED), np.full((len(texts), 1), np.sqrt(RAISED))])


@pytest.fixture
def narrow(bundled: Embedder) -> Embedder:
    return Embedder(Narrow(bundled), "narrow@1", bundled.dimension + 1)


def test_the_embedder_everything_was_fitted_for_is_taken_as_it_is(bundled: Embedder) -> None:
    assert gate.rescaling(bundled.identity, [0.1, 0.9]) == (0.0, 1.0)


def test_the_scale_in_the_file_is_that_of_the_bundled_model(bundled: Embedder) -> None:
    vectors = background_vectors(bundled).vectors
    cosines = [float(one @ other) for one, other in itertools.combinations(vectors, 2)]
    shift, slope = gate.rescaling("the same model, by another name", cosines)
    assert shift == pytest.approx(0, abs=0.002)
    assert slope == pytest.approx(1, abs=0.01)


def test_another_scale_is_brought_to_ours(bundled: Embedder, narrow: Embedder) -> None:
    ours, other = background_vectors(bundled), BackgroundVectors(narrow)
    query, text = bundled.embed([QUESTION, PORT])
    assert other.cosine(*narrow.embed([QUESTION, PORT])) == pytest.approx(float(query @ text), abs=0.01)
    level, same = ours.level(query), other.level(narrow.embed_query(QUESTION))
    assert (same.mean, same.deviation) == pytest.approx((level.mean, level.deviation), abs=0.01)


def test_a_model_that_finds_everything_alike_is_no_division_by_zero() -> None:
    assert gate.rescaling("flat@1", [0.7] * 10)[1] == 1.0
    assert gate.rescaling("empty@1", []) == (0.0, 1.0)


def test_a_model_of_another_scale_scores_and_gates_as_the_fitted_one_does(
    place: Place, bundled: Embedder, narrow: Embedder
) -> None:
    for text in (PORT, *OTHERS):
        place.add(text)

    async def numbers(embedder: Embedder) -> tuple[dict[str, float], dict[str, float]]:
        async with place.with_vectors(embedder):
            found = await place.hooks.explain(QUESTION, place.scope())
            assert found.mode == "hybrid"
            return (
                {each.row["content"]: each.score for each in found.candidates},
                {each.row["content"]: each.probability for each in found.candidates},
            )

    (scores, probabilities), (other_scores, other_probabilities) = run(numbers(bundled)), run(numbers(narrow))
    assert other_scores == pytest.approx(scores, abs=0.02)
    assert other_probabilities == pytest.approx(probabilities, abs=0.03)


def test_how_generic_a_question_is_shows_in_its_level(bundled: Embedder) -> None:
    filling = background_vectors(bundled)
    level = filling.level(bundled.embed_query(background.sentences()[0]))
    assert level.mean == pytest.approx(float(np.mean(filling.vectors @ filling.vectors[0])), abs=0.01)
    assert level.deviation > filling.level(bundled.embed_query("ok thanks")).deviation
