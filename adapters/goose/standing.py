"""The block of ours in Goose's global AGENTS.md, written by the daemon: what holds for the person in every project.

Only where setup has put it, only between its markers, and only while they are there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cems.adapters.config_text import NotReadable
from cems.adapters.marked_block import MarkedText
from cems.core.paths import Home

FILE = "AGENTS.md"
_NAMES_A_FILE = re.compile(r"(?<![^\s(\[{\"'`<,;:])@(?=\S)")


def write_standing(home: Home, text: str) -> bool:
    """Make `text` the block's content in each file that setup has put one in; whether there is one. Raises OSError."""
    there = False
    for path in _files(home):
        try:
            before = path.read_bytes()
            marked = MarkedText.parse(before)
            if marked.block is None:
                continue
            after = bytes(marked.with_block(_plain(text)))
        except (FileNotFoundError, NotADirectoryError, NotReadable, ValueError):
            # Taken out, or broken by an edit: the person's to mend.
            continue
        if after != before:
            _replace(Path(os.path.realpath(path)), before, after)
        there = True
    return there


def _plain(text: str) -> str:
    """In this file Goose takes `@name` for a file whose content it puts there."""
    named = _NAMES_A_FILE.sub(r"\\@", text)
    return f"{named}\n" if named else ""


def _files(home: Home) -> Iterator[Path]:
    """The files in which setup has put a block, as its record says."""
    try:
        record: Any = json.loads(home.install_conf.read_bytes())
        agents = [agent for agent in record["agents"] if agent["agent"] == "goose"]
        names = [file["path"] for agent in agents for file in agent["files"] if f"block {FILE}" in agent["entries"]]
    except (OSError, ValueError, KeyError, TypeError):
        return
    yield from (Path(name) for name in names if Path(name).name == FILE)


def _replace(path: Path, before: bytes, after: bytes) -> None:
    """Take the file from `before` to `after` at once, or leave it; its mode and owner stay."""
    found = path.stat()
    if not found.st_mode & 0o222:
        raise PermissionError(f"{path} is read-only")
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".cems", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(after)
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            os.chown(name, found.st_uid, found.st_gid)
        Path(name).chmod(found.st_mode & 0o7777)
        # Somebody may have saved it meanwhile: then it is theirs, and our turn comes with the next prompt.
        if path.read_bytes() == before:
            Path(name).replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
