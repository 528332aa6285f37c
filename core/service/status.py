"""What `cems status` shows of the daemon: process, memories, embedding, review queue, hooks, scope."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cems import __version__
from cems.core.recall import lookup
from cems.core.scope import project_name
from cems.core.service.hook_failures import hook_failures
from cems.core.updates import last_look

if TYPE_CHECKING:
    from cems.core.service.operations import Operations
    from cems.core.service.request import Request

_WEEK = 7 * 86_400


def status_json(operations: Operations, request: Request) -> dict[str, Any]:
    """The document; counts are of all memories, but for `here` and `review`, which are of the caller's scopes."""
    counts = lookup.count_by_state(operations.reader)
    here = lookup.count_by_state(operations.reader, request.scope.readable)
    embedder, indexer = operations.embedder, operations.indexer
    ready = operations.settings is not None
    project = request.scope.project
    return {
        "daemon": {
            "pid": os.getpid(),
            "version": __version__,
            "state": "ready" if ready else "keyword",
            "uptime_s": round(time.monotonic() - operations.began, 1),
            "rss_mib": memory_in_use(),
        },
        "memories": {
            "live": counts.get("live", 0),
            "closed": counts.get("closed", 0),
            "hidden": counts.get("hidden", 0),
            "archived": counts.get("archived", 0),
            "total": sum(counts.values()),
            "here": here.get("live", 0),
            "pending_index": _pending(operations),
        },
        "embedding": {
            "model": embedder.identity if embedder else "none",
            "state": "ready" if embedder and indexer else "unavailable" if ready else "loading",
            "reason": operations.without,
        },
        "review": lookup.count_where(operations.reader, request.scope.readable, lookup.WAITING),
        "hook_failures": len(hook_failures(operations.home, _WEEK)),
        "sessions": operations.hooks.sessions.alive(),
        "update": last_look(operations.home).as_json(),
        "heard": operations.hooks.sessions.heard(),
        "paused": operations.hooks.pauses.read().as_json(request.scope.project),
        "scope": {"project": project_name(project) if project else None, "readable": list(request.scope.readable)},
        "home": str(operations.home.root),
    }


def memory_in_use() -> float:
    """Resident memory of this process in MiB; 0.0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)
    except (OSError, ValueError, IndexError, AttributeError):
        return _largest_use()


def _largest_use() -> float:
    try:
        import resource
    except ImportError:
        return 0.0
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Bytes on macOS, KiB elsewhere.
    return round(used / (2**20 if os.uname().sysname == "Darwin" else 2**10), 1)


def _pending(operations: Operations) -> int:
    """Memories the store has not seen yet."""
    indexer = operations.indexer
    if indexer is None or not indexer.applied:
        return indexer.waiting if indexer else 0
    query = "SELECT COUNT(*) FROM records WHERE seq > ?"
    return int(operations.reader.execute(query, (indexer.applied,)).fetchone()[0])
