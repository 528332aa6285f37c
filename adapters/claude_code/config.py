"""Our part of Claude Code's configuration: hooks and allow rules in `settings.json`, a tool server in
`.claude.json`, skills in `skills/`. Reads, and returns edits; `cems.adapters.base.Agent` says what each
function means.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, FileEdit, Launchers, Machine, WiredState, Wiring, Wish
from cems.adapters.claude_code.detect import at_folder, config_dir, state_file
from cems.adapters.document import Document
from cems.adapters.entries import Wires
from cems.adapters.hook_groups import Hook, HookGroups
from cems.adapters.own_files import SKILLS, skill_bundles
from cems.adapters.tool_server import ToolServer

# Claude's time limit in seconds. The hook's own deadline (1 s) lies well inside. Only events that do something: each
# wired one costs a process. PreToolUse costs one for each tool call, 12 ms: a gate rule may name any tool, so it has no
# matcher (with one, Cursor would run what stands in Claude's file too).
HOOKS = (
    Hook("SessionStart", "cems_session_start", 10),
    Hook("UserPromptSubmit", "cems_user_prompts_submit", 10),
    Hook("PreToolUse", "cems_pre_tool_use", 5),
    Hook("Stop", "cems_stop", 5),
    Hook("SessionEnd", "cems_session_end", 5),
    Hook("PreCompact", "cems_pre_compact", 5),
)

# Without an allow rule Claude refuses a tool in `-p` and asks each time otherwise. Reading is harmless;
# what an agent adds is a candidate, labelled unverified. Changing and forgetting are not in the list: there
# Claude asks.
MANIFEST: dict[str, Any] = json.loads((Path(__file__).parent / "mcp.json").read_bytes())
SERVER: str = MANIFEST["name"]
RULES: tuple[str, ...] = tuple(MANIFEST["allow"])


def wire(machine: Machine, launchers: Launchers, wish: Wish) -> Wiring:
    files = _Files(machine, launchers)
    rules = files.rules.wanted()
    without = rules if files.server.foreign or not wish.permissions else ()
    return files.wires.wire(wish, [*files.server.notes(), *files.switched_off()], without)


def unwire(machine: Machine, launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
    return _Files(at_folder(machine, record.config_dir), launchers).wires.unwire(record)


def wired(machine: Machine, launchers: Launchers, record: AgentRecord) -> WiredState:
    files = _Files(at_folder(machine, record.config_dir), launchers)
    return files.wires.wired([*files.switched_off(), *files.server.problems(), *files.hooks.problems()])


class _Files:
    def __init__(self, machine: Machine, launchers: Launchers) -> None:
        folder = config_dir(machine)
        state = state_file(machine, folder)
        self.settings = Document(folder / "settings.json")
        self.state = Document(state, lock=state.with_name(state.name + ".lock"))
        self.hooks = HookGroups(self.settings, launchers, HOOKS)
        self.server = ToolServer(self.state, launchers, "mcpServers", MANIFEST["server"])
        self.rules = _AllowRules(self.settings)
        self.wires = Wires(
            folder,
            [(self.settings, self.hooks), (self.state, self.server), (self.settings, self.rules)],
            skill_bundles(SKILLS, folder / "skills"),
        )

    def switched_off(self) -> list[str]:
        if self.settings.get("disableAllHooks") is True:
            return [f"`disableAllHooks` is true in {self.settings.path}: no hook runs until you change it"]
        return []


class _AllowRules:
    """The entries `allow mcp__cems__…` in `permissions.allow`; see `cems.adapters.entries.Part`. A rule of the person's
    that allows the whole server does as well."""

    def __init__(self, settings: Document) -> None:
        self._settings = settings

    def wanted(self) -> list[str]:
        return [f"allow {rule}" for rule in RULES]

    def present(self) -> list[str]:
        there = self._settings.list_at("permissions", "allow")
        broad = any(found in there for found in (f"mcp__{SERVER}", f"mcp__{SERVER}__*"))
        return [f"allow {rule}" for rule in RULES if broad or rule in there]

    def desired(self, name: str) -> Any:
        return name

    def current(self, name: str) -> Any:
        return name if name in self.present() else None

    def add(self, name: str) -> None:
        self._settings.add_item("permissions", "allow", value=name.removeprefix("allow "))

    def replace(self, name: str) -> None:
        """A rule is there or not: it has no other form."""

    def remove(self, record: AgentRecord) -> None:
        rules = self._settings.list_at("permissions", "allow")
        ours = {f"allow {rule}" for rule in RULES} & set(record.entries)
        for index in reversed(range(len(rules))):
            if isinstance(rules[index], str) and f"allow {rules[index]}" in ours:
                self._settings.remove("permissions", "allow", index)

    def made(self) -> tuple[str, ...]:
        return ("/permissions", "/permissions/allow")

    def summary(self, added: set[str]) -> str:
        tools = [rule.rpartition("__")[2] for rule in RULES if f"allow {rule}" in added]
        return f"{', '.join(tools)} allowed unasked (--no-permissions leaves that out)" if tools else ""
