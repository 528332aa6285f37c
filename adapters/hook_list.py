"""Hooks as a plain list per event, `hooks.<Event>: [{"command": …}]`, in a file that has a `version`: Cursor's form, and
Copilot's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cems.adapters.base import AgentRecord, Launchers
from cems.adapters.document import Document
from cems.adapters.hook_groups import Hook, dead_launchers, hook_command, program_of

VERSION = 1


class HookList:
    """Our entries, `hook <Event>`, in one document; see `cems.adapters.entries.Part`."""

    def __init__(self, document: Document, launchers: Launchers, hooks: Sequence[Hook]) -> None:
        self.document = document
        self._launchers = launchers
        self._hooks = {f"hook {hook.event}": hook for hook in hooks}

    def wanted(self) -> list[str]:
        return list(self._hooks)

    def present(self) -> list[str]:
        return [name for name in self._hooks if self._places(name)]

    def desired(self, name: str) -> Any:
        hook = self._hooks[name]
        command = hook_command(self._launchers, hook.script)
        return {"type": "command", "command": command, "timeout": hook.timeout, **hook.more}

    def current(self, name: str) -> Any:
        places = self._places(name)
        return self.document.get("hooks", self._hooks[name].event, places[0]) if places else None

    def add(self, name: str) -> None:
        if self.document.get("version") is None:
            self.document.add_member("version", value=VERSION)
            self.document.made.append("/version")
        self.document.add_item("hooks", self._hooks[name].event, value=self.desired(name))

    def replace(self, name: str) -> None:
        for place in self._places(name)[:1]:
            self.document.replace("hooks", self._hooks[name].event, place, value=self.desired(name))

    def remove(self, record: AgentRecord) -> None:
        for name, hook in self._hooks.items():
            for place in reversed(self._places(name)):
                self.document.remove("hooks", hook.event, place)
        known = record.file(self.document.path)
        hooks = self.document.get("hooks")
        # A version that we put there is what keeps hooks of others alive by now.
        others = isinstance(hooks, dict) and any(hooks.values())
        if known and "/version" in known.containers and not others and self.document.get("version") == VERSION:
            self.document.remove("version")

    def made(self) -> tuple[str, ...]:
        return ("/hooks", *(f"/hooks/{hook.event}" for hook in self._hooks.values()))

    def summary(self, added: set[str]) -> str:
        events = [hook.event for name, hook in self._hooks.items() if name in added]
        return f"hooks for {', '.join(events)}" if events else ""

    def problems(self) -> list[str]:
        """Launchers that hooks name and that no longer exist: what a removed folder leaves behind."""
        return [f"{self.document.path} runs {program}, which is not there" for program in self._dead()]

    def _dead(self) -> Iterator[str]:
        hooks = self.document.get("hooks")
        lists = [found for found in hooks.values() if isinstance(found, list)] if isinstance(hooks, dict) else []
        yield from dead_launchers(entry for found in lists for entry in found)

    def _places(self, name: str) -> list[int]:
        """Where hooks of this event run our launcher."""
        entries = enumerate(self.document.list_at("hooks", self._hooks[name].event))
        ours = str(self._launchers.hook)
        return [at for at, entry in entries if isinstance(entry, dict) and program_of(entry.get("command")) == ours]
