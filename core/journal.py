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
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from cems.core.fold import Operation
from cems.core.journal_schema import migrate

_GENESIS = b"\0" * 32
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

    def apply(self, connection: sqlite3.Connection, seq: int, operation: Operation) -> None: ...


class JournalDamaged(Exception):
    """SQLite cannot read the journal, or it lacks what a journal has."""


@dataclass(frozen=True, slots=True)
class ChainFault:
    """One entry that does not fit the chain."""

    seq: int
    op_id: str
    problem: str


class Journal:
    """One open journal. Only one process may write it (the daemon); its writer is one thread."""

    def __init__(self, path: Path, projection: Projection) -> None:
        """Open or create `path` (0600), migrate it, and bring the projection up to date.

        Raises JournalTooNew, JournalDamaged.
        """
        self.path = path
        self._projection = projection
        self._connection = connect(path, write=True)
        try:
            self.migrated_from = migrate(self._connection)
            self.device = self._device()
            self._projection.prepare(self._connection)
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise JournalDamaged(f"{path} cannot be read ({error}); restore it from a backup") from error

    def close(self) -> None:
        self._connection.close()

    @property
    def connection(self) -> sqlite3.Connection:
        """The writer's connection; for the writer's thread only."""
        return self._connection

    def append(self, drafts: Sequence[Draft]) -> list[Operation]:
        """Write the drafts as one durable transaction, all or none; returns them with their places."""
        connection = self._connection
        operations: list[Operation] = []
        connection.execute("BEGIN IMMEDIATE")
        try:
            seq, head, clock = self._head()
            device_seq = self._next_device_seq()
            for draft in drafts:
                seq += 1
                clock = _tick(clock)
                operation = Operation(
                    op_id=secrets.token_hex(16), kind=draft.kind, entity=draft.entity, clock=clock, device=self.device,
                    device_seq=device_seq, actor=draft.actor, agent=draft.agent, session=draft.session, body=draft.body,
                )  # fmt: skip
                device_seq += 1
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
            connection.execute("COMMIT")
        except BaseException:
            # A full disk may already have rolled the transaction back.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return operations

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
                faults.append(ChainFault(seq, operation.op_id, f"entries {expected} to {seq - 1} are missing"))
            if stored != _link(head, seq, operation, commitment):
                faults.append(ChainFault(seq, operation.op_id, "the entry does not follow from the one before it"))
            if erased_at is None and (body is None or hashlib.sha256(salt + body.encode()).digest() != commitment):
                faults.append(ChainFault(seq, operation.op_id, "the payload is not the one that was committed to"))
            head, expected = stored, seq + 1
        return faults

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
    if write and not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    # The daemon reads from its event loop and from worker threads, never two at once on one connection.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA secure_delete=ON")
    if not write:
        connection.execute("PRAGMA query_only=ON")
    return connection


def operations_on(connection: sqlite3.Connection, entity: str) -> list[Operation]:
    """Every operation on one memory or value, in the order written here."""
    rows = connection.execute(
        f"SELECT {_COLUMNS}, body FROM chain LEFT JOIN payloads USING (op_id) WHERE entity = ? ORDER BY seq",  # noqa: S608
        (entity,),
    )
    return [_operation(values, json.loads(body) if body else {}) for *values, body in rows]


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


def _tick(last: str) -> str:
    """The hybrid logical clock's next reading: `2026-01-31T14:00:00.123Z/0000`. A clock set back does not go back."""
    now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    instant, _, count = last.partition("/")
    return f"{now}/0000" if now > instant else f"{instant}/{int(count, 16) + 1:04x}"
