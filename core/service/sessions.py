"""The agents' sessions the daemon knows: which memories each was given, when each spoke last. Light.

Kept in memory and written to `state.db` in batches: usage is no change of memory, so it is not in the journal, and
losing its last second costs a repeated line at worst.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cems.core.recall.feedback import Marks, of_all, of_memory
from cems.core.rules.agreement import Agreement
from cems.core.service.heard import SCHEMA as HEARD_SCHEMA
from cems.core.service.heard import Heard, Sign

logger = logging.getLogger("cems.sessions")

_SCHEMA = (
    """
    CREATE TABLE sessions (session TEXT PRIMARY KEY, agent TEXT, scope TEXT, started REAL, seen REAL, ended INTEGER);
    CREATE TABLE shown (session TEXT, memory TEXT, at REAL, how TEXT, PRIMARY KEY (session, memory));
    CREATE TABLE usage (memory TEXT PRIMARY KEY, shown INTEGER NOT NULL, last_shown REAL, useful INTEGER NOT NULL, noise INTEGER NOT NULL);
    """,
    """
    CREATE TABLE review_skips (memory TEXT PRIMARY KEY, day TEXT NOT NULL);
    CREATE TABLE told (what TEXT PRIMARY KEY, day TEXT NOT NULL);
    """,
    HEARD_SCHEMA,
)
_KEEP_SECONDS = 30 * 86_400
_ALIVE_SECONDS = 3_600
_SAME_MOMENT = 2.0


class Waiting(NamedTuple):
    """Context that the agent would have dropped where it was made: it goes with the session's next tool."""

    text: str
    memories: tuple[str, ...]
    how: str


@dataclass(slots=True)
class Session:
    """One session of one agent. `shown` maps a memory's id to how it was given (`profile` or `prompt`).

    What was last said and asked, and what waits to be given, is never written to disk: it is the person's text.
    """

    id: str
    agent: str = ""
    scope: str = ""
    started: float = 0.0
    seen: float = 0.0
    ended: bool = False
    shown: dict[str, str] = field(default_factory=dict)
    last_message: str = ""
    last_turn: str = ""
    last_prompt: str = ""
    last_turn_at: float = 0.0
    last_start: str = ""
    last_start_at: float = 0.0
    waiting: list[Waiting] = field(default_factory=list)
    agreement: Agreement = field(default_factory=Agreement)

    def repeats_prompt(self, turn: str, prompt: str) -> bool:
        """Whether this prompt has been told already: a second file of hooks, or another agent's, names the same hook.
        Where the agent gives its turns no name, an equal prompt within moments is the same one."""
        now = time.monotonic()
        unnamed = not (turn and self.last_turn)
        moment = unnamed and prompt == self.last_prompt and now - self.last_turn_at < _SAME_MOMENT
        repeats = moment or (bool(turn) and turn == self.last_turn)
        self.last_turn, self.last_prompt, self.last_turn_at = turn, prompt, now
        return repeats

    def spoken_for(self, how: str) -> set[str]:
        """The memories that wait to be given in another way than `how`."""
        return {memory for each in self.waiting if each.how != how for memory in each.memories}

    def start_over(self) -> None:
        """The session has ended: what is told from now on, were it the same within moments, is told anew."""
        self.last_start = self.last_turn = self.last_prompt = ""

    def repeats_start(self, source: str, cwd: str) -> bool:
        """Whether this start has been told already, as `repeats_prompt`."""
        now, name = time.monotonic(), f"{source} {cwd}"
        repeats = name == self.last_start and now - self.last_start_at < _SAME_MOMENT
        self.last_start, self.last_start_at = name, now
        return repeats


class Sessions:
    """All sessions of one CEMS_HOME. Thread safe."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._connection = _open(path)
        self._known: dict[str, Session] = {}
        self._dirty: set[str] = set()
        self._emptied: set[str] = set()
        self._usage: dict[str, tuple[int, int, int]] = {}
        self._heard = Heard(self._connection)
        self._all_marks = Marks(
            *self._connection.execute("SELECT IFNULL(SUM(useful), 0), IFNULL(SUM(noise), 0) FROM usage").fetchone()
        )

    def get(self, session_id: str) -> Session:
        """The session, from memory, from the file, or new."""
        with self._lock:
            session = self._known.get(session_id)
            if session is None:
                session = self._known[session_id] = self._load(session_id)
            return session

    def touch(self, session: Session, *, agent: str = "", scope: str = "", ended: bool | None = None) -> None:
        """Note that the session was heard of now."""
        with self._lock:
            session.seen = time.time()
            session.started = session.started or session.seen
            session.agent = agent or session.agent
            session.scope = scope or session.scope
            session.ended = session.ended if ended is None else ended
            self._dirty.add(session.id)

    def give(self, session: Session, memories: Iterable[str], how: str) -> None:
        """Note that these memories were put in front of the session's model; what it was given before counts once."""
        with self._lock:
            for memory in memories:
                if memory not in session.shown:
                    session.shown[memory] = how
                    self._count(memory, shown=1)
                    self._heard.note(session.agent, "given", time.time())
            self._dirty.add(session.id)

    def hear(self, agent: str, sign: Sign) -> None:
        """Note that an agent was heard of now."""
        with self._lock:
            self._heard.note(agent, sign, time.time())

    def heard(self) -> dict[str, dict[str, Any]]:
        """Agent -> when its last hook, tool call and injection were, as `cems status` shows it."""
        with self._lock:
            return self._heard.as_json()

    def take_back(self, session: Session, *, given_only: bool = False, but: str = "") -> None:
        """The model's context was compacted or cleared: what it had been given is gone from it. `given_only`: in the
        middle of a turn, which still counts as told, and what waits for its next tool still goes there. `but` is how what
        is not gone was given."""
        with self._lock:
            session.shown = {memory: how for memory, how in session.shown.items() if how == but}
            if not given_only:
                session.waiting.clear()
                session.last_turn = session.last_prompt = ""
            self._emptied.add(session.id)
            self._dirty.add(session.id)

    def mark(self, memory: str, *, useful: bool) -> None:
        """A person's or an agent's word on whether a memory helped."""
        with self._lock:
            self._count(memory, useful=int(useful), noise=int(not useful))
            self._all_marks = _sum(self._all_marks, Marks(int(useful), int(not useful)))

    def feedback(self, memories: Sequence[str]) -> dict[str, float]:
        """How many log-odds the marks move each of these memories; nothing when the marks cannot be read."""
        with self._lock:
            try:
                marks = self._marks(memories)
            except sqlite3.Error as error:
                logger.error("the marks cannot be read (%s)", type(error).__name__)
                return {}
            everywhere = of_all(self._all_marks)
            return {memory: of_memory(marks[memory]) + everywhere for memory in memories}

    def skip(self, memory: str) -> None:
        """The person wants to decide about this memory tomorrow."""
        with self._lock:
            self._connection.execute("DELETE FROM review_skips WHERE day < ?", (_today(),))
            self._connection.execute("INSERT OR REPLACE INTO review_skips VALUES (?, ?)", (memory, _today()))

    def skipped(self) -> set[str]:
        """The memories that were skipped today."""
        with self._lock:
            rows = self._connection.execute("SELECT memory FROM review_skips WHERE day = ?", (_today(),))
            return {row[0] for row in rows}

    def first_today(self, what: str) -> bool:
        """Whether this is told for the first time on this local day; noted at once, so that it is told once."""
        with self._lock:
            told = self._connection.execute(
                "INSERT INTO told VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE SET day = ?2 WHERE day != ?2",
                (what, _today()),
            )
            return told.rowcount > 0

    def alive(self) -> int:
        """Sessions that have not ended and spoke within the last hour."""
        with self._lock:
            since = time.time() - _ALIVE_SECONDS
            return sum(1 for session in self._known.values() if not session.ended and session.seen > since)

    def flush(self) -> None:
        """Write what changed. Raises sqlite3.Error, and then keeps it for the next time."""
        with self._lock:
            if not (self._dirty or self._usage or self._heard.unwritten):
                return
            now = time.time()
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for session in (self._known[each] for each in self._dirty):
                    self._write(session, now)
                self._write_usage(now)
                self._heard.write(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._dirty.clear()
            self._emptied.clear()
            self._usage.clear()
            self._heard.written()

    def prune(self) -> None:
        """Forget sessions not heard of for a month."""
        with self._lock:
            before = time.time() - _KEEP_SECONDS
            for session in [each for each in self._known.values() if each.seen < before and each.id not in self._dirty]:
                del self._known[session.id]
            self._connection.execute(
                "DELETE FROM shown WHERE session IN (SELECT session FROM sessions WHERE seen < ?)", (before,)
            )
            self._connection.execute("DELETE FROM sessions WHERE seen < ?", (before,))

    def compact(self) -> None:
        """Leave nothing of deleted rows in the file. Raises sqlite3.Error."""
        self.flush()
        with self._lock:
            self._connection.execute("PRAGMA temp_store = MEMORY")
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        try:
            self.flush()
        except sqlite3.Error as error:
            logger.error("the last of the session table could not be written (%s)", type(error).__name__)
        self._connection.close()

    def _write(self, session: Session, now: float) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO sessions VALUES (?,?,?,?,?,?)",
            (session.id, session.agent, session.scope, session.started, session.seen, int(session.ended)),
        )
        if session.id in self._emptied:
            self._connection.execute("DELETE FROM shown WHERE session = ?", (session.id,))
        self._connection.executemany(
            "INSERT OR IGNORE INTO shown VALUES (?,?,?,?)",
            [(session.id, memory, now, how) for memory, how in session.shown.items()],
        )

    def _write_usage(self, now: float) -> None:
        self._connection.executemany(
            "INSERT INTO usage VALUES (?,?,?,?,?) ON CONFLICT (memory) DO UPDATE SET shown = shown + excluded.shown, "
            "last_shown = MAX(last_shown, excluded.last_shown), useful = useful + excluded.useful, noise = noise + excluded.noise",
            [
                (memory, shown, now if shown else 0, useful, noise)
                for memory, (shown, useful, noise) in self._usage.items()
            ],
        )

    def _count(self, memory: str, shown: int = 0, useful: int = 0, noise: int = 0) -> None:
        old = self._usage.get(memory, (0, 0, 0))
        self._usage[memory] = (old[0] + shown, old[1] + useful, old[2] + noise)

    def _marks(self, memories: Sequence[str]) -> dict[str, Marks]:
        places = ",".join("?" * len(memories))
        stored = self._connection.execute(
            f"SELECT memory, useful, noise FROM usage WHERE memory IN ({places})",  # noqa: S608
            memories,
        )
        written = {memory: Marks(useful, noise) for memory, useful, noise in stored}
        waiting = {memory: Marks(*self._usage.get(memory, (0, 0, 0))[1:]) for memory in memories}
        return {memory: _sum(written.get(memory, Marks()), waiting[memory]) for memory in memories}

    def _load(self, session_id: str) -> Session:
        row = self._connection.execute(
            "SELECT session, agent, scope, started, seen, ended FROM sessions WHERE session = ?", (session_id,)
        ).fetchone()
        if row is None:
            return Session(session_id)
        shown = dict(
            self._connection.execute("SELECT memory, how FROM shown WHERE session = ?", (session_id,)).fetchall()
        )
        known, agent, scope, started, seen, ended = row
        return Session(known, agent, scope, started, seen, bool(ended), shown)


def _sum(one: Marks, other: Marks) -> Marks:
    return Marks(one.useful + other.useful, one.noise + other.noise)


def _today() -> str:
    return time.strftime("%Y-%m-%d")


def _open(path: Path) -> sqlite3.Connection:
    """The file, made (0600) where there is none; a damaged one is set aside, since no memory is in it."""
    try:
        return _connect(path)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        logger.error("%s is damaged: set aside, sessions start anew", path.name)
        aside = f".damaged-{int(time.time())}"
        for part in (path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm"))):
            with contextlib.suppress(FileNotFoundError):
                part.rename(part.with_name(part.name + aside))
        return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        found = int(connection.execute("PRAGMA user_version").fetchone()[0])
        for version in range(found, len(_SCHEMA)):
            connection.executescript(f"BEGIN;{_SCHEMA[version]}PRAGMA user_version={version + 1};COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection
