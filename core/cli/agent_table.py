"""The agents as `cems doctor` and `cems status` show them: one row each."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from time import time as now
from typing import Any

from cems.core.cli import console

Document = dict[str, Any]

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_HEADING = ("agent", "version", "connected", "trusted", "last hook", "last injection")
_NEVER, _UNKNOWN, _NONE = "never", "unknown", "-"


def agent_table(agents: Sequence[Document]) -> Iterator[str]:
    """The table of those that are here or set up, those that are not in one line, and what could be done for each."""
    here = [agent for agent in agents if agent["found"] or agent["wired"] != "no"]
    if agents:
        yield ""
        yield console.bold("Agents")
    if here:
        heading = [console.dim(name) for name in _HEADING]
        yield console.table([heading, *(_row(agent) for agent in here)])
    if absent := [console.visible(agent["title"]) for agent in agents if agent not in here]:
        yield f"not found: {', '.join(absent)}"
    for agent in here:
        if agent["ok"] and agent["todo"]:
            yield console.visible(f"-> {agent['title']}: {agent['todo']}")


def agents_in_short(agents: Mapping[str, Document]) -> str:
    """`claude-code (memory given 5 min ago), codex (no hook yet)`."""
    return ", ".join(f"{console.visible(name)}{_in_brackets(agent)}" for name, agent in agents.items())


def span(seconds: float) -> str:
    """`42 s`, `5 min`, `2 h 5 min`, `3 d 4 h`."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def ago(moment: str) -> str:
    """How long ago an ISO instant was; a clock that was set back makes none in the future."""
    return f"{span(max(0.0, now() - datetime.fromisoformat(moment).timestamp()))} ago"


def _row(agent: Document) -> list[str]:
    wired = agent["wired"] == "yes"
    shown = {"yes": "yes", "no": "no", "partly": "in part", "unreadable": "file unreadable"}[agent["wired"]]
    if wired and agent["left_out"]:
        shown += f", {len(agent['left_out'])} left out"
    trusted = str(agent["trusted"])
    hook = _when(agent, "last_hook") if agent["hooks"] else f"tools {_when(agent, 'last_tool')}"
    return [
        console.visible(agent["title"]),
        console.visible(agent["version"]) or _NONE,
        shown if wired else console.warning(shown),
        console.warning(trusted) if trusted in ("untrusted", "modified") else trusted if wired else _NONE,
        hook if agent["wired"] != "no" else _NONE,
        _when(agent, "last_injection") if agent["wired"] != "no" else _NONE,
    ]


def _when(agent: Document, what: str) -> str:
    if not agent["known"]:
        return _UNKNOWN
    return ago(agent[what]) if agent[what] else _NEVER


def _in_brackets(agent: Document) -> str:
    if "last_hook" not in agent:
        return ""
    if agent["last_injection"]:
        return f" (memory given {ago(agent['last_injection'])})"
    if heard := max(filter(None, (agent["last_hook"], agent["last_tool"])), default=None):
        return f" (heard {ago(heard)}, no memory given yet)"
    return " (not heard of yet)"
