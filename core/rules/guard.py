"""Which gate rules hold in a session, and what they say of a call.

A rule holds while its memory is live, valid now, in one of the session's scopes and trusted: a person said it or approved
it. What agents add is a candidate and stops nothing; an agent may neither forget nor change a rule that holds
(`Memories.append`). Whatever goes wrong here, the call is let through: this guards against models' mistakes, it is no wall.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cems.core.events import Verdict
from cems.core.recall import lookup
from cems.core.rules.patterns import Call
from cems.core.rules.rule import CATEGORY, SEVERITIES, BadRule, Rule, parse

logger = logging.getLogger("cems.rules")

MOST_RULES = 1_000
"""Of a session; of more the newest count."""
_SECONDS = 0.1
"""Of processor time that one call may take; rules that were not come to by then are let go, with a line in the log."""
_AT_ONCE = 16
_TOLD = 5
_MOST_LEVELS = 64
# Written so that SQLite takes the index on rules alone: there may be 100,000 other memories.
_HOLDS: lookup.Condition = (f"category = '{CATEGORY}' AND state = 'live' AND trust = 'trusted'", ())

_WORDS = {
    "block": "forbids this call",
    "confirm": "wants to be asked before this call",
    "warn": "says of this call",
}
_WHAT_NOW = {
    "block": "Do not do the same in another way. If it is needed, say so to the person: only they can change the rule, with `cems rule`.",
    # The person reads it where the agent asks them.
    "confirm": "",
    "warn": "",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a call and the rules it comes from, the strongest first."""

    verdict: Verdict
    rules: tuple[Rule, ...]


class Guard:
    """The rules in force, read from the records again when these have changed."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._version = -1
        self._read: dict[tuple[str, ...], tuple[Rule, ...]] = {}

    def judge(self, connection: sqlite3.Connection, scopes: Sequence[str], call: Call) -> Judgement | None:
        """What the rules say of the call; None where none is about it, and where something fails (that is logged)."""
        try:
            return judgement(firing(self.rules(connection, scopes), call))
        except Exception as error:  # noqa: BLE001 - fails open: a tool is never stopped by a fault of ours
            logger.error("the gate rules could not be asked (%s)", type(error).__name__)
            return None

    def rules(self, connection: sqlite3.Connection, scopes: Sequence[str]) -> tuple[Rule, ...]:
        """The rules of these scopes that hold, or will. Raises sqlite3.Error."""
        version = int(connection.execute("PRAGMA data_version").fetchone()[0])
        if connection is not self._connection or version != self._version:
            self._connection, self._version = connection, version
            self._read.clear()
        key = tuple(scopes)
        if key not in self._read:
            self._read[key] = standing(connection, key)
        return self._read[key]


def standing(connection: sqlite3.Connection, scopes: Sequence[str]) -> tuple[Rule, ...]:
    """The trusted, live rules of the scopes, newest first; what cannot be read as a rule is left out."""
    rules: list[Rule] = []
    for row in lookup.listed_rows(connection, scopes, condition=_HOLDS, limit=MOST_RULES):
        try:
            rules.append(rule_of(row))
        except BadRule:
            # `cems rule list` names it; a log full of it would help nobody.
            continue
    return tuple(rules)


def in_force(connection: sqlite3.Connection, memories: Sequence[str]) -> list[lookup.Row]:
    """Of these memories those that are gate rules and hold: a person's word on what agents may do."""
    rows = lookup.rows_by_id(connection, memories).values()
    return [row for row in rows if (row["category"], row["state"], row["trust"]) == (CATEGORY, "live", "trusted")]


def rule_of(row: lookup.Row) -> Rule:
    """The rule that a memory's row is. Raises BadRule."""
    rule = parse(str(row["content"]), str(row.get("kind") or ""))
    return replace(rule, memory=row["id"], valid_from=row.get("valid_from") or "", valid_to=row.get("valid_to") or "")


def firing(rules: Sequence[Rule], call: Call) -> list[Rule]:
    """The rules about this call that hold now, the strongest first."""
    now, end = lookup.now_text(), time.thread_time() + _SECONDS
    found: list[Rule] = []
    for place, rule in enumerate(rules):
        if place % _AT_ONCE == 0 and time.thread_time() > end:
            logger.error("the gate rules took too long: %d of %d were not asked", len(rules) - place, len(rules))
            break
        if rule.valid_from <= now and (not rule.valid_to or rule.valid_to > now) and rule.holds(call):
            found.append(rule)
    return sorted(found, key=lambda rule: SEVERITIES.index(rule.severity))


def judgement(rules: Sequence[Rule]) -> Judgement | None:
    """The strongest severity of the rules, and what each says."""
    if not rules:
        return None
    severity = rules[0].severity
    lines = [_line(rule) for rule in rules[:_TOLD]]
    if len(rules) > _TOLD:
        lines.append(f"{len(rules) - _TOLD} more rules are about this call.")
    lines += [_WHAT_NOW[severity]] if _WHAT_NOW[severity] else []
    return Judgement(Verdict(severity, "\n".join(lines)), tuple(rules))


def _line(rule: Rule) -> str:
    because = f" — {rule.reason}" if rule.reason else ""
    return f"CEMS: the person's rule {rule.short_id} {_WORDS[rule.severity]}: {rule.text}{because}"


def folders_of(cwd: str, named: Sequence[str] = ()) -> tuple[str, ...]:
    """The folders that a call's relative paths and a rule's may be of: the working one, those the agent names as the
    project's, and the top of the repository around it."""
    found = [cwd, *named]
    folder = cwd
    for _ in range(_MOST_LEVELS):
        if not folder.startswith("/") or folder == "/":
            break
        if os.path.lexists(f"{folder}/.git"):  # noqa: PTH117, RUF100 - never raises, and no `Path` is needed
            found.append(folder)
            break
        folder = os.path.dirname(folder)  # noqa: PTH120
    return tuple(each for each in dict.fromkeys(found) if each)
