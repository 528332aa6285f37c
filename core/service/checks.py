"""The daemon's part of `cems doctor`: what only the process that holds everything open can tell."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cems.core.service.operations import Operations

Check = dict[str, Any]


async def run_checks(operations: Operations) -> list[Check]:
    """Each check with whether it is fine, what was found and, where it is not, what to do."""
    return [
        await _journal(operations),
        await _records(operations),
        _embedding(operations),
        await _store(operations),
    ]


def _check(name: str, ok: bool, detail: str, fix: str = "") -> Check:
    return {"name": name, "ok": ok, "detail": detail, "fix": "" if ok else fix}


async def _journal(operations: Operations) -> Check:
    faults = await operations._write(operations.journal.verify)
    if faults:
        first = faults[0]
        detail = f"{len(faults)} entries do not fit; the first is {first.seq}: {first.problem}"
        return _check("journal", False, detail, f"restore {operations.home.journal} from a backup")
    count = operations.reader.execute("SELECT COUNT(*) FROM chain").fetchone()[0]
    return _check("journal", True, f"{count} entries, the chain is whole")


async def _records(operations: Operations) -> Check:
    problem = operations.reader.execute("PRAGMA quick_check(1)").fetchone()[0]
    return _check("records", problem == "ok", f"SQLite says {problem}", "restore journal.db from a backup")


def _embedding(operations: Operations) -> Check:
    embedder = operations.embedder
    if embedder is None:
        return _check(
            "embedding", False, operations.without, "run ./install.sh again, or `cems config unset embedding_model`"
        )
    return _check("embedding", True, f"{embedder.identity}, {embedder.dimension} dimensions")


async def _store(operations: Operations) -> Check:
    indexer = operations.indexer
    if indexer is None:
        return _check("store", False, operations.without or "the store is not open", "run `cems rebuild`")
    try:
        sound, bad = await indexer.store.faults()
    except Exception as error:  # noqa: BLE001 - LanceDB raises many kinds for damaged files
        return _check("store", False, f"the store cannot be read ({type(error).__name__})", "run `cems rebuild`")
    wanted = dict(operations.reader.execute("SELECT id, seq FROM records WHERE state != 'hidden'").fetchall())
    if indexer.busy:
        await asyncio.sleep(0)
        return _check("store", True, f"{len(sound)} of {len(wanted)} memories; it is being filled")
    missing = sum(1 for memory, seq in wanted.items() if sound.get(memory) != seq)
    surplus = sum(1 for memory in sound if memory not in wanted)
    if bad or missing or surplus:
        detail = f"{len(bad)} damaged, {missing} missing or outdated, {surplus} surplus of {len(wanted)} memories"
        return _check("store", False, detail, "run `cems rebuild`")
    return _check("store", True, f"{len(sound)} memories, each as the journal has it")
