"""The records are the fold of the journal: kept entry by entry or made again, they come out the same."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.conftest import AGENT, KEY, NOWHERE, PERSON, SHOP, SHOP_2, OpenJournal, records_of

from cems.core.journal import Draft, Journal
from cems.core.memories import AmbiguousId, Memories, NothingMatched, Refused, Statement, Unusable
from cems.core.memory import Memory, MemoryId
from cems.core.recall import lookup
from cems.core.records import Records
from cems.core.scope import USER
from cems.core.tombstones import is_tombstoned
from cems.core.undo import undo
from cems.core.value import value_key

TEXTS = ["use tabs", "Use TABS.", "deploy on Fridays", "数据库用三号端口", "the server is foo_bar"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["remember", "derive", "correct", "forget", "forget_text", "lift", "pin", "widen", "undo"]),
        st.sampled_from(TEXTS),
        st.integers(0, 5),
        st.sampled_from([PERSON, AGENT]),
        st.sampled_from([SHOP, SHOP_2, NOWHERE]),
    ),
    max_size=14,
)


def carry_out(memories: Memories, journal: Journal, steps: Any) -> None:
    for kind, text, number, author, scope in steps:
        ids = [row[0] for row in journal.connection.execute("SELECT id FROM records ORDER BY n")]
        chosen = ids[number % len(ids)] if ids else "m_0"
        try:
            match kind:
                case "remember":
                    memories.remember(Statement(text), scope, author)
                case "derive":
                    memories.derive(Statement(f"{text}, of {number}"), [*ids[-2:], chosen], "summary", scope, author)
                case "undo":
                    undo(memories, chosen, scope, author)
                case "correct":
                    memories.correct(chosen, {"content": text}, scope, author)
                case "forget":
                    memories.forget([chosen], scope, author)
                case "forget_text":
                    memories.forget_text(text, scope, author)
                case "lift":
                    memories.lift(text, scope, author)
                case "pin":
                    memories.pin(chosen, number % 2 == 0, scope, author)
                case "widen":
                    memories.widen(chosen, USER, scope, author)
        except (NothingMatched, AmbiguousId, Refused, Unusable):
            continue


@given(STEPS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_records_kept_entry_by_entry_equal_a_fresh_fold(tmp_path_factory: pytest.TempPathFactory, steps: Any) -> None:
    journal = Journal(tmp_path_factory.mktemp("fold") / "journal.db", Records(KEY))
    carry_out(Memories(journal, KEY, len), journal, steps)
    kept = records_of(journal.connection)
    journal.refold()
    assert records_of(journal.connection) == kept
    assert journal.verify() == []
    journal.close()


def test_a_row_names_the_entry_that_changed_it_last(memories: Memories, journal: Journal) -> None:
    one = memories.remember(Statement("one"), SHOP, PERSON).id
    memories.remember(Statement("two"), SHOP, PERSON)
    assert one
    memories.pin(one, True, SHOP, PERSON)
    assert [row["content"] for row in lookup.rows_after(journal.connection, 2, 10)] == ["one"]


def test_rows_that_one_entry_changed_are_handed_over_together(journal: Journal) -> None:
    def remembered(number: int) -> Draft:
        memory = Memory(
            id=MemoryId(f"m_{number:024x}"), content="the same", scope="user", recorded_at=datetime.now(UTC)
        )
        return Draft("remember", memory.id, {"memory": memory.model_dump(mode="json")})

    journal.append([remembered(number) for number in range(6)])
    key = value_key(KEY, "user", "the same")
    last = journal.append([Draft("forget", f"m_{0:024x}", {"value_key": key, "scope": "user"})])[0]
    assert last.device_seq == 7
    assert len(lookup.rows_after(journal.connection, 6, 2)) == 6
    assert len(lookup.rows_after(journal.connection, 0, 100)) == 6
    assert lookup.rows_after(journal.connection, 7, 100) == []


def test_a_row_that_says_what_is_forgotten_is_hidden_whatever_its_own_history(journal: Journal) -> None:
    # As an entry that another device sends would: its memory was never forgotten itself.
    key = value_key(KEY, "user", "Use tabs")
    journal.append([Draft("forget", "m_elsewhere", {"value_key": key, "scope": "user"})])
    memory = Memory(id=MemoryId("m_1"), content="use  TABS!", scope="user", recorded_at=datetime.now(UTC))
    journal.append([Draft("remember", "m_1", {"memory": memory.model_dump(mode="json")})])
    assert is_tombstoned(journal.connection, key)
    assert lookup.rows_by_id(journal.connection, ["m_1"])["m_1"]["state"] == "hidden"
    journal.append([Draft("lift", key, {"scope": "user"})])
    assert lookup.rows_by_id(journal.connection, ["m_1"])["m_1"]["state"] == "live"
    kept = records_of(journal.connection)
    journal.refold()
    assert records_of(journal.connection) == kept


def test_an_entry_that_cannot_be_read_hides_no_other_memory(
    open_journal: OpenJournal, caplog: pytest.LogCaptureFixture
) -> None:
    journal = open_journal()
    memories = Memories(journal, KEY, len)
    memories.remember(Statement("readable"), SHOP, PERSON)
    with caplog.at_level(logging.ERROR):
        journal.append([Draft("remember", "m_bad", {"memory": {"id": "m_bad", "content": "", "scope": "user"}})])
        journal.refold()
    assert "m_bad cannot be read" in caplog.text
    assert lookup.live_count(journal.connection, SHOP.readable) == 1


def test_the_count_of_a_term_goes_with_its_last_memory(memories: Memories, journal: Journal) -> None:
    kept = memories.remember(Statement("deploy the server"), SHOP, PERSON).id
    assert kept
    assert lookup.term_counts(journal.connection, ["deploy", "server", "none"], SHOP.readable) == {
        "deploy": 1,
        "server": 1,
    }
    memories.forget([kept], SHOP, PERSON)
    assert lookup.term_counts(journal.connection, ["deploy"], SHOP.readable) == {}
    assert lookup.live_count(journal.connection, SHOP.readable) == 0
    assert lookup.keyword_rows(journal.connection, ["deploy"], SHOP.readable, 10) == []


def test_words_are_found_in_the_scopes_only(memories: Memories, journal: Journal) -> None:
    memories.remember(Statement("deploy from here"), SHOP, PERSON)
    memories.remember(Statement("deploy from there"), SHOP_2, PERSON)
    found = lookup.keyword_rows(journal.connection, ["deploy"], SHOP.readable, 10)
    assert [row["content"] for row in found] == ["deploy from here"]


def test_twenty_thousand_memories_are_folded_again_in_reasonable_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db", Records(KEY))
    connection = journal.connection
    body = Memory(
        id=MemoryId("m_x"), content="the deploy server keeps its cache in memory and its tokens in a table of the project",
        scope="user", recorded_at=datetime.now(UTC),
    ).model_dump_json()  # fmt: skip
    # Written as the journal would, but in bulk: what is timed is the fold.
    connection.execute("BEGIN")
    many = range(1, 5_001)
    connection.executemany(
        "INSERT INTO chain VALUES (?,?,'remember',?,'2026-01-01T00:00:00.000Z/0000','d',?,'person','','',x'00',x'00')",
        [(n, f"op{n}", f"m_{n:024x}", n) for n in many],
    )
    connection.executemany(
        "INSERT INTO payloads VALUES (?, x'00', ?, NULL)",
        [(f"op{n}", f'{{"memory": {body.replace("m_x", f"m_{n:024x}").replace("the deploy", f"{n}")}}}') for n in many],
    )
    connection.execute("COMMIT")
    began = time.process_time()
    journal.refold()
    assert (time.process_time() - began) * 4 < 20
    assert lookup.live_count(connection, ["user"]) == 5_000
    journal.close()
