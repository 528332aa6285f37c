"""The agents there are adapters for: ours, and those of other packages (entry point `cems.agents`)."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from cems.adapters.base import Agent

# Also found when the program runs from a checkout, where no package metadata is.
OURS = {"claude-code": "cems.adapters.claude_code.agent:AGENT"}


class UnknownAgent(Exception):
    """No adapter has this name."""


def all_agents() -> dict[str, Agent]:
    """Name -> adapter, in order of names."""
    places = {**OURS, **{point.name: point.value for point in entry_points(group="cems.agents")}}
    return {name: _load(place) for name, place in sorted(places.items())}


def named(names: list[str]) -> dict[str, Agent]:
    """The agents of these names; all when there are none. Raises UnknownAgent."""
    agents = all_agents()
    for name in names:
        if name not in agents:
            raise UnknownAgent(f"There is no agent named {name!r}. Known: {', '.join(agents)}.")
    return {name: agent for name, agent in agents.items() if not names or name in names}


def _load(place: str) -> Agent:
    module, _, attribute = place.partition(":")
    return cast(Agent, getattr(import_module(module), attribute))
