"""`install.conf`: what setup wrote where, and what was there before, so that it can be taken out again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cems import __version__
from cems.adapters.base import AgentRecord, digest
from cems.core.paths import PRIVATE_DIR, Home
from cems.installer.files import write

FORMAT = 1

# What setup may find in a CEMS_HOME that is all ours; any other name was there before us and outlives us.
OUR_NAMES = frozenset(
    (
        "env",
        "bin",
        "keys",
        "logs",
        "store",
        "backups",
        "config.toml",
        "credentials",
        "install.conf",
        "endpoint",
        "pauses.json",
        "http-tokens.json",
        "run",
    )
)
OUR_BEGINNINGS = ("journal.db", "state.db", "daemon.", "proof-", "pauses.json.", "update.", "env.")


class RecordUnreadable(Exception):
    """`install.conf` is not ours to guess at: without it, what was there before cannot be restored."""


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link of ours outside CEMS_HOME."""

    path: Path
    target: Path


@dataclass(frozen=True, slots=True)
class InstallRecord:
    """`folders` are those setup made for the link; `foreign` are names in CEMS_HOME older than us; `disconnected` are
    agents that the person took out by name, which setup leaves alone until they name them again."""

    version: int = FORMAT
    cems: str = __version__
    agents: tuple[AgentRecord, ...] = ()
    link: Link | None = None
    folders: tuple[Path, ...] = ()
    foreign: tuple[str, ...] = field(default=())
    disconnected: tuple[str, ...] = field(default=())

    def agent(self, name: str, config_dir: Path) -> AgentRecord | None:
        return next((a for a in self.agents if a.agent == name and a.config_dir == config_dir), None)

    def without(self, names: Iterable[str]) -> InstallRecord:
        """After these agents were taken out."""
        gone = set(names)
        kept = tuple(each for each in self.agents if each.agent not in gone)
        return replace(self, agents=kept, disconnected=tuple(sorted(gone.union(self.disconnected))))

    def with_agent(self, record: AgentRecord) -> InstallRecord:
        others = [a for a in self.agents if (a.agent, a.config_dir) != (record.agent, record.config_dir)]
        out = tuple(name for name in self.disconnected if name != record.agent)
        return replace(
            self, disconnected=out, agents=tuple(sorted([*others, record], key=lambda a: (a.agent, a.config_dir)))
        )


_ADAPTER = TypeAdapter(InstallRecord)


def load(home: Home) -> InstallRecord | None:
    """The record, None before the first setup. Raises RecordUnreadable."""
    try:
        record = _ADAPTER.validate_json(home.install_conf.read_bytes())
    except FileNotFoundError:
        return None
    except (ValidationError, OSError) as problem:
        first = str(problem).splitlines()[0]
        raise RecordUnreadable(
            f"{home.install_conf} cannot be read ({first}). Restore it from a backup, or move it away: "
            "then setup and uninstall go by what they find in the agents' own files."
        ) from None
    if record.version > FORMAT:
        raise RecordUnreadable(f"{home.install_conf} was written by a newer CEMS ({record.cems}). Use that version.")
    return record


def first(home: Home) -> InstallRecord:
    """The record of a CEMS_HOME in which setup has never run."""
    try:
        found = sorted(path.name for path in home.root.iterdir())
    except FileNotFoundError:
        found = []
    foreign = [name for name in found if name not in OUR_NAMES and not name.startswith(OUR_BEGINNINGS)]
    return InstallRecord(foreign=tuple(foreign))


def save(home: Home, record: InstallRecord) -> None:
    """Write the record (0600), unless it already says that."""
    data = json.dumps(_ADAPTER.dump_python(record, mode="json"), indent=2).encode() + b"\n"
    try:
        if home.install_conf.read_bytes() == data:
            return
    except FileNotFoundError:
        pass
    write(home.install_conf, data)


def _originals(home: Home) -> Path:
    return home.backups / "files"


def keep_original(home: Home, data: bytes) -> str:
    """Store what was in a file before us (0600, it may hold keys of theirs); the name to get it back by."""
    name = digest(data)
    folder = _originals(home)
    for made in (home.backups, folder):
        made.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
    if not (folder / name).exists():
        write(folder / name, data)
    return name


def original(home: Home, name: str) -> bytes | None:
    """What `keep_original` stored; None when it is gone or damaged."""
    try:
        data = (_originals(home) / name).read_bytes()
    except OSError:
        return None
    return data if digest(data) == name else None


def drop_unused_originals(home: Home, record: InstallRecord) -> None:
    """Delete stored originals that no file of the record needs any more."""
    needed = {file.original for agent in record.agents for file in agent.files}
    folder = _originals(home)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name not in needed:
            path.unlink()
