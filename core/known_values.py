"""Values met before: which are forgotten, and which memories say the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator

from cems.core.recall import lookup
from cems.core.records import is_tombstoned
from cems.core.scope import SHARED, USER, Scope, SessionScope
from cems.core.statement import tidy
from cems.core.value import ValueKey, value_key, value_keys


class KnownValues:
    """The records of one journal, asked by value. `key` is the HMAC key of values."""

    def __init__(self, connection: Callable[[], sqlite3.Connection], key: bytes) -> None:
        self._connection = connection
        self._key = key

    def key_of(self, scope: str, text: str) -> ValueKey:
        return value_key(self._key, scope, text)

    def is_forgotten(self, text: str, target: Scope, *, by_person: bool) -> bool:
        """Whether the value was forgotten where a write to `target` would bring it back."""
        connection = self._connection()
        scopes = {target}
        if not by_person:
            # What a person forgot everywhere does not come back through a project's door,
            scopes |= {USER, SHARED}
            if target == USER:
                # nor what was forgotten in a project as everybody's.
                rows = connection.execute("SELECT DISTINCT scope FROM tombstones WHERE lifted = 0")
                scopes |= {Scope(row[0]) for row in rows}
        return any(is_tombstoned(connection, key) for key in value_keys(self._key, scopes, text))

    def forgotten_in(self, text: str, scope: SessionScope) -> dict[ValueKey, Scope]:
        """The readable scopes in which this text is forgotten, by the value's key there."""
        keys = {key: each for one in _spellings(text) for key, each in self._keys(one, scope)}
        return {key: each for key, each in keys.items() if is_tombstoned(self._connection(), key)}

    def rows(self, text: str, target: str, *, without: Collection[str] = ()) -> list[lookup.Row]:
        """Every memory of the scope that says the same, whatever its state, newest first."""
        rows = lookup.rows_with_value(self._connection(), [self.key_of(target, text)])
        return [row for row in rows if row["id"] not in without]

    def rows_in(self, text: str, scope: SessionScope) -> list[lookup.Row]:
        """The same over all readable scopes."""
        keys = {key for one in _spellings(text) for key, _ in self._keys(one, scope)}
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


def _spellings(text: str) -> set[str]:
    """As given, and as it was kept: what a person forgets may hold what was cut when it was stored."""
    return {text, tidy(text)[0]}
