"""What each session was given: remembered across a restart, counted once, and no person's text on disk."""

from __future__ import annotations

import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cems.core.service import sessions as sessions_module
from cems.core.service.sessions import Sessions


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def sessions(path: Path) -> Iterator[Sessions]:
    made = Sessions(path)
    yield made
    made.close()


def reopened(sessions: Sessions, path: Path) -> Sessions:
    sessions.flush()
    return Sessions(path)


def usage(path: Path) -> dict[str, tuple[int, int, int]]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT memory, shown, useful, noise FROM usage").fetchall()
    return {memory: (shown, useful, noise) for memory, shown, useful, noise in rows}


def test_what_was_given_survives_a_restart(sessions: Sessions, path: Path) -> None:
    session = sessions.get("s1")
    sessions.touch(session, agent="claude-code", scope="project:x")
    sessions.give(session, ["m_1"], "profile")
    sessions.give(session, ["m_1", "m_2"], "prompt")
    again = reopened(sessions, path).get("s1")
    assert again.shown == {"m_1": "profile", "m_2": "prompt"}
    assert (again.agent, again.scope, again.ended) == ("claude-code", "project:x", False)


def test_one_sessions_memories_are_not_anothers(sessions: Sessions) -> None:
    sessions.give(sessions.get("s1"), ["m_1"], "prompt")
    assert sessions.get("s2").shown == {}


@pytest.mark.parametrize("flushed", [True, False])
def test_what_was_taken_back_stays_so_after_a_restart(sessions: Sessions, path: Path, flushed: bool) -> None:
    session = sessions.get("s1")
    sessions.give(session, ["m_1", "m_2"], "prompt")
    if flushed:
        sessions.flush()
    sessions.take_back(session)
    sessions.give(session, ["m_2"], "profile")
    assert reopened(sessions, path).get("s1").shown == {"m_2": "profile"}


def test_a_memory_counts_once_a_session_and_feedback_adds_up(sessions: Sessions, path: Path) -> None:
    for name in ("s1", "s1", "s2"):
        sessions.give(sessions.get(name), ["m_1"], "prompt")
        sessions.flush()
    sessions.mark("m_1", useful=True)
    sessions.mark("m_1", useful=False)
    sessions.mark("m_2", useful=False)
    sessions.flush()
    assert usage(path) == {"m_1": (2, 1, 1), "m_2": (0, 0, 1)}


def test_a_session_is_alive_until_it_ends_or_is_silent_for_an_hour(sessions: Sessions) -> None:
    for name in ("s1", "s2", "s3"):
        sessions.touch(sessions.get(name))
    sessions.touch(sessions.get("s2"), ended=True)
    sessions.get("s3").seen -= 3_601
    assert sessions.alive() == 1
    sessions.touch(sessions.get("s2"), ended=False)
    assert sessions.alive() == 2


def test_sessions_of_more_than_a_month_ago_are_forgotten(sessions: Sessions, path: Path) -> None:
    for name, age in (("old", 31 * 86_400), ("new", 60)):
        session = sessions.get(name)
        sessions.touch(session)
        session.seen -= age
        sessions.give(session, ["m_1"], "prompt")
    sessions.flush()
    sessions.prune()
    assert sessions.get("old").shown == {}
    assert sessions.get("new").shown == {"m_1": "prompt"}
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT session FROM shown").fetchall() == [("new",)]


def test_no_text_of_a_person_or_a_model_is_written(sessions: Sessions, path: Path) -> None:
    session = sessions.get("s1")
    sessions.touch(session, agent="claude-code")
    session.last_message = "the password is hunter2"
    sessions.flush()
    assert not any(b"hunter2" in each.read_bytes() for each in path.parent.iterdir())


def test_only_the_owner_can_read_the_file(sessions: Sessions, path: Path) -> None:
    sessions.mark("m_1", useful=True)
    sessions.flush()
    for each in path.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600


def test_a_failed_write_is_kept_for_the_next_time(sessions: Sessions, path: Path) -> None:
    sessions.give(sessions.get("s1"), ["m_1"], "prompt")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("ALTER TABLE usage RENAME TO elsewhere")
    with pytest.raises(sqlite3.OperationalError):
        sessions.flush()
    other.execute("ALTER TABLE elsewhere RENAME TO usage")
    sessions.flush()
    assert usage(path) == {"m_1": (1, 0, 0)}


def test_a_damaged_file_is_set_aside(path: Path) -> None:
    path.write_bytes(b"this is no database at all" * 400)
    sessions = Sessions(path)
    sessions.give(sessions.get("s1"), ["m_1"], "prompt")
    sessions.close()
    assert Sessions(path).get("s1").shown == {"m_1": "prompt"}
    assert [each for each in path.parent.iterdir() if ".damaged-" in each.name]


def test_a_file_of_this_version_is_opened_as_it_is(sessions: Sessions, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(sessions_module._SCHEMA),)


def test_threads_do_not_lose_each_others_counts(sessions: Sessions, path: Path) -> None:
    def work(number: int) -> None:
        for i in range(50):
            sessions.give(sessions.get(f"s{number}-{i}"), ["m_1"], "prompt")
            if i % 10 == 0:
                sessions.flush()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sessions.flush()
    assert usage(path)["m_1"] == (200, 0, 0)


NAMES = st.sampled_from(["s1", "s2"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("give"), NAMES, st.sampled_from(["m_1", "m_2", "m_3"])),
        st.tuples(st.just("take"), NAMES, st.just("")),
        st.tuples(st.just("flush"), NAMES, st.just("")),
        st.tuples(st.just("restart"), NAMES, st.just("")),
    ),
    max_size=25,
)


@settings(max_examples=30)
@given(STEPS)
def test_in_any_order_of_events_a_session_has_what_it_was_given_since_it_was_emptied(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]]
) -> None:
    path = tmp_path_factory.mktemp("sessions") / "state.db"
    sessions = Sessions(path)
    expected: dict[str, set[str]] = {"s1": set(), "s2": set()}
    for step, name, memory in steps:
        session = sessions.get(name)
        match step:
            case "give":
                sessions.give(session, [memory], "prompt")
                expected[name].add(memory)
            case "take":
                sessions.take_back(session)
                expected[name].clear()
            case "flush":
                sessions.flush()
            case "restart":
                sessions.close()
                sessions = Sessions(path)
        assert {each: set(sessions.get(each).shown) for each in expected} == expected
    sessions.close()


def test_a_session_heard_of_now_was_started_once(sessions: Sessions) -> None:
    session = sessions.get("s1")
    sessions.touch(session)
    began = session.started
    time.sleep(0.01)
    sessions.touch(session)
    assert session.started == began < session.seen
