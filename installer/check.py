"""The doctor's part: are the launchers as they must be, and is each agent still connected?"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, Connects, Machine
from cems.core.paths import Home
from cems.installer import launchers
from cems.installer.agent_report import REPAIR, AgentReport, connection, heard_of, report
from cems.installer.agents import all_agents, with_shared
from cems.installer.record import InstallRecord, RecordUnreadable, load


def agent_checks(home: Home, machine: Machine | None = None) -> list[dict[str, Any]]:
    """`{name, ok, detail, fix}` for the programs, the command and every agent; an agent's has its report as `agent`."""
    machine = machine or this_machine()
    try:
        record = load(home)
    except RecordUnreadable as problem:
        return [_check("setup", str(problem), "see above")]
    if record is None:
        return [_check("setup", "has not been run", "cems setup")]
    heard = heard_of(home)
    checks = [_programs(home), _link(machine, home)]
    for name, agent in all_agents().items():
        known: list[AgentRecord | None] = [entry for entry in record.agents if entry.agent == name]
        out = name in record.disconnected
        checks += [_agent(report(home, machine, agent, entry, heard, disconnected=out)) for entry in known or [None]]
    for name, shared in with_shared({}).items():
        checks += [_shared(home, machine, shared, entry) for entry in record.agents if entry.agent == name]
    return checks


def agent_states(home: Home, machine: Machine | None = None) -> dict[str, str]:
    """Agent -> `set up`, `not set up` or `not found`, for `cems status`."""
    machine = machine or this_machine()
    try:
        record = load(home) or InstallRecord()
    except RecordUnreadable:
        record = InstallRecord()
    done = {entry.agent for entry in record.agents}
    return {
        name: "set up" if name in done else "not set up" if agent.detect(machine).found else "not found"
        for name, agent in all_agents().items()
    }


def this_machine() -> Machine:
    """The person's home folder and environment."""
    return Machine(Path.home(), dict(os.environ))


def _programs(home: Home) -> dict[str, Any]:
    outdated = [path.name for path in launchers.outdated(home)]
    if outdated:
        return _check("programs", f"missing or not of this version in {home.bin}: {', '.join(outdated)}", REPAIR)
    return _check("programs", f"in {home.bin}")


def _link(machine: Machine, home: Home) -> dict[str, Any]:
    plan = launchers.plan_link(machine, home)
    # Not being on PATH or another `cems` in the way is the person's choice, and setup has said so.
    if plan.link is not None and not plan.made:
        return _check("command", f"{plan.link.path} is missing", REPAIR)
    return _check("command", "; ".join(plan.notes) or f"{plan.link.path if plan.link else home.bin / 'cems'}")


def _agent(found: AgentReport) -> dict[str, Any]:
    fix = "" if found.ok else found.todo
    return {**_check(found.title, found.detail, fix), "agent": asdict(found)}


def _shared(home: Home, machine: Machine, part: Connects, known: AgentRecord) -> dict[str, Any]:
    state = connection(home, machine, part, known)
    return _check(part.title, state.detail, state.todo)


def _check(name: str, detail: str, fix: str = "") -> dict[str, Any]:
    return {"name": name, "ok": not fix, "detail": detail, "fix": fix}
