"""The agents there are adapters for: ours, and those of other packages (entry point `cems.agents`)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from cems.adapters.agents_skills import AGENTS_SKILLS
from cems.adapters.base import Agent, Connects
from cems.core.service.adapters import registered_agents


class UnknownAgent(Exception):
    """No adapter has this name."""


def all_agents() -> dict[str, Agent]:
    """Name -> adapter, in order of names."""
    return {name: _load(place) for name, place in sorted(registered_agents().items())}


def named(names: list[str]) -> dict[str, Agent]:
    """The agents of these names; all when there are none. Raises UnknownAgent."""
    agents = all_agents()
    for name in names:
        if name not in agents:
            raise UnknownAgent(f"There is no agent named {name!r}. Known: {', '.join(agents)}.")
    return {name: agent for name, agent in agents.items() if not names or name in names}


def with_shared(agents: Mapping[str, Agent]) -> dict[str, Connects]:
    """These, and what several of them share: all that an installation may have set up."""
    return {**agents, AGENTS_SKILLS.name: AGENTS_SKILLS}


def _load(place: str) -> Agent:
    module, _, attribute = place.partition(":")
    return cast(Agent, getattr(import_module(module), attribute))
