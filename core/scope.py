"""Whose memory a memory is: the person's everywhere (`user`), one project's, or a team's (`shared`).

A project is named by what identifies it on any machine: its git remote; else its common git folder, which all
worktrees share; else the real path of the folder. Standard library only.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NewType

from cems.core.git_identity import folder_name, repository_identity

Scope = NewType("Scope", str)

USER = Scope("user")
SHARED = Scope("shared")
_PROJECT = "project:"
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - named to be left out, nothing is written there


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
    """The scope of a session started in `cwd`; the agent's first declared root (a path or a `file:` URI) counts where
    `cwd` is in no project.

    A folder that belongs to nobody's project (the home folder, `/`, the temporary folder itself, a folder that does
    not exist) gives the person's own memories only.
    """
    for folder in (cwd, *roots):
        if folder and (identity := project_identity(_path_of(folder))):
            return SessionScope(project_scope(identity))
    return SessionScope(None)


def project_identity(folder: str) -> str | None:
    """`host/owner/name` from the git remote, else `git:<common folder>`, else `path:<folder>`; None for no project.

    `folder` must be absolute: what a relative one means is known to the process that named it only.
    """
    try:
        if not os.path.isabs(folder) or not os.path.isdir(folder):  # noqa: PTH112, PTH117 - these never raise OSError
            return None
        path = Path(os.path.realpath(folder))
        homeless = _nobodys(path)
        # A repository in the home folder itself (dotfiles) is not the project of every folder below it.
        identity = repository_identity(path, homeless)
    except (OSError, ValueError):
        return None
    if identity is not None:
        return identity
    return None if path in homeless or path == _home().parent else f"path:{folder_name(path)}"


def _nobodys(path: Path) -> frozenset[Path]:
    temporary = {Path(os.path.realpath(each)) for each in (*_TEMPORARY, tempfile.gettempdir())}
    return frozenset({Path(path.anchor), _home(), *temporary})


def _home() -> Path:
    try:
        return Path(os.path.realpath(Path.home()))
    except RuntimeError:
        return Path("/")


def _path_of(root: str) -> str:
    """The path in a `file:` URI, or the text itself."""
    if not root.startswith("file://"):
        return root
    from urllib.parse import unquote

    path = "/" + unquote(root[len("file://") :], errors="surrogateescape").partition("/")[2]
    return path[1:] if os.name == "nt" else path
