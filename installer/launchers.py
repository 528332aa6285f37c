"""The programs under `<CEMS_HOME>/bin` and the link `~/.local/bin/cems`."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from cems.adapters.base import Launchers, Machine
from cems.core.paths import Home
from cems.core.service.launch import launcher_source, package_parent
from cems.installer.files import write
from cems.installer.record import Link

_MODE = 0o700


def launchers(home: Home) -> Launchers:
    """Where they are; byte for byte what goes into the agents' files."""
    return Launchers(hook=home.bin / "cems-hook", mcp=home.bin / "cems-mcp")


def interpreter() -> Path:
    """The environment's own Python, absolute, its links not followed: they are the environment."""
    return Path(os.path.abspath(sys.executable))  # noqa: PTH100 - resolve() would follow the links


def sources(home: Home) -> dict[Path, bytes]:
    """Path -> text of each launcher of `home`; the same bytes for the same environment."""
    python, parent, programs = interpreter(), Path(package_parent()), launchers(home)
    return {
        programs.hook: launcher_source(python, parent, home.root, "hook"),
        programs.mcp: launcher_source(python, parent, home.root, "mcp"),
        home.bin / "cems": _command(python, parent, home),
    }


def _command(python: Path, parent: Path, home: Home) -> bytes:
    """The command `cems`, for this CEMS_HOME unless another is named, whatever PYTHONPATH says."""
    program = (
        "import os, sys\n"
        f"parent = {str(parent)!a}\n"
        "if parent not in sys.path: sys.path.insert(0, parent)\n"
        f"os.environ.setdefault('CEMS_HOME', {str(home.root)!a})\n"
        "sys.argv[0] = 'cems'\n"
        "from cems.core.cli.main import run\n"
        "run()\n"
    )
    text = f'#!/bin/sh\nexec {shlex.quote(str(python))} -I -c {shlex.quote(program)} "$@"\n'
    return text.encode("utf-8", "surrogateescape")


def outdated(home: Home) -> list[Path]:
    """Launchers that are missing, differ, or cannot be run."""
    return [path for path, text in sources(home).items() if not _is_there(path, text)]


def write_launchers(home: Home) -> list[Path]:
    """Write those that are outdated; which they were."""
    changed = outdated(home)
    texts = sources(home)
    for path in changed:
        write(path, texts[path], mode=_MODE)
        path.chmod(_MODE)
    return changed


def _is_there(path: Path, text: bytes) -> bool:
    try:
        return path.read_bytes() == text and path.stat().st_mode & 0o700 == _MODE
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """`link` is to be made (or is there: `made`); `notes` say why not, or what it takes to use it."""

    link: Link | None
    made: bool
    notes: tuple[str, ...] = ()


def plan_link(machine: Machine, home: Home) -> LinkPlan:
    """`~/.local/bin/cems`, unless something else has that name."""
    if os.name != "posix":
        return LinkPlan(None, False, (f"add {home.bin} to PATH to use the command `cems`",))
    folder = machine.home / ".local" / "bin"
    link = Link(folder / "cems", home.bin / "cems")
    taken = link.path.is_symlink() or link.path.exists()
    if taken and not leads_to(link):
        note = f"{link.path} is another program's and is left alone; ours is {link.target}"
        return LinkPlan(None, False, (note,))
    if str(folder) in machine.environ.get("PATH", "").split(os.pathsep):
        return LinkPlan(link, taken)
    line = 'export PATH="$HOME/.local/bin:$PATH"'
    return LinkPlan(link, taken, (f"to use the command `cems`, add this line to your shell's profile: {line}",))


def leads_to(link: Link) -> bool:
    """Whether `link` is there and ours."""
    return link.path.is_symlink() and link.path.readlink() == link.target


def unlink(link: Link) -> None:
    """Remove the link if it is still ours."""
    if leads_to(link):
        link.path.unlink()
