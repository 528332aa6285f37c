"""The plan as a person reads it."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from cems.adapters.base import FileEdit, Machine
from cems.core import redact
from cems.core.cli import console
from cems.core.paths import Home
from cems.installer.plan import AgentPlan, Plan

_LONGEST_LINE = 160
# Lines around ours can hold the person's own keys, and what is shown may end up in somebody's log.
_WORD = "(?:key|token|secret|passw|passphrase|credential|bearer|cookie|auth)"
_QUOTED_VALUE = re.compile(
    rf"""((?:"[^"]*{_WORD}[^"]*"|'[^']*{_WORD}[^']*'|\b[\w.-]*{_WORD}[\w.-]*)\s*[:=]\s*)(?:"[^"]*"|'[^']*')""",
    re.IGNORECASE,
)
_BARE_VALUE = re.compile(rf"""^(.\s*["']?[\w.-]*{_WORD}[\w.-]*["']?\s*:\s+)[^\s"'{{\[&*|>].*$""", re.IGNORECASE)


def plan_lines(plan: Plan, home: Home, machine: Machine, *, in_full: bool = False) -> Iterator[str]:
    """The whole plan, a line each; the changes line by line for one agent, and for several when `in_full` is asked for."""
    in_full = in_full or sum(1 for agent in plan.agents if any(not edit.ours for edit in agent.edits)) < 2
    for agent in plan.agents:
        yield from _agent_lines(agent, machine, in_full)
    if not in_full:
        yield "(`cems setup --dry-run` shows each changed line)"
    if plan.absent and not plan.agents:
        yield console.warning("No agent was found.")
    for absent in plan.absent:
        if absent.detection.found:
            name = absent.agent.name
            yield f"{console.bold(absent.agent.title)}: disconnected by you; `cems setup --agent {name}` connects it again"
            continue
        yield f"{console.bold(absent.agent.title)}: not found. Looked for:"
        yield from (f"  - {short(line, machine)}" for line in absent.detection.looked_for)
    if plan.launchers:
        names = ", ".join(path.name for path in plan.launchers)
        yield f"{console.bold('Programs')} in {short(home.bin, machine)}: {names}"
    if plan.makes_link and plan.link.link:
        ends = (short(path, machine) for path in (plan.link.link.path, plan.link.link.target))
        yield f"{console.bold('Command')}: {' -> '.join(ends)}"
    for note in plan.link.notes:
        yield f"note: {short(note, machine)}"


def _agent_lines(plan: AgentPlan, machine: Machine, in_full: bool) -> Iterator[str]:
    version = f" {plan.detection.version}" if plan.detection.version else ""
    done = "" if plan.edits or plan.problem else ": connected"
    where = short(plan.detection.config_dir, machine)
    yield f"{console.bold(plan.agent.title)}{version} in {where}{done}"
    if plan.problem:
        yield f"  {console.warning('left as it is')}: {short(plan.problem, machine)}"
    folders: dict[Path, list[FileEdit]] = {}
    for edit in plan.edits:
        if edit.ours:
            folders.setdefault(_common(edit.path), []).append(edit)
            continue
        yield f"  {short(edit.path, machine)}: {edit.summary}"
        if in_full:
            yield from (f"    {line}" for line in diff_lines(edit))
    for folder, copied in folders.items():
        place = folder if copied[1:] else copied[0].path
        yield f"  {short(place, machine)}: {', '.join(dict.fromkeys(edit.summary for edit in copied))}"
    for note in plan.wiring.notes if plan.wiring else ():
        yield f"  note: {short(note, machine)}"


def _common(path: Path) -> Path:
    """The folder to name for a file of ours: a skill has one of its own in that of all skills."""
    return path.parent.parent if path.name == "SKILL.md" else path.parent


def diff_lines(edit: FileEdit) -> Iterator[str]:
    """A unified diff with one line around each change; coloured on a terminal, secrets masked."""
    before, after = (_lines(data) for data in (edit.before, edit.after))
    for line in list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:]:
        if line.startswith("+"):
            yield _coloured("32", _cut(_masked(line)))
        elif line.startswith("-"):
            yield _coloured("31", _cut(_masked(line)))
        else:
            yield console.dim(_cut(_masked(line)))


def short(text: Path | str, machine: Machine) -> str:
    """`text` with the home folder as `~`, fit for a terminal."""
    return console.visible(str(text).replace(f"{machine.home}/", "~/"))


def _lines(data: bytes | None) -> list[str]:
    return console.visible((data or b"").decode("utf-8", "replace").replace("\r\n", "\n")).splitlines()


def _masked(line: str) -> str:
    # By their shape first: a key may stand under any name, or in a list under none.
    line = redact.clean(line).text
    return _BARE_VALUE.sub(r"\1…", _QUOTED_VALUE.sub(r'\1"…"', line))


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"


def _coloured(code: str, text: str) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not console.is_terminal(sys.stdout) else f"\x1b[{code}m{text}\x1b[0m"
