"""What `cems doctor` says of each agent: is it here, connected, trusted, heard of, and what is there to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cems.adapters.base import Agent, AgentRecord, ConfigUnreadable, Connects, Detection, Machine, NeedsTrust, Trust
from cems.core.paths import Home
from cems.core.service.client import Client, DaemonUnreachable, OperationError
from cems.installer import launchers

REPAIR = "cems setup --repair"
_HOOK = "hook "
_SECONDS = 10.0

Wired = Literal["yes", "no", "partly", "unreadable"]
Heard = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class AgentReport:
    """One agent in one configuration folder. `ok` is false where something has to be done for it to work; `todo` may also
    be a hint. The times are ISO instants; None for never, or where no daemon tells (then `known` is false).
    `hooks` is false for an agent that runs none, but calls the tools."""

    name: str
    title: str
    found: bool
    program: str | None
    version: str
    folder: str
    wired: Wired
    hooks: bool
    trusted: str
    known: bool
    last_hook: str | None
    last_tool: str | None
    last_injection: str | None
    left_out: tuple[str, ...]
    ok: bool
    detail: str
    todo: str


@dataclass(frozen=True, slots=True)
class Connection:
    """How an agent's files stand: a sentence, and what must be done for it to work; empty for nothing."""

    wired: Wired
    trust: Trust
    detail: str
    todo: str = ""


def report(
    home: Home,
    machine: Machine,
    agent: Agent,
    record: AgentRecord | None,
    heard: Heard | None,
    *,
    disconnected: bool = False,
) -> AgentReport:
    """The report on one agent; `disconnected`: by the person, who is not told to connect it again; `heard` is what the daemon has heard of each, None where it cannot be asked."""
    detection = agent.detect(machine)
    times = (heard or {}).get(agent.name, {})
    state = connection(home, machine, agent, record) if record else _not_set_up(agent, detection, disconnected)
    todo = state.todo
    entries = record.entries if record else ()
    hooks = any(entry.startswith(_HOOK) for entry in entries)
    ok = not todo
    if ok and record is not None:
        todo = _hint(agent, detection, record, state.trust, hooks, times if heard is not None else None)
    return AgentReport(
        name=agent.name,
        title=agent.title,
        found=detection.found,
        program=str(detection.program) if detection.program else None,
        version=detection.version,
        folder=str(record.config_dir if record else detection.config_dir),
        wired=state.wired,
        hooks=hooks,
        trusted=state.trust.state,
        known=heard is not None,
        last_hook=times.get("last_hook"),
        last_tool=times.get("last_tool"),
        last_injection=times.get("last_injection"),
        left_out=record.removed if record else (),
        ok=ok,
        detail=state.detail,
        todo=todo,
    )


def heard_of(home: Home) -> Heard | None:
    """What the running daemon has heard of each agent; None where none answers."""
    try:
        found = Client(home, context={}).call("status", {}, start=False, timeout=_SECONDS).get("heard")
    except (DaemonUnreachable, OperationError, OSError):
        return None
    return found if isinstance(found, dict) else None


def connection(home: Home, machine: Machine, part: Connects, record: AgentRecord) -> Connection:
    """How the files stand of what was set up."""
    programs = launchers.launchers(home)
    try:
        state = part.wired(machine, programs, record)
        trust = part.trust(machine, programs, record) if isinstance(part, NeedsTrust) else Trust("not needed")
    except ConfigUnreadable as problem:
        return Connection("unreadable", Trust("unknown"), str(problem), "correct the file, then cems doctor")
    missing = [name for name in record.entries if name not in state.present]
    problems = ([f"missing: {', '.join(missing)}"] if missing else []) + list(state.problems)
    if problems:
        return Connection("partly", trust, f"{record.config_dir}: {'; '.join(problems)}", REPAIR)
    out = f", left out by you: {', '.join(record.removed)}" if record.removed else ""
    detail = f"connected in {record.config_dir}{out}"
    match trust.state:
        case "untrusted":
            return Connection("yes", trust, f"{detail}, but its hooks are not trusted", _advice(part, trust))
        case "modified":
            return Connection("yes", trust, f"{detail}, but it trusts an older form of its hooks", _advice(part, trust))
    return Connection("yes", trust, detail)


def _not_set_up(agent: Agent, detection: Detection, disconnected: bool) -> Connection:
    if detection.found and disconnected:
        return Connection("no", Trust("not needed"), "is here, disconnected by you")
    if detection.found:
        return Connection("no", Trust("not needed"), "is here and not set up", f"cems setup --agent {agent.name}")
    return Connection("no", Trust("not needed"), "not found")


def _advice(agent: Connects, trust: Trust) -> str:
    return trust.advice or f"trust the hooks of CEMS in {agent.title}"


def _hint(
    agent: Agent,
    detection: Detection,
    record: AgentRecord,
    trust: Trust,
    hooks: bool,
    times: Mapping[str, Any] | None,
) -> str:
    """What a person could do where nothing is wrong."""
    if not detection.found:
        return f"it is gone from this machine; `cems uninstall --agent {agent.name}` takes out what is left of ours"
    if trust.state == "unknown" and trust.advice:
        return trust.advice
    if times is None:
        return ""
    if hooks and not times.get("last_hook"):
        return f"none of its hooks has run yet: start {agent.title} in a project, type something, then cems doctor"
    if not hooks and any(entry.startswith("tools") for entry in record.entries) and not times.get("last_tool"):
        return f"it has not used the memory yet: ask {agent.title} what it remembers, then cems doctor"
    return ""
