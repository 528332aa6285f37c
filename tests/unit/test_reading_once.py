"""Every event of every agent's sessions is told exactly once, however the reading is cut, killed, resumed, or the record is
written, copied, cut short or replaced meanwhile."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.recorded_sessions import AGENTS, FIXTURES, IN_FILES, PLACES, add, lay, reader

from cems.core.learn.transcript import Cursor, Event, SessionSource, Told, TranscriptUnreadable

FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LIMITS = st.lists(st.integers(1, 6_000), min_size=1, max_size=8)


@contextmanager
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


class Following:
    """Reads a source as the daemon would: the cursor and what was told are kept as text between readings."""

    def __init__(self, agent: str, source: SessionSource, limits: list[int], lost: list[bool] | None = None) -> None:
        self.agent, self.source, self.limits, self.lost = agent, source, limits, lost or [False]
        self.cursor, self.told, self.events, self.turn = Cursor().dump(), Told(), list[Event](), 0

    def read(self) -> None:
        """To the end of what is there. A reading that is lost was killed before anything of it was kept."""
        for _ in range(100_000):
            self.turn += 1
            limit = self.limits[self.turn % len(self.limits)]
            reading = reader(self.agent).read(self.source, Cursor.load(self.cursor), limit)
            if self.lost[self.turn % len(self.lost)] and self.turn % 2:
                continue
            self.cursor = reading.cursor.dump()
            self.events += self.told.new(reading.events)
            if not reading.more:
                return
        raise AssertionError("the reading does not end")


def said(events: list[Event]) -> list[tuple[Any, ...]]:
    return [(event.key, event.kind, event.text, event.tool, event.subject, event.ok, event.offset) for event in events]


def whole(agent: str, source: SessionSource) -> list[Event]:
    reading = reader(agent).read(source, Cursor(), 1 << 30)
    assert not reading.more
    return Told().new(reading.events)


@pytest.mark.parametrize("agent", AGENTS)
@given(limits=LIMITS, lost=st.lists(st.booleans(), max_size=5))
@FEW
def test_any_pieces_are_the_whole(agent: str, limits: list[int], lost: list[bool]) -> None:
    with home() as folder:
        for source in lay(agent, folder):
            following = Following(agent, source, limits, lost)
            following.read()
            assert said(following.events) == said(whole(agent, source))
            following.read()
            assert len(following.events) == len(whole(agent, source))


@pytest.mark.parametrize("agent", IN_FILES)
@given(limits=LIMITS, cuts=st.lists(st.integers(0, 250_000), max_size=8))
@FEW
def test_a_file_is_read_while_it_is_written(agent: str, limits: list[int], cuts: list[int]) -> None:
    with home() as folder:
        source = lay(agent, folder)[0]
        data, expected = source.path.read_bytes(), whole(agent, source)
        following = Following(agent, source, limits)
        source.path.write_bytes(b"")
        position = 0
        for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
            with source.path.open("ab") as file:
                file.write(data[position:cut])
            position = cut
            following.read()
        assert said(following.events) == said(expected)


@pytest.mark.parametrize("agent", IN_FILES)
@given(cut=st.integers(1, 250_000), kept=st.integers(0, 250_000))
@FEW
def test_a_file_that_is_cut_short_and_grows_again_tells_nothing_twice(agent: str, cut: int, kept: int) -> None:
    with home() as folder:
        source = lay(agent, folder)[0]
        data, expected = source.path.read_bytes(), whole(agent, source)
        following = Following(agent, source, [1000])
        source.path.write_bytes(data[: cut % (len(data) + 1)])
        following.read()
        source.path.write_bytes(data[: kept % (len(data) + 1)])
        following.read()
        source.path.write_bytes(data)
        following.read()
        assert {event.key for event in following.events} == {event.key for event in expected}
        assert len(following.events) == len(expected)


@pytest.mark.parametrize("agent", ["claude_code", "pi"])
def test_what_a_fork_copies_is_told_once(agent: str, tmp_path: Path) -> None:
    source = next(each for each in lay(agent, tmp_path) if not each.machine)
    told, data = Told(), source.path.read_bytes()
    assert len(told.new(reader(agent).read(source, Cursor()).events)) == len(whole(agent, source))
    fork = source.path.with_name("a0000000-0000-4000-8000-000000000000.jsonl")
    more = (
        data.splitlines()[-1 if agent == "pi" else 87]
        .replace(b'"uuid": "', b'"uuid": "f')
        .replace(b'"id": "', b'"id": "f')
    )
    fork.write_bytes((data + more + b"\n").replace(source.session.encode(), fork.stem.encode()))
    sources = {each.session: each for each in reader(agent).sessions(tmp_path, {})}
    new = told.new(reader(agent).read(sources[fork.stem], Cursor()).events)
    assert len(new) == 1
    assert new[0].session == fork.stem


def rows(agent: str) -> tuple[Path, str, dict[str, Any]]:
    (name, place), table = next(iter(PLACES[agent].items())), "messages" if agent == "goose" else "part"
    return Path(place), table, json.loads((FIXTURES / agent / "transcripts" / name).read_text("utf-8"))


@pytest.mark.parametrize("agent", ["goose", "opencode"])
@given(limits=LIMITS, steps=st.lists(st.integers(1, 4), max_size=6))
@FEW
def test_a_database_is_read_while_it_is_written(agent: str, limits: list[int], steps: list[int]) -> None:
    place, table, dump = rows(agent)
    with home() as folder:
        source = lay(agent, folder)[0]
        expected = whole(agent, source)
        following = Following(agent, source, limits)
        with closing(sqlite3.connect(folder / place, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"DELETE FROM {table}")  # noqa: S608
            left = list(dump[table])
            for step in [*steps, len(left)]:
                for row in left[:step]:
                    add(connection, table, row)
                left = left[step:]
                following.read()
        assert [each[:-1] for each in said(following.events)] == [each[:-1] for each in said(expected)]


@pytest.mark.parametrize("agent", ["goose", "opencode"])
def test_rows_that_are_deleted_and_numbers_that_come_again_lose_nothing(agent: str, tmp_path: Path) -> None:
    place, table, dump = rows(agent)
    source = lay(agent, tmp_path)[0]
    following = Following(agent, source, [1 << 20])
    following.read()
    before = len(following.events)
    number = "id" if agent == "goose" else "rowid"
    with closing(sqlite3.connect(tmp_path / place, isolation_level=None)) as connection:
        # The person goes back, and says something else: its row has the number of one that is gone.
        last = dump[table][-2] if agent == "opencode" else dump[table][-1]
        connection.execute(f"DELETE FROM {table} WHERE {number} > 4")  # noqa: S608
        if agent == "goose":
            connection.execute("DELETE FROM sqlite_sequence")
            row = {**last, "id": 7, "message_id": "msg_new", "content_json": '[{"type":"text","text":"another way"}]'}
        else:
            written = '{"type":"text","text":"another way","time":{"start":1,"end":2}}'
            row = {**last, "id": "prt_zz", "data": written}
        add(connection, table, row)
        following.read()
    assert [event.text for event in following.events[before:]] == ["another way"]


def test_a_part_of_opencode_is_read_once_it_is_done(tmp_path: Path) -> None:
    place, _, dump = rows("opencode")
    source = lay("opencode", tmp_path)[0]
    expected = said(whole("opencode", source))
    with closing(sqlite3.connect(tmp_path / place, isolation_level=None)) as connection:

        def write(where: str, name: str, data: dict[str, Any]) -> None:
            connection.execute(f"UPDATE {where} SET data = ? WHERE id = ?", (json.dumps(data), name))  # noqa: S608

        message, part = dump["message"][-1], next(row for row in dump["part"] if "OK-FROM-FAKE" in row["data"])
        done = json.loads(message["data"]), json.loads(part["data"])
        del done[0]["time"]["completed"]
        write("message", message["id"], done[0])
        write("part", part["id"], {"type": "text", "text": "OK-FR", "time": {"start": 1}})
        following = Following("opencode", source, [1 << 20])
        following.read()
        assert said(following.events) == expected[:-1]
        write("part", part["id"], done[1])
        following.read()
        assert said(following.events) == expected


def test_a_part_of_opencode_that_was_never_finished_does_not_stop_the_reading(tmp_path: Path) -> None:
    place, _, dump = rows("opencode")
    source = lay("opencode", tmp_path)[0]
    part = next(row for row in dump["part"] if "hello-oc" in row["data"])
    with closing(sqlite3.connect(tmp_path / place, isolation_level=None)) as connection:
        running = {**json.loads(part["data"]), "state": {"status": "running", "input": {"command": "echo hello-oc"}}}
        connection.execute("UPDATE part SET data = ? WHERE id = ?", (json.dumps(running), part["id"]))
        connection.execute(
            "UPDATE message SET data = json_remove(data, '$.time.completed') WHERE id = ?", (part["message_id"],)
        )
    kinds = [(event.kind, event.tool) for event in whole("opencode", source)]
    assert kinds[:3] == [("person", ""), ("tool_call", "Bash"), ("tool_call", "mem_recall")]


@pytest.mark.parametrize("agent", ["goose", "opencode"])
def test_a_database_is_never_written_and_a_broken_one_is_an_error(agent: str, tmp_path: Path) -> None:
    place, table, _ = rows(agent)
    source = lay(agent, tmp_path)[0]
    path = tmp_path / place
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    before = path.read_bytes()
    assert whole(agent, source)
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"DROP TABLE {table}")
    with pytest.raises(TranscriptUnreadable, match="no such table"):
        reader(agent).read(source, Cursor())
    path.write_bytes(b"no database, whatever its name says" * 100)
    with pytest.raises(TranscriptUnreadable):
        reader(agent).read(source, Cursor())
    assert list(reader(agent).sessions(tmp_path, {})) == []
    path.unlink()
    with pytest.raises(TranscriptUnreadable, match="no such file"):
        reader(agent).read(source, Cursor())
    assert list(reader(agent).sessions(tmp_path, {})) == []


@pytest.mark.parametrize("agent", IN_FILES)
def test_records_of_any_shape_are_survived(agent: str, tmp_path: Path) -> None:
    source = lay(agent, tmp_path)[0]
    recorded = [json.loads(line) for line in source.path.read_text("utf-8").splitlines()]
    odd: list[Any] = [
        None,
        True,
        7,
        -1.5,
        "text",
        "\ud83d",
        [],
        ["a", None],
        {},
        {"type": 3},
        [[{}]],
        {"text": {"a": 1}},
    ]

    def bent(value: Any, by: Any) -> Iterator[Any]:
        """The value with one thing in it, however deep, in another's place."""
        yield by
        if isinstance(value, dict):
            for key, each in value.items():
                for changed in bent(each, by):
                    yield {**value, key: changed}
        elif isinstance(value, list):
            for number, each in enumerate(value):
                for changed in bent(each, by):
                    yield [*value[:number], changed, *value[number + 1 :]]

    shapes: dict[str, Any] = {}
    for record in recorded:
        message, payload = record.get("message"), record.get("payload")
        inner = payload.get("item") if isinstance(payload, dict) else None
        shapes[f"{record.get('type')} {inner.get('type') if isinstance(inner, dict) else ''} {type(message)}"] = record
    small = [record for record in shapes.values() if len(json.dumps(record)) < 3_000]
    assert small
    lines = [json.dumps(each) for record in small for by in odd for each in bent(record, by) if isinstance(each, dict)]
    source.path.write_text("\n".join(lines) + "\n", "utf-8")
    reading = reader(agent).read(source, Cursor(), 1 << 30)
    assert reading.cursor.offset == source.path.stat().st_size
    for event in reading.events:
        event.text.encode()
        event.subject.encode()
    assert list(reader(agent).sessions(tmp_path, {})) is not None
    shutil.rmtree(tmp_path)
