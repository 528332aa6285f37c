"""Hooks in the form that Claude Code began and others took over: `hooks.<Event>` is a list of groups with `hooks` each."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, Launchers
from cems.adapters.document import Document


@dataclass(frozen=True, slots=True)
class Hook:
    """The agent's event, our script for it, the agent's time limit in the agent's own unit, the group's matcher (None
    for none), and what else the agent wants in an entry."""

    event: str
    script: str
    timeout: int
    matcher: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


def hook_command(launchers: Launchers, script: str) -> str:
    """The command line an agent gives its shell; always the same bytes, since hosts run equal commands only once."""
    return f"{shlex.quote(str(launchers.hook))} {script}"


def program_of(command: Any) -> str:
    """The program a hook's command line runs, "" when it is no command line."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return ""
    return words[0] if words else ""


def dead_launchers(entries: Iterable[Any]) -> Iterator[str]:
    """The launchers of a CEMS that these hooks run and that no longer exist."""
    for program in sorted({program_of(entry.get("command")) for entry in entries if isinstance(entry, dict)}):
        if Path(program).name == "cems-hook" and not Path(program).exists():
            yield program


class HookGroups:
    """Our entries, `hook <Event>`, in one document; see `cems.adapters.entries.Part`."""

    def __init__(self, document: Document, launchers: Launchers, hooks: Sequence[Hook]) -> None:
        self.document = document
        self._launchers = launchers
        self._hooks = {f"hook {hook.event}": hook for hook in hooks}

    def wanted(self) -> list[str]:
        return list(self._hooks)

    def present(self) -> list[str]:
        return [name for name in self._hooks if self._first(name)]

    def desired(self, name: str) -> Any:
        hook = self._hooks[name]
        entry = {
            "type": "command",
            "command": hook_command(self._launchers, hook.script),
            "timeout": hook.timeout,
            **hook.more,
        }
        return ({"matcher": hook.matcher} if hook.matcher is not None else {}) | {"hooks": [entry]}

    def current(self, name: str) -> Any:
        """The group of our hook, or None; a group that the person has put other hooks into counts as edited."""
        place = self._first(name)
        return self.document.get("hooks", self._hooks[name].event, place[0]) if place else None

    def add(self, name: str) -> None:
        self.document.add_item("hooks", self._hooks[name].event, value=self.desired(name))

    def replace(self, name: str) -> None:
        """In its place: what else is in the file keeps its index, by which Codex knows what the person trusts."""
        place = self._first(name)
        if place:
            self.document.replace("hooks", self._hooks[name].event, place[0], value=self.desired(name))

    def remove(self, _record: AgentRecord) -> None:
        for name, hook in self._hooks.items():
            for group, place in sorted(self._places(name), reverse=True):
                self.document.remove("hooks", hook.event, group, "hooks", place)
                if not self.document.list_at("hooks", hook.event, group, "hooks"):
                    self.document.remove("hooks", hook.event, group)

    def made(self) -> tuple[str, ...]:
        return ("/hooks", *(f"/hooks/{hook.event}" for hook in self._hooks.values()))

    def summary(self, added: set[str]) -> str:
        events = [hook.event for name, hook in self._hooks.items() if name in added]
        return f"hooks for {', '.join(events)}" if events else ""

    def problems(self) -> list[str]:
        """Launchers that hooks name and that no longer exist: what a removed folder leaves behind."""
        return [f"{self.document.path} runs {program}, which is not there" for program in self._dead()]

    def places(self) -> Iterator[tuple[str, int, int]]:
        """Where our hooks stand: the event, the number of the group, and the hook's own number in that."""
        for name, hook in self._hooks.items():
            for group, place in self._places(name):
                yield hook.event, group, place

    def _dead(self) -> Iterator[str]:
        hooks = self.document.get("hooks")
        lists = [found for found in hooks.values() if isinstance(found, list)] if isinstance(hooks, dict) else []
        groups = [group for found in lists for group in found if isinstance(group, dict)]
        yield from dead_launchers(
            entry for group in groups if isinstance(group.get("hooks"), list) for entry in group["hooks"]
        )

    def _first(self, name: str) -> tuple[int, int] | None:
        return next(self._places(name), None)

    def _places(self, name: str) -> Iterator[tuple[int, int]]:
        """Group and place of each hook of this event that runs our launcher."""
        for at, group in enumerate(self.document.list_at("hooks", self._hooks[name].event)):
            hooks = group.get("hooks") if isinstance(group, dict) else None
            for place, entry in enumerate(hooks if isinstance(hooks, list) else []):
                if isinstance(entry, dict) and program_of(entry.get("command")) == str(self._launchers.hook):
                    yield at, place
