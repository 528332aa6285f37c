"""Taking everything out again: the agents' files as they were, the program gone, the memories kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cems.adapters.base import AgentRecord, Connects, FileEdit, Machine, digest, read_file
from cems.core.paths import Home
from cems.core.service.client import stop_daemon
from cems.installer import files, launchers
from cems.installer.agents import all_agents, with_shared
from cems.installer.apply import write_edits
from cems.installer.record import InstallRecord, drop_unused_originals, original, save

# The person's own: every change ever made, the keys that make forgotten values recognisable, their settings.
MEMORIES = frozenset(
    (
        "journal.db",
        "journal.db-wal",
        "journal.db-shm",
        "journal.db-journal",
        "keys",
        "config.toml",
        "backups",
        "pauses.json",
    )
)


class NotOurHome(Exception):
    """The folder is not one we would empty."""


@dataclass(frozen=True, slots=True)
class Removal:
    """One agent: the edits, and the folders to remove if they are empty then: those we made, where a record says which."""

    agent: Connects
    edits: tuple[FileEdit, ...]
    folders: tuple[Path, ...]


def plan_removals(
    home: Home, machine: Machine, agents: Mapping[str, Connects], record: InstallRecord | None
) -> list[Removal]:
    """What has to be done to each agent's files.

    A file that is as we left it becomes, to the byte, what it was before; from any other our entries are
    taken out. Without a record we go by what the files say. Raises ConfigUnreadable.
    """
    if record is not None:
        known = [entry for entry in record.agents if entry.agent in agents]
    else:
        known = [AgentRecord(name, agent.detect(machine).config_dir) for name, agent in agents.items()]
    return [_removal(home, machine, agents[entry.agent], entry) for entry in known]


def _removal(home: Home, machine: Machine, agent: Connects, record: AgentRecord) -> Removal:
    restored: dict[Path, FileEdit] = {}
    for file in record.files:
        current = read_file(file.path)
        if current is None or digest(current) != file.digest:
            continue
        before = original(home, file.original) if file.original else None
        if file.original and before is None:
            continue
        restored[file.path] = FileEdit(file.path, current, before, "as it was before CEMS")
    edits = list(restored.values())
    # Nothing to parse where every file is as we left it; a file that became unreadable otherwise stops us
    # here.
    if len(restored) < len(record.files) or not record.files:
        taken = agent.unwire(machine, launchers.launchers(home), record)
        edits += [edit for edit in taken if edit.path not in restored]
    folders = record.folders if record.files else tuple(edit.path.parent for edit in edits if edit.after is None)
    return Removal(agent, tuple(edits), folders)


def plan_disconnection(
    home: Home, machine: Machine, names: Iterable[str], record: InstallRecord | None
) -> list[Removal]:
    """What has to be done to disconnect these agents alone; what they share with others goes with the last of them.

    Raises ConfigUnreadable.
    """
    agents = all_agents()
    gone = set(names)
    taken: dict[str, Connects] = {name: agents[name] for name in gone}
    connected = {entry.agent for entry in record.agents} if record else set()
    if not any(agents[name].uses_shared_skills for name in connected & agents.keys() - gone):
        taken = with_shared({name: agents[name] for name in gone})
    return plan_removals(home, machine, taken, record)


def disconnect(home: Home, removals: list[Removal], names: Iterable[str], record: InstallRecord) -> InstallRecord:
    """Carry the removals out, and keep setup from connecting these agents again by itself. Raises CannotWrite,
    ChangedMeanwhile."""
    home.create()
    _take_out_agents(removals)
    shared = {removal.agent.name for removal in removals} - all_agents().keys()
    after = record.without(names)
    after = replace(after, agents=tuple(each for each in after.agents if each.agent not in shared))
    save(home, after)
    drop_unused_originals(home, after)
    return after


def take_out(home: Home, machine: Machine, removals: list[Removal], record: InstallRecord | None) -> None:
    """Carry the removals out, then remove the link. Raises CannotWrite, ChangedMeanwhile."""
    _take_out_agents(removals)
    link = record.link if record else launchers.plan_link(machine, home).link
    if link is not None:
        launchers.unlink(link)
    files.remove_if_empty(record.folders if record else ())


def _take_out_agents(removals: list[Removal]) -> None:
    for removal in removals:
        for edit in removal.edits:
            files.check_writable(edit.path)
    for removal in removals:
        write_edits(removal.edits)
        files.remove_if_empty(tuple(sorted(set(removal.folders))))


def check_home(home: Home, machine: Machine) -> None:
    """Raise NotOurHome where emptying CEMS_HOME would take other things with it."""
    root = Path(os.path.realpath(home.root))
    person = Path(os.path.realpath(machine.home))
    if root == person or root in person.parents:
        raise NotOurHome(f"CEMS_HOME is {root}, which holds more than CEMS. Nothing was removed.")
    ours = ("install.conf", "journal.db", "env", "bin")
    if home.root.is_dir() and any(home.root.iterdir()) and not any((home.root / name).exists() for name in ours):
        raise NotOurHome(f"{root} does not look like a CEMS_HOME. Nothing was removed.")


def remove_program(home: Home, record: InstallRecord | None, *, purge: bool) -> list[str]:
    """Stop the daemon and empty CEMS_HOME but for the memories, with `purge` of them too; names that stay.

    The environment goes last, since this very program may run from it. Raises DaemonUnreachable for a daemon
    that does not stop.
    """
    if not home.root.is_dir():
        return []
    shutil.rmtree(home.bin, ignore_errors=True)
    stop_daemon(home)
    foreign = frozenset(record.foreign if record else ())
    spared = foreign if purge else foreign | MEMORIES
    shutil.rmtree(home.backups / "files", ignore_errors=True)
    with suppress(OSError):
        home.backups.rmdir()
    for path in sorted(home.root.iterdir(), key=lambda path: path == home.env):
        if path.name in spared:
            if path.name in MEMORIES:
                files.remove_if_empty((path,))
            continue
        if path.is_dir() and not path.is_symlink():
            # A session that still runs may write a log line meanwhile: once more, then it is gone.
            shutil.rmtree(path, ignore_errors=True)
            if path.exists():
                shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    left = sorted(path.name for path in home.root.iterdir())
    if not left:
        with suppress(OSError):
            home.root.rmdir()
    return left
