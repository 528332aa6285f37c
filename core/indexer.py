"""Feeds LanceDB from the records, in batches, and finds out by itself what LanceDB lacks.

What comes one by one is embedded at once, found meanwhile by way of the records with the vectors kept here, and written
when enough of it is together or nothing more comes: each write makes a version and a fragment that later searches open.

There is no stored watermark to trust: at each start the table's rows are compared with the records, and whatever is
missing, outdated, of another model or no longer wanted is put right. So a crash, a lost power supply, a deleted folder
and a new model are all the same case.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cems.core.recall import lookup
from cems.core.store import Store, StoreDamaged, embedded_text, open_store, text_digest

if TYPE_CHECKING:
    from cems.core.embedding import Embedder

logger = logging.getLogger("cems.indexer")

Vectors = np.ndarray[Any, np.dtype[np.float32]]
Made = tuple[str, Vectors]

_BATCH = 512
_ENOUGH = 64
"""Memories that are worth a write of their own. Fewer than a search looks up in the records (`hybrid._NOT_INDEXED_YET`)."""
_NOT_THE_FILES = ("no space left", "permission denied", "too many open files", "read-only file system")
"""Reasons that say nothing of the files: a sound store is not set aside for them."""
_IDLE_WRITE_SECONDS = 2.0
_IDLE_OPTIMIZE_SECONDS = 3.0
_WORTH_OPTIMIZING = 8
"""Writes after which a short pause is used to compact; fewer wait for a long one."""
_LONG_IDLE_SECONDS = 60.0
_GATHER_SECONDS = 0.1
"""What comes in one go is embedded in one go."""


class Indexer:
    """One store and the records it follows. `wake` after each change; `run` until cancelled."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, embedder: Embedder) -> None:
        self._folder = folder
        self._connection = connection
        self._embedder = embedder
        self._store: Store | None = None
        self._woken = asyncio.Event()
        self._idle = asyncio.Event()
        self._writing = asyncio.Lock()
        self._reconciled = False
        self._hurried = False
        self._quiet_since = time.monotonic()
        self.applied = 0
        self.fresh: dict[str, Made] = {}
        """Of the memories after `applied`, by id: the digest of the text, and its vector."""
        self.waiting = 0
        self.failure = ""
        """The kind of error that the last attempt to write ended with."""

    @property
    def store(self) -> Store:
        """The open store. Raises RuntimeError before `open`."""
        if self._store is None:
            raise RuntimeError("the store is not open")
        return self._store

    async def open(self) -> None:
        """Open the store; a folder LanceDB cannot open or read is set aside, and a new one filled from the journal."""
        identity, dimension = self._embedder.identity, self._embedder.dimension
        try:
            self._store = await self._opened(identity, dimension)
        except Exception as error:
            if any(reason in str(error).lower() for reason in _NOT_THE_FILES):
                raise
            aside = self._set_aside()
            logger.error("the store does not open (%s): set aside as %s, made again", type(error).__name__, aside.name)
            self._store = await self._opened(identity, dimension)
        self._reconciled = False
        self.applied = 0

    async def _opened(self, identity: str, dimension: int) -> Store:
        store, _ = await open_store(self._folder, identity, dimension)
        try:
            await store.entries()
        except BaseException:
            store.close()
            raise
        return store

    def _set_aside(self) -> Path:
        """Move the folder out of the way. Only the newest one is kept: its rows may be of memories forgotten since."""
        self._remove_asides()
        aside = self._folder.with_name(f"{self._folder.name}.damaged-{time.time_ns()}")
        if self._folder.exists():
            self._folder.rename(aside)
        return aside

    def _remove_asides(self) -> None:
        for aside in self._folder.parent.glob(f"{self._folder.name}.damaged-*"):
            _remove(aside)

    def wake(self) -> None:
        """There is something new in the records."""
        self._idle.clear()
        self._woken.set()

    async def settled(self, seconds: float) -> bool:
        """Wait until the store holds everything there is; False when that takes longer."""
        if self.busy:
            self._hurried = True
            self._woken.set()
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            return False
        return True

    @property
    def busy(self) -> bool:
        return not self._idle.is_set()

    async def run(self) -> None:
        """Follow the records until cancelled. A failed write is tried again, less and less often."""
        pause = 0.5
        self.wake()
        while True:
            try:
                await self._follow()
                pause, self.failure = 0.5, ""
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - a full disk, a commit conflict: nothing is lost, try again
                self.failure = type(error).__name__
                logger.error("writing to the store failed (%s), trying again", self.failure)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 60)
                await self._recover()

    async def rebuild(self) -> int:
        """Make the whole folder again from the journal; returns how many memories it holds."""
        async with self._writing:
            self._idle.clear()
            # Whatever stops this half way: `run` goes on with it.
            self._woken.set()
            self.store.close()
            _remove(self._folder)
            await self.open()
            self._remove_asides()
            await self._reconcile()
            await self.store.optimize(force=True)
            return await self.store.count()

    async def compact(self) -> None:
        """Bring indexes up to date, join small files and remove old ones."""
        async with self._writing:
            await self.store.optimize(force=True)

    async def erase(self) -> list[Path]:
        """Leave nothing of what the records no longer hold in the store's files; returns older files that stayed."""
        async with self._writing:
            self._idle.clear()
            # Whatever stops this half way: `run` goes on with it.
            self._woken.set()
            earlier = [path for path in self._folder.rglob("*") if path.is_file()]
            await self._reconcile()
            await self.store.rewrite()
            self._remove_asides()
            return [path for path in earlier if path.exists() and path.suffix != ".json"]

    async def _recover(self) -> None:
        """After a failure: compare again, and open again where the files themselves have become unreadable."""
        self._reconciled = False
        self._woken.set()
        try:
            await self.store.entries()
        except StoreDamaged:
            async with self._writing:
                self.store.close()
                try:
                    await self.open()
                except Exception as error:  # noqa: BLE001 - the disk may be full: tried again like any other write
                    logger.error("the store cannot be opened again yet (%s)", type(error).__name__)

    async def _follow(self) -> None:
        try:
            await asyncio.wait_for(self._woken.wait(), _IDLE_WRITE_SECONDS if self.busy else _IDLE_OPTIMIZE_SECONDS)
        except TimeoutError:
            await self._rest()
            return
        self._quiet_since = time.monotonic()
        if self._reconciled and not self._hurried:
            await asyncio.sleep(_GATHER_SECONDS)
        self._woken.clear()
        await self._catch_up()

    async def _catch_up(self) -> None:
        """Write what is worth it, and embed the rest."""
        async with self._writing:
            hurried, self._hurried = self._hurried or not self._reconciled, False
            if not self._reconciled:
                await self._reconcile()
            while len(rows := lookup.rows_after(self._connection, self.applied, _BATCH)) >= (1 if hurried else _ENOUGH):
                await self._write(rows)
                self.applied = rows[-1]["seq"]
                await self.store.optimize()
            await self._prepare(rows)
            # Here and not in the first search, which a prompt waits for.
            await self.store.ensure_indexes()
            await self.store.take_stock()
        if not rows and not self._woken.is_set():
            self._idle.set()

    async def _rest(self) -> None:
        """Nothing came for a while."""
        if self.busy:
            self._hurried = True
            await self._catch_up()
            return
        enough = self.store.unoptimized >= _WORTH_OPTIMIZING
        if enough or (
            (self.store.unoptimized or self.store.unpruned)
            and time.monotonic() - self._quiet_since > _LONG_IDLE_SECONDS
        ):
            async with self._writing:
                await self.store.optimize(force=True)

    async def _reconcile(self) -> None:
        head = self._connection.execute("SELECT COALESCE(MAX(seq), 0) FROM records").fetchone()[0]
        wanted: dict[str, int] = dict(
            self._connection.execute("SELECT id, seq FROM records WHERE state != 'hidden'").fetchall()
        )
        present = await self.store.entries()
        await self.store.delete([memory for memory in present if memory not in wanted])
        stale = [memory for memory, seq in wanted.items() if present.get(memory) != seq]
        self.waiting = len(stale)
        self.fresh.clear()
        for start in range(0, len(stale), _BATCH):
            part = stale[start : start + _BATCH]
            await self._write(list(lookup.rows_by_id(self._connection, part).values()))
            self.waiting = len(stale) - start - len(part)
        if stale:
            logger.info("the store lacked %d memories and has them now", len(stale))
        self.applied = head
        self._reconciled = True

    async def _write(self, rows: Sequence[lookup.Row]) -> None:
        hidden = [row["id"] for row in rows if row["state"] == "hidden"]
        kept = [row for row in rows if row["state"] != "hidden"]
        await self.store.delete(hidden)
        if kept:
            await self.store.upsert(kept, await self._vectors(kept))
        for row in rows:
            self.fresh.pop(row["id"], None)

    async def _prepare(self, rows: Sequence[lookup.Row]) -> None:
        """Have a vector for each of these rows, which are not written yet, and for no other."""
        kept = [row for row in rows if row["state"] != "hidden"]
        vectors: Sequence[Vectors] = list(await self._vectors(kept)) if kept else []
        self.fresh = {row["id"]: (text_digest(row), vector) for row, vector in zip(kept, vectors, strict=True)}

    async def _vectors(self, rows: Sequence[lookup.Row]) -> Vectors:
        """A vector for each row, shape (len(rows), dimension): the one there is for the same text, else a new one."""
        digests = {row["id"]: text_digest(row) for row in rows}
        known = {each: made for each, made in self.fresh.items() if digests.get(each) == made[0]}
        stored = await self.store.vectors([each for each in digests if each not in known])
        known |= {each: made for each, made in stored.items() if digests[each] == made[0]}
        missing = [row for row in rows if row["id"] not in known]
        made = await asyncio.to_thread(self._embedder.embed, [embedded_text(row) for row in missing])
        new = {row["id"]: vector for row, vector in zip(missing, made, strict=True)}
        return np.stack([new[row["id"]] if row["id"] in new else known[row["id"]][1] for row in rows])


def _remove(folder: Path) -> None:
    """Remove a store's folder, or the file somebody left in its place."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.unlink(missing_ok=True)
