"""The store: every memory in LanceDB, with its vector and its index terms. Searched, and rebuildable from the journal.

LanceDB never calls fsync and detects no flipped bytes, so it is never the only copy: each row carries the journal entry
it was made from and a hash of its content. One process writes it (the daemon), in batches.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cems.core.store_row import (
    HASHED,
    as_arrow,
    embedded_text,
    literal,
    literals,
    live_filter,
    matrix_of,
    past_filter,
    row_hash,
    schema_of,
    shelf_of,
    text_digest,
    valid_filter,
)  # fmt: skip
from cems.core.turnstile import Turnstile

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from cems.core.centroids import Centroids

    Vector = NDArray[np.float32]

__all__ = [
    "STORE_VERSION", "Hit", "Store", "StoreDamaged", "embedded_text", "live_filter", "open_store", "past_filter",
    "text_digest", "valid_filter",
]  # fmt: skip

STORE_VERSION = 3
"""Goes up when the table's columns change. An older table is replaced by one made from the journal."""

_TABLE = "memories_v"
_FLAT_UP_TO = 5_000
_OPTIMIZE_EVERY = 25
_NAMED_AT_ONCE = 500
_PRUNE_PATIENCE = 5.0
"""Seconds to wait for those who read an older version."""
_COMPACTIONS = 4
_KEEP_ALL = timedelta(days=36_500)
_MEAN_SAMPLE = 2_000


@dataclass(frozen=True, slots=True)
class Hit:
    """One row a search found. `vector` is None for a row without one (or of another model)."""

    id: str
    vector: Vector | None


class StoreDamaged(Exception):
    """LanceDB's files cannot be read; the journal has everything that was in them."""


class Store:
    """One open LanceDB table. Open with `open_store`; coroutines of one event loop, changes one at a time."""

    def __init__(self, connection: Any, table: Any, model: str, dimension: int) -> None:
        self._connection = connection
        self._table = table
        self._changing = asyncio.Lock()
        self._gate = Turnstile()
        self._rows: int | None = None
        self._generation = 0
        self._indexed = False
        self._centroids: Centroids | None = None
        self._one_model: bool | None = None
        self.model = model
        self.dimension = dimension
        self.unoptimized = 0
        """Writes since the last `optimize`."""
        self.unpruned = False
        """Whether files on disk may still hold what was changed or deleted."""

    async def upsert(self, rows: Sequence[Mapping[str, Any]], vectors: Vector | None) -> None:
        """Write rows (as `cems.core.recall.lookup` gives them) with their vectors, shape (len(rows), dimension)."""
        if not rows:
            return
        data = as_arrow(rows, vectors, self.model, self.dimension)
        live = [i for i, row in enumerate(rows) if row["state"] == "live"] if vectors is not None else []
        async with self._changing, self._counting([row["id"] for row in rows]) as centroids:
            await self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)
            if vectors is None:
                self._one_model = None
            elif centroids is not None:
                centroids.add([rows[i]["scope"] for i in live], vectors[live])
            self._changed()

    async def delete(self, ids: Sequence[str]) -> None:
        """Take rows out of the table. Older versions on disk still hold them until `optimize` prunes those."""
        for start in range(0, len(ids), _NAMED_AT_ONCE):
            part = ids[start : start + _NAMED_AT_ONCE]
            async with self._changing, self._counting(part):
                await self._table.delete(f"id IN ({literals(part)})")
                self._changed()

    @asynccontextmanager
    async def _counting(self, ids: Sequence[str]) -> AsyncIterator[Centroids | None]:
        """Count out what the rows of these ids had in the means; whoever changes them counts in what they have then.

        Where the change fails it is not known what was written: the means are made again by `take_stock`.
        """
        centroids, self._centroids = self._centroids, None
        if centroids is not None:
            where = f"id IN ({literals(ids)}) AND {self._counted}"
            async with self._gate.reading():
                found = await self._table.query().where(where).select(["scope", "vector"]).to_arrow()
            centroids.remove(found.column("scope").to_pylist(), matrix_of(found.column("vector"), self.dimension))
        yield centroids
        self._centroids = centroids

    async def search_text(self, terms: Sequence[str], where: str, limit: int) -> list[Hit]:
        """The rows that BM25 ranks highest for any of the index terms, within the filter."""
        if not terms or not await self.size():
            return []
        await self.ensure_indexes()
        from lancedb.query import MatchQuery

        async with self._gate.reading():
            query = self._table.query().where(where).nearest_to_text(MatchQuery(" ".join(terms), "terms"))
            return self._hits(await query.select(["id", "vector", "model"]).limit(limit).to_arrow())

    async def search_vector(self, vector: Vector, where: str, limit: int) -> list[Hit]:
        """The rows nearest by cosine among those of this model, within the filter."""
        rows = await self.size()
        if not rows:
            return []
        if not await self._is_of_one_model():
            where = f"({where}) AND {self._of_this_model}"
        async with self._gate.reading():
            query = self._table.query().nearest_to(vector).distance_type("cosine").column("vector").where(where)
            if rows > _FLAT_UP_TO:
                # No most: under a narrow filter any number of probes misses most of the matching rows.
                query = query.minimum_nprobes(20).maximum_nprobes(0)
            return self._hits(await query.select(["id", "vector", "model"]).limit(limit).to_arrow())

    async def mean_vector(self, scope: str) -> Vector | None:
        """The mean of the scope's live vectors; None where there are none.

        Exact once `take_stock` has counted them; before, that of at most 2,000 of them: a prompt waits for it.
        """
        if self._centroids is not None:
            return self._centroids.mean(scope)
        import numpy as np

        where = f"scope = {literal(scope)} AND {self._counted}"
        async with self._gate.reading():
            found = await self._table.query().where(where).select(["vector"]).limit(_MEAN_SAMPLE).to_arrow()
        vectors = matrix_of(found.column("vector"), self.dimension)
        return np.asarray(vectors.mean(axis=0), dtype=np.float32) if len(vectors) else None

    async def take_stock(self) -> None:
        """Count the vectors of every scope in one pass, unless they are counted; writing keeps them counted."""
        if self._centroids is not None:
            return
        from cems.core.centroids import Centroids

        centroids = Centroids(self.dimension)
        async with self._changing, self._gate.reading():
            query = self._table.query().where(self._counted).select(["scope", "vector"])
            async for batch in await query.to_batches(max_batch_length=_MEAN_SAMPLE):
                matrix = matrix_of(batch.column("vector"), self.dimension)
                centroids.add(batch.column("scope").to_pylist(), matrix)
            self._centroids = centroids

    @property
    def _of_this_model(self) -> str:
        return f"model = {literal(self.model)}"

    @property
    def _counted(self) -> str:
        return f"state = 'live' AND {self._of_this_model}"

    async def _is_of_one_model(self) -> bool:
        """Whether no row is of another model. Once that is so it stays so: what is written is of this one."""
        if not self._one_model:
            generation, others = self._generation, await self.count(f"model != {literal(self.model)}")
            if generation != self._generation:
                return False
            self._one_model = not others
        return self._one_model

    async def vectors(self, ids: Sequence[str]) -> dict[str, tuple[str, Vector]]:
        """By id, the digest of the text a vector was made from, and the vector (this model's only)."""
        if not ids:
            return {}
        where = f"id IN ({literals(ids)}) AND model = {literal(self.model)}"
        async with self._gate.reading():
            found = await self._table.query().where(where).select(["id", "text_digest", "vector"]).to_arrow()
        matrix = matrix_of(found.column("vector"), self.dimension)
        names = zip(found.column("id").to_pylist(), found.column("text_digest").to_pylist(), strict=True)
        return {memory_id: (digest, matrix[i]) for i, (memory_id, digest) in enumerate(names)}

    async def count(self, where: str | None = None) -> int:
        """Rows in the table, or those the filter lets through."""
        async with self._gate.reading():
            return int(await self._table.count_rows(where))

    async def size(self) -> int:
        """Rows in the table, counted once between two changes."""
        if self._rows is None:
            generation, rows = self._generation, await self.count()
            if generation != self._generation:
                return rows
            self._rows = rows
        return self._rows

    async def faults(self) -> tuple[dict[str, int], list[str]]:
        """What the table holds: by id the journal entry of each sound row, and the ids of rows whose hash is wrong
        or that are there twice. Raises StoreDamaged where the files cannot be read at all.
        """
        entries: dict[str, int] = {}
        bad: dict[str, None] = {}
        async with self._gate.reading(), _reading():
            query = self._table.query().select([*HASHED, "row_hash", "vector"])
            async for batch in await query.to_batches(max_batch_length=1000):
                matrix = matrix_of(batch.column("vector"), self.dimension)
                for i, row in enumerate(batch.drop_columns(["vector"]).to_pylist()):
                    if row["row_hash"] != row_hash(row, matrix[i]) or row["id"] in entries:
                        bad[str(row["id"])] = None
                    entries[row["id"]] = row["seq"]
        return {memory_id: seq for memory_id, seq in entries.items() if memory_id not in bad}, list(bad)

    async def entries(self) -> dict[str, int]:
        """By id, the journal entry of each row of this model; rows of another model count as missing (-1).

        Raises StoreDamaged where the files cannot be read.
        """
        async with self._gate.reading(), _reading():
            found = await self._table.query().select(["id", "seq", "model"]).to_arrow()
            columns = (found.column(name).to_pylist() for name in ("id", "seq", "model"))
            return {i: seq if model == self.model else -1 for i, seq, model in zip(*columns, strict=True)}

    async def ensure_indexes(self) -> None:
        """Make the indexes that are missing for the table's size."""
        if self._indexed or not await self.size():
            return
        from lancedb.index import FTS, Bitmap, BTree, IvfSq

        async with self._changing:
            if self._indexed:
                return
            existing = await self._indexed_columns()
            wanted: dict[str, Any] = {
                "terms": FTS(base_tokenizer="whitespace", stem=False, remove_stop_words=False, lower_case=False,
                             ascii_folding=False, max_token_length=None),
                "id": BTree(), "scope": Bitmap(), "shelf": Bitmap(), "since": BTree(), "until": BTree(),
            }  # fmt: skip
            if await self.size() > _FLAT_UP_TO:
                wanted["vector"] = IvfSq(distance_type="cosine")
            for column, config in wanted.items():
                if column not in existing:
                    await self._table.create_index(column, config=config)
            self._indexed = True

    async def _indexed_columns(self) -> set[str]:
        return {column for index in await self._table.list_indices() for column in index.columns}

    async def optimize(self, *, force: bool = False) -> bool:
        """Compact fragments, bring the indexes up to date and remove old versions' files; only when enough was written,
        unless forced.
        """
        if not force and self.unoptimized < _OPTIMIZE_EVERY:
            return False
        # The table may have outgrown a flat search since.
        self._indexed = False
        await self.ensure_indexes()
        async with self._changing:
            for _ in range(_COMPACTIONS):
                # What came of one may be compacted once more, and pruning must find nothing to compact.
                if not (await self._table.optimize(cleanup_older_than=_KEEP_ALL)).compaction.fragments_removed:
                    break
            self.unoptimized = 0
            await self._prune()
            await self._audit_centroids()
        return True

    async def _prune(self) -> None:
        """Remove every older version's files, as soon as nobody stands on one; not now where that takes long."""
        try:
            await asyncio.wait_for(self._gate.passed(), _PRUNE_PATIENCE)
        except TimeoutError:
            return
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"optimize\(cleanup_older_than=0\)")
            # Who comes now reads the newest version, and no other process writes.
            await self._table.optimize(cleanup_older_than=timedelta(0))
        self.unpruned = False

    async def _audit_centroids(self) -> None:
        """Forget the means where they are not of as many rows as there are."""
        if self._centroids is not None and self._centroids.total != await self.count(self._counted):
            self._centroids = None

    def _changed(self) -> None:
        self.unoptimized += 1
        self._generation += 1
        self._rows = None
        self.unpruned = True

    def _hits(self, found: pa.Table) -> list[Hit]:
        matrix = matrix_of(found.column("vector"), self.dimension)
        rows = zip(found.column("id").to_pylist(), found.column("model").to_pylist(), strict=True)
        return [Hit(memory, matrix[i] if model == self.model else None) for i, (memory, model) in enumerate(rows)]

    async def rewrite(self) -> None:
        """Write the table anew and remove every file of its earlier versions, so that nothing deleted is left on disk.

        `optimize` cannot do that: it leaves a deleted row in its fragment's file until a tenth of the fragment is gone.
        Searches under way end first; those that come meanwhile wait. Takes the table into memory once.
        """
        async with self._changing:
            data = await self._table.query().to_arrow()
            self._table = await self._connection.create_table(self._table.name, data=data, mode="overwrite")
            self._changed()
            self._indexed = False
            async with self._gate.shut():
                warnings.filterwarnings("ignore", message=r"optimize\(cleanup_older_than=0\)")
                # Safe only because this process is the single writer and nobody of it reads or writes now.
                await self._table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)
            self.unoptimized, self.unpruned = 0, False
        await self.ensure_indexes()

    async def as_on_disk(self) -> Store:
        """The same table through a connection of its own, which has nothing of the files in memory. Raises StoreDamaged."""
        import lancedb

        async with _reading():
            # Each question asks for the newest version: the one there was at first may be removed meanwhile.
            connection = await lancedb.connect_async(self._connection.uri, read_consistency_interval=timedelta(0))
            store = Store(connection, await connection.open_table(self._table.name), self.model, self.dimension)
            # One that only looks: an index made here would collide with the one its owner is making.
            store._indexed = True
            # Nor may its owner remove the version it looks at.
            store._gate = self._gate
            return store

    async def probe(self, row: Mapping[str, Any]) -> bool:
        """Whether a live row is found through the indexes of words, id, scope and shelf; not while one is still to be
        made. Raises StoreDamaged.
        """
        where = f"id = {literal(row['id'])} AND scope = {literal(row['scope'])} AND shelf = {literal(shelf_of(row))}"
        async with _reading():
            if "terms" not in await self._indexed_columns():
                return False
            found = await self.search_text(row["terms"].split()[:1], where, 1)
            return bool(found) or not row["terms"]

    def close(self) -> None:
        self._connection.close()


@asynccontextmanager
async def _reading() -> AsyncIterator[None]:
    """LanceDB answers damaged files with many kinds of errors, a panic of its native part (no Exception) among them."""
    try:
        yield
    except (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        kind = type(error).__name__
        raise StoreDamaged(f"the store's files cannot be read ({kind}); `cems rebuild` makes them again") from error


async def open_store(folder: Path, model: str, dimension: int) -> tuple[Store, bool]:
    """The store for this model, and whether its table was just made (then everything must be written to it).

    A table of another version or dimension is left behind and dropped. Raises whatever LanceDB raises for a table it
    cannot open: `cems rebuild` makes the folder again.
    """
    # One warning per query without an index otherwise. Read when the library starts.
    os.environ.setdefault("LANCEDB_LOG", "error")
    import lancedb

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    connection = await lancedb.connect_async(folder)
    name = f"{_TABLE}{STORE_VERSION}_{dimension}"
    names = (await connection.list_tables()).tables
    fresh = name not in names
    table = (
        await connection.create_table(name, schema=schema_of(dimension)) if fresh else await connection.open_table(name)
    )
    for other in names:
        if other != name and other.startswith(_TABLE):
            await connection.drop_table(other)
    return Store(connection, table, model, dimension), fresh
