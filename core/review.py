"""Review: the memories that wait for a person's word, and what that word does.

What waits is live and either a candidate (an agent added it) or disputed (a machine wrote it, and it contradicts a trusted
memory or comes close to something forgotten; or a person doubts it). What is disputed reaches no prompt, profile or search
until it is approved. A memory also waits when an agent asks that it hold in all projects (`cems.core.promotion`). Every verdict is a person's act, journaled with its reason, and one change: its operations carry one
`group`, so that undo takes them back together.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cems.core.contradiction import find_contradiction
from cems.core.fold import Operation
from cems.core.journal import Draft, operations_where
from cems.core.memories import Author, Memories, Refused, Statement, Unusable
from cems.core.memory import MemoryId
from cems.core.promotion import request_on
from cems.core.recall import lookup
from cems.core.scope import Scope, SessionScope
from cems.core.statement import NotKept, tidy_reason, tidy_statement

Kind = Literal["conflict", "near-tombstone", "promotion", "candidate"]
KINDS: tuple[Kind, ...] = ("conflict", "near-tombstone", "promotion", "candidate")
"""In the order in which they are shown: what contradicts a memory in use matters most."""
VERDICTS = ("approve", "edit", "reject", "merge", "skip", "dispute")

_SHORT = 10
_MOST = 2_000
_AT_ONCE = 500
_MOST_CORRECTIONS = 100


@dataclass(frozen=True, slots=True)
class NearTombstone:
    """The forgotten value that an item comes close to. `id` is the beginning of its key: its text is not kept."""

    id: str
    at: str
    actor: str
    agent: str
    reason: str
    lifted: bool
    similarity: float | None


@dataclass(frozen=True, slots=True)
class Item:
    """One memory that waits, why, and what it is in conflict with: the memory as it stands now, or the tombstone."""

    kind: Kind
    row: lookup.Row
    reason: str
    against: lookup.Row | None = None
    tombstone: NearTombstone | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verdict did: the memory that stands now with its trust, and those closed in its favour."""

    verdict: str
    id: MemoryId
    trust: str
    closed: tuple[str, ...] = ()
    reason: str = ""
    group: str = ""


# -- the queue -----------------------------------------------------------------------------------------------------------


def queue(connection: sqlite3.Connection, scope: SessionScope) -> list[Item]:
    """Everything that waits in the caller's scopes: conflicts first, within a kind the oldest first."""
    rows = lookup.listed_rows(connection, scope.readable, condition=lookup.WAITING, limit=_MOST)
    found = _items(connection, scope, rows[::-1])
    return sorted(found, key=lambda item: KINDS.index(item.kind))


def waiting(connection: sqlite3.Connection, scopes: Sequence[str]) -> int:
    """How many memories wait in these scopes."""
    return lookup.count_where(connection, scopes, lookup.WAITING)


def _items(connection: sqlite3.Connection, scope: SessionScope, rows: Sequence[lookup.Row]) -> list[Item]:
    origins = _origins(connection, [row["id"] for row in rows if row["trust"] == "disputed"])
    return [_item(connection, scope, row, origins.get(row["id"])) for row in rows]


def _item(connection: sqlite3.Connection, scope: SessionScope, row: lookup.Row, origin: Operation | None) -> Item:
    if origin is None and row["asked"]:
        return Item("promotion", row, _why_asked(connection, row))
    if origin is None:
        return Item("candidate", row, _why_unconfirmed(row))
    if key := str(origin.body.get("near") or ""):
        tombstone = _tombstone(connection, scope, key, origin.body.get("similarity"))
        return Item("near-tombstone", row, f"close to what was forgotten on {tombstone.at[:10]}", tombstone=tombstone)
    if other := str(origin.body.get("conflicts_with") or ""):
        against = _standing(connection, scope, other)
        if against is None:
            return Item("conflict", row, f"contradicted {other[:_SHORT]}, which does not hold any more")
        return Item("conflict", row, f"contradicts {against['id'][:_SHORT]}, which is {against['trust']}", against)
    said = str(origin.body.get("reason") or "")
    return Item("conflict", row, f"doubted by a person{': ' if said else ''}{said}")


def _origins(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Operation]:
    """By memory, the operation that made it disputed: how it was remembered, or a person's later doubt."""
    found: dict[str, Operation] = {}
    for start in range(0, len(ids), _AT_ONCE):
        part = ids[start : start + _AT_ONCE]
        marks = ",".join("?" * len(part))
        condition = f"kind IN ('remember', 'trust') AND entity IN ({marks})"
        for _, operation in operations_where(connection, condition, *part):
            doubted = operation.kind == "trust" and operation.body.get("trust") == "disputed"
            if operation.kind == "remember" or (doubted and not operation.body.get("undoes")):
                found[operation.entity] = operation
    return found


def _standing(connection: sqlite3.Connection, scope: SessionScope, memory: str) -> lookup.Row | None:
    """The memory, or what its corrections ended in, if that is live and the caller may read it."""
    for _ in range(_MOST_CORRECTIONS):
        row = lookup.rows_by_id(connection, [memory]).get(memory)
        if row is None or row["scope"] not in scope.readable:
            return None
        if row["state"] != "closed":
            return row if row["state"] == "live" and row["trust"] != "rejected" else None
        memory = row["closed_by"]
    return None


def _tombstone(connection: sqlite3.Connection, scope: SessionScope, key: str, similarity: Any) -> NearTombstone:
    query = "SELECT clock, scope, actor, agent, reason, lifted FROM tombstones WHERE value_key = ?"
    found = connection.execute(query, (key,)).fetchone() or ("", "", "", "", "", 0)
    clock, where, actor, agent, reason, lifted = found
    near = round(float(similarity), 2) if isinstance(similarity, (int, float)) else None
    # Why something was forgotten may tell what it was, and another project's is not this caller's to read.
    told = reason if where in scope.readable else ""
    return NearTombstone(f"t_{key[:8]}", clock.partition("/")[0], actor, agent, told, bool(lifted), near)


def _why_asked(connection: sqlite3.Connection, row: lookup.Row) -> str:
    request = request_on(connection, row["id"])
    who = (request.agent or request.actor) if request else "somebody"
    said = str(request.body.get("reason") or "") if request else ""
    unconfirmed = f" ({_why_unconfirmed(row)})" if row["trust"] == "candidate" else ""
    return f"{who} asks that it hold in all your projects{': ' if said else ''}{said}{unconfirmed}"


def _why_unconfirmed(row: lookup.Row) -> str:
    source = row.get("source") or {}
    agent = source.get("agent") or "an agent"
    match source.get("actor"):
        case "tool":
            return f"taken from the text of a tool or web page by {agent}; it reaches no prompt"
        case "import":
            return "imported; nobody has confirmed it"
        case "derived":
            return f"derived from {len(source.get('derived_from') or ())} memories; nobody has confirmed it"
    return f"noted by {agent}; nobody has confirmed it"


# -- the verdicts --------------------------------------------------------------------------------------------------------


def approve(memories: Memories, prefix: str, scope: SessionScope, author: Author, reason: str = "") -> Verdict:
    """Trust a memory; the trusted one of the same scope that it contradicts is closed in its favour. One whose promotion
    was asked for becomes the person's in all projects.

    Like all verdicts, raises NothingMatched, AmbiguousId, Unusable, and Refused where the author is no person who is there.
    """
    item = _to_judge(memories, prefix, scope, author, "approve", "approving a memory")
    if item.kind == "promotion":
        return _promote(memories, item.row, scope, author, reason)
    group = secrets.token_hex(8)
    closed = _replaced(item)
    drafts = [
        _trust(memories, item.row, "trusted", author, reason, group),
        *(_close(memories, each, item.row["id"], author, reason or "contradicted", group) for each in closed),
    ]
    if any(each["pinned"] for each in closed) and not item.row["pinned"]:
        drafts.append(memories.draft("pin", item.row["id"], {"pinned": True, "group": group}, author))
    memories.append(drafts)
    return _done("approve", item.row["id"], "trusted", closed, group)


def reject(memories: Memories, prefix: str, scope: SessionScope, author: Author, reason: str = "") -> Verdict:
    """Withhold a memory everywhere; a machine that states it again is refused. Of a promotion only the request is rejected:
    the memory stays in its project, as trusted as it was."""
    item = _to_judge(memories, prefix, scope, author, "reject", "rejecting a memory")
    if item.kind == "promotion":
        body = {"to": item.row["asked"], "scope": item.row["scope"], "reason": tidy_reason(reason)}
        memories.append([memories.draft("decline", item.row["id"], body, author)])
        done = _done("reject", item.row["id"], item.row["trust"], (), "")
        return replace(done, reason="it stays in its project, and the same request is refused")
    if item.row["trust"] == "rejected":
        raise Unusable(f"{item.row['id'][:_SHORT]} is rejected already")
    group = secrets.token_hex(8)
    memories.append([_trust(memories, item.row, "rejected", author, reason, group)])
    return _done("reject", item.row["id"], "rejected", (), group)


def dispute(memories: Memories, prefix: str, scope: SessionScope, author: Author, reason: str = "") -> Verdict:
    """Withhold a trusted memory until it has been reviewed."""
    row = memories.live(prefix, scope)
    memories.demand_person(author, "dispute", "disputing a memory", row["scope"])
    if row["trust"] != "trusted":
        raise Unusable(f"{row['id'][:_SHORT]} is {row['trust']}; only a trusted memory can be disputed")
    group = secrets.token_hex(8)
    memories.append([_trust(memories, row, "disputed", author, reason, group)])
    return _done("dispute", row["id"], "disputed", (), group)


def skippable(memories: Memories, prefix: str, scope: SessionScope, author: Author) -> Verdict:
    """What a skip comes to: nothing changes. A person's too, so that no agent empties the queue for a day."""
    row = _to_judge(memories, prefix, scope, author, "skip", "skipping a memory under review").row
    return _done("skip", row["id"], row["trust"], (), "")


def edit(
    memories: Memories,
    prefix: str,
    text: str,
    scope: SessionScope,
    author: Author,
    reason: str = "",
    *,
    replaces: bool | None = None,
) -> Verdict:
    """Put the person's text in the memory's place, trusted. `replaces`: whether that closes the memory it was in conflict
    with too; None: if the new text still contradicts it. Of a promotion the text is the one that holds in all projects.
    """
    item = _to_judge(memories, prefix, scope, author, "edit", "editing a memory under review")
    row = item.row
    others = _replaced(item)
    if replaces is None:
        replaces = find_contradiction(text, others) is not None
    statement = Statement(
        text, category=row["category"], title=row["title"], kind=row["kind"], tags=tuple(row["tags"]),
        valid_from=row["valid_from"], valid_to=row["valid_to"], quote=row["source"]["quote"], pinned=row["pinned"],
        derived_from=tuple(row["source"]["derived_from"]),
    )  # fmt: skip
    closed = (row, *others) if replaces else (row,)
    target = Scope(row["asked"]) if item.kind == "promotion" else None
    return _restate(memories, "edit", statement, closed, author, reason or "corrected in review", target)


def merge(
    memories: Memories,
    prefix: str,
    other: str,
    scope: SessionScope,
    author: Author,
    text: str = "",
    reason: str = "",
) -> Verdict:
    """Make one trusted memory of two of the same scope: with the person's text, or the proposed one; both are closed."""
    row = _to_judge(memories, prefix, scope, author, "merge", "merging memories").row
    second = memories.live(other, scope)
    if second["id"] == row["id"]:
        raise Unusable("a memory cannot be merged with itself")
    if second["scope"] != row["scope"]:
        raise Unusable("only memories of one scope can be merged; `cems share` widens one first")
    if second["trust"] == "rejected":
        raise Unusable(f"{second['id'][:_SHORT]} is rejected; approve it first")
    pair = (row, second)
    quotes = dict.fromkeys(each["source"]["quote"] for each in pair if each["source"]["quote"])
    statement = Statement(
        text.strip() or proposed(row, second),
        category=row["category"] if row["category"] != "general" else second["category"],
        title=second["title"] or row["title"], kind=second["kind"] or row["kind"],
        tags=tuple(dict.fromkeys((*second["tags"], *row["tags"]))),
        valid_from=min((each["valid_from"] for each in pair if each["valid_from"]), default=None),
        valid_to=max(each["valid_to"] for each in pair) if all(each["valid_to"] for each in pair) else None,
        quote=" … ".join(quotes)[:4_000], pinned=row["pinned"] or second["pinned"],
    )  # fmt: skip
    return _restate(memories, "merge", statement, pair, author, reason or "merged in review")


def proposed(one: lookup.Row, other: lookup.Row) -> str:
    """A text that says what both say: the longer where it holds the other, else one after the other."""
    older, newer = other["content"].strip(), one["content"].strip()
    if newer.lower().rstrip(".") in older.lower():
        return str(older)
    if older.lower().rstrip(".") in newer.lower():
        return str(newer)
    return f"{older if older.endswith(('.', '!', '?', '。')) else older + '.'} {newer}"


def _to_judge(memories: Memories, prefix: str, scope: SessionScope, author: Author, operation: str, what: str) -> Item:
    """The item, if it awaits a verdict (or was rejected) and the author may give one."""
    row = memories.live(prefix, scope)
    memories.demand_person(author, operation, what, row["scope"])
    if row["trust"] == "trusted" and not row["asked"]:
        raise Unusable(
            f"{row['id'][:_SHORT]} is trusted and waits for no verdict; `cems edit` corrects it, `cems forget` hides it, "
            "`cems review --dispute` doubts it"
        )
    return _items(memories.connection, scope, [row])[0]


def _promote(memories: Memories, row: lookup.Row, scope: SessionScope, author: Author, reason: str) -> Verdict:
    """Widen the memory, and trust it where nobody had; where its scope to be has the same, it is closed for that one."""
    group = secrets.token_hex(8)
    kept, widening = memories.widening(row, Scope(row["asked"]), scope, author)
    said = {"reason": tidy_reason(reason)} if reason else {}
    widening = replace(widening, body=widening.body | said | {"group": group})
    standing = row if kept == row["id"] else lookup.rows_by_id(memories.connection, [kept])[kept]
    trust = [] if standing["trust"] == "trusted" else [_trust(memories, standing, "trusted", author, reason, group)]
    memories.append([*trust, widening])
    closed = () if kept == row["id"] else (row,)
    done = _done("approve", kept, "trusted", closed, group)
    return replace(done, reason="it holds in all your projects now")


def _replaced(item: Item) -> tuple[lookup.Row, ...]:
    """What gives way to an approved item: the trusted memory it contradicts, but no memory of a wider scope."""
    against = item.against
    gives_way = against is not None and against["trust"] == "trusted" and against["scope"] == item.row["scope"]
    return (against,) if against is not None and gives_way else ()


def _restate(
    memories: Memories,
    verdict: str,
    statement: Statement,
    closed: Sequence[lookup.Row],
    author: Author,
    reason: str,
    target: Scope | None = None,
) -> Verdict:
    """One trusted memory in the place of `closed`: a new one, or the live one that says the same already. In their scope,
    unless another `target` is given."""
    target, group = target or Scope(closed[0]["scope"]), secrets.token_hex(8)
    try:
        cleaned, _ = tidy_statement(statement)
    except NotKept as refusal:
        memories.refuse(verdict, str(refusal), author, target)
        raise Refused(str(refusal)) from None
    if memories.tombstones.standing(cleaned.content, target, by_person=True):
        why = "this was forgotten; `cems lift` with the same text allows it again"
        memories.refuse(verdict, why, author, target, cleaned.content)
        raise Refused(why)
    ids = [row["id"] for row in closed]
    same = memories.known.rows(cleaned.content, target, without=ids)
    standing = next((row for row in same if row["state"] == "live"), None)
    drafts: list[Draft] = []
    if standing is not None:
        kept = MemoryId(standing["id"])
        if standing["trust"] != "trusted":
            drafts.append(_trust(memories, standing, "trusted", author, reason, group))
    else:
        memory, salt = memories.compose(replace(cleaned, scope=target), target, author)
        if verdict == "merge":
            source = memory.source.model_copy(update={"derived_from": tuple(ids)})
            memory = memory.model_copy(update={"source": source})
        kept = memory.id
        body = {"memory": memory.model_dump(mode="json"), "group": group, "reason": tidy_reason(reason)}
        body |= {"merges": ids} if verdict == "merge" else {"corrects": ids[0]}
        drafts.append(memories.draft("remember", kept, body, author, salt))
    drafts += [_close(memories, row, kept, author, reason, group) for row in closed]
    memories.append(drafts)
    said = f"{kept[:_SHORT]} said so already" if standing is not None else ""
    return replace(_done(verdict, kept, "trusted", closed, group), reason=said)


def _trust(memories: Memories, row: lookup.Row, trust: str, author: Author, reason: str, group: str) -> Draft:
    body = {"trust": trust, "from": row["trust"], "reason": tidy_reason(reason), "group": group}
    return memories.draft("trust", row["id"], body, author)


def _close(memories: Memories, row: lookup.Row, by: str, author: Author, reason: str, group: str) -> Draft:
    body = {"by": by, "reason": tidy_reason(reason), "group": group}
    return memories.draft("close", row["id"], body, author)


def _done(verdict: str, memory: str, trust: str, closed: Iterable[lookup.Row], group: str) -> Verdict:
    return Verdict(verdict, MemoryId(memory), trust, tuple(row["id"] for row in closed), group=group)
