"""Values met before: which are forgotten, and which memories say the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection

from cems.core.recall import lookup
from cems.core.records import is_tombstoned
from cems.core.scope import SHARED, USER, Scope, SessionScope
from cems.core.statement import tidy
from cems.core.value import ValueKey, value_key


class KnownValues:
    """The records of one journal, asked by value. `key` is the HMAC key of values."""

    def __init__(self, connection: Callable[[], sqlite3.Connection], key: bytes) -> None:
        self._connection = connection
        self._key = key

    def key_of(self, scope: str, text: str) -> ValueKey:
        return value_key(self._key, scope, text)

    def is_forgotten(self, text: str, target: Scope, *, by_person: bool) -> bool:
        """Whether the value was forgotten where a write to `target` would bring it back."""
        scopes = {target}
        if not by_person:
            # What a person forgot everywhere does not come back through a project's door,
            scopes |= {USER, SHARED}
        if target != USER or by_person:
            return any(self._is_buried(scope, text) for scope in scopes)
        # nor what was forgotten in a project as everybody's.
        rows = self._connection().execute("SELECT DISTINCT scope FROM tombstones WHERE lifted = 0")
        return any(self._is_buried(scope, text) for scope in scopes | {Scope(row[0]) for row in rows})

    def forgotten_in(self, text: str, scope: SessionScope) -> dict[ValueKey, Scope]:
        """The readable scopes in which this text is forgotten, by the value's key there."""
        return {
            self.key_of(each, one): each
            for each in scope.readable
            for one in _spellings(text)
            if self._is_buried(each, one)
        }

    def rows(self, text: str, target: str, *, without: Collection[str] = ()) -> list[lookup.Row]:
        """Every memory of the scope that says the same, whatever its state, newest first."""
        rows = lookup.rows_with_value(self._connection(), [self.key_of(target, text)])
        return [row for row in rows if row["id"] not in without]

    def rows_in(self, text: str, scope: SessionScope) -> list[lookup.Row]:
        """The same over all readable scopes."""
        keys = {self.key_of(each, one) for each in scope.readable for one in _spellings(text)}
        return lookup.rows_with_value(self._connection(), sorted(keys))

    def successors(self, rows: Collection[lookup.Row], scope: SessionScope) -> dict[str, lookup.Row]:
        """The live memories in the session's scopes that corrections of these closed ones ended in."""
        found: dict[str, lookup.Row] = {}
        seen: set[str] = set()
        wanted = {row["closed_by"] for row in rows if row["state"] == "closed"}
        while wanted := wanted - seen - {""}:
            seen |= wanted
            following = lookup.rows_by_id(self._connection(), sorted(wanted)).values()
            found |= {r["id"]: r for r in following if r["state"] == "live" and r["scope"] in scope.readable}
            wanted = {row["closed_by"] for row in following if row["state"] == "closed"}
        return found

    def _is_buried(self, scope: str, text: str) -> bool:
        return is_tombstoned(self._connection(), self.key_of(scope, text))


def _spellings(text: str) -> set[str]:
    """As given, and as it was kept: what a person forgets may hold what was cut when it was stored."""
    return {text, tidy(text)[0]}
