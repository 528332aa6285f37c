"""A person's home folder with Claude Code in it, and setup and uninstall run there inside this process."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cems.adapters.base import Machine
from cems.core.paths import Home
from cems.installer import apply, undo
from cems.installer.agents import all_agents, with_shared
from cems.installer.plan import Plan, plan_setup
from cems.installer.record import first, load, save


@dataclass(frozen=True, slots=True)
class Person:
    """`root` is the home folder; CEMS_HOME is the usual place in it."""

    root: Path

    @property
    def home(self) -> Home:
        return Home(self.root / ".cems")

    @property
    def machine(self) -> Machine:
        return Machine(self.root, {"PATH": "/nowhere"})

    @property
    def settings(self) -> Path:
        return self.root / ".claude" / "settings.json"

    @property
    def state(self) -> Path:
        return self.root / ".claude.json"

    def has(self, settings: str | bytes = "{}\n", state: str | bytes | None = None) -> Person:
        """Claude Code with these two files."""
        self.settings.parent.mkdir(exist_ok=True)
        for path, text in ((self.settings, settings), (self.state, state)):
            if text is not None:
                path.write_bytes(text.encode() if isinstance(text, str) else text)
        return self

    def plan(self, **wishes: Any) -> Plan:
        return plan_setup(self.home, self.machine, all_agents(), load(self.home) or first(self.home), **wishes)

    def setup(self, **wishes: Any) -> Plan:
        """`cems setup --no-prove`; raises what the command would report."""
        record = load(self.home) or first(self.home)
        plan = self.plan(**wishes)
        apply.apply_launchers(self.home)
        save(self.home, record)
        record = apply.apply_link(self.home, plan.link, record)
        for agent in plan.agents:
            if agent.wiring is not None:
                record = apply.apply_agent(self.home, self.machine, agent.agent, agent.wiring, record)
        return plan

    def uninstall(self, *, purge: bool = False) -> list[str]:
        """`cems uninstall`; the names left in CEMS_HOME."""
        undo.check_home(self.home, self.machine)
        record = load(self.home)
        removals = undo.plan_removals(self.home, self.machine, with_shared(all_agents()), record)
        undo.take_out(self.home, self.machine, removals, record)
        return undo.remove_program(self.home, record, purge=purge)

    def read(self, path: Path) -> Any:
        return json.loads(path.read_bytes())

    def tree(self, *, without: tuple[str, ...] = ()) -> dict[str, str]:
        """Every path below the home folder: its kind, mode and content."""
        return tree(self.root, without=without)


def tree(root: Path, *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Every path below `root` but those under the names `without`: its kind, mode, and content or target."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if any(name == left_out or name.startswith(f"{left_out}/") for left_out in without):
            continue
        mode = oct(stat.S_IMODE(path.lstat().st_mode))
        if path.is_symlink():
            found[name] = f"link {os.readlink(path)}"  # noqa: PTH115 - the text of the link itself
        elif path.is_dir():
            found[name] = f"folder {mode}"
        else:
            found[name] = f"file {mode} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return found
