"""Where GitHub Copilot CLI and its configuration are."""

from __future__ import annotations

from pathlib import Path

from cems.adapters.base import Detection, Machine, packaged_version


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
    version = packaged_version(program, "@github/copilot")
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
