"""Mark: negative evals. The committed cases pass, and the runner fails on what it is there to find: a leak, and a case
that would pass whatever the product does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError
from tests.negative_eval.case import Case, Kind, Stored, load_cases
from tests.negative_eval.runner import Verdict, run_cases, table
from tests.negative_eval.surfaces import WITHOUT_INDEX

from cems.core.recall.engine import Within
from cems.core.scope import Scope, SessionScope
from cems.core.service import hooks, request

CASES = load_cases()
OLD = Stored(text="The staging database listens on port 5433.")
KEPT = Stored(text="The staging database runs on the host mercury.")
QUERY = "which host and port does the staging database use"


def verdicts(root: Path, *cases: Case) -> list[Verdict]:
    return asyncio.run(run_cases(cases, root))


def case(**changes: Any) -> Case:
    """A good case, but for the changes."""
    good = {
        "id": "c", "kind": "forgotten", "surface": "search", "remember": {"old": OLD, "kept": KEPT}, "query": QUERY,
        "absent": ("port 5433",), "present": ("mercury",),
    }  # fmt: skip
    return Case.model_validate(good | changes)


def test_nothing_that_was_taken_away_comes_out_where_the_expected_does(tmp_path: Path) -> None:
    done = verdicts(tmp_path, *CASES)
    failed = [str(verdict) for verdict in done if not verdict.passed]
    assert not failed, "\n".join([*failed, table(done)])


def test_the_committed_cases_cover_content_and_boundary_on_every_surface() -> None:
    assert len(CASES) >= 60
    assert len({each.id for each in CASES}) == len(CASES)
    by_kind = {kind: Counter(each.surface for each in CASES if each.kind == kind) for kind in get_args(Kind)}
    for kind, surfaces in by_kind.items():
        assert all(surfaces[surface] >= 2 for surface in ("search", "injection", "mcp", "profile")), kind
    for kind in ("forgotten", "other project", "other home"):
        assert all(by_kind[kind][surface] for surface in ("list", "get", "mcp get", "why", "recall", "audit")), kind


# -- the runner fails where it must ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "surface", ["search", "injection", "mcp", "profile", "list", "get", "why", "recall", "context"]
)
def test_a_leak_fails(tmp_path: Path, surface: str) -> None:
    category = {"category": "preferences"} if surface == "profile" else {}
    remember = {name: memory.model_copy(update=category) for name, memory in (("old", OLD), ("kept", KEPT))}
    (verdict,) = verdicts(tmp_path, case(surface=surface, remember=remember, how="nothing"))
    assert not verdict.passed
    moments = ("at once",) if surface in WITHOUT_INDEX else ("at once", "later")
    assert verdict.leaks == [f"'port 5433' is there {moment}" for moment in moments]
    assert not verdict.vacuous


def test_a_case_whose_forbidden_text_could_never_be_found_fails(tmp_path: Path) -> None:
    unrelated = Stored(text="Violins are tuned in fifths.")
    (verdict,) = verdicts(
        tmp_path, case(surface="injection", remember={"old": unrelated, "kept": KEPT}, absent=("fifths",))
    )
    assert not verdict.passed
    assert verdict.vacuous == ["'fifths' could not be found before"]
    assert not verdict.leaks


def test_a_case_whose_expected_text_is_missing_fails(tmp_path: Path) -> None:
    unrelated = Stored(text="Violins are tuned in fifths.")
    (verdict,) = verdicts(
        tmp_path, case(surface="injection", remember={"old": OLD, "kept": unrelated}, present=("fifths",))
    )
    assert not verdict.passed
    assert "'fifths' is missing at once" in verdict.vacuous
    assert not verdict.leaks


def test_an_empty_result_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product that gives nothing out leaks nothing, and passes nothing."""
    monkeypatch.setattr(Within, "admits", lambda self, row: False)
    (verdict,) = verdicts(tmp_path, case())
    assert len(verdict.vacuous) == 3


def test_a_product_without_boundaries_fails_the_committed_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same(*_: object) -> SessionScope:
        return SessionScope(Scope("project:one-for-all"))

    monkeypatch.setattr(request, "session_scope", same)
    monkeypatch.setattr(hooks, "session_scope", same)
    chosen = [each for each in CASES if each.kind == "other project"]
    assert all(verdict.leaks for verdict in verdicts(tmp_path, *chosen[:6]))


@pytest.mark.parametrize(
    "changes",
    [
        {"absent": ()},
        {"present": ()},
        {"absent": ("staging",)},
        {"present": ("database",)},
        {"absent": ("host",), "query": "which host"},
        {"absent": ("not in any memory",)},
        {"absent": ("5433",)},
        {"present": ("not in any memory",)},
        {"query": "is it port 5433"},
        {"surface": "nowhere"},
        {"kind": "lost"},
    ],
)
def test_a_case_that_could_prove_nothing_is_no_case(changes: dict[str, Any]) -> None:
    case()
    with pytest.raises(ValidationError):
        case(**changes)
