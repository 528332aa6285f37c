"""Operations into a memory: what the journal's entries about one id amount to, in whatever order they arrived."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cems.core.memory import Memory, State, parse_time
from cems.core.scope import is_project

_MAY_BE_NONE = ("expired_at", "archived_at", "valid_to")
_AUTHORITY = {"derived": 0, "tool": 1, "import": 2, "agent": 3, "person": 4}


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the journal.

    `clock` is a hybrid logical clock, text that sorts by time; `entity` the memory's id (for `lift` the value's key);
    `body` what the operation says, empty once purged.
    """

    op_id: str
    kind: str
    entity: str
    clock: str
    device: str
    device_seq: int
    actor: str
    agent: str
    session: str
    body: dict[str, Any]

    @property
    def order(self) -> tuple[str, int, str, int]:
        """By the clock; where two devices did it at one instant, a person's word comes last, and so wins."""
        return (self.clock, _AUTHORITY.get(self.actor, 0), self.device, self.device_seq)

    @property
    def at(self) -> datetime:
        """The instant of the clock, in UTC."""
        return parse_time(self.clock.partition("/")[0])


@dataclass(frozen=True, slots=True)
class Folded:
    """A memory as its operations leave it; `forgotten` hides it whatever else is true of it. `asked`: the wider scope that
    somebody asks a person to move it to, empty for none."""

    memory: Memory
    forgotten: bool
    closed_by: str
    asked: str = ""

    @property
    def state(self) -> State:
        return "hidden" if self.forgotten else self.memory.state


def fold(operations: Iterable[Operation]) -> Folded | None:
    """The memory that these operations on one id describe; None when the one that tells its content is missing."""
    memory: Memory | None = None
    forgotten = False
    closed_by = asked = ""
    changes: dict[str, Any] = {}
    ordered = sorted(operations, key=lambda each: each.order)
    # What a purge left of the entries it had to erase on a memory that stays.
    instead = {k: v for each in ordered if each.kind == "purge" for k, v in each.body.get("instead", {}).items()}
    for operation in ordered:
        body = operation.body or instead.get(operation.op_id, {})
        match operation.kind:
            case "remember":
                if memory is None and "memory" in body:
                    memory = Memory.model_validate(body["memory"])
            case "close" if "valid_to" in body:
                # It is still believed of the time before: what ends is its validity.
                changes["valid_to"] = _instant(body["valid_to"])
                closed_by = str(body.get("by", ""))
            case "close":
                # The first correction stands: a later one closes the memory that replaced this.
                if changes.get("expired_at") is None:
                    changes["expired_at"] = operation.at
                    closed_by = str(body.get("by", ""))
            case "reopen":
                changes["expired_at"] = None
                closed_by = str(body.get("by", ""))
                if "valid_to" in body:
                    changes["valid_to"] = _instant(body["valid_to"])
            case "forget":
                forgotten = True
            case "unforget" if operation.actor == "person":
                forgotten = False
            case "trust":
                changes["trust"] = body.get("trust", "candidate")
            case "pin":
                changes["pinned"] = bool(body.get("pinned"))
            case "widen":
                changes["scope"] = body.get("scope")
            case "promote":
                asked = str(body.get("to", ""))
            case "decline":
                asked = ""
            case "archive":
                changes["archived_at"] = operation.at
            case "restore":
                changes["archived_at"] = None
    if memory is None:
        return None
    memory = memory.model_copy(update={k: v for k, v in changes.items() if v is not None or k in _MAY_BE_NONE})
    # Widened, there is nothing left to ask; undone, the request stands again.
    return Folded(memory, forgotten, closed_by, asked if is_project(memory.scope) else "")


def _instant(text: str | None) -> datetime | None:
    return parse_time(text) if text else None
