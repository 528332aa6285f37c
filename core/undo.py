"""Undo: one change taken back by a new one, so that the journal tells both.

A change is the operations that were written together (they share `group`): a correction with its closing, a merge, a
forget with all it hid. Undo appends the opposite of each, with `undoes` naming them, and what they did to a memory is
as it was before; a new id stays in the journal, closed. Undoing an undo makes the change again.

Changes are taken back in any order as long as nothing stands on them: a later change of the same part of the memory, a
memory that corrects or derives from one that would go, a value that would be there twice. What is in the way is named.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cems.core.fold import Folded, Operation, fold
from cems.core.journal import Draft, operations_where
from cems.core.memories import AmbiguousId, Memories, NothingMatched, Refused
from cems.core.memory import format_time
from cems.core.recall import lookup
from cems.core.scope import SessionScope
from cems.core.statement import Author, Unusable, tidy_reason
from cems.core.timeline import is_over

_SHORT = 10
_MOST_DIGITS = 9
_FEWEST_OF_AN_ENTRY = 6
_ENDLESS = ("refuse", "purge")
# The part of a memory that an operation changes: a later operation on the same part stands on it.
_PART = {
    "close": "end", "reopen": "end", "forget": "hidden", "unforget": "hidden", "trust": "trust", "pin": "pinned",
    "widen": "scope", "promote": "asked", "decline": "asked", "archive": "archived", "restore": "archived",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """An operation and its place in the journal."""

    seq: int
    operation: Operation

    @property
    def name(self) -> str:
        return f"{self.seq} ({self.operation.kind} {self.operation.entity[:_SHORT]})"


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo did: the entries taken back, and the memories they touched before and after."""

    entries: tuple[Entry, ...]
    group: str
    before: dict[str, lookup.Row]
    after: dict[str, lookup.Row]

    @property
    def restored(self) -> list[lookup.Row]:
        """The memories that are live again."""
        return [row for row in self.after.values() if row["state"] == "live" and not self._was_live(row["id"])]

    @property
    def removed(self) -> list[lookup.Row]:
        """The memories that are live no longer."""
        return [row for row in self.after.values() if row["state"] != "live" and self._was_live(row["id"])]

    @property
    def changed(self) -> list[lookup.Row]:
        """The memories that stayed live and are otherwise as they were."""
        return [row for row in self.after.values() if row["state"] == "live" and self._was_live(row["id"])]

    def _was_live(self, memory: str) -> bool:
        return bool(self.before[memory]["state"] == "live")


def undo(memories: Memories, what: str, scope: SessionScope, author: Author, reason: str = "") -> Undone:
    """Take a change back: the one that an entry's number or id names, or the last one of a memory. Only a person may.

    Raises NothingMatched, AmbiguousId, Unusable, and Refused for what cannot be taken back, with what is in the way.
    """
    journal = _Journal(memories.connection)
    change = _chosen(memories, journal, what, scope)
    scopes = [_scope_of(memories.connection, each) for each in change]
    memories.demand_person(author, "undo", "undoing a change", scopes[0])
    elsewhere = next((each for each in scopes if each not in scope.readable), "")
    if elsewhere:
        raise Refused(f"a part of that change lies in {elsewhere}; undo it there")
    if problem := _obstacle(memories, journal, change):
        memories.refuse("undo", problem, author, scopes[0])
        raise Refused(problem)
    group = secrets.token_hex(8)
    more = {"group": group, "undoes": [each.operation.op_id for each in change], "reason": tidy_reason(reason)}
    opposites = list(_opposites(journal, change))
    touched = sorted({each.operation.entity for each in change if each.operation.entity.startswith("m_")})
    before = lookup.rows_by_id(memories.connection, touched)
    memories.append([memories.draft(each.kind, each.entity, each.body | more, author) for each in opposites])
    return Undone(tuple(change), group, before, lookup.rows_by_id(memories.connection, touched))


class _Journal:
    """The entries that undo asks for, and which of them are taken back."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._undone_by: dict[str, Entry] = {}
        undoing = list(self.where("json_extract(body, '$.undoes') IS NOT NULL"))
        # From the last: an undo that was itself undone takes nothing back.
        for entry in reversed(undoing):
            if entry.operation.op_id not in self._undone_by:
                for op_id in entry.operation.body["undoes"]:
                    self._undone_by.setdefault(op_id, entry)

    def where(self, condition: str, *values: str) -> Iterator[Entry]:
        return (Entry(seq, operation) for seq, operation in operations_where(self.connection, condition, *values))

    def undone_by(self, entry: Entry) -> Entry | None:
        return self._undone_by.get(entry.operation.op_id)

    def in_force(self, entry: Entry) -> bool:
        """Whether the entry is a change that nothing has taken back; an undo is none, what it left standing is."""
        return self.undone_by(entry) is None and not entry.operation.body.get("undoes")

    def life(self, entity: str) -> list[Entry]:
        return list(self.where("entity = ?", entity))

    def change_of(self, entry: Entry) -> list[Entry]:
        """The entries that were written with this one, in their order."""
        group = entry.operation.body.get("group")
        if not group:
            return [entry]
        before, after = ([*self._beside(entry, step, group)] for step in (-1, 1))
        return [*reversed(before), entry, *after]

    def _beside(self, entry: Entry, step: int, group: str) -> Iterator[Entry]:
        """The entries of the group next to this one on the device that wrote them; a change is written in one piece."""
        device, at = entry.operation.device, entry.operation.device_seq
        while found := next(self.where("device = ? AND device_seq = ?", device, str(at := at + step)), None):
            if found.operation.body.get("group") != group:
                return
            yield found

    def before(self, entry: Entry) -> Folded | None:
        """The memory as it was when the entry was written."""
        return fold(each.operation for each in self.life(entry.operation.entity) if each.seq < entry.seq)


def _chosen(memories: Memories, journal: _Journal, what: str, scope: SessionScope) -> list[Entry]:
    """The change that is meant. A number is an entry's place, never the beginning of an id: a mistyped one must not undo
    another change. A memory's id stands for its last change in force.
    """
    wanted = what.strip().lower()
    found: list[Entry] = []
    is_place = wanted.isascii() and wanted.isdecimal() and len(wanted) <= _MOST_DIGITS
    if is_place:
        found = list(journal.where("seq = ?", str(int(wanted))))
    elif len(wanted) >= _FEWEST_OF_AN_ENTRY and not wanted.startswith("m_"):
        found = list(journal.where("op_id >= ? AND op_id < ?", wanted, wanted + "\x7f"))
    found = [each for each in found if _scope_of(memories.connection, each) in scope.readable]
    if len(found) > 1:
        raise AmbiguousId(
            f"{wanted} could be {', '.join(each.operation.op_id[:14] for each in found)}; write more of it"
        )
    if found:
        return journal.change_of(found[0])
    if is_place:
        raise NothingMatched(f"no entry {wanted} here; `cems audit` shows the numbers, and an id begins with m_")
    try:
        row = memories.find(wanted, scope)
    except (NothingMatched, Unusable):
        raise NothingMatched(
            f"no entry or memory {tidy_reason(wanted)[:40]} here; `cems audit` shows the numbers"
        ) from None
    standing = [each for each in journal.life(row["id"]) if journal.in_force(each) and each.operation.kind != "purge"]
    if not standing:
        raise NothingMatched(
            f"every change of {row['id'][:_SHORT]} is undone; `cems audit {row['id'][:_SHORT]}` shows them"
        )
    return journal.change_of(standing[-1])


def _scope_of(connection: sqlite3.Connection, entry: Entry) -> str:
    """The scope that the entry's memory lies in today, or that the entry names."""
    row = lookup.rows_by_id(connection, [entry.operation.entity]).get(entry.operation.entity)
    return str(row["scope"] if row else entry.operation.body.get("scope") or "user")


# -- what is in the way ------------------------------------------------------------------------------------------------


def _obstacle(memories: Memories, journal: _Journal, change: Sequence[Entry]) -> str:
    """Why the change cannot be taken back; empty where it can."""
    for entry in change:
        operation = entry.operation
        if operation.kind == "refuse":
            return f"entry {entry.name} is a refusal: it changed nothing"
        if operation.kind == "purge" or _is_erased(journal, entry):
            return f"entry {entry.name} was erased by a purge; what is erased cannot be brought back"
        if undone := journal.undone_by(entry):
            when = format_time(undone.operation.at)
            return (
                f"entry {entry.name} is undone already, by entry {undone.seq} on {when}; undo that one to make it again"
            )
    standing = [each for entry in change for each in _standing_on(journal, entry, change)]
    if standing:
        names = ", ".join(each.name for _, each in sorted({each.seq: each for each in standing}.items()))
        return f"later changes stand on it: {names}; undo the last of them first"
    return _clash(memories, journal, change)


def _is_erased(journal: _Journal, entry: Entry) -> bool:
    row = journal.connection.execute("SELECT body FROM payloads WHERE op_id = ?", (entry.operation.op_id,)).fetchone()
    return row is None or row[0] is None


def _standing_on(journal: _Journal, entry: Entry, change: Sequence[Entry]) -> Iterator[Entry]:
    """The later changes in force that would hang in the air."""
    operation, own = entry.operation, {each.seq for each in change}
    part = _PART.get(operation.kind)
    # Taking back an undo makes a change again that is as old as itself; what came in between counts.
    for later in journal.life(operation.entity):
        if later.seq > entry.seq and later.seq not in own and journal.in_force(later):
            removes_it = operation.kind == "remember"
            if later.operation.kind not in _ENDLESS and (removes_it or _PART.get(later.operation.kind) == part):
                yield later
    if operation.kind == "remember":
        others = (
            "kind = 'close' AND json_extract(body, '$.by') = ?",
            "kind = 'remember' AND json_extract(body, '$.corrects') = ?",
            "kind = 'remember' AND EXISTS (SELECT 1 FROM json_each(body, '$.memory.source.derived_from') WHERE value = ?)",
        )
        for condition in others:
            for each in journal.where(condition, operation.entity):
                if each.seq not in own and journal.in_force(each):
                    yield each
    if operation.kind == "forget" and (key := operation.body.get("value_key")):
        for each in journal.where("kind = 'forget' AND json_extract(body, '$.value_key') = ?", str(key)):
            if each.seq > entry.seq and each.seq not in own and journal.in_force(each):
                yield each


def _clash(memories: Memories, journal: _Journal, change: Sequence[Entry]) -> str:
    """Why the memories would not come back as they were: forgotten since, or said again since."""
    touched = {each.operation.entity for each in change if each.operation.entity.startswith("m_")}
    for memory in sorted(touched):
        first = next(each for each in change if each.operation.entity == memory)
        folded, kind = journal.before(first), first.operation.kind
        if folded is None or folded.state != "live" or kind in ("remember", "reopen"):
            continue
        content, scope = folded.memory.content, folded.memory.scope
        if kind != "forget" and (by := _forgotten_by(memories, journal, memory, scope, content)):
            return f"{memory[:_SHORT]} was forgotten since, by entry {by}; undo that first"
        over = (format_time(folded.memory.valid_to) or "~") <= lookup.now_text()
        rows = [] if over or kind in ("trust", "pin") else memories.known.rows(content, scope, without=touched)
        if same := next((row for row in rows if row["state"] == "live" and not is_over(row)), None):
            return f"{same['id'][:_SHORT]} says the same by now; forget or retract it first"
    for entry in change:
        if entry.operation.kind == "lift":
            said = lookup.rows_with_value(memories.connection, [entry.operation.entity])
            if live := next((row for row in said if row["state"] == "live" and row["id"] not in touched), None):
                return f"{live['id'][:_SHORT]} was remembered since it was lifted; forget that instead"
    return ""


def _forgotten_by(memories: Memories, journal: _Journal, memory: str, scope: str, content: str) -> str:
    """The entry that keeps the memory hidden if it comes back into that scope; empty where none does."""
    key = memories.known.key_of(scope, content)
    forgets = journal.where("kind = 'forget' AND (entity = ? OR json_extract(body, '$.value_key') = ?)", memory, key)
    standing = [each for each in forgets if journal.in_force(each)]
    hidden = lookup.rows_by_id(memories.connection, [memory])[memory]["state"] == "hidden"
    return standing[-1].name if standing and (hidden or _is_buried(journal, key)) else ""


# -- the opposite ------------------------------------------------------------------------------------------------------


def _opposites(journal: _Journal, change: Sequence[Entry]) -> Iterator[Draft]:
    """For each entry the operation that takes it back, the last first; every value is lifted or entombed once."""
    keys = {_key_of(journal, each) for each in change if each.operation.kind == "unforget"}
    for entry in reversed(change):
        operation, body = entry.operation, entry.operation.body
        before = journal.before(entry)
        match operation.kind:
            case "remember":
                yield Draft("close", operation.entity, {"by": ""})
            case "close" if before is not None:
                ended = {"valid_to": format_time(before.memory.valid_to)} if "valid_to" in body else {}
                yield Draft("reopen", operation.entity, {"by": before.closed_by} | ended)
            case "reopen" if before is not None:
                ended = {"valid_to": format_time(before.memory.valid_to)} if "valid_to" in body else {}
                yield Draft("close", operation.entity, {"by": before.closed_by} | ended)
            case "trust" if before is not None:
                yield Draft("trust", operation.entity, {"trust": before.memory.trust})
            case "pin" if before is not None:
                yield Draft("pin", operation.entity, {"pinned": before.memory.pinned})
            case "widen" if before is not None:
                yield Draft("widen", operation.entity, {"scope": before.memory.scope, "from": body.get("scope")})
            case "promote":
                yield Draft("decline", operation.entity, {})
            case "decline" if before is not None:
                yield Draft("promote", operation.entity, {"to": before.asked})
            case "archive":
                yield Draft("restore", operation.entity, {})
            case "restore":
                yield Draft("archive", operation.entity, {})
            case "forget":
                key = str(body.get("value_key", ""))
                if operation.entity.startswith("m_"):
                    yield Draft("unforget", operation.entity, {"scope": body.get("scope", "")})
                if key and key not in keys and _is_buried(journal, key) and not _was_buried(journal, key, entry):
                    keys.add(key)
                    yield Draft("lift", key, {"scope": body.get("scope", "")})
            case "unforget":
                entombed = {"scope": body.get("scope", ""), "value_key": _key_of(journal, entry)}
                yield Draft("forget", operation.entity, entombed)
            case "lift":
                if operation.entity not in keys:
                    keys.add(operation.entity)
                    entombed = {"scope": body.get("scope", ""), "value_key": operation.entity}
                    yield Draft("forget", operation.entity, entombed)


def _is_buried(journal: _Journal, key: str) -> bool:
    row = journal.connection.execute("SELECT lifted FROM tombstones WHERE value_key = ?", (key,)).fetchone()
    return bool(row) and not row[0]


def _was_buried(journal: _Journal, key: str, entry: Entry) -> bool:
    condition = "(kind = 'lift' AND entity = ?) OR (kind = 'forget' AND json_extract(body, '$.value_key') = ?)"
    earlier = [each for each in journal.where(condition, key, key) if each.seq < entry.seq]
    own = {each.seq for each in journal.change_of(entry)}
    last = [each.operation.kind for each in earlier if each.seq not in own][-1:]
    return last == ["forget"]


def _key_of(journal: _Journal, entry: Entry) -> str:
    """The value that the forget had entombed which this entry took back."""
    named = [str(each) for each in entry.operation.body.get("undoes", ())]
    for forget in journal.life(entry.operation.entity):
        if forget.operation.op_id in named and forget.operation.kind == "forget":
            return str(forget.operation.body.get("value_key", ""))
    return ""
