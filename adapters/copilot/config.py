"""Our part of Copilot's configuration: a hooks file of our own, `hooks/cems.json`, and a tool server in
`mcp-config.json`. Reads, and returns edits; `cems.adapters.base.Agent` says what each function means.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, FileEdit, Launchers, Machine, WiredState, Wiring, Wish
from cems.adapters.copilot.detect import at_folder, config_dir
from cems.adapters.document import JSONC, Document
from cems.adapters.entries import Wires
from cems.adapters.hook_groups import Hook
from cems.adapters.hook_list import HookList
from cems.adapters.tool_server import ToolServer

# Copilot's time limit in seconds; it runs the hooks of an event one after another and waits for each. No matcher: an empty
# one matches nothing.
HOOKS = (
    Hook("SessionStart", "cems_session_start", 10),
    Hook("UserPromptSubmit", "cems_user_prompts_submit", 10),
    Hook("PreToolUse", "cems_pre_tool_use", 5),
    Hook("Stop", "cems_stop", 5),
    Hook("SessionEnd", "cems_session_end", 5),
    Hook("PreCompact", "cems_pre_compact", 5),
)
MANIFEST: dict[str, Any] = json.loads((Path(__file__).parent / "mcp.json").read_bytes())


def wire(machine: Machine, launchers: Launchers, wish: Wish) -> Wiring:
    files = _Files(machine, launchers)
    return files.wires.wire(wish, [*files.server.notes(), *files.switched_off()])


def unwire(machine: Machine, launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
    return _Files(at_folder(machine, record.config_dir), launchers).wires.unwire(record)


def wired(machine: Machine, launchers: Launchers, record: AgentRecord) -> WiredState:
    files = _Files(at_folder(machine, record.config_dir), launchers)
    return files.wires.wired([*files.switched_off(), *files.server.problems(), *files.hooks.problems()])


class _Files:
    def __init__(self, machine: Machine, launchers: Launchers) -> None:
        folder = config_dir(machine)
        self.file = Document(folder / "hooks" / "cems.json")
        self.servers = Document(folder / "mcp-config.json", JSONC)
        self.hooks = HookList(self.file, launchers, HOOKS)
        self.server = ToolServer(self.servers, launchers, "mcpServers", MANIFEST["server"])
        self.wires = Wires(folder, [(self.file, self.hooks), (self.servers, self.server)])

    def switched_off(self) -> list[str]:
        # In settings.json the same word does not stop the files in hooks/.
        if self.file.get("disableAllHooks") is True:
            return [f"`disableAllHooks` is true in {self.file.path}: its hooks do not run until you change it"]
        return []
