"""The one rule by which our entries come into an agent's files, stay, change and go, whatever the agent.

What is there and ours stays ours; what the person took out stays out, unless they say `--repair`; what they changed in
one of ours is kept, and said; an entry that is as an older version of us wrote it becomes what this version writes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from cems.adapters import own_files
from cems.adapters.base import AgentRecord, FileEdit, WiredState, Wiring, Wish
from cems.adapters.own_files import Bundle


class EditedFile(Protocol):
    """A file that is being edited: a `Document`, or a `MarkedFile`."""

    def edit(self, summary: str) -> FileEdit | None:
        """The edit of the file so far; None when nothing changed."""

    def remove_emptied(self, record: AgentRecord, otherwise: tuple[str, ...]) -> None:
        """Take out the containers that were made for our entries and are empty now."""

    def removal(self, record: AgentRecord) -> FileEdit | None:
        """The edit that takes our entries out."""


class Part(Protocol):
    """Some entries of ours in one file, by their names."""

    def wanted(self) -> list[str]:
        """Names of the entries that should be there."""

    def present(self) -> list[str]:
        """Those that are there, in whatever form the agent or the person has left them."""

    def desired(self, name: str) -> Any:
        """The entry as this version writes it."""

    def current(self, name: str) -> Any:
        """The entry as it is there; None where it is not."""

    def add(self, name: str) -> None:
        """Put the entry in, where it is not."""

    def replace(self, name: str) -> None:
        """Make the entry that is there the desired one, in its place."""

    def remove(self, record: AgentRecord) -> None:
        """Take out all that is ours."""

    def made(self) -> tuple[str, ...]:
        """Pointers of the containers that may have been made to hold the entries."""

    def summary(self, added: set[str]) -> str:
        """What the new entries among `added` are, for the plan a person reads; "" for none."""


class Wires:
    """An agent's files with all entries of ours."""

    def __init__(
        self,
        folder: Path,
        parts: Sequence[tuple[EditedFile, Part]],
        bundles: Sequence[Bundle] = (),
    ) -> None:
        self.folder = folder
        self._parts = parts
        self._bundles = bundles
        self._documents = list({id(document): document for document, _ in parts}.values())

    def wire(self, wish: Wish, notes: Sequence[str] = (), without: Sequence[str] = ()) -> Wiring:
        """The edits that connect the agent. `without` names entries that are not wanted this time."""
        known = wish.known
        present = self._present()
        # Hooks of ours without a record: the record was lost, and what is there is ours again.
        lost = known is None and any(name.startswith("hook ") for name in present)
        owned = {name for name in present if lost or not name.startswith("allow ")}
        owned |= set(present) & set(known.entries if known else ())
        gone = set(known.entries + known.removed) if known and not wish.repair else set()
        forms = dict(known.forms) if known else {}
        removed, said = [], list(notes)
        for _, part in self._parts:
            for name in part.wanted():
                if name in present:
                    if name in owned:
                        said += self._renew(part, name, forms, wish)
                elif name in without:
                    continue
                elif name in gone:
                    removed.append(name)
                else:
                    part.add(name)
                    owned.add(name)
                    forms[name] = _form(part.desired(name))
        added = owned - set(present)
        edits = [edit for each in self._documents if (edit := each.edit(self._summary(each, added)))]
        there = set(own_files.present(self._bundles))
        for name, of_bundle in own_files.add(self._bundles, wish, said):
            if name in gone and name not in there:
                removed.append(name)
                continue
            owned.add(name)
            edits += of_bundle
        if removed:
            said.append(f"taken out by you and left out: {', '.join(removed)}; `cems setup --repair` brings it back")
        kept = {name: form for name, form in forms.items() if name in owned}
        return Wiring(self.folder, tuple(edits), tuple(sorted(owned)), tuple(removed), tuple(said), kept)

    def unwire(self, record: AgentRecord) -> tuple[FileEdit, ...]:
        for _, part in self._parts:
            part.remove(record)
        edits = []
        for document in self._documents:
            made = {pointer for of, part in self._parts if of is document for pointer in part.made()}
            document.remove_emptied(record, tuple(made))
            if edit := document.removal(record):
                edits.append(edit)
        return (*edits, *own_files.take_out(self._bundles, record))

    def wired(self, problems: Sequence[str] = ()) -> WiredState:
        return WiredState((*self._present(), *own_files.present(self._bundles)), tuple(problems))

    def _summary(self, document: EditedFile, added: set[str]) -> str:
        said = [part.summary(added) for of, part in self._parts if of is document]
        return "; ".join(each for each in said if each) or "brought up to date"

    def _present(self) -> list[str]:
        return [name for _, part in self._parts for name in part.present()]

    @staticmethod
    def _renew(part: Part, name: str, forms: dict[str, str], wish: Wish) -> list[str]:
        """Bring an entry of ours up to date; a note where the person has changed it."""
        desired, current = _form(part.desired(name)), _form(part.current(name))
        written = forms.get(name)
        if current == desired:
            forms[name] = desired
        elif written == current or wish.repair:
            part.replace(name)
            forms[name] = desired
        elif written is not None:
            return [f"`{name}` was changed by you and is kept as it is; `cems setup --repair` makes it ours again"]
        return []


def _form(entry: Any) -> str:
    """What an entry says, however it is laid out."""
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
