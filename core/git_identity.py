"""What names a git repository on any machine. Its files are read, git itself is never run: a hostile repository's
configuration can start programs. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

_MAX_LEVELS = 64
_MAX_CONFIG = 1 << 20
_MAX_LINE = 4_096
_MAX_URL = 1_024
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)"\s*)?\]')
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:/\\\[\]@]+))(?::\d*)?\Z")
_SCP = re.compile(r"(?:[^@:/\s\\]*@)?(\[[0-9A-Fa-f:.%]+\]|[^:/\s\\\[\]@]{2,}):([^:@][^@]*)\Z")
_HELPER = re.compile(r"[A-Za-z0-9+.-]+::")
# The same servers, on a port that firewalls let through.
_OTHER_NAMES = {
    "ssh.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
}


def repository_identity(folder: Path, outside: Collection[Path] = ()) -> str | None:
    """`host/owner/name` of the repository around `folder` (a real path), else `git:<common folder>`, which all its
    worktrees share; None outside a repository. Folders in `outside` are taken to hold none.
    """
    common = _common_git_dir(folder, outside)
    if common is None:
        return None
    url = _remote_url(_read(common / "config"))
    top = common.parent if common.name == ".git" else common
    return (remote_identity(url, top) if url else None) or f"git:{folder_name(common)}"


def remote_identity(url: str, base: Path) -> str | None:
    """`host/path` of a remote, without credentials, port, `.git` and case. A remote on this machine (relative to
    `base`) is named as the repository it is. None for what names no place.
    """
    url = url.strip()
    if not url or len(url) > _MAX_URL or any(ord(character) < 32 or ord(character) == 127 for character in url):
        return None
    scheme, separator, rest = url.partition("://")
    if separator and _SCHEME.match(scheme):
        authority, _, path = rest.partition("/")
        host = authority.rpartition("@")[2]
        if scheme.lower() == "file":
            return _local_identity(Path(f"/{path}")) if host.lower() in ("", "localhost") else _named(host, path)
        return _named(host, path)
    if _HELPER.match(url):
        # `helper::address`: what the address means is known to a program only.
        return None
    if match := _SCP.match(url):
        return _named(match.group(1), match.group(2))
    if {":", "@"} <= set(url.partition("/")[0]):
        # Credentials in a place git has none for.
        return None
    return _local_identity(base / url)


def folder_name(path: Path) -> str:
    """One spelling for one folder, and printable: case counts where the file system says so (not on macOS and Windows),
    and a name with control characters or bytes that are no text ends in a digest of itself.
    """
    text = path.as_posix()
    if text.isprintable():
        return text.lower() if os.name == "nt" or os.uname().sysname == "Darwin" else text
    shown = "".join(c if c.isprintable() else f"\\{ord(c):x}" for c in text)
    return f"{shown}#{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}"


def _named(host: str, path: str) -> str | None:
    match = _HOST.match(host)
    path = re.split(r"[?#]", path, maxsplit=1)[0].strip("/").removesuffix(".git")
    parts = [part for part in path.split("/") if part]
    if not match or not parts or not path.isprintable():
        return None
    name = (match.group(1) or match.group(2)).lower().rstrip(".")
    return "/".join((_OTHER_NAMES.get(name, name), *parts)).lower()


def _local_identity(path: Path) -> str:
    """As git looks for it: the folder's `.git`, the folder, the folder with `.git` behind its name."""
    real = Path(os.path.realpath(path))
    for place in (real / ".git", real, real.with_name(f"{real.name}.git")):
        if _is_git_dir(place):
            return f"git:{folder_name(Path(os.path.realpath(place)))}"
    return f"git:{folder_name(real)}"


def _common_git_dir(path: Path, outside: Collection[Path]) -> Path | None:
    for folder in (path, *path.parents)[:_MAX_LEVELS]:
        if folder in outside:
            return None
        if _is_git_dir(folder):
            return folder
        marker = folder / ".git"
        if _is_file(marker / "HEAD") or _is_file(marker / "config"):
            return Path(os.path.realpath(marker))
        if _is_file(marker):
            return _linked_git_dir(marker)
    return None


def _linked_git_dir(marker: Path) -> Path | None:
    """Follow a worktree's or submodule's `.git` file (`gitdir: …`) to the repository's common folder."""
    text = _read(marker)
    if not text.startswith("gitdir:"):
        return None
    target = text[len("gitdir:") :].strip()
    if "\0" in target or len(target) > _MAX_LINE:
        return None
    git_dir = Path(os.path.realpath(marker.parent / target))
    common = _read(git_dir / "commondir").strip()
    found = Path(os.path.realpath(git_dir / common)) if common and "\0" not in common else git_dir
    return found if _is_git_dir(found) else None


def _is_git_dir(folder: Path) -> bool:
    # os.path, not Path: these answer False where a folder may not be entered, and never raise.
    return _is_file(folder / "HEAD") and all(os.path.isdir(folder / each) for each in ("objects", "refs"))  # noqa: PTH112


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113


def _remote_url(config: str) -> str | None:
    """The URL of `origin`, else `upstream`, else the first remote by name."""
    urls: dict[str, str] = {}
    for remote, url in _remotes(config):
        urls.setdefault(remote, url)
    for name in ("origin", "upstream", *sorted(urls)):
        if name in urls:
            return urls[name]
    return None


def _remotes(config: str) -> Iterator[tuple[str, str]]:
    """Each remote's name with each of its URLs, in git's configuration syntax."""
    remote = ""
    for line in config.removeprefix("\ufeff").replace("\\\n", "").split("\n"):
        rest = line[:_MAX_LINE].strip()
        if match := _SECTION.match(rest):
            remote = match.group(2) or "" if match.group(1).lower() == "remote" else ""
            rest = rest[match.end() :]
        key, equals, value = rest.partition("=")
        if remote and equals and key.strip().lower() == "url" and (url := _value(value)):
            yield remote, url


def _value(text: str) -> str:
    """A value without its quotes, escapes and comment."""
    kept: list[str] = []
    quoted = escaped = False
    for character in text.strip():
        if escaped:
            kept.append(character)
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif character in "#;" and not quoted:
            break
        else:
            kept.append(character)
    return "".join(kept).strip()


def _read(path: Path) -> str:
    """At most 1 MiB of a regular file; empty where there is none. A named pipe in its place is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            return file.read(_MAX_CONFIG).decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    except (OSError, ValueError):
        return ""
