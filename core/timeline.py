"""Two times: when a fact holds in the world (`valid_from`, `valid_to`) and when we believed it (`recorded_at`,
`expired_at`). Light.

A fact may hold before its row was written. A change closes an interval and overwrites nothing:

- a correction closes the belief (`expired_at`): the old statement was wrong, also of the past;
- a correction that says since when (`cems edit ID TEXT --valid-from T`), and `cems retract ID --at T`, close the
  validity (`valid_to`): the old statement is still believed of the time before T, and of no other;
- `cems retract ID` closes the belief without a replacement.

So there are two questions, and they combine. "True in the world at T" (`valid_at`) asks what is believed now.
"Believed at T" (`as_of`) folds each memory's operations up to T, and so knows its trust, its scope and its validity as
they were; what was corrected since is there, what is forgotten today is not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cems.core.recall import lookup

if TYPE_CHECKING:
    from cems.core.fold import Operation
    from cems.core.memories import Memories
    from cems.core.scope import SessionScope
    from cems.core.statement import Author

_AT_ONCE = 500
_LAST_OF_AN_INSTANT = "/ffff"
"""The clock counts the operations of one millisecond after a slash."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The times that a search asks for, as the records write instants; empty where not asked."""

    valid_at: str = ""
    as_of: str = ""

    def __bool__(self) -> bool:
        return bool(self.valid_at or self.as_of)

    def as_json(self) -> dict[str, str | None] | None:
        """The `at` of an answer: which time was asked for, None for the present."""
        return {"valid_at": self.valid_at or None, "as_of": self.as_of or None} if self else None

    def covers(self, row: lookup.Row, now: str) -> bool:
        """Whether the memory holds in the world when it is asked about: now, at `valid_at`, or, where only a belief is
        asked for, whenever."""
        if self.as_of and not self.valid_at:
            return True
        at = self.valid_at or now
        return (row.get("valid_from") or "") <= at and (row.get("valid_to") or "~") > at

    @property
    def condition(self) -> lookup.Condition:
        """What SQLite's rows must meet. For `as_of` more than what is sought: the rest is in the operations only."""
        parts, values = ["state = 'live'"], []
        if self.as_of:
            parts = ["state != 'hidden'", "recorded_at <= ?", "COALESCE(json_extract(body, '$.expired_at'), '~') > ?"]
            values = [self.as_of, self.as_of]
        if self.valid_at:
            parts.append("COALESCE(valid_from, '') <= ?")
            values.append(self.valid_at)
        if self.valid_at and not self.as_of:
            # As believed at another time, it may have ended later.
            parts.append("COALESCE(valid_to, '~') > ?")
            values.append(self.valid_at)
        return " AND ".join(parts), tuple(values)


PRESENT = Moment()


@dataclass(frozen=True, slots=True)
class Link:
    """One memory in a chain of corrections: what it was made to correct, and the operation that closed it, its belief or
    its validity."""

    row: lookup.Row
    corrects: tuple[str, ...]
    closing: Operation | None
    place: int

    @property
    def undone(self) -> bool:
        """Whether an undo took back that it was remembered."""
        return self.closing is not None and not self.closing.body.get("by") and bool(self.closing.body.get("undoes"))


def is_over(row: lookup.Row) -> bool:
    """Whether the memory says itself that it holds no longer."""
    return bool(row["valid_to"]) and row["valid_to"] <= lookup.now_text()


def as_believed(
    connection: sqlite3.Connection, rows: Iterable[lookup.Row], as_of: str, readable: Sequence[str]
) -> list[lookup.Row]:
    """The rows as the operations up to that instant left them, without those recorded later. What is hidden today, or
    lies today in a scope that is not readable, is left out whatever it was then.

    A row that has changed since says under `now` what became of it: state, trust, scope, valid_to, expired_at, closed_by.
    """
    open_today = [row for row in rows if row["state"] != "hidden" and row["scope"] in readable]
    known = [row for row in open_today if row["recorded_at"] <= as_of]
    changed = _changed_since(connection, [row["id"] for row in known], as_of)
    return [then for row in known if (then := _stood(row, changed.get(row["id"]), as_of)) is not None]


def believed_rows(
    connection: sqlite3.Connection, scopes: Sequence[str], moment: Moment, readable: Sequence[str], **filters: Any
) -> Iterator[lookup.Row]:
    """Everything in the scopes that was believed then and, where that is asked too, held then; newest first.

    `filters` are those of `lookup.listed_rows`.
    """
    offset = 0
    while rows := lookup.listed_rows(
        connection, readable, condition=moment.condition, limit=_AT_ONCE, offset=offset, **filters
    ):
        offset += len(rows)
        for row in as_believed(connection, rows, moment.as_of, readable):
            if row["state"] == "live" and row["scope"] in scopes and moment.covers(row, ""):
                yield row


def _changed_since(connection: sqlite3.Connection, ids: Sequence[str], as_of: str) -> dict[str, list[Operation]]:
    """All operations of those of the memories that have one after the instant."""
    from cems.core.journal import operations_where

    found: dict[str, list[Operation]] = {}
    for start in range(0, len(ids), _AT_ONCE):
        part = ids[start : start + _AT_ONCE]
        marks = ",".join("?" * len(part))
        later = f"SELECT entity FROM chain WHERE entity IN ({marks}) AND clock > ?"  # noqa: S608
        operations = operations_where(connection, f"entity IN ({later})", *part, as_of + _LAST_OF_AN_INSTANT)
        for _, operation in operations:
            found.setdefault(operation.entity, []).append(operation)
    return found


def _stood(row: lookup.Row, operations: list[Operation] | None, as_of: str) -> lookup.Row | None:
    if operations is None:
        return row
    from cems.core.fold import fold

    until = as_of + _LAST_OF_AN_INSTANT
    # A memory that was brought from elsewhere may have been recorded there long before it came here.
    # And what was erased since is not made whole.
    folded = fold(each for each in operations if each.kind in ("remember", "purge") or each.clock <= until)
    if folded is None:
        return None
    then = row | folded.memory.model_dump(mode="json") | {"state": folded.state, "closed_by": folded.closed_by}
    names = ("state", "trust", "scope", "valid_to", "expired_at", "closed_by")
    return then if all(then[name] == row[name] for name in names) else then | {"now": {n: row[n] for n in names}}


def chain_of(connection: sqlite3.Connection, memory: str, readable: Sequence[str]) -> tuple[list[Link], int]:
    """The corrections that led to a memory and those that followed, in both directions; the oldest first.

    Also returns how many more there are in scopes that are not readable. What an undo took back is no correction.
    """
    from cems.core.journal import operations_where

    corrected: dict[str, list[str]] = {}
    pairs = (
        "SELECT entity, json_extract(body, '$.corrects') FROM chain JOIN payloads USING (op_id) "
        "WHERE kind = 'remember' AND json_extract(body, '$.corrects') != ''"
    )
    for new, old in connection.execute(pairs):
        corrected.setdefault(old, []).append(new)
    links: dict[str, Link] = {}
    wanted, elsewhere = {memory}, 0
    while wanted:
        following: set[str] = set()
        for row in lookup.rows_by_id(connection, sorted(wanted)).values():
            link = links[row["id"]] = _link(
                row, [each for _, each in operations_where(connection, "entity = ?", row["id"])]
            )
            if not link.undone or row["id"] == memory:
                before = [
                    each[0] for each in connection.execute("SELECT id FROM records WHERE closed_by = ?", (row["id"],))
                ]
                following |= {row["closed_by"], *before, *corrected.get(row["id"], ())}
                following |= set() if link.undone else set(link.corrects)
        elsewhere += sum(1 for each in wanted & set(links) if links[each].row["scope"] not in readable)
        wanted = following - set(links) - {""}
    shown = [
        link
        for link in links.values()
        if link.row["scope"] in readable and (not link.undone or link.row["id"] == memory)
    ]
    return sorted(shown, key=lambda link: (link.row["recorded_at"], link.place)), elsewhere


def _link(row: lookup.Row, operations: Sequence[Operation]) -> Link:
    made = next((each for each in operations if each.kind == "remember"), None)
    body = made.body if made else {}
    corrects = body.get("merges") or ([body["corrects"]] if body.get("corrects") else [])
    closing: Operation | None = None
    for each in operations:
        closing = each if each.kind == "close" else None if each.kind == "reopen" else closing
    return Link(row, tuple(map(str, corrects)), closing, made.device_seq if made else 0)


# -- what was learnt and changed, over time ----------------------------------------------------------------------------

_AT = "CASE kind WHEN 'remember' THEN recorded_at ELSE substr(clock, 1, instr(clock, '/') - 1) END"
# The closing of what a correction replaced is told by the correction.
_TOLD = """
SELECT chain.seq AS seq, chain.entity AS entity, {at} AS at FROM chain JOIN payloads USING (op_id)
JOIN records ON records.id = chain.entity
WHERE kind IN ('remember', 'close', 'reopen', 'forget', 'unforget', 'trust', 'widen', 'archive', 'restore')
AND scope IN ({scopes}) AND trust NOT IN ({without}) AND at >= ? AND at < ?
AND NOT (kind = 'close' AND EXISTS (
  SELECT 1 FROM chain AS made JOIN payloads AS said USING (op_id)
  WHERE made.entity = json_extract(payloads.body, '$.by') AND made.kind = 'remember'
  AND json_extract(said.body, '$.group') = json_extract(payloads.body, '$.group')
))
"""


@dataclass(frozen=True, slots=True)
class Event:
    """One change of a memory: when, what, the memory as it stands now, who did it and why, and what it corrected."""

    at: str
    what: str
    row: lookup.Row
    actor: str
    agent: str
    reason: str
    corrects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Events:
    """The newest of the `matching` events, in that order."""

    events: tuple[Event, ...]
    matching: int


def events(
    connection: sqlite3.Connection,
    scopes: Sequence[str],
    *,
    since: str = "",
    until: str = "",
    without: Sequence[str] = (),
    limit: int = 20,
) -> Events:
    """What was learnt, corrected, ended and decided in these scopes, from `since` on and before `until` (instants as the
    records write them); nothing of memories that are in one of the trust states `without` today.
    """
    from cems.core.journal import operations_where

    marks = {"scopes": ",".join("?" * len(scopes)), "without": ",".join("?" * len(without)), "at": _AT}
    told, values = _TOLD.format(**marks), (*scopes, *without, since, until or "~")
    matching = int(connection.execute(f"SELECT COUNT(*) FROM ({told})", values).fetchone()[0])  # noqa: S608
    chosen = connection.execute(f"{told} ORDER BY at DESC, seq DESC LIMIT ?", (*values, limit)).fetchall()
    rows = lookup.rows_by_id(connection, list({entity for _, entity, _ in chosen}))
    wanted = ",".join(str(int(seq)) for seq, _, _ in chosen)
    said = dict(operations_where(connection, f"seq IN ({wanted})")) if chosen else {}
    found = [_event(said[seq], rows[entity], at) for seq, entity, at in chosen]
    return Events(tuple(_with_reason(connection, each) for each in found), matching)


def _event(operation: Operation, row: lookup.Row, at: str) -> Event:
    body = operation.body
    corrects = body.get("merges") or ([body["corrects"]] if body.get("corrects") else [])
    reason = str(body.get("reason", ""))
    return Event(at, _what(operation), row, operation.actor, operation.agent, reason, tuple(map(str, corrects)))


def _with_reason(connection: sqlite3.Connection, event: Event) -> Event:
    """Why something was corrected stands with the closing of the old memory."""
    from cems.core.journal import operations_where

    if event.reason or not event.corrects:
        return event
    closings = operations_where(connection, "kind = 'close' AND entity = ?", event.corrects[0])
    reasons = [str(each.body.get("reason", "")) for _, each in closings if each.body.get("by") == event.row["id"]]
    return replace(event, reason=reasons[-1]) if reasons else event


def _what(operation: Operation) -> str:
    body = operation.body
    match operation.kind:
        case "remember":
            return "merged" if body.get("merges") else "corrected" if body.get("corrects") else "learnt"
        case "close":
            if body.get("undoes"):
                return "undone"
            return "ended" if body.get("valid_to") else "replaced" if body.get("by") else "retracted"
        case "trust":
            now = str(body.get("trust"))
            return {"trusted": "approved", "rejected": "rejected", "disputed": "doubted"}.get(now, "unverified again")
        case "forget":
            return "forgotten"
        case "widen":
            return "widened"
        case "archive":
            return "archived"
    return "restored"


def retract(
    memories: Memories, prefix: str, scope: SessionScope, author: Author, *, reason: str = "", at: str = ""
) -> tuple[lookup.Row, str]:
    """Close a memory and put nothing in its place; returns it as it was and the entry's id. No tombstone: a person may
    state it again.

    With `at` only its validity ends, at that instant (which may lie ahead): it is still believed of the time before.
    Raises NothingMatched, AmbiguousId, Refused, Unusable.
    """
    from cems.core.statement import Unusable, tidy_reason

    row = memories.live(prefix, scope)
    if not author.is_person and row["scope"] != scope.default:
        memories.demand_person(author, "retract", "retracting a memory of a wider scope", row["scope"])
    body: dict[str, Any] = {"by": "", "reason": tidy_reason(reason)}
    if at:
        if at <= (row["valid_from"] or ""):
            raise Unusable(
                f"it holds from {row['valid_from']} on; to say that it never held, retract it without a time"
            )
        if at >= (row["valid_to"] or "~"):
            raise Unusable(f"it ends at {row['valid_to']} already")
        body["valid_to"] = at
    written = memories.append([memories.draft("close", row["id"], body, author)])
    return row, written[0].op_id
