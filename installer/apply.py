"""Carrying a plan out: everything of one agent or nothing, recorded before it is written."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cems.adapters.base import (
    AgentRecord,
    ConfigUnreadable,
    Connects,
    FileEdit,
    FileRecord,
    Machine,
    Wiring,
    digest,
)
from cems.core.paths import Home
from cems.installer import files, launchers
from cems.installer.launchers import LinkPlan
from cems.installer.record import InstallRecord, drop_unused_originals, keep_original, save


def apply_agent(home: Home, machine: Machine, agent: Connects, wiring: Wiring, record: InstallRecord) -> InstallRecord:
    """Write one agent's edits; the record with them in it, on disk before the first byte of theirs.

    Raises CannotWrite before anything is written, ChangedMeanwhile or OSError with everything put back.
    """
    for edit in wiring.edits:
        files.check_writable(edit.path)
    known = record.agent(agent.name, wiring.config_dir) or AgentRecord(agent.name, wiring.config_dir)
    missing = _missing(*(edit.path.parent for edit in wiring.edits))
    written = {edit.path: _file_record(home, machine, agent, known, edit) for edit in wiring.edits}
    kept = [file for file in known.files if file.path not in written]
    made = replace(
        known,
        entries=wiring.entries,
        removed=wiring.removed,
        forms=wiring.forms,
        files=tuple(sorted([*kept, *written.values()], key=lambda file: file.path)),
        folders=tuple(sorted({*known.folders, *missing})),
    )
    after = record.with_agent(made)
    save(home, after)
    try:
        write_edits(wiring.edits)
    except BaseException:
        files.remove_if_empty(missing)
        save(home, record)
        raise
    drop_unused_originals(home, after)
    return after


def write_edits(edits: tuple[FileEdit, ...]) -> None:
    """Make the edits in order; at the first that fails, put back those before it and raise."""
    done: list[FileEdit] = []
    try:
        for edit in edits:
            if edit.after is not None:
                files.make_folders(edit.path.parent)
            files.replace_content(edit.path, edit.before, edit.after, mode=edit.mode, lock=edit.lock)
            done.append(edit)
    except BaseException:
        for edit in reversed(done):
            # What somebody has changed by now is theirs.
            with suppress(files.ChangedMeanwhile, OSError):
                files.replace_content(edit.path, edit.after, edit.before, mode=edit.mode, lock=edit.lock)
        raise


def apply_link(home: Home, plan: LinkPlan, record: InstallRecord) -> InstallRecord:
    """Make the link `~/.local/bin/cems`, if the plan has one, and note it and the folders it takes."""
    if plan.link is None:
        return record
    missing = _missing(plan.link.path.parent)
    after = replace(record, link=plan.link, folders=tuple(sorted({*record.folders, *missing})))
    save(home, after)
    if not plan.made:
        files.make_folders(plan.link.path.parent)
        plan.link.path.symlink_to(plan.link.target)
    return after


def apply_launchers(home: Home) -> list[Path]:
    """Make CEMS_HOME and its launchers; those that were written."""
    home.create()
    return launchers.write_launchers(home)


def _missing(*folders: Path) -> tuple[Path, ...]:
    """Folders that will have to be made for these, outermost first."""
    wanted = {path for folder in folders for path in (folder, *folder.parents)}
    return tuple(sorted(path for path in wanted if not path.exists()))


def _file_record(home: Home, machine: Machine, agent: Connects, known: AgentRecord, edit: FileEdit) -> FileRecord:
    """The record of a file about to be written, with what it takes to bring back the file of before us."""
    earlier = known.file(edit.path)
    containers = tuple(sorted({*edit.containers, *(earlier.containers if earlier else ())}))
    written = digest(edit.after or b"")
    if earlier is not None and edit.before is not None:
        if digest(edit.before) == earlier.digest:
            return FileRecord(edit.path, written, earlier.original, containers)
        # The person has changed it since: their file, less what is ours in it, is what to go back to.
        without_us = _without_us(home, machine, agent, known, edit)
    else:
        without_us = edit.before
    name = "" if without_us is None else keep_original(home, without_us)
    return FileRecord(edit.path, written, name, containers)


def _without_us(home: Home, machine: Machine, agent: Connects, known: AgentRecord, edit: FileEdit) -> bytes | None:
    with suppress(ConfigUnreadable):
        for taken in agent.unwire(machine, launchers.launchers(home), known):
            if taken.path == edit.path:
                return taken.after
    return edit.before
