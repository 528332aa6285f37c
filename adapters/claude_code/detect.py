"""Where Claude Code and its configuration are."""

from __future__ import annotations

from pathlib import Path

from cems.adapters.base import Detection, Machine, packaged_version


def config_dir(machine: Machine) -> Path:
    """`CLAUDE_CONFIG_DIR`, else `.claude` in the home folder."""
    named = machine.environ.get("CLAUDE_CONFIG_DIR")
    if not named:
        return machine.home / ".claude"
    if named == "~" or named.startswith("~/"):
        return machine.home / named[2:]
    return Path(named).absolute()


def state_file(machine: Machine, folder: Path) -> Path:
    """The file with the person's tool servers: inside the folder if that was named, else in the home folder.

    A `.config.json` that early versions wrote there is still the one Claude reads where it exists.
    """
    legacy = folder / ".config.json"
    if legacy.is_file() and legacy.stat().st_size > 0:
        return legacy
    return (folder if machine.environ.get("CLAUDE_CONFIG_DIR") else machine.home) / ".claude.json"


def at_folder(machine: Machine, folder: Path) -> Machine:
    """The machine as it was when `folder` was set up, whatever the environment says today."""
    environ = {name: value for name, value in machine.environ.items() if name != "CLAUDE_CONFIG_DIR"}
    if folder != machine.home / ".claude":
        environ["CLAUDE_CONFIG_DIR"] = str(folder)
    return Machine(machine.home, environ)


def detect(machine: Machine) -> Detection:
    folder = config_dir(machine)
    state = state_file(machine, folder)
    usual = (machine.home / ".local/bin/claude", folder / "local/claude")
    program = machine.program("claude", *usual)
    return Detection(
        found=program is not None or folder.is_dir() or state.is_file(),
        config_dir=folder,
        program=program,
        version=packaged_version(program, "claude-code"),
        looked_for=(
            f"the program `claude` on PATH, at {usual[0]} or at {usual[1]}",
            f"the folder {folder}",
            f"the file {state}",
        ),
    )
