"""The gate: silence unless the evidence is absolute, also in a scope of one memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.real_parts import Place, run

from cems.core.embedding import Embedder
from cems.core.policy import RecallPolicy
from cems.core.recall import gate
from cems.core.recall.candidate import Candidate
from cems.core.recall.question import Question, ask

UNRELATED = (
    "make the header font bold",
    "what is the capital of France",
    "rename this variable to count",
    "write a haiku about the sea",
    "thanks, that looks good to me",
    "how do I reverse a list in Python",
    "explain what a mutex is",
    "add a dark mode switch to the settings page",
)
RELATED = {
    "The staging database listens on port 5433, not 5432.": "connect the report job to the staging database",
    "Deploys go out with `make ship`; never push to the production bucket by hand.": "ship the new version to production",
    "Use pnpm in this repository, npm breaks the lockfile.": "npm or pnpm, what breaks the lockfile",
    "The billing service owns the invoices table; others read it through its API.": "query the invoices table from the shop service",
}


def candidate(score: float = 0.6, gap: float = 0.0, margin: float = 0.2, scope: str = "project:x") -> Candidate:
    return Candidate(
        {"id": "m_1", "scope": scope}, overlap=0.5, matched=2, matched_weight=4, score=score, gap=gap, margin=margin
    )


PLAIN = ask("deploy the api to staging")


LEVEL = gate.Level(0.1, 0.08)


def hybrid(of: Candidate, question: Question) -> float:
    return gate.hybrid(of, question, LEVEL)


@pytest.mark.parametrize("probability", [hybrid, gate.keyword])
def test_evidence_against_lowers_the_probability(probability: Callable[[Candidate, Question], float]) -> None:
    sure = probability(candidate(), PLAIN)
    assert 0 < sure < 1
    assert probability(candidate(gap=0.2), PLAIN) < sure
    assert probability(candidate(margin=0.0), PLAIN) < sure
    assert probability(candidate(scope="user"), PLAIN) < sure
    # Of as many index terms each.
    for other in ("deploy this file to staging", "deploy the api with Python", "what is the api of staging deploys"):
        assert probability(candidate(), ask(other)) < sure


@given(st.floats(-50, 50), st.floats(0, 50), st.floats(-50, 50))
def test_the_probability_is_one_for_any_numbers(score: float, gap: float, margin: float) -> None:
    for probability in (hybrid, gate.keyword):
        assert 0 <= probability(candidate(score, gap, margin), PLAIN) <= 1


@pytest.mark.parametrize("content", RELATED, ids=range(len(RELATED)))
def test_a_scope_of_one_memory_answers_what_is_about_it_and_nothing_else(
    place: Place, bundled: Embedder, content: str
) -> None:
    async def ask_all() -> None:
        memory = place.add(content)
        async with place.with_vectors(bundled):
            found = await place.hooks.explain(RELATED[content], place.scope())
            assert [each.id for each in found.injected] == [memory]
            for prompt in UNRELATED:
                assert (await place.hooks.explain(prompt, place.scope())).block == ""

    run(ask_all())


def test_a_need_that_shares_one_word_with_the_only_memory_is_near_the_threshold(
    place: Place, bundled: Embedder
) -> None:
    """It was given with the gate before this one, which disturbed more. What is left must not get worse unseen."""

    async def check() -> None:
        memory = place.add("Use pnpm in this repository, npm breaks the lockfile.")
        async with place.with_vectors(bundled):
            [found] = (await place.hooks.explain("install the missing npm packages", place.scope())).candidates
            assert found.id == memory
            assert found.probability > 0.2
            for prompt in UNRELATED:
                others = (await place.hooks.explain(prompt, place.scope())).candidates
                assert all(each.probability < found.probability / 2 for each in others)

    run(check())


def test_by_words_alone_an_unrelated_prompt_gets_nothing(place: Place) -> None:
    for content in RELATED:
        place.add(content)
    for prompt in UNRELATED:
        assert run(place.hooks.explain(prompt, place.scope())).block == ""


def test_by_words_alone_what_is_plainly_asked_for_is_given(place: Place) -> None:
    ids = [place.add(content) for content in RELATED]
    found = run(place.hooks.explain("which port does the staging database listen on", place.scope()))
    assert [each.id for each in found.injected] == ids[:1]


def test_a_higher_threshold_silences_and_zero_lets_everything_found_through(place: Place) -> None:
    place.add("The staging database listens on port 5433.")
    question = "which port does the staging database use"
    place.hooks.policy = RecallPolicy(gate_threshold=1.0)
    assert run(place.hooks.explain(question, place.scope())).block == ""
    place.hooks.policy = RecallPolicy(gate_threshold=0.0)
    assert run(place.hooks.explain("a database", place.scope())).injected
