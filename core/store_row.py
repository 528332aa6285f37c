"""A row of the store: its columns, the hash that proves it whole, the shelf it is found on, and the filters over them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

HASHED = ("id", "scope", "category", "kind", "trust", "state", "title", "content", "tags", "recorded_at", "valid_from",
           "valid_to", "expired_at", "archived_at", "pinned", "confidence", "tokens", "source", "terms", "model", "seq",
           "text_digest", "shelf", "since", "until")  # fmt: skip
_ALWAYS, _DATED = "always", "dated"
_NEVER = "~"
"""Comes after every instant."""


def embedded_text(row: Mapping[str, Any]) -> str:
    """The text of a memory that its vector stands for."""
    return f"{row['title']}. {row['content']}" if row.get("title") else str(row["content"])


def text_digest(row: Mapping[str, Any]) -> str:
    return hashlib.sha256(embedded_text(row).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def schema_of(dimension: int) -> pa.Schema:
    import pyarrow as pa

    text, stamp = pa.string(), pa.string()
    return pa.schema([
        ("id", text), ("scope", text), ("category", text), ("kind", text), ("trust", text), ("state", text),
        ("title", text), ("content", text), ("tags", pa.list_(text)), ("recorded_at", stamp), ("valid_from", stamp),
        ("valid_to", stamp), ("expired_at", stamp), ("archived_at", stamp), ("pinned", pa.bool_()),
        ("confidence", pa.float64()), ("tokens", pa.int64()), ("source", text), ("terms", text), ("model", text),
        ("seq", pa.int64()), ("text_digest", text), ("shelf", text), ("since", stamp), ("until", stamp), ("row_hash", text),
        ("vector", pa.list_(pa.float32(), dimension)),
    ])  # fmt: skip


def as_arrow(rows: Sequence[Mapping[str, Any]], vectors: Vector | None, model: str, dimension: int) -> pa.Table:
    """The rows (as `cems.core.recall.lookup` gives them) with their vectors, shape (len(rows), dimension), as a table."""
    import numpy as np
    import pyarrow as pa

    schema = schema_of(dimension)
    matrix = np.zeros((len(rows), dimension), dtype=np.float32) if vectors is None else vectors
    records: list[dict[str, Any]] = []
    for row, vector in zip(rows, matrix, strict=True):
        record = {name: row.get(name) for name in schema.names if name != "vector"}
        record |= {"source": json.dumps(row.get("source", {}), sort_keys=True), "tags": list(row.get("tags", ())),
                   "model": model if vectors is not None else "", "text_digest": text_digest(row)} | _places(row)  # fmt: skip
        records.append(record | {"row_hash": row_hash(record, vector)})
    columns = {name: [record[name] for record in records] for name in schema.names if name != "vector"}
    flat = pa.array(np.ascontiguousarray(matrix, dtype=np.float32).ravel(), type=pa.float32())
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema if field.name != "vector"]
    return pa.Table.from_arrays([*arrays, pa.FixedSizeListArray.from_arrays(flat, dimension)], schema=schema)


def row_hash(row: Mapping[str, Any], vector: Vector) -> str:
    """A digest over all of a row that is stored."""
    fields = json.dumps([row.get(name) for name in HASHED], ensure_ascii=True, default=list)
    return hashlib.sha256(fields.encode() + vector.astype("<f4").tobytes()).hexdigest()[:32]


def matrix_of(column: Any, dimension: int) -> Vector:
    """A column of vectors, shape (rows, dimension)."""
    import numpy as np

    values = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    flat = values.flatten().to_numpy(zero_copy_only=False) if len(values) else np.zeros(0, dtype=np.float32)
    return np.asarray(flat, dtype=np.float32).reshape(-1, dimension)


def _places(row: Mapping[str, Any]) -> dict[str, str | None]:
    """Where recall finds a live row, in one value: its trust, whether its validity must be looked at, and its scope; with
    the validity beside it for the few where it must.

    One index answers recall's whole filter then. Of columns without one, LanceDB reads each row of the scope, and an index
    of instants that are mostly absent is as slow: at 100,000 memories either was half of a search.
    """
    if row["state"] != "live":
        return {"shelf": "", "since": None, "until": None}
    since, until = row.get("valid_from") or "", row.get("valid_to") or ""
    # What held when it was recorded, and has no end, holds.
    if not until and since <= (row.get("recorded_at") or ""):
        return {"shelf": _shelf(row["trust"], _ALWAYS, row["scope"]), "since": None, "until": None}
    return {"shelf": _shelf(row["trust"], _DATED, row["scope"]), "since": since, "until": until or _NEVER}


def shelf_of(row: Mapping[str, Any]) -> str:
    """The shelf that a row (as `cems.core.recall.lookup` gives it) is found on."""
    return str(_places(row)["shelf"])


def _shelf(trust: str, dated: str, scope: str) -> str:
    # The scope last: it is the one part that may hold a space.
    return f"{trust} {dated} {scope}"


def live_filter(scopes: Sequence[str], trust: Sequence[str], now: str, categories: Sequence[str] = ()) -> str:
    """The filter of recall: live, in the scopes, of these trust states, and valid now.

    `now` must not lie before what is in the store was recorded: `valid_filter` is for another time.
    """
    always, dated = (
        literals([_shelf(state, kind, scope) for scope in scopes for state in trust]) for kind in (_ALWAYS, _DATED)
    )
    at = literal(now)
    held = f"(shelf IN ({always}) OR (shelf IN ({dated}) AND since <= {at} AND until > {at}))"
    return _with_categories([held], categories)


def valid_filter(scopes: Sequence[str], trust: Sequence[str], at: str, categories: Sequence[str] = ()) -> str:
    """The same for what is live now and holds at any instant `at`, by the columns themselves: exact, and slower."""
    parts = [
        f"scope IN ({literals(scopes)})",
        "state = 'live'",
        f"trust IN ({literals(trust)})",
        f"(valid_from IS NULL OR valid_from <= {literal(at)})",
        f"(valid_to IS NULL OR valid_to > {literal(at)})",
    ]
    return _with_categories(parts, categories)


def past_filter(scopes: Sequence[str], as_of: str, valid_at: str = "", categories: Sequence[str] = ()) -> str:
    """The filter of what was believed at an instant and, where that is asked too, held at one (see `cems.core.timeline`).

    More comes through than is sought: trust, state and the end of validity as they were are in the journal only.
    """
    parts = [
        f"scope IN ({literals(scopes)})",
        f"recorded_at <= {literal(as_of)}",
        f"(expired_at IS NULL OR expired_at > {literal(as_of)})",
    ]
    if valid_at:
        parts.append(f"(valid_from IS NULL OR valid_from <= {literal(valid_at)})")
    return _with_categories(parts, categories)


def _with_categories(parts: list[str], categories: Sequence[str]) -> str:
    chosen = [f"category IN ({literals(categories)})"] if categories else []
    return " AND ".join([*parts, *chosen])


def literal(text: str) -> str:
    """A text as a value in LanceDB's SQL."""
    return "'" + text.replace("'", "''") + "'"


def literals(values: Sequence[str]) -> str:
    return ", ".join(map(literal, values))
