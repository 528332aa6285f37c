"""What an agent's adapter is: how to find the agent, and which edits of its files connect it or take us out.

An adapter reads; it never writes. It returns edits, and the installer shows, applies, checks and undoes them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from cems.core.events import HookAgent


@dataclass(frozen=True, slots=True)
class Machine:
    """Where to look: the home folder, and the environment (its PATH says where programs are searched)."""

    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    def program(self, name: str, *also: Path) -> Path | None:
        """The first `name` on PATH, else the first of `also` that exists."""
        found = shutil.which(name, path=self.environ.get("PATH", ""))
        if found:
            return Path(found)
        return next((path for path in also if path.is_file()), None)


@dataclass(frozen=True, slots=True)
class Detection:
    """Whether the agent is here. `looked_for` says, a line each, what was looked for and where."""

    found: bool
    config_dir: Path
    program: Path | None = None
    version: str = ""
    looked_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Launchers:
    """Absolute paths of the programs agents run: `hook <script>` for an event, `mcp` for the tools."""

    hook: Path
    mcp: Path


@dataclass(frozen=True, slots=True)
class FileEdit:
    """One file before and after; None is a file that is not there.

    `containers` are JSON pointers of objects and lists made only to hold our entries. `mode` is for a new
    file. `lock` is a folder whose existence the agent takes as "someone writes this file". `ours`: the whole file is ours,
    a copy of what we ship.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    summary: str
    containers: tuple[str, ...] = ()
    mode: int = 0o600
    lock: Path | None = None
    ours: bool = False


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file we wrote: SHA-256 of what we left there, and of what was there before ("" for nothing)."""

    path: Path
    digest: str
    original: str = ""
    containers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """What was set up for one agent in one configuration folder.

    `entries` name each thing we put there; `removed` those that the person took out again, which stay out; `forms` has
    each entry as it was written, so that what the person changes in it is told from what an older version wrote.
    """

    agent: str
    config_dir: Path
    entries: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    files: tuple[FileRecord, ...] = ()
    folders: tuple[Path, ...] = ()
    forms: Mapping[str, str] = field(default_factory=dict)

    def file(self, path: Path) -> FileRecord | None:
        return next((record for record in self.files if record.path == path), None)

    def wrote(self, path: Path, data: bytes) -> bool:
        """Whether `data` is what we last left at `path`."""
        record = self.file(path)
        return record is not None and record.digest == digest(data)


@dataclass(frozen=True, slots=True)
class Wish:
    """What to set up. Unless `repair`, what `known` lists and the person has since taken out stays out. `project` is a
    folder in which the person asked for a project rule."""

    known: AgentRecord | None = None
    permissions: bool = True
    repair: bool = False
    project: Path | None = None


@dataclass(frozen=True, slots=True)
class Wiring:
    """The edits, the entries in place once they are made (and their forms), those left out, and notes for the person.
    `todo`: what only the person can do, and has to before the agent remembers anything; "" for nothing."""

    config_dir: Path
    edits: tuple[FileEdit, ...] = ()
    entries: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    forms: Mapping[str, str] = field(default_factory=dict)
    todo: str = ""


@dataclass(frozen=True, slots=True)
class WiredState:
    """How the agent's files stand now: our entries there, and what else a person should know."""

    present: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class ConfigUnreadable(Exception):
    """A configuration file we must not touch, because we could not read it the way its agent does."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}. Nothing was written; correct the file and run this again.")
        self.path = path
        self.line = line
        self.reason = reason


class Connects(Protocol):
    """What the installer sets up and takes out: an agent, or what several agents share. `name` is its id (`claude-code`),
    `title` what people call it."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    def detect(self, machine: Machine) -> Detection:
        """Whether it is here and where its configuration is. Runs nothing, writes nothing."""

    def wire(self, machine: Machine, launchers: Launchers, wish: Wish) -> Wiring:
        """The edits that connect it. Raises ConfigUnreadable."""

    def unwire(self, machine: Machine, launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
        """The edits that take out what is ours, found by what it says and not by where it stands.

        Raises ConfigUnreadable.
        """

    def wired(self, machine: Machine, launchers: Launchers, record: AgentRecord) -> WiredState:
        """How things stand in the folder that was set up, for `cems doctor`. Raises ConfigUnreadable."""


class Agent(HookAgent, Connects, Protocol):
    """One coding agent. `uses_shared_skills`: it reads the skills in `~/.agents/skills`, which are set up once for all
    agents that do."""

    @property
    def name(self) -> str: ...

    @property
    def uses_shared_skills(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class HookCall:
    """How an agent runs a hook of ours: the script, the agent's own variables, and its input."""

    script: str
    variables: Mapping[str, str]
    payload: Mapping[str, Any]


class ShowsItsWay(Protocol):
    """What an adapter has besides whose agent takes context from a prompt's hook: setup proves that way with it."""

    def prompt_call(self, prompt: str, project: Path, session: str, turn: str) -> HookCall:
        """The hook as the agent runs it when the person sends `prompt` in `project`."""

    def context_in(self, output: bytes) -> str:
        """What of the hook's standard output the agent puts in front of its model; "" for nothing."""


class KeepsTranscripts(Protocol):
    """What an adapter may have besides: the folders in which its agent keeps records of its sessions."""

    def transcript_folders(self, home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
        """The folders, there or not, for `home` and the environment of the person. Reads nothing."""


TrustState = Literal["trusted", "untrusted", "modified", "unknown", "not needed"]


@dataclass(frozen=True, slots=True)
class Trust:
    """Whether the agent runs our hooks: `modified` where it trusted an older form of them, `unknown` where nothing says.
    `advice` tells the person, in a sentence, how to give it; empty where nothing is to be done."""

    state: TrustState
    advice: str = ""


@runtime_checkable
class NeedsTrust(Protocol):
    """What an adapter may have besides: its agent runs hooks only once the person has trusted them."""

    def trust(self, machine: Machine, launchers: Launchers, record: AgentRecord) -> Trust:
        """How things stand, by the agent's own files; only where these do not tell, by a program of the agent's that is
        run for some seconds in a throwaway folder. Writes nothing. Raises ConfigUnreadable."""


def digest(data: bytes) -> str:
    """SHA-256 in hex, as records name contents."""
    return hashlib.sha256(data).hexdigest()


def read_file(path: Path) -> bytes | None:
    """The bytes at `path`, None where nothing is. Raises ConfigUnreadable."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise ConfigUnreadable(path, 1, f"cannot be read ({problem.strerror})") from None


def packaged_version(program: Path | None, package: str) -> str:
    """The version in the `package.json` of the npm package (by a part of its name) that `program` lies in, or the one in
    its file's name; "" for none. Running the program to ask could load hundreds of megabytes."""
    if program is None:
        return ""
    real = program.resolve()
    if re.fullmatch(r"\d+\.\d+\.\d+", real.name):
        return real.name
    for folder in list(real.parents)[:3]:
        try:
            described = json.loads((folder / "package.json").read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(described, dict) and package in str(described.get("name")):
            return str(described.get("version", ""))
    return ""
