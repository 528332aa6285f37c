"""What setup would do, worked out without writing anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cems.adapters.agents_skills import AGENTS_SKILLS
from cems.adapters.base import Agent, ConfigUnreadable, Connects, Detection, FileEdit, Machine, Wiring, Wish
from cems.core.paths import Home
from cems.installer import launchers
from cems.installer.launchers import LinkPlan
from cems.installer.record import InstallRecord


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """One agent, or what several share: where it is, and what is to be written, or the `problem` that keeps us from it."""

    agent: Connects
    detection: Detection
    wiring: Wiring | None = None
    problem: str = ""

    @property
    def edits(self) -> tuple[FileEdit, ...]:
        return self.wiring.edits if self.wiring else ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it. `launchers` are those to be written; `absent` are agents that are not on this machine."""

    agents: tuple[AgentPlan, ...]
    absent: tuple[AgentPlan, ...]
    launchers: tuple[Path, ...]
    link: LinkPlan

    @property
    def changes(self) -> bool:
        return bool(self.launchers) or self.makes_link or any(plan.edits for plan in self.agents)

    @property
    def makes_link(self) -> bool:
        return self.link.link is not None and not self.link.made

    @property
    def problems(self) -> list[str]:
        return [plan.problem for plan in self.agents if plan.problem]


def plan_setup(
    home: Home,
    machine: Machine,
    agents: Mapping[str, Agent],
    record: InstallRecord,
    *,
    insisted: frozenset[str] = frozenset(),
    permissions: bool = True,
    repair: bool = False,
    project: Path | None = None,
) -> Plan:
    """The plan for these agents. `insisted` are set up whether or not they are found, as with `repair`. `project` is where
    a project rule is wanted."""
    here, absent = [], []
    for name, agent in agents.items():
        detection = agent.detect(machine)
        if name in record.disconnected and name not in insisted:
            absent.append(AgentPlan(agent, detection))
        elif detection.found or name in insisted:
            wish = _wish(record, agent, detection, permissions, repair or name in insisted, project)
            here.append(_agent_plan(home, machine, agent, detection, wish))
        else:
            absent.append(AgentPlan(agent, detection))
    if any(plan.wiring and agents[plan.agent.name].uses_shared_skills for plan in here):
        detection = AGENTS_SKILLS.detect(machine)
        wish = _wish(record, AGENTS_SKILLS, detection, permissions, repair)
        here.append(_agent_plan(home, machine, AGENTS_SKILLS, detection, wish))
    missing = launchers.outdated(home)
    return Plan(tuple(here), tuple(absent), tuple(missing), launchers.plan_link(machine, home))


def _wish(
    record: InstallRecord,
    agent: Connects,
    detection: Detection,
    permissions: bool,
    repair: bool,
    project: Path | None = None,
) -> Wish:
    return Wish(record.agent(agent.name, detection.config_dir), permissions, repair, project)


def _agent_plan(home: Home, machine: Machine, agent: Connects, detection: Detection, wish: Wish) -> AgentPlan:
    try:
        wiring = agent.wire(machine, launchers.launchers(home), wish)
    except ConfigUnreadable as problem:
        return AgentPlan(agent, detection, problem=str(problem))
    return AgentPlan(agent, detection, wiring)
