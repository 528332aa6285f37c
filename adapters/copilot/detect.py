"""Where GitHub Copilot CLI and its configuration are."""

from __future__ import annotations

import json
from pathlib import Path

from cems.adapters.base import Detection, Machine


def config_dir(machine: Machine) -> Path:
    """`COPILOT_HOME`, else `.copilot` in the home folder."""
    named = machine.environ.get("COPILOT_HOME")
    return Path(named).absolute() if named else machine.home / ".copilot"


def at_folder(machine: Machine, folder: Path) -> Machine:
    """The machine as it was when `folder` was set up, whatever the environment says today."""
    environ = {name: value for name, value in machine.environ.items() if name != "COPILOT_HOME"}
    if folder != machine.home / ".copilot":
        environ["COPILOT_HOME"] = str(folder)
    return Machine(machine.home, environ)


def detect(machine: Machine) -> Detection:
    """Found by its folder, or by a program that is surely GitHub's: another vendor's `copilot` deploys containers."""
    folder = config_dir(machine)
    usual = machine.home / ".local/bin/copilot"
    program = machine.program("copilot", usual)
    version = _version(program)
    ours = program is not None and (bool(version) or program == usual or "copilot-cli" in str(program.resolve()))
    return Detection(
        found=ours or folder.is_dir(),
        config_dir=folder,
        program=program if ours or folder.is_dir() else None,
        version=version,
        looked_for=(
            f"GitHub's program `copilot` on PATH or at {usual}",
            f"the folder {folder}",
        ),
    )


def _version(program: Path | None) -> str:
    """The version that npm's package names ("" where the program came another way); running it would unpack 190 MB."""
    if program is None:
        return ""
    for folder in list(program.resolve().parents)[:3]:
        try:
            described = json.loads((folder / "package.json").read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(described, dict) and str(described.get("name")).startswith("@github/copilot"):
            return str(described.get("version", ""))
    return ""
