"""A configuration file of an agent's that is being edited: its text so far, and what the edits had to make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, ConfigUnreadable, FileEdit, read_file
from cems.adapters.config_text import ConfigText, NotReadable
from cems.adapters.json_edit import JsonText
from cems.adapters.toml_edit import TomlText

Step = str | int
Container = type[dict[str, Any]] | type[list[Any]]


@dataclass(frozen=True, slots=True)
class Form:
    """A format: its parser (raises NotReadable), and the text of a file in which nothing is set."""

    parse: Callable[[bytes], ConfigText]
    empty: bytes = b""


JSON = Form(JsonText.parse, b"{}\n")
TOML = Form(TomlText.parse)


class Document:
    """One file. `made` are pointers (`/hooks/Stop`) of containers that were made to hold our entries."""

    def __init__(self, path: Path, form: Form = JSON, *, lock: Path | None = None) -> None:
        """Raises ConfigUnreadable unless the file is absent, blank (nothing set yet) or a mapping in this form."""
        self.path, self.lock = path, lock
        self.before = read_file(path)
        self.made: list[str] = []
        try:
            self.text = form.parse(self.before if self.before and self.before.strip() else form.empty)
            self.text.require((), dict)
        except NotReadable as problem:
            raise ConfigUnreadable(path, problem.line, problem.reason) from None
        self._start = bytes(self.text)

    @property
    def changed(self) -> bool:
        return bytes(self.text) != self._start

    def get(self, *steps: Step) -> Any:
        return self.text.get(steps)

    def list_at(self, *steps: Step) -> list[Any]:
        found = self.text.get(steps)
        return found if isinstance(found, list) else []

    def hold(self, *steps: str, kind: Container) -> None:
        """Make the container at `steps`, and what it lies in, unless it is there; ConfigUnreadable when something
        else is."""
        for end in range(1, len(steps) + 1):
            self._hold(steps[:end], kind if end == len(steps) else dict)

    def _hold(self, steps: tuple[str, ...], kind: Container) -> None:
        try:
            self.text.require(steps, kind)
        except NotReadable as problem:
            raise ConfigUnreadable(self.path, problem.line, problem.reason) from None
        if self.text.get(steps) is None:
            self.text = self.text.with_member(steps[:-1], steps[-1], kind())
            self.made.append("".join(f"/{step}" for step in steps))

    def add_member(self, *steps: str, value: Any) -> None:
        """Put `value` at `steps`, where nothing is, last in its object; its object is made if it has to be."""
        self.hold(*steps[:-1], kind=dict)
        self.text = self.text.with_member(steps[:-1], steps[-1], value)

    def add_item(self, *steps: str, value: Any) -> None:
        """Put `value` last in the list at `steps`, which is made if it has to be."""
        self.hold(*steps, kind=list)
        self.text = self.text.with_item(steps, value)

    def replace(self, *steps: Step, value: Any) -> None:
        """Put `value` in the place of the one at `steps`, which is there."""
        self.text = self.text.with_value(steps, value)

    def remove(self, *steps: Step) -> None:
        self.text = self.text.without(steps)

    def remove_emptied(self, record: AgentRecord, otherwise: tuple[str, ...]) -> None:
        """After our entries were taken out: also the containers that were made for them (`otherwise`, where no record
        says which) and are empty now."""
        known = record.file(self.path)
        for pointer in sorted(known.containers if known else otherwise, key=len, reverse=True):
            steps = tuple(pointer.split("/")[1:])
            if self.changed and self.text.get(steps) in ({}, []):
                self.remove(*steps)

    def edit(self, summary: str, mode: int = 0o600) -> FileEdit | None:
        """The edit of the file so far; None when nothing changed."""
        if not self.changed:
            return None
        return FileEdit(self.path, self.before, bytes(self.text), summary, tuple(self.made), mode=mode, lock=self.lock)

    def removal(self, record: AgentRecord) -> FileEdit | None:
        """The edit that takes our entries out; it removes a file that we made and that holds nothing else."""
        edit, known = self.edit("take out what CEMS put there"), record.file(self.path)
        if edit and known and not known.original and self.text.get() == {}:
            return FileEdit(self.path, self.before, None, "remove the file CEMS made")
        return edit
