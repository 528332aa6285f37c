"""A configuration file of an agent's that is being edited: its text so far, and what the edits had to make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, ConfigUnreadable, FileEdit, digest, read_file
from cems.adapters.config_text import ConfigText, NotReadable
from cems.adapters.json_edit import JsoncText, JsonText, JsonWithComments
from cems.adapters.toml_edit import TomlText
from cems.adapters.yaml_edit import YamlText

Step = str | int

# A file that was there with nothing in it had most likely one of these in it.
_BLANK = (b"", b"\n", b"\r\n", b"\xef\xbb\xbf")


@dataclass(frozen=True, slots=True)
class Form:
    """A format: its parser (raises NotReadable), and what it needs to see in a file in which nothing is set."""

    parse: Callable[[bytes], ConfigText]
    empty: bytes = b""


JSON = Form(JsonText.parse, b"{}\n")
JSON_WITH_COMMENTS = Form(JsonWithComments.parse, b"{}\n")
JSONC = Form(JsoncText.parse, b"{}\n")
TOML = Form(TomlText.parse)
YAML = Form(YamlText.parse)


class Document:
    """One file. `made` are pointers (`/hooks/Stop`) of containers that were made to hold our entries."""

    def __init__(self, path: Path, form: Form = JSON, *, lock: Path | None = None) -> None:
        """Raises ConfigUnreadable unless the file is absent, blank (nothing set yet) or a mapping in this form."""
        self.path, self.lock = path, lock
        self.before = read_file(path)
        self.made: list[str] = []
        with self._refusals():
            self.text = form.parse(
                self.before if self.before and self.before.strip() else form.empty or self.before or b""
            )
            self.text.require((), dict)
        self._start = bytes(self.text)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except NotReadable as problem:
            raise ConfigUnreadable(self.path, problem.line, problem.reason) from None

    @property
    def changed(self) -> bool:
        return bytes(self.text) != self._start

    def get(self, *steps: Step) -> Any:
        return self.text.get(steps)

    def list_at(self, *steps: Step) -> list[Any]:
        found = self.text.get(steps)
        return found if isinstance(found, list) else []

    def add_member(self, *steps: str, value: Any) -> None:
        """Put `value` at `steps`, where nothing is, last in its mapping, which is made if it has to be;
        ConfigUnreadable when something else is in its place."""
        with self._refusals():
            for depth in range(1, len(steps)):
                self.text.require(steps[:depth], dict)
            there = next((depth for depth in range(1, len(steps)) if not self.text.has(steps[:depth])), len(steps))
            # What has to be made goes in as one piece: TOML then writes no header for a table that needs none.
            for step in reversed(steps[there:]):
                value = {step: value}
            self.text = self.text.with_member(steps[: there - 1], steps[there - 1], value)
        self.made += [_pointer(steps[:depth]) for depth in range(there, len(steps))]

    def add_item(self, *steps: str, value: Any) -> None:
        """Put `value` last in the list at `steps`, which is made if it has to be; ConfigUnreadable when something else
        is there."""
        with self._refusals():
            self.text.require(steps, list)
            if self.text.has(steps):
                self.text = self.text.with_item(steps, value)
                return
        self.add_member(*steps, value=[value])
        self.made.append(_pointer(steps))

    def replace(self, *steps: Step, value: Any) -> None:
        """Put `value` in the place of the one at `steps`, which is there."""
        with self._refusals():
            self.text = self.text.with_value(steps, value)

    def remove(self, *steps: Step) -> None:
        with self._refusals():
            self.text = self.text.without(steps)

    def remove_emptied(self, record: AgentRecord, otherwise: tuple[str, ...]) -> None:
        """After our entries were taken out: also the containers that were made for them (`otherwise`, where no record
        says which) and are empty now."""
        known = record.file(self.path)
        for pointer in sorted(known.containers if known else otherwise, key=len, reverse=True):
            steps = tuple(pointer.split("/")[1:])
            if self.changed and self.text.is_empty(steps):
                self.remove(*steps)
        for pointer in otherwise:
            steps = tuple(pointer.split("/")[1:])
            # In YAML a key whose last entry was taken out has no value; where a mapping was, its agent wants one.
            if self.changed and self.text.has(steps) and self.text.get(steps) is None:
                self.replace(*steps, value={})

    def edit(self, summary: str, mode: int = 0o600) -> FileEdit | None:
        """The edit of the file so far; None when nothing changed."""
        if not self.changed:
            return None
        return FileEdit(self.path, self.before, bytes(self.text), summary, tuple(self.made), mode=mode, lock=self.lock)

    def removal(self, record: AgentRecord) -> FileEdit | None:
        """The edit that takes our entries out; it removes a file that we made and that holds nothing else."""
        edit, known = self.edit("take out what CEMS put there"), record.file(self.path)
        if not edit or not known or not self.text.is_blank():
            return edit
        if not known.original:
            return FileEdit(self.path, self.before, None, "remove the file CEMS made")
        blank = next((data for data in _BLANK if digest(data) == known.original), edit.after)
        return replace(edit, after=blank)


def _pointer(steps: tuple[str, ...]) -> str:
    return "".join(f"/{step}" for step in steps)
