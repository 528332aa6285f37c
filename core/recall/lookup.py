"""Reading the records: what search, list and the first stage of recall ask of SQLite. Light: no pydantic.

A row is a plain dictionary: the memory's fields as JSON has them, with `state`, `terms`, `seq`, `closed_by` and `asked`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

Row = dict[str, Any]
Condition = tuple[str, tuple[str, ...]]
"""An SQL condition on the records' columns, and its values."""
LIVE: Condition = ("state = 'live'", ())
WAITING: Condition = (
    "state = 'live' AND (trust IN ('candidate', 'disputed') OR (asked != '' AND trust = 'trusted'))",
    (),
)
"""What waits for a person's verdict."""
ANY: Condition = ("state != 'hidden'", ())
_IS_LIVE = "state = 'live'"
_MOST_RANKED = 1_500
_FIELDS = "id, scope, trust, state, closed_by, asked, seq, terms, body"


def now_text() -> str:
    """The present instant as the records write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def not_over() -> Condition:
    """Live, and valid now or later."""
    return "state = 'live' AND COALESCE(valid_to, '~') > ?", (now_text(),)


def trusted_as(condition: Condition, trust: Sequence[str]) -> Condition:
    """The condition, and one of these trust states."""
    return f"{condition[0]} AND trust IN ({_marks(trust)})", (*condition[1], *trust)


def rows_by_id(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Row]:
    """The rows of these ids, in no order; unknown ids are left out."""
    found: dict[str, Row] = {}
    for start in range(0, len(ids), 500):
        part = ids[start : start + 500]
        query = f"SELECT {_FIELDS} FROM records WHERE id IN ({_marks(part)})"  # noqa: S608
        found |= {row["id"]: row for row in map(_row, connection.execute(query, part))}
    return found


def ids_with_prefix(connection: sqlite3.Connection, prefix: str, scopes: Sequence[str], limit: int = 10) -> list[str]:
    """Ids in the scopes that begin so; forgotten ones too, so that their history can be shown."""
    prefix = prefix if prefix.startswith("m_") else f"m_{prefix}"
    query = f"SELECT id FROM records WHERE id >= ? AND id < ? AND scope IN ({_marks(scopes)}) ORDER BY id LIMIT ?"  # noqa: S608
    return [row[0] for row in connection.execute(query, (prefix, prefix + "\x7f", *scopes, limit))]


def session_rows(
    connection: sqlite3.Connection,
    sessions: Sequence[str],
    scopes: Sequence[str],
    limit: int,
    condition: Condition = LIVE,
) -> list[tuple[str, str, str]]:
    """Id, session and index terms of the live rows of these sessions in the scopes (or of those that meet another
    condition), session by session in the order of their places.
    """
    query = (
        f"SELECT id, session, terms FROM records WHERE session IN ({_marks(sessions)}) AND session != '' "  # noqa: S608
        f"AND {condition[0]} AND scope IN ({_marks(scopes)}) ORDER BY session, place, n LIMIT ?"
    )
    return connection.execute(query, (*sessions, *condition[1], *scopes, limit)).fetchall() if sessions else []


def session_term_counts(
    connection: sqlite3.Connection, query_terms: Iterable[str], scopes: Sequence[str], condition: Condition = LIVE
) -> dict[str, dict[str, int]]:
    """For each of the terms that occurs: in how many rows of each session in the scopes (live ones, or those that meet
    another condition).
    """
    query = (
        "SELECT records.session, COUNT(*) FROM keywords JOIN records ON records.n = keywords.rowid "  # noqa: S608
        f"WHERE keywords MATCH ? AND {condition[0]} AND scope IN ({_marks(scopes)}) AND records.session != '' GROUP BY 1"
    )
    counts = {
        term: dict(connection.execute(query, (f'"{term}"', *condition[1], *scopes)).fetchall())
        for term in sorted(set(query_terms))
    }
    return {term: found for term, found in counts.items() if found}


def session_lengths(
    connection: sqlite3.Connection, scopes: Sequence[str], condition: Condition = LIVE
) -> dict[str, int]:
    """How many index terms the rows of each session in the scopes have together."""
    query = (
        "SELECT session, SUM(LENGTH(terms) - LENGTH(REPLACE(terms, ' ', '')) + (terms != '')) FROM records "  # noqa: S608
        f"WHERE session != '' AND {condition[0]} AND scope IN ({_marks(scopes)}) GROUP BY session"
    )
    return dict(connection.execute(query, (*condition[1], *scopes)).fetchall())


def rows_with_value(connection: sqlite3.Connection, keys: Sequence[str]) -> list[Row]:
    """Every row with one of these value keys, live or not, newest first."""
    query = f"SELECT {_FIELDS} FROM records WHERE value_key IN ({_marks(keys)}) ORDER BY recorded_at DESC, n DESC"  # noqa: S608
    return list(map(_row, connection.execute(query, keys)))


def keyword_rows(
    connection: sqlite3.Connection,
    query_terms: Iterable[str],
    scopes: Sequence[str],
    limit: int,
    condition: Condition = LIVE,
) -> list[Row]:
    """The live rows in the scopes (or those that meet another condition) that BM25 ranks highest for any of the terms."""
    wanted = _worth_a_search(connection, sorted(set(query_terms)), scopes, condition)
    if not wanted:
        return []
    # Terms are letters and digits only; the quotes keep FTS5 from reading `or`, `near` and the like as operators.
    match = " OR ".join(f'"{term}"' for term in wanted)
    fields = ", ".join(f"records.{name.strip()}" for name in _FIELDS.split(","))
    query = (
        f"SELECT {fields} FROM keywords JOIN records ON records.n = keywords.rowid WHERE keywords MATCH ? "  # noqa: S608
        f"AND {condition[0]} AND scope IN ({_marks(scopes)}) ORDER BY keywords.rank LIMIT ?"
    )
    return list(map(_row, connection.execute(query, (match, *condition[1], *scopes, limit))))


def _worth_a_search(
    connection: sqlite3.Connection, wanted: list[str], scopes: Sequence[str], condition: Condition
) -> list[str]:
    """Of these terms those that lead to something here, the rarest first, until they lead to many memories.

    FTS5 ranks every memory of every scope that holds one of the terms, 5 µs each: of 100,000 memories a common word is in
    thousands, and says the least. In small homes every term is looked up.
    """
    whole = connection.execute("SELECT COALESCE(SUM(live), 0) FROM scope_sizes").fetchone()[0]
    if whole <= _MOST_RANKED or _IS_LIVE not in condition[0]:
        return wanted
    counts = term_counts(connection, wanted, scopes)
    # What a term is in everywhere, going by how much of everything these scopes are.
    share = live_count(connection, scopes) / whole
    chosen: list[str] = []
    ranked = 0.0
    for term in sorted(counts, key=lambda term: (counts[term], term)):
        ranked += counts[term] / share
        if chosen and ranked > _MOST_RANKED:
            break
        chosen.append(term)
    return chosen


def rows_after(connection: sqlite3.Connection, seq: int, limit: int) -> list[Row]:
    """Rows changed after journal entry `seq`, oldest change first: what LanceDB has not seen.

    About `limit` of them: the rows that one entry changed are never parted, since the caller goes on after that entry.
    """
    query = (
        f"SELECT {_FIELDS} FROM records WHERE seq > :seq AND seq <= COALESCE("  # noqa: S608
        "(SELECT seq FROM records WHERE seq > :seq ORDER BY seq LIMIT 1 OFFSET :most - 1), seq) ORDER BY seq, n"
    )
    return list(map(_row, connection.execute(query, {"seq": seq, "most": limit})))


def live_rows_after(
    connection: sqlite3.Connection, seq: int, scopes: Sequence[str], limit: int, condition: Condition = LIVE
) -> list[Row]:
    """The same, live ones in the scopes (or those that meet another condition) only, newest change first."""
    query = (
        f"SELECT {_FIELDS} FROM records WHERE seq > ? AND {condition[0]} AND scope IN ({_marks(scopes)}) "  # noqa: S608
        "ORDER BY seq DESC LIMIT ?"
    )
    return list(map(_row, connection.execute(query, (seq, *condition[1], *scopes, limit))))


def listed_rows(
    connection: sqlite3.Connection,
    scopes: Sequence[str],
    *,
    states: Sequence[str] = ("live",),
    categories: Sequence[str] = (),
    pinned: bool | None = None,
    condition: Condition | None = None,
    limit: int = 50,
    offset: int = 0,
) -> list[Row]:
    """Rows of the scopes in these states (or those that meet a condition instead), newest first."""
    chosen, chosen_values = condition or (f"state IN ({_marks(states)})", tuple(states))
    query = f"SELECT {_FIELDS} FROM records WHERE scope IN ({_marks(scopes)}) AND {chosen}"  # noqa: S608
    values: list[Any] = [*scopes, *chosen_values]
    if categories:
        query += f" AND category IN ({_marks(categories)})"
        values += categories
    if pinned is not None:
        query += " AND pinned = ?"
        values.append(int(pinned))
    query += " ORDER BY recorded_at DESC, n DESC LIMIT ? OFFSET ?"
    return list(map(_row, connection.execute(query, (*values, limit, offset))))


def count_by_state(connection: sqlite3.Connection, scopes: Sequence[str] | None = None) -> dict[str, int]:
    """How many memories are in each state, in the scopes or in all."""
    where = f"WHERE scope IN ({_marks(scopes)})" if scopes is not None else ""
    query = f"SELECT state, COUNT(*) FROM records {where} GROUP BY state"  # noqa: S608
    return dict(connection.execute(query, tuple(scopes or ())).fetchall())


def count_where(
    connection: sqlite3.Connection, scopes: Sequence[str], condition: Condition, categories: Sequence[str] = ()
) -> int:
    """How many memories of the scopes meet a condition."""
    query = f"SELECT COUNT(*) FROM records WHERE scope IN ({_marks(scopes)}) AND {condition[0]}"  # noqa: S608
    query += f" AND category IN ({_marks(categories)})" if categories else ""
    return int(connection.execute(query, (*scopes, *condition[1], *categories)).fetchone()[0])


def term_counts(connection: sqlite3.Connection, query_terms: Iterable[str], scopes: Sequence[str]) -> dict[str, int]:
    """In how many live memories of the scopes each term occurs; terms that occur in none are left out."""
    wanted = sorted(set(query_terms))
    query = f"SELECT term, SUM(count) FROM scope_terms WHERE scope IN ({_marks(scopes)}) AND term IN ({_marks(wanted)}) GROUP BY term"  # noqa: S608
    return dict(connection.execute(query, (*scopes, *wanted)).fetchall())


def live_count(connection: sqlite3.Connection, scopes: Sequence[str]) -> int:
    """Live memories in the scopes."""
    query = f"SELECT COALESCE(SUM(live), 0) FROM scope_sizes WHERE scope IN ({_marks(scopes)})"  # noqa: S608
    return int(connection.execute(query, tuple(scopes)).fetchone()[0])


def _row(values: tuple[Any, ...]) -> Row:
    memory_id, scope, trust, state, closed_by, asked, seq, words, body = values
    row: Row = json.loads(body)
    return row | {
        "id": memory_id,
        "scope": scope,
        "trust": trust,
        "state": state,
        "closed_by": closed_by,
        "asked": asked,
        "seq": seq,
        "terms": words,
    }


def _marks(values: Sequence[Any]) -> str:
    return ",".join("?" * len(values))
