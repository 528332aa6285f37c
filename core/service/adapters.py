"""The agents' adapters, found by name and loaded by it. Light."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cems.core.events import HookAgent, HookEvent
from cems.core.service.ancestry import PEER, nearest
from cems.core.service.context import OWNER

logger = logging.getLogger("cems.hooks")


def packaged_agents() -> dict[str, str]:
    """Our own adapters, as `module:attribute` by name: found by their place, since a checkout that is on the path without
    being installed has no entry points."""
    adapters = Path(__file__).parents[2] / "adapters"
    return {
        each.parent.name.replace("_", "-"): f"cems.adapters.{each.parent.name}.agent:AGENT"
        for each in sorted(adapters.glob("*/agent.py"))
    }


def registered_agents() -> dict[str, str]:
    """Adapters that installed packages register (`cems.agents`), as `module:attribute` by name. Slow: 60 ms."""
    from importlib.metadata import entry_points

    return packaged_agents() | {entry.name: entry.value for entry in entry_points(group="cems.agents")}


def load_agents(targets: Mapping[str, str]) -> dict[str, HookAgent]:
    """Adapters by name from their `module:attribute`; one that does not load is left out and logged."""
    agents: dict[str, HookAgent] = {}
    for name, target in targets.items():
        module, _, attribute = target.partition(":")
        try:
            agents[name] = getattr(importlib.import_module(module), attribute)
        except Exception as error:  # noqa: BLE001 - a third party's module may raise anything; the others still work
            logger.error("the adapter %s does not load (%s)", name, type(error).__name__)
    return agents


def recognised(
    agents: Mapping[str, HookAgent], script: str, context: Mapping[str, str], payload: Mapping[str, Any]
) -> tuple[HookAgent, HookEvent] | None:
    """The agent that ran this hook and the event it told of; None when nobody we know did."""
    for name, agent in agents.items():
        try:
            if agent.recognises(context, payload):
                event = agent.parse(script, payload)
                return (agent, event) if event else None
        except Exception as error:  # noqa: BLE001 - one adapter's fault must not silence the others
            logger.error("the adapter %s failed (%s)", name, type(error).__name__)
    return None


def takes_context(agent: HookAgent, context: Mapping[str, str]) -> bool:
    """Whether what we say can reach the agent's model.

    One that reads a file (`reads_context_file`) was started by `cems run`, and is the very process the file was made for:
    an agent started in its shell inherits the name of the file, and must not be answered there.
    """
    if not getattr(agent, "reads_context_file", False):
        return True
    owner, peer = context.get(OWNER, ""), context.get(PEER, "")
    return bool(owner) and peer.isdecimal() and nearest(int(peer), agent.name) == int(owner)
