"""The journal: every change ever made, in one SQLite file, durable when `append` returns. The truth.

Each entry's payload is committed to by a salted digest, and the entries form a hash chain over those commitments.
The fold of the entries (`records.py`) is kept beside them, in the same transaction.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from cems.core.fold import Operation
from cems.core.journal_schema import JournalTooNew, migrate
from cems.core.memory import format_time, parse_time

_MOST_AT_ONE_INSTANT = 0xFFFF
_ONE_CHANGE = timedelta(seconds=2)
_GENESIS = b"\0" * 32
_DAMAGE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_COLUMNS = "op_id, kind, entity, clock, device, device_seq, actor, agent, session"


@dataclass(frozen=True, slots=True)
class Draft:
    """An operation before it has its place in the journal. `salt` is set where the entity's id depends on it."""

    kind: str
    entity: str
    body: dict[str, Any]
    actor: str = "person"
    agent: str = ""
    session: str = ""
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(16))


class Projection(Protocol):
    """What is kept beside the chain and follows each operation in the same transaction."""

    def prepare(self, connection: sqlite3.Connection) -> None: ...

    def rebuild(self, connection: sqlite3.Connection) -> None: ...

    def apply(self, connection: sqlite3.Connection, seq: int, operation: Operation) -> None: ...


class Witness(Protocol):
    """Keeps the last entry's place and digest apart from the journal. Never raises: the entries are written."""

    def committed(self, connection: sqlite3.Connection, before: tuple[int, bytes], head: tuple[int, bytes]) -> None: ...


class JournalDamaged(Exception):
    """SQLite cannot read the journal, or it lacks what a journal has."""


class JournalUnusable(Exception):
    """The journal may be sound, but cannot be opened now: another process holds it, the disk is full, no permission."""


@dataclass(frozen=True, slots=True)
class ChainFault:
    """One entry that does not fit the chain."""

    seq: int
    op_id: str
    problem: str


class Journal:
    """One open journal. Only one process may write it (the daemon); its writer is one thread."""

    def __init__(self, path: Path, projection: Projection, witness: Witness | None = None) -> None:
        """Open or create `path` (0600), migrate it, and bring the projection up to date.

        Raises JournalTooNew, JournalDamaged, JournalUnusable.
        """
        self.path = path
        self._projection = projection
        self._witness = witness
        self._asked_now = ""
        connection: sqlite3.Connection | None = None
        try:
            connection = self._connection = connect(path, write=True)
            self.migrated_from = migrate(connection)
            self.device = self._device()
            projection.prepare(connection)
        except (sqlite3.Error, OSError, JournalTooNew) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, JournalTooNew):
                raise
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE:
                raise JournalDamaged(f"{path} cannot be read ({error}); restore it from a backup") from error
            raise JournalUnusable(f"{path} cannot be opened ({error}); free it or the disk and try again") from error

    def close(self) -> None:
        self._connection.close()

    @property
    def connection(self) -> sqlite3.Connection:
        """The writer's connection; for the writer's thread only."""
        return self._connection

    def append(self, drafts: Sequence[Draft]) -> list[Operation]:
        """Write the drafts as one durable transaction, all or none, at one instant; returns them with their places."""
        connection = self._connection
        operations: list[Operation] = []
        connection.execute("BEGIN IMMEDIATE")
        try:
            seq, head, clock = self._head()
            before = (seq, head)
            device_seq = self._next_device_seq()
            clock = self._instant_after(clock)
            for draft in drafts:
                seq += 1
                operation = Operation(
                    op_id=secrets.token_hex(16), kind=draft.kind, entity=draft.entity, clock=clock, device=self.device,
                    device_seq=device_seq, actor=draft.actor, agent=draft.agent, session=draft.session, body=draft.body,
                )  # fmt: skip
                device_seq, clock = device_seq + 1, _count_on(clock)
                body = json.dumps(draft.body, ensure_ascii=True, sort_keys=True)
                commitment = hashlib.sha256(draft.salt + body.encode()).digest()
                head = _link(head, seq, operation, commitment)
                connection.execute(
                    f"INSERT INTO chain (seq, {_COLUMNS}, commitment, hash) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608
                    (seq, *_values(operation), commitment, head),
                )
                connection.execute(
                    "INSERT INTO payloads (op_id, salt, body) VALUES (?,?,?)", (operation.op_id, draft.salt, body)
                )
                self._projection.apply(connection, seq, operation)
                operations.append(operation)
            if operations:
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('head', ?)", (f"{seq} {head.hex()}",))
            connection.execute("COMMIT")
        except BaseException:
            # A full disk may already have rolled the transaction back.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if operations and self._witness is not None:
            self._witness.committed(connection, before, (seq, head))
        return operations

    def now(self) -> datetime:
        """The present instant, which the next entries will have if they are written at once: what a change says of its
        time, and when it was made, is the same. Never before the last entry, whatever the clock says.
        """
        self._asked_now = _tick(self._head()[2])
        return _at(self._asked_now)

    def _instant_after(self, last: str) -> str:
        asked, self._asked_now = self._asked_now, ""
        present = _tick(last)
        return asked if asked > last and abs(_at(present) - _at(asked)) < _ONE_CHANGE else present

    def refold(self) -> None:
        """Make the projection again from the entries, in one transaction."""
        self._projection.rebuild(self._connection)

    def verify(self) -> list[ChainFault]:
        """Every entry that was changed, removed or put in, with what is wrong; empty for a whole chain."""
        faults: list[ChainFault] = []
        head, expected = _GENESIS, 1
        rows = self._connection.execute(
            f"SELECT seq, commitment, hash, salt, body, erased_at, {_COLUMNS} FROM chain "  # noqa: S608
            "LEFT JOIN payloads USING (op_id) ORDER BY seq"
        )
        for seq, commitment, stored, salt, body, erased_at, *values in rows:
            operation = _operation(values, {})
            if seq != expected:
                missing = f"entry {expected} is" if seq == expected + 1 else f"entries {expected} to {seq - 1} are"
                faults.append(ChainFault(seq, operation.op_id, f"{missing} missing before this one"))
            elif stored != _link(head, seq, operation, _bytes(commitment)):
                faults.append(ChainFault(seq, operation.op_id, "the entry is not the one that was written"))
            erased = body is None and salt is None and erased_at is not None
            if not erased and hashlib.sha256(_bytes(salt) + _bytes(body)).digest() != commitment:
                faults.append(ChainFault(seq, operation.op_id, "the payload is not the one that was committed to"))
            head, expected = _bytes(stored), seq + 1
        faults += self._faults_at_the_end(expected - 1, head)
        for (op_id,) in self._connection.execute(
            "SELECT op_id FROM payloads WHERE op_id NOT IN (SELECT op_id FROM chain) ORDER BY op_id"
        ):
            faults.append(ChainFault(0, op_id, "a payload has no entry"))
        return faults

    def _faults_at_the_end(self, last: int, head: bytes) -> list[ChainFault]:
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'head'").fetchone()
        seq, _, digest = str(row[0]).partition(" ") if row else ("0", "", _GENESIS.hex())
        noted = int(seq) if seq.isdecimal() else 0
        if noted > last:
            return [ChainFault(noted, "", f"the journal ended with entry {noted}, what comes after {last} is missing")]
        if noted < last:
            return [ChainFault(last, "", f"the journal ended with entry {noted}, what comes after it was put in")]
        return [] if digest == head.hex() else [ChainFault(last, "", "the last entry is not the one that was written")]

    def _head(self) -> tuple[int, bytes, str]:
        row = self._connection.execute("SELECT seq, hash, clock FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
        return (row[0], row[1], row[2]) if row else (0, _GENESIS, "")

    def _next_device_seq(self) -> int:
        row = self._connection.execute("SELECT MAX(device_seq) FROM chain WHERE device = ?", (self.device,)).fetchone()
        return int(row[0] or 0) + 1

    def _device(self) -> str:
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'device'").fetchone()
        if row:
            return str(row[0])
        device = secrets.token_hex(4)
        self._connection.execute("INSERT INTO meta VALUES ('device', ?)", (device,))
        return device


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """A connection to the journal with the pragmas durability needs; the file is made 0600. Autocommit."""
    if write:
        _make_private(path)
    # A reader must not make a new, empty file where the journal is gone.
    address = f"{path.absolute().as_uri()}?mode=rw"
    # The daemon reads from its event loop and from worker threads, never two at once on one connection.
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=10)
    try:
        if write:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        # macOS answers an fsync before the disk has the data; everywhere else this does nothing.
        connection.execute("PRAGMA fullfsync=ON")
        connection.execute("PRAGMA secure_delete=ON")
        if not write:
            connection.execute("PRAGMA query_only=ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        if os.name == "posix" and each.exists() and each.stat().st_mode & 0o077:
            each.chmod(0o600)


def operations_on(connection: sqlite3.Connection, entity: str) -> list[Operation]:
    """Every operation on one memory or value, in the order written here."""
    return [operation for _, operation in operations_where(connection, "entity = ?", entity)]


def operations_where(
    connection: sqlite3.Connection, condition: str, *values: str, by_entity: bool = False
) -> Iterator[tuple[int, Operation]]:
    """The operations that meet an SQL condition on the chain's columns, each with its place, in the order written here
    (`by_entity`: those on one entity together).
    """
    order = "entity, seq" if by_entity else "seq"
    rows = connection.execute(
        f"SELECT seq, {_COLUMNS}, body FROM chain LEFT JOIN payloads USING (op_id) WHERE {condition} ORDER BY {order}",  # noqa: S608
        values,
    )
    for seq, *columns, body in rows:
        yield seq, _operation(columns, json.loads(body) if body else {})


def erase_payloads(connection: sqlite3.Connection, op_ids: Iterable[str], clock: str) -> None:
    """Erase what these entries said, with their salts; the chain over the commitments stays whole."""
    connection.executemany(
        "UPDATE payloads SET body = NULL, salt = NULL, erased_at = ? WHERE op_id = ? AND body IS NOT NULL",
        [(clock, op_id) for op_id in op_ids],
    )


def _operation(values: Sequence[Any], body: dict[str, Any]) -> Operation:
    op_id, kind, entity, clock, device, device_seq, actor, agent, session = values
    return Operation(op_id, kind, entity, clock, device, device_seq, actor, agent, session, body)


def _values(operation: Operation) -> tuple[Any, ...]:
    return (
        operation.op_id, operation.kind, operation.entity, operation.clock, operation.device, operation.device_seq,
        operation.actor, operation.agent, operation.session,
    )  # fmt: skip


def _link(previous: bytes, seq: int, operation: Operation, commitment: bytes) -> bytes:
    entry = json.dumps([seq, *_values(operation)], ensure_ascii=True).encode()
    return hashlib.sha256(previous + commitment + entry).digest()


def _bytes(value: object) -> bytes:
    """A column as bytes, whatever a hand that changed the file left there."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def _tick(last: str) -> str:
    """The hybrid logical clock's next reading: `2026-01-31T14:00:00.123Z/0000`. A clock set back does not go back."""
    now = format_time(datetime.fromtimestamp(time.time(), UTC)) or ""
    return f"{now}/0000" if now > last.partition("/")[0] else _count_on(last)


def _count_on(clock: str) -> str:
    """The next reading at the same instant."""
    instant, _, count = clock.partition("/")
    if int(count, 16) < _MOST_AT_ONE_INSTANT:
        return f"{instant}/{int(count, 16) + 1:04x}"
    return f"{format_time(parse_time(instant) + timedelta(milliseconds=1))}/0000"


def _at(clock: str) -> datetime:
    return parse_time(clock.partition("/")[0])
