"""Whose memory a memory is: the person's everywhere (`user`), one project's, or a team's (`shared`).

A project is named by what identifies it on any machine: its git remote; else its common git folder, which all
worktrees share; else the real path of the folder. Files are read, git itself is never run: a hostile repository's
configuration can start programs. Standard library only.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NewType

Scope = NewType("Scope", str)

USER = Scope("user")
SHARED = Scope("shared")
_PROJECT = "project:"
_MAX_LEVELS = 64
_SECTION = re.compile(r'^\s*\[remote\s+"([^"]*)"\s*\]')
_ANY_SECTION = re.compile(r"^\s*\[")
_URL = re.compile(r"^\s*url\s*=\s*(.+?)\s*$")
_SCP = re.compile(r"^(?:[^@/\s]+@)?([^:/\s\\]{2,}):(?!/?/)(.+)$")
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://(?:[^@/\s]*@)?([^/:\s]*)(?::\d+)?/?(.*)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SessionScope:
    """What one session may read and write: its project's memories (when it is in one), the person's and the team's."""

    project: Scope | None

    @property
    def readable(self) -> tuple[Scope, ...]:
        return (self.project, USER, SHARED) if self.project else (USER, SHARED)

    @property
    def default(self) -> Scope:
        return self.project or USER


def project_scope(identity: str) -> Scope:
    """The scope of the project with this identity. Compared whole, never by prefix: `org/repo` is not `org/repo-2`."""
    return Scope(_PROJECT + identity)


def project_name(scope: str) -> str:
    """The identity inside a project scope, or the scope itself."""
    return scope.removeprefix(_PROJECT)


def is_project(scope: str) -> bool:
    return scope.startswith(_PROJECT)


def session_scope(cwd: str, roots: Iterable[str] = ()) -> SessionScope:
    """The scope of a session started in `cwd`; the agent's first declared root counts where `cwd` is in no project.

    A folder that belongs to nobody's project (the home folder, `/`, the temporary folder itself, a folder that does
    not exist) gives the person's own memories only.
    """
    for folder in (cwd, *roots):
        if folder and (identity := project_identity(folder.removeprefix("file://"))):
            return SessionScope(project_scope(identity))
    return SessionScope(None)


def project_identity(folder: str) -> str | None:
    """`host/owner/name` from the git remote, else `git:<common folder>`, else `path:<folder>`; None for no project."""
    try:
        path = Path(os.path.realpath(folder))
        if not path.is_dir():
            return None
    except (OSError, ValueError):
        return None
    common = _common_git_dir(path)
    if common is not None:
        url = _remote_url(common)
        return (remote_identity(url, common) if url else None) or f"git:{_fold(common)}"
    return None if _belongs_to_no_project(path) else f"path:{_fold(path)}"


def remote_identity(url: str, base: Path) -> str | None:
    """`host/path` of a remote, without credentials, port, `.git` and case. A local remote is named by its real path."""
    url = url.strip().strip('"')
    if "://" in url and not url.lower().startswith("file://"):
        match = _SCHEME.match(url)
        host, path = (match.group(1), match.group(2)) if match else ("", "")
    elif match := _SCP.match(url):
        host, path = match.group(1), match.group(2)
    else:
        local = Path(os.path.realpath(base.parent / url.removeprefix("file://")))
        return f"git:{_fold(local).removesuffix('.git').rstrip('/')}"
    path = path.split("?", 1)[0].strip("/").removesuffix(".git").strip("/")
    return f"{host}/{path}".lower() if host and path else None


def _belongs_to_no_project(path: Path) -> bool:
    nobodys = {Path(path.anchor), Path(os.path.realpath(tempfile.gettempdir()))}
    try:
        nobodys.add(Path(os.path.realpath(Path.home())))
    except RuntimeError:
        pass
    return path in nobodys


def _common_git_dir(path: Path) -> Path | None:
    """The git folder that all worktrees of the repository around `path` share, or None outside a repository."""
    for level, folder in enumerate((path, *path.parents)):
        if level > _MAX_LEVELS:
            break
        marker = folder / ".git"
        if marker.is_dir():
            return marker
        if marker.is_file():
            return _linked_git_dir(marker)
    return None


def _linked_git_dir(marker: Path) -> Path | None:
    """Follow a worktree's or submodule's `.git` file (`gitdir: …`) to the repository's common folder."""
    text = _read(marker)
    if not text.startswith("gitdir:"):
        return None
    git_dir = Path(os.path.realpath(marker.parent / text[len("gitdir:") :].strip()))
    common = _read(git_dir / "commondir").strip()
    return Path(os.path.realpath(git_dir / common)) if common else git_dir


def _remote_url(git_dir: Path) -> str | None:
    """The URL of `origin`, else `upstream`, else the first remote by name."""
    urls: dict[str, str] = {}
    remote = None
    for line in _read(git_dir / "config").splitlines():
        if match := _SECTION.match(line):
            remote = match.group(1)
        elif _ANY_SECTION.match(line):
            remote = None
        elif remote is not None and (match := _URL.match(line)):
            urls.setdefault(remote, match.group(1))
    for name in ("origin", "upstream", *sorted(urls)):
        if name in urls:
            return urls[name]
    return None


def _read(path: Path) -> str:
    """At most 1 MiB of a git file; empty where it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def _fold(path: Path) -> str:
    """One spelling for one folder: case counts only where the file system says so (not on macOS and Windows)."""
    text = path.as_posix()
    return text.lower() if os.name == "nt" or os.uname().sysname == "Darwin" else text
