"""The skills in `~/.agents/skills`, a folder that many agents read: one set for all of them, not one for each.

They are Claude Code's in plain words: other agents fill in no `$ARGUMENTS`, know none of Claude's extra fields, and each
has its own name for a tool of ours.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from cems.adapters.base import AgentRecord, Detection, FileEdit, Launchers, Machine, WiredState, Wiring, Wish
from cems.adapters.entries import Wires
from cems.adapters.own_files import SKILLS, Bundle, skill_bundles

_CLAUDES_FIELDS = re.compile(
    r"^(?:argument-hint|allowed-tools|user-invocable|disable-model-invocation):.*\n", re.MULTILINE
)
_ARGUMENTS = re.compile(r": \$ARGUMENTS$", re.MULTILINE)
_TOOL = re.compile(r"`mcp__cems__(\w+)`")


def plain(skill: bytes) -> bytes:
    """A skill of Claude's as any agent can use it. Raises ValueError where something of Claude's stays in it."""
    text = _CLAUDES_FIELDS.sub("", skill.decode("utf-8"))
    text = _ARGUMENTS.sub(": what they wrote after the name of the skill, or said in their own words.", text)
    text = _TOOL.sub(r"the tool `\1` of the server `cems`", text)
    if "$ARGUMENTS" in text or "mcp__" in text:
        raise ValueError("a skill has a part that only Claude Code understands")
    return text.encode("utf-8")


def bundles(folder: Path) -> tuple[Bundle, ...]:
    """Each skill, to be put below `folder`, which is `~/.agents`."""
    claudes = skill_bundles(SKILLS, folder / "skills")
    return tuple(
        replace(each, files={path: plain(content) for path, content in each.files.items()}) for each in claudes
    )


class AgentsSkills:
    """See `cems.adapters.base.Connects`; found is decided by whoever knows which agents are set up."""

    name = "agents-skills"
    title = "Skills for several agents"

    def detect(self, machine: Machine) -> Detection:
        return Detection(found=False, config_dir=machine.home / ".agents")

    def wire(self, machine: Machine, _launchers: Launchers, wish: Wish) -> Wiring:
        return self._wires(machine.home / ".agents").wire(wish)

    def unwire(self, _machine: Machine, _launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
        return self._wires(record.config_dir).unwire(record)

    def wired(self, _machine: Machine, _launchers: Launchers, record: AgentRecord) -> WiredState:
        return self._wires(record.config_dir).wired()

    @staticmethod
    def _wires(folder: Path) -> Wires:
        return Wires(folder, (), bundles(folder))


AGENTS_SKILLS = AgentsSkills()
