"""Our part of Gemini CLI's configuration: hooks and a tool server in `settings.json`, commands. Its skills are
those in `~/.agents/skills`. Reads, and returns edits; `cems.adapters.base.Agent` says what each function means.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomlkit

from cems.adapters.base import AgentRecord, FileEdit, Launchers, Machine, WiredState, Wiring, Wish
from cems.adapters.document import JSON_WITH_COMMENTS, Document
from cems.adapters.entries import Wires
from cems.adapters.gemini.detect import at_folder, config_dir
from cems.adapters.hook_groups import Hook, HookGroups
from cems.adapters.own_files import Bundle
from cems.adapters.tool_server import ToolServer
from cems.adapters.typed_commands import typed_commands

# Gemini's time limits are in milliseconds. `PreCompress` comes before every call of the model and tells nothing.
HOOKS = tuple(
    Hook(event, script, milliseconds, more={"name": f"cems {event}"})
    for event, script, milliseconds in (
        ("SessionStart", "cems_session_start", 10_000),
        ("BeforeAgent", "cems_user_prompts_submit", 10_000),
        ("BeforeTool", "cems_pre_tool_use", 5_000),
        ("AfterAgent", "cems_stop", 5_000),
        ("SessionEnd", "cems_session_end", 5_000),
    )
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
        self.settings = Document(folder / "settings.json", JSON_WITH_COMMENTS)
        self.hooks = HookGroups(self.settings, launchers, HOOKS)
        self.server = ToolServer(self.settings, launchers, "mcpServers", MANIFEST["server"])
        self.wires = Wires(
            folder, [(self.settings, self.hooks), (self.settings, self.server)], list(_commands(folder / "commands"))
        )

    def switched_off(self) -> list[str]:
        found = []
        if self.settings.get("hooksConfig", "enabled") is False:
            found.append(f"`hooksConfig.enabled` is false in {self.settings.path}: no hook runs until you change it")
        allowed, excluded = self.settings.get("mcp", "allowed"), self.settings.get("mcp", "excluded")
        if (isinstance(allowed, list) and "cems" not in allowed) or (isinstance(excluded, list) and "cems" in excluded):
            found.append(f"`mcp` in {self.settings.path} does not allow the tool server `cems`")
        return found


def _commands(folder: Path) -> Iterator[Bundle]:
    """`/remember …` and the others, in Gemini's form of a command file."""
    for command in typed_commands("{{args}}"):
        text = tomlkit.dumps({"description": command.description, "prompt": command.prompt})
        file = Path(f"{command.name}.toml")
        yield Bundle(
            f"command {command.name}", f"the command /{command.name}", folder, {file: text.encode()}, own_folder=False
        )
