"""The same operations give the same memory, in whatever order they arrive."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cems.core.fold import Operation, fold
from cems.core.memory import Memory, MemoryId

BODY = Memory(
    id=MemoryId("m_1"), content="Use tabs.", scope="user", recorded_at=datetime(2026, 1, 1, tzinfo=UTC)
).model_dump(mode="json")
BODIES: dict[str, list[dict[str, Any]]] = {
    "remember": [{"memory": BODY}],
    "close": [{"by": "m_2"}, {"by": "m_3"}, {}],
    "reopen": [{}],
    "forget": [{"value_key": "k"}],
    "unforget": [{}],
    "trust": [{"trust": each} for each in ("candidate", "trusted", "disputed", "rejected")],
    "pin": [{"pinned": True}, {"pinned": False}],
    "widen": [{"scope": "shared"}, {"scope": "user"}],
    "archive": [{}],
    "restore": [{}],
    "something newer": [{"x": 1}],
}


def operation(
    kind: str, clock: int, body: dict[str, Any] | None = None, *, actor: str = "person", device: str = "d1"
) -> Operation:
    stamp = f"2026-01-01T00:00:{clock:02d}.000Z/0000"
    return Operation(
        f"{device}-{clock}-{kind}", kind, "m_1", stamp, device, clock, actor, "", "", body or BODIES[kind][0]
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """What several devices and actors did, at instants that may coincide."""
    made = [operation("remember", 0)]
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(sorted(BODIES)))
        device = draw(st.sampled_from(["d1", "d2"]))
        stamp = f"2026-01-01T00:00:{draw(st.integers(1, 4)):02d}.000Z/0000"
        actor = draw(st.sampled_from(["person", "agent", "derived"]))
        body = draw(st.sampled_from(BODIES[kind]))
        made.append(Operation(f"op{number}", kind, "m_1", stamp, device, number + 1, actor, "", "", body))
    return made


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(history: list[Operation], random: Any) -> None:
    shuffled = list(history)
    random.shuffle(shuffled)
    assert fold(shuffled) == fold(history)


@given(histories())
def test_receiving_an_operation_twice_changes_nothing(history: list[Operation]) -> None:
    assert fold(history + history) == fold(history)


@given(histories())
def test_what_was_forgotten_stays_hidden_whatever_else_happens(history: list[Operation]) -> None:
    kept = [each for each in history if each.kind != "unforget" or each.actor != "person"]
    folded = fold([*kept, operation("forget", 0)])
    assert folded is not None
    assert folded.state == "hidden"


def test_a_person_takes_a_forgetting_back() -> None:
    folded = fold([operation("remember", 0), operation("forget", 1), operation("unforget", 2)])
    assert folded is not None
    assert folded.state == "live"


def test_without_its_content_there_is_no_memory() -> None:
    assert fold([]) is None
    assert fold([operation("close", 1), operation("pin", 2)]) is None
    erased = Operation("op", "remember", "m_1", "2026-01-01T00:00:00.000Z/0000", "d1", 1, "person", "", "", {})
    assert fold([erased]) is None


def test_a_correction_closes_at_its_own_instant_and_keeps_the_content() -> None:
    folded = fold([operation("remember", 0), operation("close", 5, {"by": "m_2"})])
    assert folded is not None
    assert folded.memory.content == "Use tabs."
    assert folded.memory.expired_at == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert (folded.state, folded.closed_by) == ("closed", "m_2")


def test_of_two_corrections_the_first_stands() -> None:
    folded = fold(
        [operation("remember", 0), operation("close", 5, {"by": "m_3"}), operation("close", 3, {"by": "m_2"})]
    )
    assert folded is not None
    assert folded.closed_by == "m_2"


def test_a_memory_can_be_closed_reopened_and_closed_again() -> None:
    history = [operation("remember", 0), operation("close", 1), operation("reopen", 2)]
    folded = fold(history)
    assert folded is not None
    assert (folded.state, folded.closed_by) == ("live", "")
    folded = fold([*history, operation("close", 3, {"by": "m_9"})])
    assert folded is not None
    assert (folded.state, folded.closed_by) == ("closed", "m_9")


def test_at_one_instant_a_persons_word_wins_over_a_machines() -> None:
    person = operation("trust", 4, {"trust": "rejected"}, device="d1")
    machine = operation("trust", 4, {"trust": "trusted"}, actor="agent", device="d2")
    for pair in ([person, machine], [machine, person]):
        folded = fold([operation("remember", 0), *pair])
        assert folded is not None
        assert folded.memory.trust == "rejected"


def test_archiving_takes_out_of_recall_and_restoring_brings_back() -> None:
    folded = fold([operation("remember", 0), operation("archive", 1)])
    assert folded is not None
    assert folded.state == "archived"
    folded = fold([operation("remember", 0), operation("archive", 1), operation("restore", 2)])
    assert folded is not None
    assert folded.state == "live"
