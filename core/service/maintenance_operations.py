"""Maintenance as an agent or a person may ask for it: a report of what is there, and the jobs that change no memory.

A job is added here by name; what decides about memories (merging, archiving, forgetting) is no job of this list.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cems.core import duplicates, review
from cems.core.backups import copies
from cems.core.memories import Unusable
from cems.core.recall import lookup
from cems.core.scope import project_name
from cems.core.service import progress
from cems.core.service.checks import run_checks
from cems.core.trust import SEARCHED

if TYPE_CHECKING:
    from cems.core.service.operations import Operations
    from cems.core.service.request import Request

_COMPARED = 2_000
_SHOWN_PAIRS = 10
_SETTLE_SECONDS = 60.0
_OVER: lookup.Condition = ("state = 'live' AND COALESCE(valid_to, '~') <= ?", ())


class Job(NamedTuple):
    """What a job does, in a sentence, and the work."""

    does: str
    run: Callable[[Operations], Awaitable[dict[str, Any]]]


async def maintenance(operations: Operations, request: Request) -> dict[str, Any]:
    """The report of the caller's scopes, or what the named `job` found and did. Raises Unusable for another name."""
    name = request.text("job", "")
    if not name:
        return await _report(operations, request)
    if name not in JOBS:
        raise Unusable(f"there is no job {name!r}; there are {', '.join(JOBS)}")
    began = time.monotonic()
    result = await JOBS[name].run(operations)
    return {"job": name, "result": result, "seconds": round(time.monotonic() - began, 2)}


async def _report(operations: Operations, request: Request) -> dict[str, Any]:
    scopes, reader = request.scope.readable, operations.reader
    project = request.scope.project
    states = lookup.count_by_state(reader, scopes)
    over = (_OVER[0], (lookup.now_text(),))
    waiting = Counter(item.kind for item in review.queue(reader, request.scope))
    return {
        "scope": {"project": project_name(project) if project else None, "readable": list(scopes)},
        "memories": {
            **{state: states.get(state, 0) for state in ("live", "closed", "hidden", "archived")},
            "unverified": lookup.count_where(reader, scopes, ("state = 'live' AND trust = 'candidate'", ())),
            "withheld": lookup.count_where(
                reader, scopes, ("state = 'live' AND trust IN ('disputed', 'rejected')", ())
            ),
            "over": lookup.count_where(reader, scopes, over),
        },
        "review": {"total": sum(waiting.values()), **waiting},
        "duplicates": await _duplicates(operations, request),
        "store": _store(operations),
        "last_copy": next((folder.name for folder in copies(operations.home)), None),
        "jobs": [{"name": name, "does": job.does} for name, job in JOBS.items()],
    }


async def _duplicates(operations: Operations, request: Request) -> dict[str, Any]:
    """Pairs among the newest memories in use, those first that were recorded last."""
    condition = lookup.trusted_as(lookup.not_over(), SEARCHED)
    rows = lookup.listed_rows(operations.reader, request.scope.readable, condition=condition, limit=_COMPARED)
    vectors = {}
    if operations.indexer is not None:
        ids = [row["id"] for row in rows]
        found = await operations.indexer.store.vectors(ids) | {
            memory: made for memory, made in operations.indexer.fresh.items() if memory in set(ids)
        }
        vectors = {memory: vector for memory, (_, vector) in found.items()}
    pairs = await asyncio.to_thread(duplicates.suspected, rows, vectors)
    return {
        "suspected": len(pairs),
        "compared": len(rows),
        "pairs": [[pair.older["id"], pair.newer["id"]] for pair in pairs[:_SHOWN_PAIRS]],
    }


def _store(operations: Operations) -> dict[str, Any]:
    indexer = operations.indexer
    if indexer is None:
        return {"state": "none", "reason": operations.without}
    return {
        "state": "filling" if indexer.busy else "ready",
        "failure": indexer.failure or None,
        "writes_since_compaction": indexer.store.unoptimized,
    }


# -- the jobs ----------------------------------------------------------------------------------------------------------


async def _verify(operations: Operations) -> dict[str, Any]:
    checks = await run_checks(operations)
    return {"sound": all(each["ok"] for each in checks), "checks": checks}


async def _compact(operations: Operations) -> dict[str, Any]:
    indexer = operations.indexer
    if indexer is None:
        return {"done": False, "reason": operations.without or "there is no store"}
    await progress.report(0, 2, "writing what waits")
    if not await indexer.settled(_SETTLE_SECONDS):
        return {"done": False, "reason": "the store is still being filled; try again later"}
    await progress.report(1, 2, "compacting the store")
    before = await asyncio.to_thread(_bytes_of, operations.home.store)
    await indexer.compact()
    return {
        "done": True,
        "bytes_before": before,
        "bytes_after": await asyncio.to_thread(_bytes_of, operations.home.store),
    }


def _bytes_of(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            # Removed between the two.
            continue
    return total


JOBS = {
    "verify": Job("checks journal, records, session table and store, and changes nothing", _verify),
    "compact": Job("joins the store's small files and removes old versions of it; changes no memory", _compact),
}

OPERATIONS = {"maintenance": maintenance}
