"""The daemon's operations on the review queue: reading it, and a person's verdicts. No MCP tool calls them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cems.core import review
from cems.core.memories import Unusable
from cems.core.service.shapes import memory_json

if TYPE_CHECKING:
    from cems.core.service.operations import Operations
    from cems.core.service.request import Request


async def waiting(operations: Operations, request: Request) -> dict[str, Any]:
    """The queue of the caller's scopes; what was skipped today is left out unless `skipped` asks for it.

    `may_decide`: whether the caller's verdicts would be taken; `counts` are of everything that waits, by kind.
    """
    items = review.queue(operations.reader, request.scope)
    skipped = operations.hooks.sessions.skipped()
    shown = items if request.flag("skipped", False) else [item for item in items if item.row["id"] not in skipped]
    author = request.author
    return {
        "items": [_item_json(item) for item in shown[: request.limit(100)]],
        "total": len(items),
        "skipped": sum(item.row["id"] in skipped for item in items),
        "counts": dict(Counter(item.kind for item in items)),
        "may_decide": author.is_person and author.present,
        "agent": author.agent,
    }


async def decide(operations: Operations, request: Request) -> dict[str, Any]:
    """One verdict: approve, edit (`content`, `replaces`), reject, merge (`other`, `content`), skip, dispute."""
    verdict, prefix, reason = request.text("verdict"), request.text("id"), request.text("reason", "")
    memories, scope, author = operations.memories, request.scope, request.author
    match verdict:
        case "approve" | "reject" | "dispute":
            work = {"approve": review.approve, "reject": review.reject, "dispute": review.dispute}[verdict]
            done = await operations.change(work, memories, prefix, scope, author, reason)
        case "edit":
            text = request.text("content")
            replaces = request.flag("replaces", False) if "replaces" in request.body else None
            done = await operations.change(
                lambda: review.edit(memories, prefix, text, scope, author, reason, replaces=replaces)
            )
        case "merge":
            other, text = request.text("other"), request.text("content", "")
            done = await operations.change(review.merge, memories, prefix, other, scope, author, text, reason)
        case "skip":
            done = await operations.on_writer(review.skippable, memories, prefix, scope, author)
            operations.hooks.sessions.skip(done.id)
        case _:
            raise Unusable(f"verdict must be one of {', '.join(review.VERDICTS)}")
    return asdict(done) | {"waiting": await operations.on_writer(review.waiting, memories.connection, scope.readable)}


async def propose(operations: Operations, request: Request) -> dict[str, Any]:
    """A text for merging two memories, for the person to accept or change."""

    def text() -> str:
        one, other = (operations.memories.live(request.text(name), request.scope) for name in ("id", "other"))
        return review.proposed(one, other)

    return {"content": await operations.on_writer(text)}


def _item_json(item: review.Item) -> dict[str, Any]:
    against = item.against
    return {
        "kind": item.kind,
        "reason": item.reason,
        "memory": memory_json(item.row),
        "against": memory_json(against) if against else None,
        "tombstone": asdict(item.tombstone) if item.tombstone else None,
    }


OPERATIONS = {"review": waiting, "decide": decide, "propose": propose}
