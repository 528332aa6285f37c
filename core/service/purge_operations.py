"""The daemon's part of `cems purge`: what it would erase, erasing it, and looking for what is left."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from cems.core import backups
from cems.core.needles import Needle, cut_everywhere, holds, raw_forms
from cems.core.purge import Plan, Purge, clean_journal, note_finished, unfinished
from cems.core.service import context_file
from cems.core.service.shapes import memory_json
from cems.core.traces import Trace, search_home

if TYPE_CHECKING:
    from cems.core.paths import Home
    from cems.core.service.operations import Operations
    from cems.core.service.request import Request

logger = logging.getLogger("cems.purge")


async def purge_plan(operations: Operations, request: Request) -> dict[str, Any]:
    """What a purge of `ids` or `text` would erase, for the person to agree to. Changes nothing."""
    plan = await operations.on_writer(_planned, operations, request)
    return _plan_json(plan)


async def purge(operations: Operations, request: Request) -> dict[str, Any]:
    """Erase; then look for what is left in CEMS_HOME (`left`). `texts` is what was looked for as raw bytes too."""

    def erase() -> Plan:
        plan = _planned(operations, request)
        if plan.empty and request.text("text", ""):
            # No entry holds it; a log or a left-over file may, and the search below tells.
            return plan
        return Purge(operations.memories, operations.journal).carry_out(
            plan, request.author, request.text("reason", "")
        )

    plan = await operations.on_writer(erase)
    cut = await asyncio.to_thread(cut_logs, operations.home, plan.needles)
    problems = await clean_files(operations)
    left = await asyncio.to_thread(search_home, operations.home, plan.needles)
    return _plan_json(plan) | {
        "logs": cut,
        "problems": problems,
        "left": [_trace_json(each) for each in left],
        "texts": [each.text for each in plan.needles if raw_forms((each,))],
    }


OPERATIONS: Mapping[str, Callable[[Operations, Request], Any]] = {"purge": purge, "purge_plan": purge_plan}


async def clean_files(operations: Operations) -> list[str]:
    """Leave nothing of what was erased in any file of ours; returns what could not be cleaned, a sentence each."""
    home = operations.home
    problems: list[str] = []
    upto = await operations.on_writer(unfinished, operations.journal.connection)
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("the journal", lambda: operations.on_writer(clean_journal, operations.journal.connection)),
        ("the store", lambda: _clean_store(operations)),
        ("the session table", lambda: asyncio.to_thread(operations.hooks.sessions.compact)),
        ("what agents read in every session", lambda: asyncio.to_thread(operations.hooks.stand_everywhere)),
        ("what agents were given with a prompt", lambda: asyncio.to_thread(_empty_context_files, home)),
        ("what was set aside", lambda: asyncio.to_thread(_remove_set_aside, home)),
        ("the backups", lambda: asyncio.to_thread(backups.replace_all, home)),
    ]
    for name, step in steps:
        try:
            problems += await step() or ()
        except Exception as error:  # noqa: BLE001 - each place is cleaned by itself; the person is told what was not
            logger.error("%s could not be cleaned after a purge (%s)", name, type(error).__name__)
            reason = str(error) if isinstance(error, (sqlite3.Error, OSError)) else type(error).__name__
            problems.append(f"{name} could not be cleaned ({reason}); run the same purge again")
    if upto and not problems:
        await operations.on_writer(note_finished, operations.journal.connection, upto)
    return problems


async def finish_purge(operations: Operations) -> None:
    """Clean what a purge left undone, because the daemon was stopped in the middle of it or a disk was full."""
    if await operations.on_writer(unfinished, operations.journal.connection):
        logger.info("a purge was not finished; cleaning its files now")
        await clean_files(operations)


def cut_logs(home: Home, needles: Collection[Needle]) -> int:
    """Take lines that hold one of the texts out of our own logs; returns how many."""
    cut = 0
    for path in sorted(home.logs.glob("*")):
        if not path.is_file():
            continue
        with path.open("r+b") as file:
            # The handler of a running daemon appends, so the file is changed in place.
            lines = file.read().split(b"\n")
            kept = [line for line in lines if not _line_holds(line, needles)]
            if len(kept) < len(lines):
                file.seek(0)
                file.write(b"\n".join(kept))
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
                cut += len(lines) - len(kept)
    return cut


def _planned(operations: Operations, request: Request) -> Plan:
    purging = Purge(operations.memories, operations.journal)
    if text := request.text("text", ""):
        return purging.by_text(text, request.scope, request.author)
    return purging.by_id(request.texts("ids") or [request.text("id")], request.scope, request.author)


async def _clean_store(operations: Operations) -> list[str]:
    if operations.indexer is not None:
        stayed = await operations.indexer.erase()
        return [f"{path} is of an earlier version of the store and stayed; run `cems rebuild`" for path in stayed]
    # Nobody has it open, and what is in it comes back from the journal.
    if operations.home.store.exists():
        await asyncio.to_thread(shutil.rmtree, operations.home.store)
    return []


def _empty_context_files(home: Home) -> list[str]:
    """What was put there for a prompt stays where the agent was killed before its turn ended."""
    stayed = []
    for path in sorted(home.run.glob("context-*")):
        try:
            context_file.put(str(home.root), path.name.removeprefix("context-"), b"")
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            stayed.append(f"{path} is no file of ours and stayed; remove it")
    return stayed


def _remove_set_aside(home: Home) -> None:
    """Damaged files that were moved out of the way hold what was in them."""
    for path in home.root.glob("*.damaged-*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _line_holds(line: bytes, needles: Collection[Needle]) -> bool:
    lowered = line.lower()
    return holds(line.decode("utf-8", "replace"), needles) or any(form in lowered for form in raw_forms(needles))


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "purged": [memory_json(row) for row in plan.whole],
        "cut": [cut_everywhere(memory_json(row), plan.needles) for row in plan.cut],
        "entries": len(plan.entries),
    }


def _trace_json(trace: Trace) -> dict[str, str]:
    return {"place": trace.place, "form": trace.form}
