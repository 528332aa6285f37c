"""Where Goose and its files are."""

from __future__ import annotations

import os
from pathlib import Path

from cems.adapters.base import Detection, Machine, packaged_version

_USUAL = (".local/bin/goose", "bin/goose")


def config_dir(machine: Machine) -> Path:
    """`config` below `GOOSE_PATH_ROOT`, else `goose` below `XDG_CONFIG_HOME` or `~/.config`, on macOS too."""
    return _folder(machine, "config", "XDG_CONFIG_HOME", ".config", "APPDATA")


def data_dir(machine: Machine) -> Path:
    """Its sessions."""
    return _folder(machine, "data", "XDG_DATA_HOME", ".local/share", "APPDATA")


def state_dir(machine: Machine) -> Path:
    """Its logs."""
    return _folder(machine, "state", "XDG_STATE_HOME", ".local/state", "LOCALAPPDATA")


def plugin_dir(home: Path, config: Path) -> Path:
    """The plugin of ours, for a Goose whose configuration is in `config`: below `GOOSE_PATH_ROOT` where that is set, else
    below the home folder wherever its own files are."""
    moved = config.name == "config" and config.parent.parts[-2:] != ("Block", "goose")
    return (config.parent if moved else home) / ".agents" / "plugins" / "cems"


def program(machine: Machine) -> Path | None:
    return machine.program("goose", *(machine.home / place for place in _USUAL))


def detect(machine: Machine) -> Detection:
    """Found by its folder, or by its program: `goose` is a database tool's name too, but nobody has that at these places."""
    folder, found = config_dir(machine), program(machine)
    return Detection(
        found=found is not None or folder.is_dir(),
        config_dir=folder,
        program=found,
        version=packaged_version(found, "goose"),
        looked_for=(
            "the program `goose` on PATH, at " + " or at ".join(str(machine.home / place) for place in _USUAL),
            f"the folder {folder}",
        ),
    )


def _folder(machine: Machine, below_root: str, variable: str, usual: str, on_windows: str) -> Path:
    root = machine.environ.get("GOOSE_PATH_ROOT")
    if root:
        return Path(root).absolute() / below_root
    if os.name == "nt":
        return (
            Path(machine.environ.get(on_windows) or machine.home / "AppData/Roaming") / "Block" / "goose" / below_root
        )
    named = machine.environ.get(variable, "")
    return (Path(named) if Path(named).is_absolute() else machine.home / usual) / "goose"
