"""When each agent was last heard of: its hooks, its tools, and what it was given. Light."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

SCHEMA = "CREATE TABLE heard (agent TEXT PRIMARY KEY, hook REAL NOT NULL, tools REAL NOT NULL, given REAL NOT NULL);"

TRIAL = "cems-proof-"
"""How the names of folders begin in which setup runs an agent's hook by itself."""

Sign = Literal["hook", "tools", "given"]


@dataclass(slots=True)
class _Times:
    """Unix times, 0 for never: a hook it ran, a tool it called, memories that were put in front of its model."""

    hook: float = 0.0
    tools: float = 0.0
    given: float = 0.0


class Heard:
    """The table `heard` of state.db. Not thread safe: its owner's lock guards it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT agent, hook, tools, given FROM heard")
        self._times = {agent: _Times(*times) for agent, *times in rows}
        self._unwritten: set[str] = set()

    def note(self, agent: str, sign: Sign, now: float) -> None:
        """The agent did this now."""
        setattr(self._times.setdefault(agent, _Times()), sign, now)
        self._unwritten.add(agent)

    @property
    def unwritten(self) -> bool:
        return bool(self._unwritten)

    def write(self, connection: sqlite3.Connection) -> None:
        """Within the owner's transaction; `written` says that it was committed."""
        connection.executemany(
            "INSERT OR REPLACE INTO heard VALUES (?,?,?,?)",
            [(agent, *asdict(self._times[agent]).values()) for agent in self._unwritten],
        )

    def written(self) -> None:
        self._unwritten.clear()

    def as_json(self) -> dict[str, dict[str, Any]]:
        """Agent -> `last_hook`, `last_tool`, `last_injection`: ISO instants, null for never."""
        return {
            agent: {"last_hook": _iso(times.hook), "last_tool": _iso(times.tools), "last_injection": _iso(times.given)}
            for agent, times in sorted(self._times.items())
        }


def _iso(moment: float) -> str | None:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if moment else None
