"""What the tests with real programs do beside prompting: the person's commands, and a look at the home."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fakes.sandbox import Sandbox

DEPLOY = "In this repository we deploy with `make ship` to the staging cluster first, then production."
DEPLOY_PROMPT = "how do I deploy this to production?"
FREEZE = "Nobody deploys to production on a Friday: every deploy waits until Monday morning."
UNRELATED_PROMPT = "What is the capital of Australia?"


def remember(sandbox: Sandbox, text: str, project: Path, *options: str) -> str:
    """The person tells CEMS something in a project; the id of the memory."""
    answer = sandbox.cems("add", text, *options, "--json", cwd=project).ok().json
    assert answer["status"] == "added", answer
    identity: str = answer["id"]
    return identity


def memories(sandbox: Sandbox, project: Path) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = sandbox.cems("list", "--json", cwd=project).ok().json["memories"]
    return found


def stop_daemon(sandbox: Sandbox) -> None:
    """What a night does: nothing of CEMS runs any more."""
    sandbox.cems("daemon", "stop").ok()
    assert sandbox.processes() == {}


def snapshot(home: Path) -> dict[str, tuple[str, bytes]]:
    """Every file, link and folder of a home but CEMS's own folder, with its kind, permissions and content."""
    found = {}
    for path in home.rglob("*"):
        name = path.relative_to(home).as_posix()
        if name == ".cems" or name.startswith(".cems/"):
            continue
        kind = oct(path.lstat().st_mode)
        if path.is_symlink():
            found[name] = (kind, os.fsencode(path.readlink()))
        else:
            found[name] = (kind, path.read_bytes() if path.is_file() else b"")
    return found
