"""Our part of OpenCode's configuration: a tool server in `opencode.json`, a plugin, commands. Its skills are those in `~/.agents/skills`.
Reads, and returns edits; `cems.adapters.base.Agent` says what each function means.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, FileEdit, Launchers, Machine, WiredState, Wiring, Wish
from cems.adapters.document import JSONC, Document
from cems.adapters.entries import Wires
from cems.adapters.opencode.detect import at_folder, config_dir
from cems.adapters.own_files import Bundle
from cems.adapters.plugin_agent import plugin_source
from cems.adapters.tool_server import ToolServer
from cems.adapters.typed_commands import command_bundles

MANIFEST: dict[str, Any] = json.loads((Path(__file__).parent / "mcp.json").read_bytes())
PLUGIN = Path(__file__).parent / "plugin.js"


def wire(machine: Machine, launchers: Launchers, wish: Wish) -> Wiring:
    files = _Files(machine, launchers)
    return files.wires.wire(wish, files.server.notes())


def unwire(machine: Machine, launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
    return _Files(at_folder(machine, record.config_dir), launchers).wires.unwire(record)


def wired(machine: Machine, launchers: Launchers, record: AgentRecord) -> WiredState:
    files = _Files(at_folder(machine, record.config_dir), launchers)
    return files.wires.wired(files.server.problems())


class _Files:
    def __init__(self, machine: Machine, launchers: Launchers) -> None:
        folder = config_dir(machine)
        self.servers = Document(_settings(folder), JSONC)
        self.server = ToolServer(self.servers, launchers, "mcp", MANIFEST["server"])
        plugin = Bundle(
            "hook plugin",
            "the plugin that asks for memory",
            folder / "plugin",
            {Path("cems.js"): plugin_source(PLUGIN, launchers)},
            own_folder=False,
        )
        commands = command_bundles(folder / "command", "$ARGUMENTS")
        self.wires = Wires(folder, [(self.servers, self.server)], [plugin, *commands])


def _settings(folder: Path) -> Path:
    """The file the person has; OpenCode reads each of them."""
    names = ("opencode.jsonc", "opencode.json", "config.json")
    return next((folder / name for name in names if (folder / name).is_file()), folder / "opencode.json")
