"""CEMS_HOME/env, changed as a whole: a release goes into a copy, and copy and original change places in one step.

The environment that runs is not touched before the copy has been proved, so whatever fails on the way (the network, pip, a
release that does not work here, a kill) leaves it as it was.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cems.core.paths import PRIVATE_DIR, Home
from cems.core.service.client import stop_daemon

_RUN = "from cems.core.cli.main import run; run()"
_PIP_SECONDS = 1_800.0
_PROOF_SECONDS = 600.0
# What a person's pip is told about other programs' places must not lead ours elsewhere.
_DROPPED = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PYTHONPATH", "PYTHONHOME")
_QUIET = {"PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
_EXCHANGE = 2
_HERE = -100
# Written by install.sh: which checkout the environment was made from.
_OF_CHECKOUT = "cems-source"


class UpdateFailed(Exception):
    """The release was not put in place; what was installed before goes on working. The message is a sentence."""


def is_ours(home: Home) -> bool:
    """Whether this very program runs from `home`'s environment."""
    return Path(sys.prefix).resolve() == home.env.resolve() and (home.env / "pyvenv.cfg").is_file()


def copy(home: Home) -> Path:
    """A copy of the environment beside it, made of links to the same files: pip replaces files, and writes into none."""
    target = home.root / "env.next"
    remove(target)
    try:
        shutil.copytree(home.env, target, symlinks=True, copy_function=_link)
        (target / _OF_CHECKOUT).unlink(missing_ok=True)
    except OSError as problem:
        remove(target)
        raise UpdateFailed(f"the environment cannot be copied ({problem})") from None
    return target


def install(environment: Path, wheel: Path, digest: str, environ: Mapping[str, str]) -> None:
    """Put the wheel, and whatever it needs, into a copy of the environment. Raises UpdateFailed."""
    python = [str(environment / "bin" / "python"), "-I"]
    variables = {name: value for name, value in environ.items() if name not in _DROPPED} | _QUIET
    if _ran([*python, "-m", "pip", "--version"], variables).returncode != 0:
        # Made by uv: pip comes with Python.
        _did("getting pip", [*python, "-m", "ensurepip"], variables)
    wanted = wheel.with_suffix(".txt")
    wanted.write_text(f"./{wheel.name} --hash=sha256:{digest}\n", "utf-8")
    pip = [*python, "-m", "pip", "install", "--quiet"]
    _did("installing it", [*pip, "--no-deps", "--require-hashes", "-r", wanted.name], variables, wheel.parent)
    _did("installing what it needs", [*pip, f"{wheel}"], variables, wheel.parent)
    _did("checking what it needs", [*python, "-m", "pip", "check"], variables)
    _name_anew(environment, environment.with_name("env"))


def prove(home: Home, environment: Path, version: str, environ: Mapping[str, str]) -> None:
    """Have the copy set itself up and make its round trip, hook and daemon and model, in a home of its own. Raises
    UpdateFailed."""
    root = Path(tempfile.mkdtemp(prefix="proof-", dir=home.root))
    trial = Home(root / "home")
    trial.root.mkdir(mode=PRIVATE_DIR)
    kept = ("LANG", "TMPDIR", "XDG_RUNTIME_DIR")
    variables = {name: environ[name] for name in kept if name in environ}
    variables |= {"PATH": "/usr/bin:/bin", "HOME": str(root), "CEMS_HOME": str(trial.root)}
    program = [str(environment / "bin" / "python"), "-I", "-c", _RUN]
    try:
        told = _did("starting it", [*program, "--version"], variables, root).strip()
        if told != f"cems {version}":
            raise UpdateFailed(f"the release calls itself {told!r}, not {version}")
        _did("trying it out", [*program, "setup", "--agent", "claude-code", "--yes"], variables, root, _PROOF_SECONDS)
    finally:
        with suppress(Exception):
            stop_daemon(trial)
        remove(root)


def exchange(one: Path, other: Path) -> None:
    """Let two folders change their names in one step of the file system, where it has one. Raises OSError."""
    libc = ctypes.CDLL(None)
    names = (os.fsencode(one), os.fsencode(other))
    if hasattr(libc, "renameat2"):
        failed = libc.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE)
    elif hasattr(libc, "renamex_np"):
        failed = libc.renamex_np(names[0], names[1], _EXCHANGE)
    else:
        failed = -1
    if failed:
        _exchange_in_steps(one, other)


def remove(folder: Path) -> None:
    """Remove a folder, there or not."""
    shutil.rmtree(folder, ignore_errors=True)


def run(command: Iterable[str | Path], environ: Mapping[str, str], seconds: float) -> tuple[int, str]:
    """Exit status and all that a command said; -1 for one that did not end in time or could not be started."""
    try:
        done = _ran(command, environ, None, seconds)
    except UpdateFailed as problem:
        return -1, str(problem)
    return done.returncode, done.stdout + done.stderr


def _exchange_in_steps(one: Path, other: Path) -> None:
    between = one.with_name(f"{one.name}.before")
    remove(between)
    one.rename(between)
    try:
        other.rename(one)
    except OSError:
        between.rename(one)
        raise
    between.rename(other)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _name_anew(environment: Path, final: Path) -> None:
    """Scripts name their interpreter by its whole path, which will be another one."""
    old, new = os.fsencode(environment), os.fsencode(final)
    for path in (environment / "bin").iterdir():
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        first, end, rest = data.partition(b"\n")
        if not first.startswith(b"#!") or old not in data:
            continue
        made = path.with_name(f".{path.name}.cems")
        made.write_bytes(first.replace(old, new) + end + rest.replace(old + b"/", new + b"/"))
        made.chmod(path.stat().st_mode & 0o777)
        # In its place, not into it: the file may be a link to the one of the environment that runs.
        made.replace(path)


def _did(
    what: str,
    command: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path | None = None,
    seconds: float = _PIP_SECONDS,
) -> str:
    done = _ran(command, environ, cwd, seconds)
    if done.returncode != 0:
        said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise UpdateFailed(f"{what} failed: {' | '.join(said[-3:])[:600] or f'exit {done.returncode}'}")
    return done.stdout


def _ran(
    command: Iterable[str | Path], environ: Mapping[str, str], cwd: Path | None = None, seconds: float = _PIP_SECONDS
) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    try:
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            cwd=cwd,
            env=dict(environ),
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise UpdateFailed(f"{Path(words[0]).name} did not do its work ({type(problem).__name__})") from None
