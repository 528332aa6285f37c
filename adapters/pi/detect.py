"""Where Pi and its configuration are."""

from __future__ import annotations

from pathlib import Path

from cems.adapters.base import Detection, Machine, packaged_version


def config_dir(machine: Machine) -> Path:
    """`PI_CODING_AGENT_DIR`, else `.pi/agent` in the home folder."""
    named = machine.environ.get("PI_CODING_AGENT_DIR")
    if not named:
        return machine.home / ".pi" / "agent"
    return machine.home / named[2:] if named.startswith("~/") else Path(named).absolute()


def at_folder(machine: Machine, folder: Path) -> Machine:
    """The machine as it was when `folder` was set up, whatever the environment says today."""
    return Machine(machine.home, {**machine.environ, "PI_CODING_AGENT_DIR": str(folder)})


def detect(machine: Machine) -> Detection:
    folder = config_dir(machine)
    program = machine.program("pi")
    return Detection(
        found=program is not None or folder.is_dir(),
        config_dir=folder,
        program=program,
        version=packaged_version(program, "pi-coding-agent"),
        looked_for=("the program `pi` on PATH", f"the folder {folder}"),
    )
