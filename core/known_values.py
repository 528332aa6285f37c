"""Values met before: which memories say the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator

from cems.core.recall import lookup
from cems.core.scope import Scope, SessionScope
from cems.core.tombstones import spellings
from cems.core.value import ValueKey, value_key, value_keys


class KnownValues:
    """The records of one journal, asked by value. `key` is the HMAC key of values."""

    def __init__(self, connection: Callable[[], sqlite3.Connection], key: bytes) -> None:
        self._connection = connection
        self._key = key

    def key_of(self, scope: str, text: str) -> ValueKey:
        return value_key(self._key, scope, text)

    def rows(self, text: str, target: str, *, without: Collection[str] = ()) -> list[lookup.Row]:
        """Every memory of the scope that says the same, whatever its state, newest first."""
        rows = lookup.rows_with_value(self._connection(), [self.key_of(target, text)])
        return [row for row in rows if row["id"] not in without]

    def rejected_recipe(self, recipe: str) -> bool:
        """Whether a person rejected a memory that was made by this recipe."""
        query = "SELECT 1 FROM records WHERE recipe = ? AND trust = 'rejected' AND state = 'live'"
        return self._connection().execute(query, (recipe,)).fetchone() is not None

    def rows_in(self, text: str, scope: SessionScope) -> list[lookup.Row]:
        """The same over all readable scopes."""
        keys = {key for one in spellings(text) for key, _ in self._keys(one, scope)}
        return lookup.rows_with_value(self._connection(), sorted(keys))

    def successors(self, rows: Collection[lookup.Row], scope: SessionScope) -> dict[str, lookup.Row]:
        """The live memories in the session's scopes that corrections of these closed ones ended in."""
        found: dict[str, lookup.Row] = {}
        seen: set[str] = set()
        now = lookup.now_text()
        wanted = {row["closed_by"] for row in rows if row["state"] != "hidden"}
        while wanted := wanted - seen - {""}:
            seen |= wanted
            following = lookup.rows_by_id(self._connection(), sorted(wanted)).values()
            live = [row for row in following if row["state"] == "live" and row["scope"] in scope.readable]
            found |= {row["id"]: row for row in live if (row["valid_to"] or "~") > now}
            wanted = {row["closed_by"] for row in following if row["state"] != "hidden"}
        return found

    def _keys(self, text: str, scope: SessionScope) -> Iterator[tuple[ValueKey, Scope]]:
        return zip(value_keys(self._key, scope.readable, text), scope.readable, strict=True)
