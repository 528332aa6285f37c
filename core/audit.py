"""The audit log: every change and every refusal, with who, when, why, before and after, in the order of the journal.

It is the journal itself that is read here. An entry is written in the transaction of its change, the entries form a hash
chain, and the database refuses to change one. Before and after are what the memory's entries amount to without and with
this one, so they cannot disagree with what happened. Of what is forgotten or erased only the entry's commitment is
shown: a salted digest, which tells nothing once purge has erased the salt.

`verify` finds a changed, removed or inserted entry. The digest of the last entry is kept three times: in the chain, in
the journal's `meta`, and, apart from the journal, in `keys/journal-head` (`HeadNote`), so that a journal that was cut
off and patched up, swapped for an older copy, or hashed anew throughout is found too. Whoever can write all of CEMS_HOME
can forge the note as well. Against that, the digest has to be kept where they cannot write: `cems audit verify` prints
it, and `--against` checks one that was noted earlier.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cems.core.fold import Operation, fold
from cems.core.journal import ChainFault, Journal, operations_where
from cems.core.memory import format_time
from cems.core.paths import PRIVATE_FILE, Home

_TEXTS = ("content", "title", "tags", "kind")
_FIELDS = (*_TEXTS, "category", "scope", "trust", "confidence", "pinned", "valid_from", "valid_to", "recorded_at",
           "expired_at", "archived_at")  # fmt: skip
_NOWHERE = "another project"
_DIGITS = 16
_NOTE_BYTES = 160

# The scope that an entry belongs to: its memory's today, else the one it names, else one that another entry on the same
# memory names (when purge has erased what it said). A refusal before any scope was known is the person's own.
_SCOPED = """
SELECT chain.seq AS seq, chain.clock AS clock, chain.kind AS kind, chain.entity AS entity, chain.actor AS actor,
  chain.agent AS agent, json_extract(payloads.body, '$.value_key') AS value_key,
  COALESCE(records.scope, NULLIF(json_extract(payloads.body, '$.scope'), ''), (
    SELECT json_extract(other.body, '$.scope') FROM chain AS same JOIN payloads AS other USING (op_id)
    WHERE chain.entity != '' AND same.entity = chain.entity AND json_extract(other.body, '$.scope') != '' LIMIT 1
  ), CASE WHEN chain.entity = '' THEN 'user' END) AS scope
FROM chain LEFT JOIN payloads USING (op_id) LEFT JOIN records ON records.id = chain.entity
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as it may be shown. `before` and `after` hold the fields that it changed."""

    seq: int
    op_id: str
    at: str
    operation: str
    id: str
    scope: str
    actor: str
    agent: str
    session: str
    reason: str
    before: dict[str, Any]
    after: dict[str, Any]
    group: str = ""
    undoes: tuple[str, ...] = ()
    erased: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """Entries in the order of the journal. `matching` of them are the caller's to read, of which the last are here;
    `elsewhere` as many more are in scopes that are not."""

    entries: tuple[Entry, ...]
    matching: int
    elsewhere: int


def read(
    connection: sqlite3.Connection,
    scopes: Sequence[str],
    *,
    memory: str = "",
    value_key: str = "",
    since: str = "",
    actor: str = "",
    limit: int = 50,
) -> Log:
    """The last `limit` entries in these scopes: on one memory (and the refusals of its value), since an instant, by an
    actor or agent of that name. Where a memory is named, no entry elsewhere is counted.
    """
    conditions, values = ["1"], []
    if memory:
        conditions.append("(entity = ? OR (kind = 'refuse' AND value_key = ?))")
        values += [memory, value_key or "-"]
    if since:
        conditions.append("clock >= ?")
        values.append(since)
    if actor:
        conditions.append("? IN (actor, agent)")
        values.append(actor)
    chosen = f"FROM ({_SCOPED}) WHERE {' AND '.join(conditions)}"
    inside = f"scope IN ({','.join('?' * len(scopes))})"
    matching, everywhere = connection.execute(
        f"SELECT COALESCE(SUM({inside}), 0), COUNT(*) {chosen}",
        (*scopes, *values),
    ).fetchone()
    found = dict(
        connection.execute(
            f"SELECT seq, scope {chosen} AND {inside} ORDER BY seq DESC LIMIT ?",
            (*values, *scopes, limit),
        ).fetchall()
    )
    entries = tuple(_entries(connection, found, scopes))
    return Log(entries, matching, 0 if memory else everywhere - matching)


def entry_json(entry: Entry) -> dict[str, Any]:
    return {
        "seq": entry.seq, "op_id": entry.op_id, "at": entry.at, "op": entry.operation, "id": entry.id or None,
        "scope": entry.scope, "actor": entry.actor, "agent": entry.agent, "session": entry.session,
        "reason": entry.reason, "before": entry.before, "after": entry.after, "group": entry.group or None,
        "undoes": list(entry.undoes), "erased": entry.erased,
    }  # fmt: skip


def _entries(connection: sqlite3.Connection, scope_of: dict[int, str], scopes: Sequence[str]) -> Iterable[Entry]:
    if not scope_of:
        return
    wanted = ",".join(str(int(seq)) for seq in scope_of)
    digests = dict(connection.execute(f"SELECT seq, hex(commitment) FROM chain WHERE seq IN ({wanted})"))  # noqa: S608
    of_these = f"FROM chain WHERE seq IN ({wanted})"
    erased_ones = f"SELECT op_id FROM payloads WHERE body IS NULL AND op_id IN (SELECT op_id {of_these})"  # noqa: S608
    hidden_ones = f"SELECT id FROM records WHERE state = 'hidden' AND id IN (SELECT entity {of_these})"  # noqa: S608
    erased, hidden = ({row[0] for row in connection.execute(query)} for query in (erased_ones, hidden_ones))
    lives: dict[str, list[tuple[int, Operation]]] = {}
    for seq, operation in operations_where(connection, f"seq IN ({wanted})"):
        life = lives.get(operation.entity)
        if life is None:
            is_memory = operation.entity.startswith("m_")
            life = list(operations_where(connection, "entity = ?", operation.entity)) if is_memory else []
            lives[operation.entity] = life
        gone = operation.op_id in erased
        before, after = _change(life, seq, operation)
        if gone or operation.entity in hidden:
            before, after = _without_texts(before), _without_texts(after)
            if operation.kind == "remember":
                after["content"] = {"digest": f"sha256:{digests[seq].lower()}"}
        body = operation.body
        yield Entry(
            seq=seq, op_id=operation.op_id, at=format_time(operation.at) or "", operation=_name(operation),
            id=operation.entity if operation.entity.startswith("m_") else "", scope=scope_of[seq],
            actor=operation.actor, agent=operation.agent, session=operation.session,
            reason=str(body.get("reason", "")), before=_within(before, scopes), after=_within(after, scopes),
            group=str(body.get("group", "")), undoes=undone_by(operation), erased=gone,
        )  # fmt: skip


def _name(operation: Operation) -> str:
    """What happened, in the words of the commands."""
    body = operation.body
    if operation.kind == "refuse":
        return f"refuse {body.get('operation', '')}".strip()
    if operation.kind == "close" and not body.get("by") and not body.get("undoes"):
        return "retract"
    return operation.kind


def _change(
    life: Sequence[tuple[int, Operation]], seq: int, operation: Operation
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the entry changed, field by field."""
    body = operation.body
    match operation.kind:
        case "refuse":
            return {}, {name: body[name][:_DIGITS] for name in ("value_key",) if body.get(name)}
        case "lift":
            return {"forgotten": True}, {"forgotten": False, "value_key": operation.entity[:_DIGITS]}
        case "purge":
            return {}, {"erased": len(body.get("erased", ()))}
    # What a purge left of an entry is told by the purge, wherever that stands.
    before = _state(each for at, each in life if at < seq or each.kind == "purge")
    after = _state(each for at, each in life if at <= seq or each.kind == "purge")
    if not life:
        return {"forgotten": False}, {"forgotten": True, "value_key": operation.entity[:_DIGITS]}
    changed = [name for name in after if before.get(name) != after[name]]
    if not before:
        return {}, {name: after[name] for name in changed if after[name] not in ("", None, (), [])}
    return {name: before.get(name) for name in changed}, {name: after[name] for name in changed}


def _state(operations: Iterable[Operation]) -> dict[str, Any]:
    folded = fold(operations)
    if folded is None:
        return {}
    memory = folded.memory.model_dump(mode="json")
    fields = {name: memory[name] for name in _FIELDS}
    return fields | {"state": folded.state, "closed_by": folded.closed_by, "asked": folded.asked}


def _without_texts(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in _TEXTS}


def _within(fields: dict[str, Any], scopes: Sequence[str]) -> dict[str, Any]:
    """A memory that was widened does not tell which project it came from."""
    return fields | {"scope": _NOWHERE} if fields.get("scope", scopes[0]) not in scopes else fields


def undone_by(operation: Operation) -> tuple[str, ...]:
    """The entries that this one takes back."""
    named = operation.body.get("undoes") or ()
    return (named,) if isinstance(named, str) else tuple(map(str, named))


# -- is it whole? ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verified:
    """`head` is the last entry, `seq:digest`, to be kept and checked against later; `after_note` how many entries were
    written after the one that the note apart from the journal names."""

    entries: int
    head: str
    faults: tuple[ChainFault, ...]
    after_note: int | None


class HeadNote:
    """The last entry's place and digest, in a file apart from the journal; the journal's `Witness`.

    Written after each commit, in place and unsynced (some ten microseconds): after a crash it may lag behind the
    journal, and is never ahead of it. A note that the journal does not bear out is set aside and stays, so that going on
    writing does not cover up that the journal was cut off, rewritten or replaced.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._aside = path.with_suffix(".unmet")

    def committed(self, connection: sqlite3.Connection, before: tuple[int, bytes], head: tuple[int, bytes]) -> None:
        """Note an entry. A note that cannot be written is no reason to lose what the journal has accepted."""
        with contextlib.suppress(OSError, sqlite3.Error):
            noted = self.read()
            if noted is not None and not self._aside.exists() and not _bears_out(connection, noted, before[0]):
                self._path.replace(self._aside)
            text = f"{head[0]} {head[1].hex()}"
            descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY, PRIVATE_FILE)
            try:
                os.write(descriptor, f"{text} {_checksum(text)}\n".ljust(_NOTE_BYTES).encode())
                os.ftruncate(descriptor, _NOTE_BYTES)
            finally:
                os.close(descriptor)

    def read(self) -> tuple[int, str] | None:
        """The entry's place and digest; None where there is no note, or a half written one."""
        return _noted(self._path)

    def unmet(self) -> tuple[int, str] | None:
        """A note that the journal did not bear out when it was written on."""
        return _noted(self._aside)


def head_note(home: Home) -> HeadNote:
    return HeadNote(home.keys / "journal-head")


def verify(journal: Journal, note: HeadNote | None = None, against: str = "") -> Verified:
    """Check the whole chain, then the note beside it, then a head that was noted by the caller (`seq:digest`)."""
    connection = journal.connection
    faults = journal.verify()
    last = connection.execute("SELECT seq, lower(hex(hash)) FROM chain ORDER BY seq DESC LIMIT 1").fetchone() or (0, "")
    noted = note.read() if note else None
    for found, name in ((noted, "keys/journal-head"), (note.unmet() if note else None, "keys/journal-head.unmet")):
        if found is not None:
            faults += _faults_against(connection, found, last[0], f"the note {name}")
    if against:
        seq, _, digest = against.partition(":")
        faults += _faults_against(connection, (int(seq), digest.lower()), last[0], "the head that was given")
    after = last[0] - noted[0] if noted is not None else None
    count = connection.execute("SELECT COUNT(*) FROM chain").fetchone()[0]
    return Verified(count, f"{last[0]}:{last[1]}", tuple(faults), after)


def _faults_against(connection: sqlite3.Connection, noted: tuple[int, str], last: int, whose: str) -> list[ChainFault]:
    seq = noted[0]
    if seq > last:
        return [
            ChainFault(
                seq,
                "",
                f"{whose} names entry {seq}, the journal has {last}: its end was cut off, or it is an older copy",
            )
        ]
    if _bears_out(connection, noted, last):
        return []
    row = connection.execute("SELECT op_id FROM chain WHERE seq = ?", (seq,)).fetchone()
    problem = f"{whose} has another digest of this entry: it, or one before it, was rewritten"
    return [ChainFault(seq, row[0] if row else "", problem)]


def _bears_out(connection: sqlite3.Connection, noted: tuple[int, str], last: int) -> bool:
    """Whether the chain had the noted entry when it ended with entry `last`."""
    row = connection.execute("SELECT lower(hex(hash)) FROM chain WHERE seq = ?", (noted[0],)).fetchone()
    return noted[0] <= last and row is not None and row[0] == noted[1]


def _noted(path: Path) -> tuple[int, str] | None:
    try:
        fields = path.read_text("ascii", "replace").split()
    except OSError:
        return None
    if len(fields) != 3 or _checksum(f"{fields[0]} {fields[1]}") != fields[2] or not fields[0].isdecimal():
        return None
    return int(fields[0]), fields[1]


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
