"""The block at the start of a session: what holds for every prompt here. Light.

Pinned memories, the person's preferences and guidelines, the project's recent decisions. The same memories give the
same text, so that resuming a session adds no second copy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain

from cems.core.policy import RecallPolicy
from cems.core.recall import lookup
from cems.core.recall.engine import admitted_trust, is_valid, may_reach_a_prompt
from cems.core.recall.render import PROFILE_TAG, block, utf16_units
from cems.core.recall.select import spent_tokens
from cems.core.scope import SessionScope

_ALWAYS = ("preferences", "guidelines")
_OF_THE_PROJECT = ("decisions",)
_MOST_OF_A_KIND = 20
_RECENT_DECISIONS = 6


def profile(
    connection: sqlite3.Connection,
    scope: SessionScope,
    policy: RecallPolicy,
    *,
    max_units: int,
    notes: Sequence[str] = (),
) -> tuple[str, list[str]]:
    """The block (empty when there is nothing to say) and the ids in it, within the profile's budget."""
    if policy.profile_budget == 0:
        return "", []
    scopes = scope.readable
    parts = [
        lookup.listed_rows(connection, scopes, pinned=True, limit=_MOST_OF_A_KIND),
        lookup.listed_rows(connection, scopes, categories=_ALWAYS, limit=2 * _MOST_OF_A_KIND),
    ]
    if scope.project:
        parts.append(
            lookup.listed_rows(connection, (scope.project,), categories=_OF_THE_PROJECT, limit=_RECENT_DECISIONS)
        )
    trust = admitted_trust(policy)
    chosen: dict[str, lookup.Row] = {}
    for row in chain.from_iterable(parts):
        if row["id"] in chosen or row["trust"] not in trust or not is_valid(row) or not may_reach_a_prompt(row):
            continue
        tried = [*chosen.values(), row]
        if (
            spent_tokens(tried, policy) > policy.profile_budget
            or utf16_units(block(PROFILE_TAG, tried, notes)) > max_units
        ):
            continue
        chosen[row["id"]] = row
    return block(PROFILE_TAG, list(chosen.values()), notes), list(chosen)
