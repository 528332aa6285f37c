"""Our part of Pi's configuration: a tool server in `mcp.json`, an extension, prompt templates. Its skills are those in `~/.agents/skills`.
Reads, and returns edits; `cems.adapters.base.Agent` says what each function means.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, FileEdit, Launchers, Machine, WiredState, Wiring, Wish
from cems.adapters.document import JSON, Document
from cems.adapters.entries import Wires
from cems.adapters.own_files import Bundle
from cems.adapters.pi.detect import at_folder, config_dir
from cems.adapters.plugin_agent import plugin_source
from cems.adapters.tool_server import ToolServer
from cems.adapters.typed_commands import command_bundles

MANIFEST: dict[str, Any] = json.loads((Path(__file__).parent / "mcp.json").read_bytes())
PLUGIN = Path(__file__).parent / "extension.js"


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
        self.servers = Document(folder / "mcp.json", JSON)
        self.server = ToolServer(self.servers, launchers, "mcpServers", MANIFEST["server"])
        plugin = Bundle(
            "hook plugin",
            "the extension that asks for memory",
            folder / "extensions",
            {Path("cems.js"): plugin_source(PLUGIN, launchers)},
            own_folder=False,
        )
        commands = command_bundles(folder / "prompts", "$ARGUMENTS")
        self.wires = Wires(folder, [(self.servers, self.server)], [plugin, *commands])
