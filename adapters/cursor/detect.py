"""Where Cursor and its configuration are."""

from __future__ import annotations

import json
from pathlib import Path

from cems.adapters.base import Detection, Machine


def config_dir(machine: Machine) -> Path:
    """`.cursor` in the home folder: Cursor reads hooks from nowhere else there."""
    return machine.home / ".cursor"


def detect(machine: Machine) -> Detection:
    folder = config_dir(machine)
    agent = machine.home / ".local/bin/cursor-agent"
    apps = (
        Path("/Applications/Cursor.app"),
        machine.home / "Applications/Cursor.app",
        Path("/usr/share/cursor"),
        Path("/opt/Cursor"),
    )
    editor, headless = machine.program("cursor"), machine.program("cursor-agent", agent)
    app = next((app for app in apps if app.is_dir()), None)
    return Detection(
        found=editor is not None or headless is not None or app is not None or folder.is_dir(),
        config_dir=folder,
        program=editor or headless,
        version=_editors(editor, app) or _agents(headless),
        looked_for=(
            f"the program `cursor` on PATH, or `cursor-agent` there or at {agent}",
            f"the application at {', '.join(str(app) for app in apps)}",
            f"the folder {folder}",
        ),
    )


def _editors(program: Path | None, app: Path | None) -> str:
    """The version in the application's own `package.json`, "" where it is not found (an AppImage is one packed file)."""
    roots = [*list(program.resolve().parents)[:4]] if program else []
    for root in [*roots, *([app, app / "Contents"] if app else [])]:
        for place in (root, root / "resources/app", root / "Resources/app"):
            try:
                described = json.loads((place / "package.json").read_bytes())
            except (OSError, ValueError):
                continue
            if isinstance(described, dict) and str(described.get("name")).lower() == "cursor":
                return str(described.get("version", ""))
    return ""


def _agents(program: Path | None) -> str:
    """`…/cursor-agent/versions/2026.09.02-4057e58/cursor-agent` says it."""
    folder = program.resolve().parent if program else None
    return folder.name if folder and folder.parent.name == "versions" else ""
