"""Our part of Codex's configuration: hooks in `hooks.json`, a tool server in `config.toml`. Its skills are those in
`~/.agents/skills`. Reads, and returns edits; `cems.adapters.base.Agent` says what each function means.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, FileEdit, Launchers, Machine, Trust, WiredState, Wiring, Wish
from cems.adapters.codex import trust as hook_trust
from cems.adapters.codex.agent import CONTEXT_TOKENS
from cems.adapters.codex.detect import codex_home, program, version
from cems.adapters.document import TOML, Document
from cems.adapters.entries import Wires
from cems.adapters.hook_groups import Hook, HookGroups
from cems.adapters.tool_server import ToolServer

# Seconds. What a person has trusted is one exact entry: another time limit, and Codex runs the hook no more until they
# trust it again. So these stay as they are over versions, and no entry has words in it that could get better.
_WITH_CONTEXT = {"additionalContextLimit": CONTEXT_TOKENS}
HOOKS = (
    Hook("SessionStart", "cems_session_start", 10, more=_WITH_CONTEXT),
    Hook("UserPromptSubmit", "cems_user_prompts_submit", 10, more=_WITH_CONTEXT),
    Hook("PreToolUse", "cems_pre_tool_use", 5, more=_WITH_CONTEXT),
    Hook("Stop", "cems_stop", 5),
    # Codex allows three seconds at most, and complains at each run of more.
    Hook("SessionEnd", "cems_session_end", 3),
)
# No approvals: Codex asks, or in `codex exec` refuses, by what each tool says of itself, and only forgetting destroys.
MANIFEST: dict[str, Any] = json.loads((Path(__file__).parent / "mcp.json").read_bytes())


def wire(machine: Machine, launchers: Launchers, wish: Wish) -> Wiring:
    files = _Files(codex_home(machine), launchers)
    notes = [*files.server.notes(), *files.troubles()]
    trusted = hook_trust.trust(files.events, files.config, files.hooks).state == "trusted"
    wiring = files.wires.wire(wish, notes)
    hooks = any(name.startswith("hook ") for name in wiring.entries)
    return replace(wiring, todo="" if trusted or not hooks else hook_trust.HOW)


def unwire(_machine: Machine, launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
    return _Files(record.config_dir, launchers).wires.unwire(record)


def wired(_machine: Machine, launchers: Launchers, record: AgentRecord) -> WiredState:
    files = _Files(record.config_dir, launchers)
    return files.wires.wired([*files.troubles(), *files.server.problems(), *files.hooks.problems()])


def trust(machine: Machine, launchers: Launchers, record: AgentRecord) -> Trust:
    files = _Files(record.config_dir, launchers)
    found = program(machine)
    return hook_trust.trust(files.events, files.config, files.hooks, found, version(found))


class _Files:
    def __init__(self, folder: Path, launchers: Launchers) -> None:
        self.events = Document(folder / "hooks.json")
        self.config = Document(folder / "config.toml", TOML)
        self.hooks = HookGroups(self.events, launchers, HOOKS)
        self.server = ToolServer(self.config, launchers, "mcp_servers", MANIFEST["server"])
        self.wires = Wires(folder, [(self.events, self.hooks), (self.config, self.server)])

    def troubles(self) -> list[str]:
        """What in the person's own settings keeps ours from working."""
        found = []
        if any(self.config.get("features", name) is False for name in ("hooks", "codex_hooks")):
            found.append(f"`features.hooks` is false in {self.config.path}: no hook runs until you change it")
        if self.config.get("mcp_servers", "cems", "enabled") is False:
            found.append(f"`mcp_servers.cems.enabled` is false in {self.config.path}: Codex does not start the tools")
        if self._has_hooks_of_its_own():
            found.append(
                f"{self.config.path} has hooks too: they and those in {self.events.path} all run, and Codex "
                "says at each start that there are two places"
            )
        return found

    def _has_hooks_of_its_own(self) -> bool:
        hooks = self.config.get("hooks")
        return isinstance(hooks, dict) and any(isinstance(groups, list) and groups for groups in hooks.values())
