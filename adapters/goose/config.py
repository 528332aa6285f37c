"""Our part of Goose's files: a tool server in `config.yaml`, a plugin of our own with the hooks, a block in the global
AGENTS.md. Reads, and returns edits; `cems.adapters.base.Agent` says what each function means.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cems.adapters import own_files
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
    without = () if files.plugin_is_ours(wish) else (_PluginNote.name,)
    return files.wires.wire(wish, [*files.server.notes(), *notes, *files.mode(), *files.switched_off()], without)


def unwire(machine: Machine, launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
    return _Files(record.config_dir, machine, launchers).wires.unwire(record)


def wired(machine: Machine, launchers: Launchers, record: AgentRecord) -> WiredState:
    files = _Files(record.config_dir, machine, launchers)
    return files.wires.wired([*files.switched_off(), *files.server.problems(), *files.dead()])


class _Files:
    def __init__(self, folder: Path, machine: Machine, launchers: Launchers) -> None:
        self.plugin = plugin_dir(machine.home, folder)
        self.bundle = _plugin(self.plugin, launchers)
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
                (self.config, _PluginNote(self.config, self.plugin)),
                (self.block, self.block),
            ],
            (self.bundle,),
        )

    def plugin_is_ours(self, wish: Wish) -> bool:
        """Whether the plugin is ours, or no other has its place."""
        known = wish.known is not None and self.bundle.name in wish.known.entries + wish.known.removed
        return known or not self.plugin.exists() or self.bundle.name in own_files.present((self.bundle,))

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
        if self.config.get("extensions", "tom", "enabled") is False:
            yield f"the extension `tom` is switched off in {self.config.path}: Goose takes no memories with a prompt"
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


class _PluginNote:
    """The entry `plugin cems`, at `plugins/<its folder>`; see `cems.adapters.entries.Part`.

    Goose would write it itself when it first sees the plugin, and with it all of `config.yaml` anew, without comments.
    """

    name = "plugin cems"

    def __init__(self, config: Document, plugin: Path) -> None:
        self._config = config
        self._place = ("plugins", str(plugin))

    def wanted(self) -> list[str]:
        return [self.name]

    def present(self) -> list[str]:
        return [self.name] if self._config.get(*self._place) is not None else []

    def desired(self, _name: str) -> Any:
        return {"enabled": True}

    def current(self, _name: str) -> Any:
        return self._config.get(*self._place)

    def add(self, name: str) -> None:
        self._config.add_member(*self._place, value=self.desired(name))

    def replace(self, name: str) -> None:
        self._config.replace(*self._place, value=self.desired(name))

    def remove(self, _record: AgentRecord) -> None:
        if self.present():
            self._config.remove(*self._place)

    def made(self) -> tuple[str, ...]:
        return ("/plugins",)

    def summary(self, added: set[str]) -> str:
        return "the plugin with our hooks" if self.name in added else ""


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
