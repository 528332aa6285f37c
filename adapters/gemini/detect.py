"""Where Gemini CLI and its configuration are."""

from __future__ import annotations

from pathlib import Path

from cems.adapters.base import Detection, Machine, packaged_version


def config_dir(machine: Machine) -> Path:
    """`.gemini` in `GEMINI_CLI_HOME`, else in the home folder."""
    named = machine.environ.get("GEMINI_CLI_HOME")
    return (Path(named).absolute() if named else machine.home) / ".gemini"


def at_folder(machine: Machine, folder: Path) -> Machine:
    """The machine as it was when `folder` was set up, whatever the environment says today."""
    return Machine(machine.home, {**machine.environ, "GEMINI_CLI_HOME": str(folder.parent)})


def detect(machine: Machine) -> Detection:
    folder = config_dir(machine)
    program = machine.program("gemini", machine.home / ".local/bin/gemini")
    return Detection(
        # Other programs of the maker's keep things in the folder too; the settings are this one's.
        found=program is not None or (folder / "settings.json").is_file(),
        config_dir=folder,
        program=program,
        version=packaged_version(program, "@google/gemini-cli"),
        looked_for=("the program `gemini` on PATH", f"the file {folder / 'settings.json'}"),
    )
