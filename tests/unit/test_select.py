"""Which of the likely memories a prompt gets: not twice, not the same thing in other words, not more than there is room."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cems.core.policy import RecallPolicy
from cems.core.recall.candidate import Candidate
from cems.core.recall.render import Block, utf16_units
from cems.core.recall.select import select
from cems.core.recall.terms import terms
from cems.core.tokens import count_tokens

_numbers = itertools.count(1)


def candidate(content: str, probability: float = 0.9, **changes: Any) -> Candidate:
    row = {
        "id": f"m_{next(_numbers):024x}", "content": content, "title": "", "category": "decisions", "scope": "project:x",
        "trust": "trusted", "recorded_at": "2026-11-29T10:00:00.000Z", "source": {"actor": "person"}, "confidence": 1.0,
        "tokens": count_tokens(content), "terms": " ".join(terms(content)),
    }  # fmt: skip
    return Candidate(row | changes, probability=probability, score=probability)


def chosen(candidates: list[Candidate], policy: RecallPolicy | None = None, **options: Any) -> Block:
    settings: dict[str, Any] = {"already_shown": (), "max_units": 9_500, "cosine": no_cosine, "count": count_tokens}
    return select(candidates, policy or RecallPolicy(), **(settings | options))


def no_cosine(one: Candidate, other: Candidate) -> None:
    return None


def decisions(candidates: list[Candidate]) -> list[str]:
    return [each.decision for each in candidates]


def test_every_candidate_gets_a_decision_and_the_best_come_first() -> None:
    made = [candidate("the port is 1", 0.5), candidate("logs go to loki", 0.2), candidate("deploy with ansible", 0.8)]
    block = chosen(made)
    assert decisions(made) == ["injected", "below gate", "injected"]
    assert block.text.index("ansible") < block.text.index("port")
    assert "loki" not in block.text


def test_what_the_session_has_is_not_given_again() -> None:
    made = [candidate("the port is 1"), candidate("logs go to loki")]
    chosen(made, already_shown={made[0].id})
    assert decisions(made) == ["already shown", "injected"]


def test_the_same_statement_is_given_once_though_it_is_there_nine_times() -> None:
    made = [candidate("Deploys go out from main with blue/green.") for _ in range(9)]
    block = chosen(made)
    assert decisions(made) == ["injected"] + ["duplicate"] * 8
    assert block.text.count("blue/green") == 1


def test_the_same_meaning_is_given_once() -> None:
    made = [candidate("We deploy from main."), candidate("Deployments are made from the main branch.")]
    chosen(made, cosine=lambda one, other: 0.97)
    assert decisions(made) == ["injected", "duplicate"]


def test_what_repeats_something_given_before_is_not_given_either() -> None:
    made = [candidate("We deploy from main.", 0.1), candidate("we deploy from main")]
    chosen(made, already_shown={made[0].id})
    assert decisions(made) == ["below gate", "duplicate"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The API listens on port 8080.", "The API listens on port 8081."),
        ("Always squash commits.", "Never squash commits."),
        ("Use tabs in Go files.", "Do not use tabs in Go files."),
        ("Retries wait 1.5 s.", "Retries wait 15 s."),
    ],
)
def test_a_changed_number_or_a_negation_is_no_duplicate(one: str, other: str) -> None:
    made = [candidate(one), candidate(other)]
    chosen(made, cosine=lambda one, other: 0.99)
    assert decisions(made) == ["injected", "injected"]


def test_no_more_memories_than_the_policy_allows() -> None:
    made = [candidate(f"statement about topic{i} and thing{i}") for i in range(5)]
    chosen(made, RecallPolicy(max_memories=2))
    assert decisions(made) == ["injected"] * 2 + ["over count"] * 3


def test_what_does_not_fit_is_left_out_and_something_smaller_still_fits() -> None:
    made = [candidate("long story " * 150, 0.9), candidate("another tale " * 150, 0.8), candidate("the port is 1", 0.7)]
    block = chosen(made, RecallPolicy(token_budget=900))
    assert decisions(made) == ["injected", "over budget", "injected"]
    assert block.tokens * 1.4 <= 900


def test_one_giant_memory_does_not_fill_the_budget() -> None:
    made = [candidate("giant words " * 2_600, 0.9), *(candidate(f"topic{i} thing{i}", 0.8) for i in range(5))]
    chosen(made)
    assert decisions(made) == ["injected"] * 6


def test_the_reported_costs_add_up_to_the_block() -> None:
    made = [candidate("the port is 1"), candidate("logs go to loki", trust="candidate"), candidate("x", 0.0)]
    block = chosen(made)
    assert block.fence_tokens + sum(each.tokens for each in made if each.decision == "injected") == block.tokens
    assert block.tokens == count_tokens(block.text)


@given(
    st.lists(st.tuples(st.text(st.characters(exclude_categories=()), max_size=5_000), st.floats(0, 1)), max_size=20),
    st.integers(50, 2_000),
    st.floats(1, 3),
    st.integers(100, 9_500),
)
def test_no_set_of_memories_exceeds_the_budget_or_the_agents_limit(
    made: list[tuple[str, float]], budget: int, safety: float, units: int
) -> None:
    candidates = [candidate(content + "x", probability) for content, probability in made]
    block = chosen(candidates, RecallPolicy(token_budget=budget, token_safety=safety, max_memories=50), max_units=units)
    assert count_tokens(block.text) * safety <= budget + 1e-6
    assert utf16_units(block.text) <= units
    assert all(each.decision for each in candidates)
