"""Our part of Cursor's configuration: hooks in `hooks.json`, a tool server in `mcp.json`. Reads, and returns edits;
`cems.adapters.base.Agent` says what each function means.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, FileEdit, Launchers, Machine, WiredState, Wiring, Wish
from cems.adapters.cursor import project_rule
from cems.adapters.cursor.detect import config_dir, detect
from cems.adapters.cursor.versions import FIRST_WITH_EVENTS, knows_the_events
from cems.adapters.document import JSON_WITH_COMMENTS, JSONC, Document
from cems.adapters.entries import Wires
from cems.adapters.hook_groups import Hook
from cems.adapters.hook_list import HookList
from cems.adapters.tool_server import ToolServer

_OPEN = {"failClosed": False}

# Cursor's time limit in seconds. One event name that a version does not know makes it ignore the whole file; these were all
# there in 2.5. Those that Claude's file names too run once: Cursor drops Claude's where the command is the same.
HOOKS = (
    Hook("sessionStart", "cems_session_start", 10, more=_OPEN),
    Hook("beforeSubmitPrompt", "cems_user_prompts_submit", 10, more=_OPEN),
    Hook("preToolUse", "cems_pre_tool_use", 5, more=_OPEN),
    Hook("postToolUse", "cems_post_tool_use", 5, more=_OPEN),
    Hook("afterAgentResponse", "cems_agent_response", 5, more=_OPEN),
    Hook("stop", "cems_stop", 5, more=_OPEN),
    Hook("sessionEnd", "cems_session_end", 5, more=_OPEN),
    Hook("preCompact", "cems_pre_compact", 5, more=_OPEN),
)
MANIFEST: dict[str, Any] = json.loads((Path(__file__).parent / "mcp.json").read_bytes())


def wire(machine: Machine, launchers: Launchers, wish: Wish) -> Wiring:
    files = _Files(config_dir(machine), launchers, wish.known, wish.project)
    version = detect(machine).version
    notes = [*files.server.notes(), *files.unreadable()]
    without: tuple[str, ...] = ()
    if not knows_the_events(version):
        without = tuple(files.hooks.wanted())
        notes.append(
            f"Cursor {version} may not know every event of our hooks, and would ignore {files.file.path} whole, so they are "
            f"left out. Update Cursor to {FIRST_WITH_EVENTS} or newer and run `cems setup` again"
        )
    return files.wires.wire(wish, notes, without)


def unwire(_machine: Machine, launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
    return _Files(record.config_dir, launchers, record).wires.unwire(record)


def wired(_machine: Machine, launchers: Launchers, record: AgentRecord) -> WiredState:
    files = _Files(record.config_dir, launchers, record)
    return files.wires.wired([*files.unreadable(), *files.server.problems(), *files.hooks.problems()])


class _Files:
    def __init__(
        self, folder: Path, launchers: Launchers, known: AgentRecord | None, project: Path | None = None
    ) -> None:
        self.file = Document(folder / "hooks.json", JSON_WITH_COMMENTS)
        self.servers = Document(folder / "mcp.json", JSONC)
        self.hooks = HookList(self.file, launchers, HOOKS)
        self.server = ToolServer(self.servers, launchers, "mcpServers", MANIFEST["server"])
        self.wires = Wires(
            folder,
            [(self.file, self.hooks), (self.servers, self.server)],
            project_rule.bundles(known, project),
        )

    def unreadable(self) -> list[str]:
        """Cursor takes everything after `//` for a comment, inside a string too, and then cannot read the file."""
        if any("//" in text for text in _strings(self.file.get())):
            return [f"{self.file.path} has `//` inside a string: Cursor ignores the whole file until that is gone"]
        return []


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
