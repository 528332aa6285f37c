"""Our part of Goose's files: a tool server in `config.yaml`, a plugin of our own with the hooks, a block in the global
AGENTS.md. Reads, and returns edits; `cems.adapters.base.Agent` says what each function means.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, FileEdit, Launchers, Machine, WiredState, Wiring, Wish, read_file
from cems.adapters.document import YAML, Document
from cems.adapters.entries import Wires
from cems.adapters.goose.detect import config_dir, plugin_dir
from cems.adapters.hook_groups import Hook, hook_command, program_of
from cems.adapters.marked_file import MarkedFile
from cems.adapters.own_files import Bundle
from cems.adapters.tool_server import ToolServer

# Goose's time limit in seconds; it runs the hooks of an event one after another and waits for each. No matcher: it is
# an expression, and one that is none drops the hook without a word.
HOOKS = (
    Hook("SessionStart", "cems_session_start", 10),
    Hook("UserPromptSubmit", "cems_user_prompts_submit", 10),
    Hook("PreToolUse", "cems_pre_tool_use", 5),
    Hook("Stop", "cems_stop", 5),
    Hook("SessionEnd", "cems_session_end", 5),
)
MANIFEST: dict[str, Any] = json.loads((Path(__file__).parent / "mcp.json").read_bytes())
PLUGIN = {"name": "cems", "description": "The hooks of CEMS, a memory for coding agents. `cems setup` writes this."}

_ALIAS = (
    "Goose takes memories with each prompt only where CEMS starts it: use `cems run goose`, or put this line into your "
    "shell's profile: alias goose='cems run goose'"
)
_UNATTENDED = "auto"


def wire(machine: Machine, launchers: Launchers, wish: Wish) -> Wiring:
    files = _Files(config_dir(machine), machine, launchers)
    # Said when it is set up, not each time.
    notes = [_ALIAS] if wish.known is None else []
    return files.wires.wire(wish, [*files.server.notes(), *notes, *files.mode(), *files.switched_off()])


def unwire(machine: Machine, launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
    return _Files(record.config_dir, machine, launchers).wires.unwire(record)


def wired(machine: Machine, launchers: Launchers, record: AgentRecord) -> WiredState:
    files = _Files(record.config_dir, machine, launchers)
    return files.wires.wired([*files.switched_off(), *files.server.problems(), *files.dead()])


class _Files:
    def __init__(self, folder: Path, machine: Machine, launchers: Launchers) -> None:
        self.plugin = plugin_dir(machine)
        self.config = Document(folder / "config.yaml", YAML)
        self.settings = Document(folder / "settings.json")
        self.server = ToolServer(self.config, launchers, "extensions", MANIFEST["server"])
        self.block = MarkedFile(
            folder / "AGENTS.md", "a block for what you prefer everywhere; CEMS keeps it up to date"
        )
        self.wires = Wires(
            folder,
            [
                (self.config, self.server),
                (self.config, _NoteOfPlugin(self.config, self.plugin)),
                (self.block, self.block),
            ],
            (_plugin(self.plugin, launchers),),
        )

    def mode(self) -> list[str]:
        mode = self.config.get("GOOSE_MODE")
        if mode in (None, _UNATTENDED):
            return []
        return [
            f"GOOSE_MODE is {mode}: Goose asks before each tool of ours, and `goose run` stops there; `auto` does not"
        ]

    def switched_off(self) -> Iterator[str]:
        off = self.settings.get("disabledPlugins")
        if isinstance(off, list) and PLUGIN["name"] in off:
            yield f"`disabledPlugins` in {self.settings.path} names `cems`: its hooks do not run until you take it out"
        if self.config.get("plugins", str(self.plugin), "enabled") is False:
            yield f"the plugin {self.plugin} is switched off in {self.config.path}: its hooks do not run"
        if self.config.get("extensions", "cems", "enabled") is False:
            yield f"the extension `cems` is switched off in {self.config.path}: Goose has no tools of ours"

    def dead(self) -> Iterator[str]:
        """Launchers that our hooks name and that no longer exist."""
        path = self.plugin / "hooks" / "hooks.json"
        try:
            events = json.loads(read_file(path) or b"{}")["hooks"].values()
            commands = {entry["command"] for groups in events for group in groups for entry in group["hooks"]}
        except (ValueError, LookupError, TypeError, AttributeError):
            return
        for program in sorted({program_of(command) for command in commands}):
            if Path(program).name == "cems-hook" and not Path(program).exists():
                yield f"{path} runs {program}, which is not there"


class _NoteOfPlugin:
    """What Goose itself notes of our plugin in its `config.yaml`, which goes when the plugin goes; see
    `cems.adapters.entries.Part`."""

    def __init__(self, config: Document, plugin: Path) -> None:
        self._config = config
        self._plugin = str(plugin)

    def wanted(self) -> list[str]:
        return []

    def present(self) -> list[str]:
        return []

    def desired(self, name: str) -> Any:
        return name

    def current(self, _name: str) -> Any:
        return None

    def add(self, name: str) -> None:
        """Goose's to do."""

    def replace(self, name: str) -> None:
        """Goose's to do."""

    def remove(self, _record: AgentRecord) -> None:
        if self._config.get("plugins", self._plugin) is None:
            return
        self._config.remove("plugins", self._plugin)
        if self._config.text.is_empty(("plugins",)):
            self._config.remove("plugins")

    def made(self) -> tuple[str, ...]:
        return ()

    def summary(self, _added: set[str]) -> str:
        return ""


def _plugin(folder: Path, launchers: Launchers) -> Bundle:
    """The plugin's files. No version in them: they change only where the hooks do."""
    hooks = {
        hook.event: [
            {"hooks": [{"type": "command", "command": hook_command(launchers, hook.script), "timeout": hook.timeout}]}
        ]
        for hook in HOOKS
    }
    files = {Path("plugin.json"): PLUGIN, Path("hooks/hooks.json"): {"hooks": hooks}}
    contents = {
        path: json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n" for path, content in files.items()
    }
    return Bundle("hook plugin", "the plugin with our hooks", folder, contents)
