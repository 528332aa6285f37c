"""What holds for the person everywhere, in a file that an agent reads in every session: kept as the memories are. Light.

Never a project's memory: sessions in other projects read the same file. And only what the person said or approved: an
agent's own word would stand in front of every session.
"""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import replace

from cems.core.events import HookAgent
from cems.core.paths import Home
from cems.core.policy import RecallPolicy
from cems.core.recall.profile import profile
from cems.core.scope import SessionScope

logger = logging.getLogger("cems.hooks")

HOW = "standing"
"""How a session has been given a memory that stands there."""
_UNITS = 9_500


def has_standing(agent: HookAgent) -> bool:
    """Whether the agent reads such a file (`write_standing`)."""
    return hasattr(agent, "write_standing")


def stand(home: Home, agent: HookAgent, connection: sqlite3.Connection, policy: RecallPolicy | None) -> list[str]:
    """Bring the agent's file up to date, with nothing in it where `policy` is None; the ids that stand in it now.

    The same memories give the same bytes, so that the agent's prompt cache lives on: tokens are not counted, since that
    is another number while the daemon starts.
    """
    text, ids = "", list[str]()
    if policy is not None:
        text, ids = profile(connection, SessionScope(None), replace(policy, inject="trusted"), max_units=_UNITS)
    try:
        return ids if agent.write_standing(home, text) else []  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 - it is a person's file, which may be anything; the hook is answered all the same
        logger.error("what holds everywhere was not written for %s (%s)", agent.name, type(error).__name__)
        return []
