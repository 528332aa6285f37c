"""What the doctor can tell without the daemon, and whether the daemon starts and answers."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from cems.core.cli import asking
from cems.core.cli.failures import UNREACHABLE, CommandError
from cems.core.paths import Home
from cems.core.service.hook_failures import hook_failures

Document = dict[str, Any]

_OLDEST_PYTHON = (3, 11)
_LEAST_FREE_MIB = 200
_OTHERS = 0o077
_START_SECONDS = 60.0
_RECENT_SECONDS = 24 * 3600.0
_KEY_BYTES = 32
_PRIVATE_FILES = (
    "journal.db*",
    "state.db*",
    "config.toml",
    "credentials",
    "install.conf",
    "endpoint",
    "pauses.json*",
    "http-tokens.json*",
    "daemon.lock",
)
_PRIVATE_FOLDERS = ("keys/*", "backups/*", "logs/*")


def files_and_settings(home: Home) -> list[Document]:
    """Python, folder, permissions, disk, settings, and what earlier hooks and starts left behind."""
    return [
        _python(),
        _folder(home),
        _permissions(home),
        _keys(home),
        _set_aside(home),
        _copies(home),
        _disk(home),
        _settings(home),
        _pauses(home),
        _last_start(home),
        _hook_failures(home),
    ]


def daemon(home: Home) -> list[Document]:
    """Whether the daemon comes up and can be found again, then its own checks."""
    started = time.monotonic()
    try:
        answer = asking.ask("check", timeout=_START_SECONDS)
    except CommandError as error:
        fix = "cems daemon logs" if error.exit_code == UNREACHABLE else "cems daemon stop, then cems doctor again"
        return [_check("daemon", error.message, fix), *_journal_file(home)]
    seconds = time.monotonic() - started
    return [_check("daemon", f"answers ({seconds:.1f} s)"), _endpoint(home), *(answer.get("checks") or [])]


def _check(name: str, detail: str, fix: str = "") -> Document:
    """A check's result; one with something to do about it is a problem."""
    return {"name": name, "ok": not fix, "detail": detail, "fix": fix}


def _python() -> Document:
    detail = f"{platform.python_version()} at {sys.executable}"
    old = sys.version_info[:2] < _OLDEST_PYTHON
    return _check("python", detail, "install Python 3.11 or newer and run install.sh again" if old else "")


def _folder(home: Home) -> Document:
    if not home.root.is_dir():
        return _check("folder", f"{home.root} does not exist yet", "cems setup")
    if not os.access(home.root, os.R_OK | os.W_OK | os.X_OK):
        return _check("folder", f"{home.root} is not writable for you", f"chown it to you: {home.root}")
    return _check("folder", str(home.root))


def _permissions(home: Home) -> Document:
    if os.name != "posix" or not home.root.is_dir():
        return _check("permissions", "not checked here")
    open_paths = [path for path in _private_paths(home.root) if _mode(path) & _OTHERS]
    if not open_paths:
        return _check("permissions", "readable only by you")
    named = ", ".join(str(path) for path in open_paths[:3])
    more = f" and {len(open_paths) - 3} more" if len(open_paths) > 3 else ""
    return _check("permissions", f"others can get at {named}{more}", f"chmod -R go= {home.root}")


def _private_paths(root: Path) -> list[Path]:
    patterns = (*_PRIVATE_FILES, *_PRIVATE_FOLDERS, "keys", "backups", "logs", "store")
    return [root, *(path for pattern in patterns for path in sorted(root.glob(pattern)))]


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.lstat().st_mode)
    except OSError:
        return 0


def _keys(home: Home) -> Document:
    """The key by which forgotten values are known: there, whole, and the one that the last copy of the journal has."""
    from cems.core import backups

    key = home.keys / "value.key"
    if not home.journal.exists() and not key.exists():
        return _check("keys", "none yet")
    data = _bytes_of(key)
    if len(data) != _KEY_BYTES:
        state = "is missing" if not data else f"is damaged ({len(data)} bytes, not {_KEY_BYTES})"
        detail = f"{key} {state}: forgotten values cannot be recognised without it"
        return _check("keys", detail, _key_advice(home))
    kept = next((_bytes_of(each / "keys" / key.name) for each in backups.copies(home)), data)
    if kept and kept != data:
        detail = f"{key} is another key than the last copy has: values forgotten with that one are not recognised"
        return _check("keys", detail, _key_advice(home))
    return _check("keys", "the key of forgotten values is there")


def _key_advice(home: Home) -> str:
    from cems.core import backups

    copies = backups.copies(home)
    if not copies:
        return f"restore {home.keys / 'value.key'} from your own backup; no copy of it was kept in {home.backups}"
    return f"cems daemon stop, then cp {copies[0] / 'keys' / 'value.key'} {home.keys}/"


def _set_aside(home: Home) -> Document:
    found = sorted(path.name for path in home.root.glob("*.damaged-*"))
    if not found:
        return _check("set aside", "nothing was damaged")
    detail = f"{', '.join(found[:3])} could not be read and was made again from the journal; no memory is lost by it"
    return _check("set aside", detail, f"cems rebuild, then rm -r {home.root}/*.damaged-*")


def _copies(home: Home) -> Document:
    from cems.core import backups

    found = backups.copies(home)
    if not found:
        return _check("copies", "none yet; the daemon makes one a day")
    return _check("copies", f"{len(found)} of the journal and its keys, the last of {found[0].name}")


def _journal_file(home: Home) -> list[Document]:
    """What is wrong with the journal's file, where the daemon cannot tell."""
    from cems.core import backups
    from cems.core.service.checks import quick_check

    if backups.is_missing(home):
        detail = f"{home.journal} is gone or empty, and this home has had one"
    elif not home.journal.exists():
        return []
    else:
        detail = f"SQLite says of {home.journal}: {quick_check(home.journal)}"
        if detail.endswith(": ok"):
            return [_check("journal", detail)]
    return [_check("journal", detail, backups.restore_advice(home))]


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _disk(home: Home) -> Document:
    folder = next(path for path in (home.root, *home.root.parents) if path.exists())
    try:
        free = shutil.disk_usage(folder).free // (1 << 20)
    except OSError as error:
        return _check("disk", f"free space cannot be told: {error}", f"look at the disk of {folder}")
    return _check("disk", f"{free:,} MiB free", "make room on the disk" if free < _LEAST_FREE_MIB else "")


def _settings(home: Home) -> Document:
    from cems.core import config

    try:
        rows = config.describe(home)
    except (config.ConfigError, OSError) as error:
        return _check("settings", str(error), f"mend {home.config} or the environment")
    changed = [str(row["key"]) for row in rows if row["origin"] != "default"]
    return _check("settings", f"changed: {', '.join(changed)}" if changed else "all at their defaults")


def _pauses(home: Home) -> Document:
    """A pause is the person's wish and no problem; a file that hides them is one, for it pauses everything."""
    from cems.core.cli.pause import described
    from cems.core.pauses import read_pauses

    known = read_pauses(home.pauses)
    if known.damage:
        detail = f"{known.damage}: until it is mended, everything is paused and agents are given nothing"
        return _check("pauses", detail, "cems resume --all, which sets it aside; then cems pause where you want it")
    if here := asking.paused(home):
        return _check("pauses", f"CEMS is paused {described(here)}")
    return _check("pauses", f"not here; {len(known.running)} elsewhere" if known.running else "nothing is paused")


def _last_start(home: Home) -> Document:
    from cems.core.service.logs import read_start_failure

    failure = read_start_failure(home)
    if failure is None:
        return _check("last start", "no failure noted")
    when, reason = failure
    return _check(
        "last start",
        f"failed {_moment(when)}: {reason}",
        "cems daemon logs; the reason above says what to mend",
    )


def _hook_failures(home: Home) -> Document:
    failures, recent = hook_failures(home), hook_failures(home, _RECENT_SECONDS)
    if not failures:
        return _check("hook failures", "none")
    last = _moment(failures[-1].when)
    if not recent:
        return _check("hook failures", f"none in the last day; {len(failures)} before, the last {last}")
    reasons = Counter(failure.reason for failure in recent).most_common(4)
    counted = ", ".join(f"{reason} {count}x" for reason, count in reasons)
    return _check(
        "hook failures",
        f"{len(recent)} in the last day ({counted}), the last {last}",
        f"cems daemon logs; remove {home.hook_failures} when dealt with",
    )


def _endpoint(home: Home) -> Document:
    from cems.core.service.client import daemon_pid
    from cems.core.service.endpoint import read_endpoint

    found, pid = read_endpoint(home.endpoint), daemon_pid(home)
    if found is None:
        return _check(
            "endpoint", f"{home.endpoint} does not name a daemon, so hooks cannot find it", "cems daemon stop"
        )
    if pid is None:
        return _check("endpoint", f"{found.address} answers, but nobody holds {home.lock}", "cems daemon stop")
    return _check("endpoint", f"{found.address}, pid {pid}")


def _moment(when: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))
    except (OverflowError, OSError, ValueError):
        return "at an unknown time"
