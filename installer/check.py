"""The doctor's part: are the launchers as they must be, and is each agent still connected?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, ConfigUnreadable, Connects, Machine
from cems.core.paths import Home
from cems.installer import launchers
from cems.installer.agents import all_agents, with_shared
from cems.installer.record import InstallRecord, RecordUnreadable, load

REPAIR = "cems setup --repair"


def agent_checks(home: Home, machine: Machine | None = None) -> list[dict[str, Any]]:
    """`{name, ok, detail, fix}` for the programs, the command and every agent that is here or was set up."""
    machine = machine or this_machine()
    try:
        record = load(home)
    except RecordUnreadable as problem:
        return [_check("setup", str(problem), "see above")]
    if record is None:
        return [_check("setup", "has not been run", "cems setup")]
    checks = [_programs(home), _link(machine, home)]
    for name, agent in with_shared(all_agents()).items():
        known = [entry for entry in record.agents if entry.agent == name]
        checks += [_agent(home, machine, agent, entry) for entry in known]
        if not known and agent.detect(machine).found:
            checks.append(_check(agent.title, "is here and not set up", f"cems setup --agent {name}"))
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


def _agent(home: Home, machine: Machine, agent: Connects, known: AgentRecord) -> dict[str, Any]:
    try:
        state = agent.wired(machine, launchers.launchers(home), known)
    except ConfigUnreadable as problem:
        return _check(agent.title, str(problem), "correct the file, then cems doctor")
    missing = [name for name in known.entries if name not in state.present]
    problems = ([f"missing: {', '.join(missing)}"] if missing else []) + list(state.problems)
    if problems:
        return _check(agent.title, f"{known.config_dir}: {'; '.join(problems)}", REPAIR)
    out = f", left out by you: {', '.join(known.removed)}" if known.removed else ""
    return _check(agent.title, f"connected in {known.config_dir}{out}")


def _check(name: str, detail: str, fix: str = "") -> dict[str, Any]:
    return {"name": name, "ok": not fix, "detail": detail, "fix": fix}
