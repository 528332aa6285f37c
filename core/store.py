"""The store: every memory in LanceDB, with its vector and its index terms. Searched, and rebuildable from the journal.

LanceDB never calls fsync and detects no flipped bytes, so it is never the only copy: each row carries the journal entry
it was made from and a hash of its content. One process writes it (the daemon), in batches.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cems.core.turnstile import Turnstile

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

STORE_VERSION = 2
"""Goes up when the table's columns change. An older table is replaced by one made from the journal."""

_TABLE = "memories_v"
_FLAT_UP_TO = 20_000
_OPTIMIZE_EVERY = 25
_NAMED_AT_ONCE = 500
# A wide margin: readers of this process may still hold a version that a shorter one would remove.
_KEEP_VERSIONS = timedelta(minutes=5)
_MEAN_SAMPLE = 2_000
_HASHED = ("id", "scope", "category", "kind", "trust", "state", "title", "content", "tags", "recorded_at", "valid_from",
           "valid_to", "expired_at", "archived_at", "pinned", "confidence", "tokens", "source", "terms", "model", "seq",
           "text_digest")  # fmt: skip


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
        self._unpruned_since: float | None = None
        self._means: dict[str, Vector | None] = {}
        self.model = model
        self.dimension = dimension
        self.unoptimized = 0
        """Writes since the last `optimize`."""

    async def upsert(self, rows: Sequence[Mapping[str, Any]], vectors: Vector | None) -> None:
        """Write rows (as `cems.core.recall.lookup` gives them) with their vectors, shape (len(rows), dimension)."""
        if not rows:
            return
        data = _arrow(rows, vectors, self.model, self.dimension)
        async with self._changing:
            await self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)
            self._changed()

    async def delete(self, ids: Sequence[str]) -> None:
        """Take rows out of the table. Older versions on disk still hold them until `optimize` prunes those."""
        if not ids:
            return
        async with self._changing:
            for start in range(0, len(ids), _NAMED_AT_ONCE):
                await self._table.delete(f"id IN ({_literals(ids[start : start + _NAMED_AT_ONCE])})")
                self._changed()

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
        async with self._gate.reading():
            query = self._table.query().nearest_to(vector).distance_type("cosine").column("vector")
            query = query.where(f"({where}) AND model = {_literal(self.model)}")
            if rows > _FLAT_UP_TO:
                # Under a narrow filter the default number of probes misses most of the matching rows.
                query = query.minimum_nprobes(20).maximum_nprobes(0)
            return self._hits(await query.select(["id", "vector", "model"]).limit(limit).to_arrow())

    async def mean_vector(self, scope: str) -> Vector | None:
        """The mean of the scope's live vectors (of a sample of at most 2,000); None where there are none."""
        if scope in self._means:
            return self._means[scope]
        import numpy as np

        generation = self._generation
        where = f"scope = {_literal(scope)} AND state = 'live' AND model = {_literal(self.model)}"
        async with self._gate.reading():
            found = await self._table.query().where(where).select(["vector"]).limit(_MEAN_SAMPLE).to_arrow()
        vectors = _matrix(found.column("vector"), self.dimension)
        mean = np.asarray(vectors.mean(axis=0), dtype=np.float32) if len(vectors) else None
        if generation == self._generation:
            self._means[scope] = mean
        return mean

    async def vectors(self, ids: Sequence[str]) -> dict[str, tuple[str, Vector]]:
        """By id, the digest of the text a vector was made from, and the vector (this model's only)."""
        if not ids:
            return {}
        where = f"id IN ({_literals(ids)}) AND model = {_literal(self.model)}"
        async with self._gate.reading():
            found = await self._table.query().where(where).select(["id", "text_digest", "vector"]).to_arrow()
        matrix = _matrix(found.column("vector"), self.dimension)
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
            query = self._table.query().select([*_HASHED, "row_hash", "vector"])
            async for batch in await query.to_batches(max_batch_length=1000):
                matrix = _matrix(batch.column("vector"), self.dimension)
                for i, row in enumerate(batch.drop_columns(["vector"]).to_pylist()):
                    if row["row_hash"] != _row_hash(row, matrix[i]) or row["id"] in entries:
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
                "id": BTree(), "scope": Bitmap(), "state": Bitmap(),
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
        """Compact fragments, bring the indexes up to date and prune old versions; only when enough was written, unless
        forced.
        """
        if not force and self.unoptimized < _OPTIMIZE_EVERY:
            return False
        # The table may have outgrown a flat search since.
        self._indexed = False
        await self.ensure_indexes()
        async with self._changing:
            # Asked before: what becomes old enough while this runs is not pruned by it.
            prunes_all = self.unpruned and not self.unoptimized
            await self._table.optimize(cleanup_older_than=_KEEP_VERSIONS)
            if self.unoptimized:
                # Compacting makes versions too, and the first of them still hold what was deleted.
                self._unpruned_since = time.monotonic()
            if prunes_all:
                self._unpruned_since = None
            self.unoptimized = 0
        return True

    @property
    def unpruned(self) -> bool:
        """Whether versions on disk that still hold what was changed or deleted are old enough to be pruned now."""
        since = self._unpruned_since
        return since is not None and time.monotonic() - since > _KEEP_VERSIONS.total_seconds()

    def _changed(self) -> None:
        self.unoptimized += 1
        self._generation += 1
        self._rows = None
        self._means.clear()
        self._unpruned_since = time.monotonic()

    def _hits(self, found: pa.Table) -> list[Hit]:
        matrix = _matrix(found.column("vector"), self.dimension)
        rows = zip(found.column("id").to_pylist(), found.column("model").to_pylist(), strict=True)
        return [Hit(memory, matrix[i] if model == self.model else None) for i, (memory, model) in enumerate(rows)]

    async def rewrite(self) -> None:
        """Write the table anew and remove every file of its earlier versions, so that nothing deleted is left on disk.

        `optimize` cannot do that: it leaves a deleted row in its fragment's file until a tenth of the fragment is gone.
        Searches under way end first; those that come meanwhile wait. Takes the table into memory once.
        """
        import warnings

        async with self._changing:
            data = await self._table.query().to_arrow()
            self._table = await self._connection.create_table(self._table.name, data=data, mode="overwrite")
            self._changed()
            self._indexed = False
            async with self._gate.shut():
                warnings.filterwarnings("ignore", message=r"optimize\(cleanup_older_than=0\)")
                # Safe only because this process is the single writer and nobody of it reads or writes now.
                await self._table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)
            self.unoptimized, self._unpruned_since = 0, None
        await self.ensure_indexes()

    async def as_on_disk(self) -> Store:
        """The same table through a connection of its own, which has nothing of the files in memory. Raises StoreDamaged."""
        import lancedb

        async with _reading():
            connection = await lancedb.connect_async(self._connection.uri)
            store = Store(connection, await connection.open_table(self._table.name), self.model, self.dimension)
            # One that only looks: an index made here would collide with the one its owner is making.
            store._indexed = True
            return store

    async def probe(self, row: Mapping[str, Any]) -> bool:
        """Whether a live row is found through the indexes of words, id, scope and state; not while one is still to be
        made. Raises StoreDamaged.
        """
        where = f"id = {_literal(row['id'])} AND scope = {_literal(row['scope'])} AND state = 'live'"
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
        await connection.create_table(name, schema=_schema(dimension)) if fresh else await connection.open_table(name)
    )
    for other in names:
        if other != name and other.startswith(_TABLE):
            await connection.drop_table(other)
    return Store(connection, table, model, dimension), fresh


def live_filter(scopes: Sequence[str], trust: Sequence[str], now: str, categories: Sequence[str] = ()) -> str:
    """The filter of recall: live, in the scopes, of these trust states, and valid now."""
    parts = [
        f"scope IN ({_literals(scopes)})",
        "state = 'live'",
        f"trust IN ({_literals(trust)})",
        f"(valid_from IS NULL OR valid_from <= {_literal(now)})",
        f"(valid_to IS NULL OR valid_to > {_literal(now)})",
    ]
    if categories:
        parts.append(f"category IN ({_literals(categories)})")
    return " AND ".join(parts)


def past_filter(scopes: Sequence[str], as_of: str, valid_at: str = "", categories: Sequence[str] = ()) -> str:
    """The filter of what was believed at an instant and, where that is asked too, held at one (see `cems.core.timeline`).

    More comes through than is sought: trust, state and the end of validity as they were are in the journal only.
    """
    parts = [
        f"scope IN ({_literals(scopes)})",
        f"recorded_at <= {_literal(as_of)}",
        f"(expired_at IS NULL OR expired_at > {_literal(as_of)})",
    ]
    if valid_at:
        parts.append(f"(valid_from IS NULL OR valid_from <= {_literal(valid_at)})")
    if categories:
        parts.append(f"category IN ({_literals(categories)})")
    return " AND ".join(parts)


def embedded_text(row: Mapping[str, Any]) -> str:
    """The text of a memory that its vector stands for."""
    return f"{row['title']}. {row['content']}" if row.get("title") else str(row["content"])


def text_digest(row: Mapping[str, Any]) -> str:
    return hashlib.sha256(embedded_text(row).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _schema(dimension: int) -> pa.Schema:
    import pyarrow as pa

    text, stamp = pa.string(), pa.string()
    return pa.schema([
        ("id", text), ("scope", text), ("category", text), ("kind", text), ("trust", text), ("state", text),
        ("title", text), ("content", text), ("tags", pa.list_(text)), ("recorded_at", stamp), ("valid_from", stamp),
        ("valid_to", stamp), ("expired_at", stamp), ("archived_at", stamp), ("pinned", pa.bool_()),
        ("confidence", pa.float64()), ("tokens", pa.int64()), ("source", text), ("terms", text), ("model", text),
        ("seq", pa.int64()), ("text_digest", text), ("row_hash", text), ("vector", pa.list_(pa.float32(), dimension)),
    ])  # fmt: skip


def _arrow(rows: Sequence[Mapping[str, Any]], vectors: Vector | None, model: str, dimension: int) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    schema = _schema(dimension)
    matrix = np.zeros((len(rows), dimension), dtype=np.float32) if vectors is None else vectors
    records: list[dict[str, Any]] = []
    for row, vector in zip(rows, matrix, strict=True):
        record = {name: row.get(name) for name in schema.names if name != "vector"}
        record |= {"source": json.dumps(row.get("source", {}), sort_keys=True), "tags": list(row.get("tags", ())),
                   "model": model if vectors is not None else "", "text_digest": text_digest(row)}  # fmt: skip
        records.append(record | {"row_hash": _row_hash(record, vector)})
    columns = {name: [record[name] for record in records] for name in schema.names if name != "vector"}
    flat = pa.array(np.ascontiguousarray(matrix, dtype=np.float32).ravel(), type=pa.float32())
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema if field.name != "vector"]
    return pa.Table.from_arrays([*arrays, pa.FixedSizeListArray.from_arrays(flat, dimension)], schema=schema)


def _row_hash(row: Mapping[str, Any], vector: Vector) -> str:
    fields = json.dumps([row.get(name) for name in _HASHED], ensure_ascii=True, default=list)
    return hashlib.sha256(fields.encode() + vector.astype("<f4").tobytes()).hexdigest()[:32]


def _matrix(column: Any, dimension: int) -> Vector:
    import numpy as np

    values = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    flat = values.flatten().to_numpy(zero_copy_only=False) if len(values) else np.zeros(0, dtype=np.float32)
    return np.asarray(flat, dtype=np.float32).reshape(-1, dimension)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literals(values: Sequence[str]) -> str:
    return ", ".join(map(_literal, values))
