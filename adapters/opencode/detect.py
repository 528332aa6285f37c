"""Where OpenCode and its configuration are."""

from __future__ import annotations

from pathlib import Path

from cems.adapters.base import Detection, Machine, packaged_version


def config_dir(machine: Machine) -> Path:
    """`opencode` in `XDG_CONFIG_HOME`, else in `.config` in the home folder."""
    return _xdg(machine, "XDG_CONFIG_HOME", ".config")


def data_dir(machine: Machine) -> Path:
    """Where its sessions are."""
    return _xdg(machine, "XDG_DATA_HOME", ".local/share")


def _xdg(machine: Machine, variable: str, otherwise: str) -> Path:
    named = machine.environ.get(variable)
    return (Path(named).absolute() if named else machine.home / otherwise) / "opencode"


def at_folder(machine: Machine, folder: Path) -> Machine:
    """The machine as it was when `folder` was set up, whatever the environment says today."""
    return Machine(machine.home, {**machine.environ, "XDG_CONFIG_HOME": str(folder.parent)})


def detect(machine: Machine) -> Detection:
    folder = config_dir(machine)
    program = machine.program("opencode", machine.home / ".opencode/bin/opencode")
    return Detection(
        found=program is not None or folder.is_dir(),
        config_dir=folder,
        program=program,
        version=packaged_version(program, "opencode"),
        looked_for=("the program `opencode` on PATH", f"the folder {folder}"),
    )
