"""The block at the start of a session: what holds for every prompt here. Light.

Pinned memories, the person's preferences and guidelines, the project's recent decisions. The same memories give the
same text, so that resuming a session adds no second copy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from itertools import chain

from cems.core.policy import RecallPolicy
from cems.core.recall import lookup
from cems.core.recall.engine import Within
from cems.core.recall.render import PROFILE_TAG, Block, Count
from cems.core.recall.sameness import SAME_WORDS, same_claim, same_words
from cems.core.scope import SessionScope
from cems.core.trust import admitted

_ALWAYS = ("preferences", "guidelines")
_OF_THE_PROJECT = ("decisions",)
_LOOKED_AT = 60
_RECENT_DECISIONS = 6


def profile(
    connection: sqlite3.Connection,
    scope: SessionScope,
    policy: RecallPolicy,
    *,
    max_units: int,
    count: Count | None = None,
    without: Collection[str] = (),
) -> tuple[str, list[str]]:
    """The block (empty when there is nothing to say) and the ids in it, within the profile's budget.

    `max_units` is the agent's limit in UTF-16 units, `count` as in `render`, `without` ids that the session has already.
    """
    scopes = scope.readable
    within = Within(scopes, admitted(policy), for_prompt=True)
    block = Block(PROFILE_TAG, max_tokens=policy.profile_budget / policy.token_safety, max_units=max_units, count=count)
    decisions = _admitted(connection, (scope.project,) if scope.project else (), within, _OF_THE_PROJECT)
    kinds = (
        _admitted(connection, scopes, within, pinned=True),
        _admitted(connection, scopes, within, _ALWAYS),
        decisions[:_RECENT_DECISIONS],
    )
    chosen: dict[str, lookup.Row] = {}
    for row in chain.from_iterable(kinds):
        if (
            row["id"] not in without
            and row["id"] not in chosen
            and not _repeats(row, chosen.values())
            and block.add(row)
        ):
            chosen[row["id"]] = row
    return block.text, list(chosen)


def _admitted(
    connection: sqlite3.Connection,
    scopes: tuple[str, ...],
    within: Within,
    categories: tuple[str, ...] = (),
    pinned: bool | None = None,
) -> list[lookup.Row]:
    rows = lookup.listed_rows(
        connection, scopes, condition=within.condition, categories=categories, pinned=pinned, limit=_LOOKED_AT
    )
    return [row for row in rows if within.admits(row)]


def _repeats(row: lookup.Row, chosen: Iterable[lookup.Row]) -> bool:
    return any(same_words(row, other) >= SAME_WORDS and same_claim(row, other) for other in chosen)
