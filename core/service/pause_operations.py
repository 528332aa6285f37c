"""The daemon's operations on pauses, and what an agent is told that asks for something during one.

An agent may pause the project it works in, which only makes it see less; to resume, and to pause everything, is a
person's act. Gate rules hold during a pause too: they are the person's guard, give the model no memory, and learn nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cems.core import pauses
from cems.core.memories import Unusable
from cems.core.pauses import EVERYWHERE, Paused

if TYPE_CHECKING:
    from cems.core.service.operations import Operations
    from cems.core.service.request import Request

# What says how things are and holds no memory; and the person's own way out, which has its own check.
_ANSWERED = frozenset(("status", "check", "settle", "pause", "resume", "pauses"))


def refuse_while_paused(operations: Operations, name: str, request: Request) -> None:
    """Raise Paused for an agent's call where CEMS is paused. The person's own commands go on working."""
    if request.caller.person or name in _ANSWERED:
        return
    if pause := operations.hooks.pauses.read().now(request.scope.project):
        raise Paused(
            f"CEMS is paused {pauses.where(pause)}: nothing is read or stored for agents. "
            f"Only the person can end that, with `{pauses.how_to_resume(pause)}` in a terminal."
        )


async def pause(operations: Operations, request: Request) -> dict[str, Any]:
    """Pause the caller's project, or with `all` everything; `changed` is false where it was paused already."""
    author, scope = request.author, _scope(request)
    if scope == EVERYWHERE and not author.is_person:
        await operations.on_writer(operations.memories.demand_person, author, "pause", "to pause CEMS everywhere")
    by = author.agent or "agent" if not author.is_person else "person"
    changed = await operations.on_writer(pauses.pause, operations.home, scope, by)
    return {"scope": scope, "changed": changed, **_state(operations, request)}


async def resume(operations: Operations, request: Request) -> dict[str, Any]:
    """End the pause of the caller's project, or with `all` the one of everything; `paused` is what still holds here."""
    author, scope = request.author, _scope(request)
    await operations.on_writer(operations.memories.demand_person, author, "resume", "to end a pause")
    changed = await operations.on_writer(pauses.resume, operations.home, scope)
    return {"scope": scope, "changed": changed, **_state(operations, request)}


async def listed(operations: Operations, request: Request) -> dict[str, Any]:
    """The pauses in force; with `ended` also those that are over. Another project's name is the person's to see."""
    known = operations.hooks.pauses.read()
    every = known.pauses if request.flag("ended", False) else known.running
    seen = [each for each in every if request.author.is_person or each.concerns(request.scope.project)]
    return {"pauses": [asdict(each) for each in seen], "damage": known.damage or None, **_state(operations, request)}


def _state(operations: Operations, request: Request) -> dict[str, Any]:
    known = operations.hooks.pauses.read()
    return {"paused": known.as_json(request.scope.project), "running": len(known.running)}


def _scope(request: Request) -> str:
    if request.flag("all", False):
        return EVERYWHERE
    if request.scope.project is None:
        raise Unusable("this folder belongs to no project; with --all everything is meant")
    return request.scope.project


OPERATIONS: dict[str, Any] = {"pause": pause, "resume": resume, "pauses": listed}
