"""Where Codex and its configuration are."""

from __future__ import annotations

import json
from pathlib import Path

from cems.adapters.base import Detection, Machine, packaged_version


def codex_home(machine: Machine) -> Path:
    """`CODEX_HOME`, else `.codex` in the home folder. Codex itself takes a `~` in the variable literally."""
    named = machine.environ.get("CODEX_HOME")
    return Path(named).absolute() if named else machine.home / ".codex"


def program(machine: Machine) -> Path | None:
    return machine.program("codex", *_usual(machine))


def detect(machine: Machine) -> Detection:
    folder, found = codex_home(machine), program(machine)
    return Detection(
        found=found is not None or folder.is_dir(),
        config_dir=folder,
        program=found,
        version=version(found),
        looked_for=(
            f"the program `codex` on PATH or at {' or at '.join(map(str, _usual(machine)))}",
            f"the folder {folder}",
        ),
    )


def version(found: Path | None) -> str:
    """What the installed files say, "" for nothing: the program has 300 MB and is not run for this."""
    if found is None:
        return ""
    for folder in list(found.resolve().parents)[:2]:
        try:
            described = json.loads((folder / "codex-package.json").read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(described, dict):
            return str(described.get("version", ""))
    # The packages of npm that hold a platform's program are named `0.171.0-linux-x64`.
    return packaged_version(found, "@openai/codex").partition("-")[0]


def _usual(machine: Machine) -> tuple[Path, ...]:
    return (machine.home / ".local/bin/codex", Path("/opt/homebrew/bin/codex"), Path("/usr/local/bin/codex"))
