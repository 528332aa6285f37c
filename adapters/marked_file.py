"""A text file of somebody else's with a block of ours in it, as an agent's file that is being edited; see `Document`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cems.adapters.base import AgentRecord, ConfigUnreadable, FileEdit, read_file
from cems.adapters.config_text import NotReadable
from cems.adapters.marked_block import MarkedText


class MarkedFile:
    """One file, and the entry `block <its name>` in it; see `cems.adapters.entries.EditedFile` and `Part`.

    What stands in the block is not the entry's: whoever else writes it may have changed it.
    """

    def __init__(self, path: Path, what: str) -> None:
        """`what` says the block's purpose to a person. Raises ConfigUnreadable."""
        self.path = path
        self._what = what
        self._name = f"block {path.name}"
        self._before = read_file(path)
        try:
            self._text = MarkedText.parse(self._before or b"")
        except NotReadable as problem:
            raise ConfigUnreadable(path, problem.line, problem.reason) from None

    def wanted(self) -> list[str]:
        return [self._name]

    def present(self) -> list[str]:
        return [self._name] if self._text.block is not None else []

    def desired(self, name: str) -> Any:
        return name

    def current(self, name: str) -> Any:
        return name if self.present() else None

    def add(self, _name: str) -> None:
        self._text = self._text.with_block("")

    def replace(self, name: str) -> None:
        """It is there or not: it has no other form."""

    def remove(self, _record: AgentRecord) -> None:
        self._text = self._text.without_block()

    def made(self) -> tuple[str, ...]:
        return ()

    def summary(self, added: set[str]) -> str:
        return self._what if self._name in added else ""

    def edit(self, summary: str) -> FileEdit | None:
        """The edit of the file so far; None when nothing changed."""
        after = bytes(self._text)
        return None if after == (self._before or b"") else FileEdit(self.path, self._before, after, summary)

    def remove_emptied(self, record: AgentRecord, otherwise: tuple[str, ...]) -> None:
        """There are no containers in a text."""

    def removal(self, record: AgentRecord) -> FileEdit | None:
        """The edit that takes the block out; it removes a file that we made and that holds nothing else."""
        edit, known = self.edit("take out the block of CEMS"), record.file(self.path)
        if edit and not edit.after and not (known and known.original):
            return FileEdit(self.path, self._before, None, "remove the file CEMS made")
        return edit
