"""The operations about the past: what became of a memory, the audit log, retracting, and undo."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from cems.core import audit as audit_log
from cems.core.memories import Unusable
from cems.core.memory import format_time
from cems.core.recall import lookup
from cems.core.service.shapes import memory_json, without_content
from cems.core.timeline import Event, Link, chain_of, events
from cems.core.timeline import retract as retract_memory
from cems.core.trust import WITHHELD
from cems.core.undo import Undone
from cems.core.undo import undo as undo_change

if TYPE_CHECKING:
    from cems.core.service.operations import Operations
    from cems.core.service.request import Request

_HEAD = re.compile(r"[0-9]{1,9}:[0-9a-fA-F]{64}\Z")


async def history(operations: Operations, request: Request) -> dict[str, Any]:
    """The chain of corrections before and after a memory, the oldest first."""

    def read() -> tuple[lookup.Row, list[Link], int]:
        row = operations.memories.find(request.text("id"), request.scope)
        return row, *chain_of(operations.journal.connection, row["id"], request.scope.readable)

    row, links, elsewhere = await operations.on_writer(read)
    # What a person withholds is shown to an agent where it names it, as `show` does, and not along the way.
    shown = [link for link in links if request.author.is_person or link.row["id"] == row["id"] or not _withheld(link)]
    return {
        "id": row["id"],
        "chain": [_link_json(link) for link in shown],
        "elsewhere": elsewhere,
        "withheld": len(links) - len(shown),
    }


async def timeline(operations: Operations, request: Request) -> dict[str, Any]:
    """What was learnt and changed in the caller's scopes, the newest first: from `since` on, before `until`."""
    since, until, limit = request.instant("since"), request.instant("until"), request.limit(20)
    withheld = () if request.author.is_person else WITHHELD
    found = await operations.on_writer(
        lambda: events(
            operations.journal.connection, request.scopes(), since=since, until=until, without=withheld, limit=limit
        )
    )
    return {
        "events": [_event_json(each) for each in found.events],
        "coverage": {"considered": len(found.events), "total": found.matching},
    }


async def audit(operations: Operations, request: Request) -> dict[str, Any]:
    """The last entries of the audit log in the caller's scopes; what is elsewhere is a number."""
    since, actor, limit = request.instant("since"), request.text("actor", ""), request.limit(50)

    def read() -> audit_log.Log:
        connection, scopes = operations.journal.connection, request.scope.readable
        memory = key = ""
        if named := request.text("id", ""):
            row = operations.memories.find(named, request.scope)
            memory, key = row["id"], operations.memories.known.key_of(row["scope"], row["content"])
        return audit_log.read(connection, scopes, memory=memory, value_key=key, since=since, actor=actor, limit=limit)

    log = await operations.on_writer(read)
    return {
        "entries": [audit_log.entry_json(each) for each in log.entries],
        "coverage": {"considered": len(log.entries), "total": log.matching},
        "elsewhere": log.elsewhere,
    }


async def audit_verify(operations: Operations, request: Request) -> dict[str, Any]:
    """Whether the journal is as it was written, and what is wrong with it."""
    against = request.text("against", "")
    if against and not _HEAD.match(against):
        raise Unusable("against must be a head as `cems audit verify` prints it, such as 120:9f2c…")
    note = audit_log.head_note(operations.home)
    found = await operations.on_writer(audit_log.verify, operations.journal, note, against)
    return {
        "whole": not found.faults,
        "entries": found.entries,
        "head": found.head,
        "after_note": found.after_note,
        "faults": [{"seq": each.seq, "op_id": each.op_id, "problem": each.problem} for each in found.faults],
    }


async def retract(operations: Operations, request: Request) -> dict[str, Any]:
    """Close a memory without a replacement, or end its validity at an instant."""

    def close() -> tuple[lookup.Row, str]:
        return retract_memory(
            operations.memories, request.text("id"), request.scope, request.author, reason=request.text("reason", ""),
            at=request.instant("at"),
        )  # fmt: skip

    row, op_id = await operations.change(close)
    now = lookup.rows_by_id(operations.reader, [row["id"]])[row["id"]]
    return {"memory": memory_json(now) | {"state": now["state"]}, "op_id": op_id}


async def undo(operations: Operations, request: Request) -> dict[str, Any]:
    """Take a change back."""
    arguments = (operations.memories, request.text("what"), request.scope, request.author, request.text("reason", ""))
    done: Undone = await operations.change(undo_change, *arguments)
    return {
        "undone": [
            {"seq": each.seq, "op_id": each.operation.op_id, "op": each.operation.kind, "id": each.operation.entity}
            for each in done.entries
        ],
        "group": done.group,
        "restored": [memory_json(row) for row in done.restored],
        "removed": [_shown(row) for row in done.removed],
        "changed": [_shown(row) for row in done.changed],
    }


OPERATIONS: dict[str, Callable[[Operations, Request], Coroutine[Any, Any, dict[str, Any]]]] = {
    "history": history, "timeline": timeline, "audit": audit, "audit_verify": audit_verify, "retract": retract, "undo": undo,
}  # fmt: skip


def _withheld(link: Link) -> bool:
    return link.row["trust"] in WITHHELD


def _shown(row: lookup.Row) -> dict[str, Any]:
    memory = memory_json(row)
    return without_content(memory) if row["state"] == "hidden" else memory


def _event_json(event: Event) -> dict[str, Any]:
    memory = _shown(event.row)
    return {
        "at": event.at, "what": event.what, "id": memory["id"], "content": memory["content"],
        "category": memory["category"], "scope": memory["scope"], "trust": memory["trust"], "state": event.row["state"],
        "actor": event.actor, "agent": event.agent, "corrects": list(event.corrects),
        "reason": "" if event.row["state"] == "hidden" else event.reason,
    }  # fmt: skip


def _link_json(link: Link) -> dict[str, Any]:
    """A memory in its chain: what it said, when that held and was believed, who said it, and why it was closed."""
    row, closing = link.row, link.closing
    memory = _shown(row)
    hidden = row["state"] == "hidden"
    return {
        name: memory[name] for name in ("id", "content", "title", "category", "scope", "trust")
    } | {
        "state": row["state"],
        "valid": {"from": row["valid_from"], "to": row["valid_to"]},
        "believed": {"from": row["recorded_at"], "to": row["expired_at"]},
        "source": {name: (row.get("source") or {}).get(name, "") for name in ("actor", "agent", "session")},
        "corrects": list(link.corrects),
        "closed_by": row["closed_by"],
        "closed": None if closing is None else {
            "at": format_time(closing.at), "actor": closing.actor, "agent": closing.agent, "session": closing.session,
            "reason": "" if hidden else str(closing.body.get("reason", "")),
        },
    }  # fmt: skip
