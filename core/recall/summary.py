"""What is remembered in one scope, as a reader who asked for it gets it: the same memories give the same text. Light.

What holds for every prompt comes first (as in the profile), then the rest, the newest first, as far as there is room.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from cems.core.policy import RecallPolicy
from cems.core.recall import lookup
from cems.core.recall.engine import Within
from cems.core.recall.render import PROFILE_TAG, Block, Count
from cems.core.scope import Scope
from cems.core.trust import admitted

_FIRST = ("preferences", "guidelines", "decisions")
_LOOKED_AT = 500


def summary(
    connection: sqlite3.Connection,
    scopes: Sequence[Scope],
    policy: RecallPolicy,
    *,
    max_units: int,
    count: Count | None = None,
) -> tuple[str, int, int]:
    """The block (empty when there is nothing), how many memories are in it, and how many there are.

    `max_units` is in UTF-16 units, `count` as in `render`.
    """
    within = Within(tuple(scopes), admitted(policy), for_prompt=True)
    rows = lookup.listed_rows(connection, scopes, condition=within.condition, limit=_LOOKED_AT)
    rows = [row for row in rows if within.admits(row)]
    rows.sort(key=lambda row: (not row["pinned"], _FIRST.index(row["category"]) if row["category"] in _FIRST else 9))
    budget = policy.profile_budget / policy.token_safety
    block = Block(PROFILE_TAG, max_tokens=budget, max_units=max_units, count=count)
    given = sum(block.add(row) for row in rows)
    return block.text, given, len(rows)
