"""What a memory is: its categories in one spelling, its times in UTC and in order, its id telling nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cems.core.memory import CATEGORIES, Memory, MemoryId, category_name, format_time, memory_id, parse_time


@pytest.fixture
def nine_hours_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "XXX-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("written", "category"),
    [
        ("Preference", "preferences"), (" gate_rule ", "gate-rules"), ("Lesson", "learnings"), ("", "general"), ("!!!", "general"),
        ("My Own Thing", "my-own-thing"), ("决定", "决定"), ("Größe", "größe"), ("a" * 39 + " b", "a" * 39), *((c, c) for c in CATEGORIES),
    ],
)  # fmt: skip
def test_a_category_has_one_spelling(written: str, category: str) -> None:
    assert category_name(written) == category


@given(st.text())
def test_a_categorys_spelling_is_final(text: str) -> None:
    assert category_name(category_name(text)) == category_name(text)
    assert 0 < len(category_name(text)) <= 40


@pytest.mark.usefixtures("nine_hours_east")
@pytest.mark.parametrize(
    ("written", "instant"),
    [
        ("2026-01-31", "2026-01-30T15:00:00.000Z"),
        ("2026-01-31T23:30", "2026-01-31T14:30:00.000Z"),
        ("2026-01-31T23:30:00+09:00", "2026-01-31T14:30:00.000Z"),
        ("2026-01-31T23:30:00Z", "2026-01-31T23:30:00.000Z"),
        (" 2026-01-31T00:00:00.123456-02:00 ", "2026-01-31T02:00:00.123Z"),
    ],
)
def test_a_time_without_an_offset_is_the_persons_and_an_offset_is_kept_to(written: str, instant: str) -> None:
    assert format_time(parse_time(written)) == instant


@pytest.mark.parametrize(
    "written", ["", "soon", "2026-13-01", "2026-02-30", "10:30", "2026", "٢٠٢٦-٠١-٠١", "2026-01-01T99:00"]
)
def test_what_is_no_date_is_named(written: str) -> None:
    with pytest.raises(ValueError, match="is not a date; write 2026-01-31"):
        parse_time(written)


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_a_value_error(text: str) -> None:
    try:
        parsed = parse_time(text)
    except ValueError:
        return
    assert parsed.utcoffset() is not None


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_times_as_text_sort_as_the_instants_do(one: datetime, other: datetime) -> None:
    first, second = format_time(one), format_time(other)
    assert first is not None
    assert second is not None
    if first != second:
        assert (first < second) == (one < other)


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_what_is_valid_now_is_valid_when_it_is_read_back(one: datetime, other: datetime) -> None:
    try:
        memory = Memory(
            id=MemoryId("m_1"),
            content="x",
            scope="user",
            recorded_at=one,
            valid_from=one,
            valid_to=other,
            expired_at=other,
        )
    except ValidationError:
        return
    assert Memory.model_validate(memory.model_dump(mode="json")) == memory
    assert Memory.model_validate_json(memory.model_dump_json()) == memory


def test_an_id_tells_nothing_without_its_salt_and_everything_counts() -> None:
    record = {"content": "a", "scope": "user", "category": "general", "event": "e"}
    known = memory_id(b"salt", **record)
    assert known.startswith("m_")
    assert len(known) == 26
    assert memory_id(b"other", **record) != known
    for name in record:
        assert memory_id(b"salt", **(record | {name: "b"})) != known
    assert memory_id(b"salt", **record) == known


def test_a_memory_is_never_assigned_to() -> None:
    memory = Memory(id=MemoryId("m_1"), content="x", scope="user", recorded_at=datetime.now(UTC))
    with pytest.raises(ValidationError, match="frozen"):
        memory.content = "y"  # type: ignore[misc]
