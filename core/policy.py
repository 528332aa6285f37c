"""The few settings that recall needs, as plain values.

The daemon answers its first prompt before pydantic is imported. So each full start leaves a snapshot of the settings
that matter and of the agents' modules; the next start uses it when nothing it depends on has changed since.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cems.core.paths import PRIVATE_FILE, Home

_SNAPSHOT_VERSION = 1


@dataclass(frozen=True, slots=True)
class RecallPolicy:
    """What may reach a prompt and how much of it. Tokens are the embedder's, before the safety factor."""

    inject: str = "candidates"
    token_budget: int = 2000
    profile_budget: int = 2000
    token_safety: float = 1.4
    max_memories: int = 8
    gate_threshold: float = 0.30


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The policy and, by agent name, the `module:attribute` of each adapter."""

    policy: RecallPolicy
    agents: dict[str, str]


def fingerprint(home: Home, version: str) -> str:
    """Changes whenever a setting may have: with the version, the file's bytes and the variables that are settings."""
    digest = hashlib.sha256(f"{version}\0".encode())
    digest.update(hashlib.sha256(home.config.read_bytes() if home.config.is_file() else b"").digest())
    for name in _variables():
        digest.update(f"\0{name}={os.environ[name]}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def is_plain(home: Home) -> bool:
    """Whether nothing is set anywhere, so that the defaults are the settings."""
    return not home.config.exists() and not _variables()


def read_snapshot(home: Home, version: str) -> Snapshot | None:
    """The last full start's snapshot, or None when there is none or something has changed since."""
    try:
        data: dict[str, Any] = json.loads(_path(home).read_bytes())
        if data["version"] != _SNAPSHOT_VERSION or data["fingerprint"] != fingerprint(home, version):
            return None
        return Snapshot(RecallPolicy(**data["policy"]), dict(data["agents"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_snapshot(home: Home, version: str, snapshot: Snapshot) -> None:
    """Leave `snapshot` for the next start."""
    data = {"version": _SNAPSHOT_VERSION, "fingerprint": fingerprint(home, version), **asdict(snapshot)}
    temporary = _path(home).with_suffix(f".{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(data, file)
    temporary.replace(_path(home))


def _variables() -> list[str]:
    """The names of the variables that may be settings. Which home it is, is no setting of it; keys are never looked at."""
    return sorted(name for name in os.environ if name.startswith("CEMS_") and name != "CEMS_HOME" and "KEY" not in name)


def _path(home: Home) -> Path:
    return home.root / "snapshot.json"
