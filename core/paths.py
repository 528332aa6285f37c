"""Where CEMS keeps its files. Standard library only: the hook launcher's process and the daemon's first stage use it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PRIVATE_DIR = 0o700
PRIVATE_FILE = 0o600


@dataclass(frozen=True, slots=True)
class Home:
    """One CEMS_HOME: a folder only its owner can enter, holding everything CEMS knows."""

    root: Path

    @property
    def journal(self) -> Path:
        return self.root / "journal.db"

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def state(self) -> Path:
        return self.root / "state.db"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def backups(self) -> Path:
        return self.root / "backups"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """Files that live as long as a process: see `cems.core.service.context_file`."""
        return self.root / "run"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def env(self) -> Path:
        return self.root / "env"

    @property
    def config(self) -> Path:
        return self.root / "config.toml"

    @property
    def install_conf(self) -> Path:
        return self.root / "install.conf"

    @property
    def credentials(self) -> Path:
        return self.root / "credentials"

    @property
    def pauses(self) -> Path:
        return self.root / "pauses.json"

    @property
    def http_tokens(self) -> Path:
        return self.root / "http-tokens.json"

    @property
    def update_note(self) -> Path:
        return self.root / "update.json"

    @property
    def lock(self) -> Path:
        return self.root / "daemon.lock"

    @property
    def endpoint(self) -> Path:
        return self.root / "endpoint"

    @property
    def hook_failures(self) -> Path:
        return self.logs / "hook-failures"

    def create(self) -> None:
        """Make the folders, each 0700. An existing root keeps its files but loses other users' access."""
        for folder in (self.root, self.keys, self.logs, self.bin):
            folder.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
            if os.name == "posix" and folder.stat().st_mode & 0o077:
                folder.chmod(PRIVATE_DIR)


def cems_home(environ: Mapping[str, str] = os.environ) -> Home:
    """`CEMS_HOME`, or `.cems` in the person's home folder; always absolute."""
    named = environ.get("CEMS_HOME")
    return Home((Path(named).expanduser() if named else Path.home() / ".cems").absolute())
