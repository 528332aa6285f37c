"""The daemon's part of `cems doctor`: what only the process that holds everything open can tell."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cems.core.backups import is_missing, restore_advice
from cems.core.embedding import NO_MODEL
from cems.core.purge import unfinished
from cems.core.recall import lookup
from cems.core.service import progress
from cems.core.store import Store, StoreDamaged

if TYPE_CHECKING:
    from cems.core.service.operations import Operations

Check = dict[str, Any]


async def run_checks(operations: Operations) -> list[Check]:
    """Each check with whether it is fine, what was found and, where it is not, what to do."""
    checks = []
    for done, (name, check) in enumerate(_CHECKS.items()):
        await progress.report(done, len(_CHECKS), f"checking: {name}")
        checks.append(await check(operations))
    if (http := operations.http) is not None and (http.wanted or http.failure):
        found = http.failure or f"{len(http.tokens.all)} tokens, answered at {http.url}"
        checks.append(_check("http", not http.failure, found, "free the port, or revoke the tokens: `cems mcp tokens`"))
    return checks


def _check(name: str, ok: bool, detail: str, fix: str = "") -> Check:
    return {"name": name, "ok": ok, "detail": detail, "fix": "" if ok else fix}


async def _journal(operations: Operations) -> Check:
    try:
        faults = await operations.on_writer(operations.journal.verify)
        count = operations.reader.execute("SELECT COUNT(*) FROM chain").fetchone()[0]
    except sqlite3.DatabaseError as error:
        return _check("journal", False, f"it cannot be read: {error}", restore_advice(operations.home))
    if faults:
        first = faults[0]
        detail = f"{len(faults)} entries do not fit; the first is {first.seq}: {first.problem}"
        return _check("journal", False, detail, restore_advice(operations.home))
    if is_missing(operations.home):
        detail = f"{operations.home.journal} was removed under the daemon"
        return _check("journal", False, detail, restore_advice(operations.home))
    if unfinished(operations.reader):
        return _check(
            "journal", False, "a purge did not clean every file", "run `cems daemon restart`, then this again"
        )
    return _check("journal", True, f"{count} entries, the chain is whole")


async def _records(operations: Operations) -> Check:
    problem = await asyncio.to_thread(quick_check, operations.home.journal)
    return _check("records", problem == "ok", f"SQLite says {problem}", restore_advice(operations.home))


async def _sessions(operations: Operations) -> Check:
    path = operations.home.state
    problem = await asyncio.to_thread(quick_check, path)
    fix = "run `cems daemon restart`: it is set aside and made again, and no memory is in it"
    return _check("sessions", problem == "ok", f"SQLite says {problem} of {path.name}", fix)


def quick_check(path: Path) -> str:
    """`ok`, or what SQLite finds wrong with a file."""
    try:
        # On a connection of its own: it reads the whole file, and hooks go on being answered meanwhile.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
            return str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)


async def _embedding(operations: Operations) -> Check:
    embedder, settings = operations.embedder, operations.settings
    if embedder is not None:
        return _check("embedding", True, f"{embedder.identity}, {embedder.dimension} dimensions")
    if settings is not None and settings.embedding_model == NO_MODEL:
        return _check("embedding", True, "switched off by embedding_model = none: full text alone")
    fix = "run ./install.sh again, or `cems config unset embedding_model`"
    return _check("embedding", False, operations.without, fix)


async def _store(operations: Operations) -> Check:
    indexer = operations.indexer
    if indexer is None:
        if operations.embedder is None:
            return _check("store", True, "not used without an embedding model; every memory is in the journal")
        return _check("store", False, operations.without or "the store is not open", "run `cems daemon restart`")
    busy = indexer.busy
    try:
        # What the daemon has in memory would hide what happened to the files.
        store = await indexer.store.as_on_disk()
        try:
            sound, bad = await store.faults()
            indexed = await _indexes_work(operations, store)
        finally:
            store.close()
    except Exception as error:  # noqa: BLE001 - LanceDB raises many kinds for damaged files
        return _check("store", False, f"the store cannot be read ({type(error).__name__})", "run `cems rebuild`")
    wanted = dict(operations.reader.execute("SELECT id, seq FROM records WHERE state != 'hidden'").fetchall())
    if bad:
        return _check("store", False, f"{len(bad)} damaged of {len(wanted)} memories", "run `cems rebuild`")
    if indexer.failure:
        detail = f"writing to it fails ({indexer.failure}); the journal has everything"
        return _check("store", False, detail, "make room on the disk if it is full, else run `cems rebuild`")
    # Asked on both sides: what was written between the two readings is no fault.
    busy = busy or indexer.busy
    missing = sum(1 for memory, seq in wanted.items() if sound.get(memory) != seq)
    surplus = sum(1 for memory in sound if memory not in wanted)
    if not busy and (missing or surplus):
        detail = f"{missing} missing or outdated, {surplus} surplus of {len(wanted)} memories"
        return _check("store", False, detail, "run `cems rebuild`")
    if indexed is None or not (indexed or busy):
        return _check("store", False, "an index of the store cannot be used", "run `cems rebuild`")
    if busy:
        return _check("store", True, f"{len(sound)} of {len(wanted)} memories; it is being filled")
    return _check("store", True, f"{len(sound)} memories, each as the journal has it")


async def _indexes_work(operations: Operations, store: Store) -> bool | None:
    """Whether the newest memories are found through the indexes; None where these cannot be read."""
    scopes = [row[0] for row in operations.reader.execute("SELECT scope FROM scope_sizes ORDER BY live DESC LIMIT 1")]
    rows = lookup.listed_rows(operations.reader, scopes, limit=5) if scopes else []
    try:
        return all([await store.probe(row) for row in rows])
    except StoreDamaged:
        return None


_CHECKS: dict[str, Callable[[Operations], Awaitable[Check]]] = {
    "journal": _journal, "records": _records, "sessions": _sessions, "embedding": _embedding, "store": _store,
}  # fmt: skip
