"""The agents' real programs, from npm, as pinned in `pins.py`.

`python -m tests.e2e.programs` fetches what is missing, all at once, into `$CEMS_TEST_CACHE` (default
`.cache/agents` in this repository) and prints where each one is. Tests only look; they never fetch. No code of
a package runs while npm installs it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.pins import PROGRAMS, Package, Program

REPOSITORY = Path(__file__).resolve().parents[2]
LOCKS = Path(__file__).with_name("locks")

_LAUNCHER = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/../../{node}" "$here/../node_modules/.bin/{name}" "$@"
"""
"""Starts a program of JavaScript as a shell does that finds it on the PATH, but with the pinned Node."""

_fetching: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


class ProgramMissing(LookupError):
    """The program is not in the cache; the message says what to run."""


class FetchFailed(RuntimeError):
    """npm did not deliver the pinned program; the message holds its last words."""


def cache_folder() -> Path:
    named = os.environ.get("CEMS_TEST_CACHE")
    return Path(named).absolute() if named else REPOSITORY / ".cache" / "agents"


def platform_name() -> str:
    """This machine as npm's packages name it: `linux-x64`, `linux-arm64-musl`, `darwin-arm64` …"""
    machine = platform.machine().lower()
    name = f"{sys.platform}-{ {'x86_64': 'x64', 'amd64': 'x64', 'aarch64': 'arm64'}.get(machine, machine) }"
    # An empty answer is what the standard library gives for a C library that is not glibc.
    return f"{name}-musl" if sys.platform == "linux" and not platform.libc_ver()[0] else name


def find(name: str) -> Path:
    """The fetched program. Raises ProgramMissing when this version of it is not in the cache."""
    program = PROGRAMS[name]
    folder = cache_folder() / program.name
    marker = folder / "version"
    if not marker.is_file():
        raise ProgramMissing(f"{name} is not fetched: run ./test.sh --agents")
    held, binary = marker.read_text().split("\n", 1)
    if held != _pin(program):
        raise ProgramMissing(f"{name} {held} is fetched, {_pin(program)} is wanted: run ./test.sh --agents")
    path = folder / binary.strip()
    if not path.is_file():
        raise ProgramMissing(f"{path} is gone: run ./test.sh --agents")
    if program.node:
        find("node")
    return path


def unpacked(name: str) -> Path:
    """What the program unpacked of itself when it was fetched, laid out as in `~/.cache`."""
    return cache_folder() / name / "unpacked"


def fetch(name: str) -> Path:
    """The program, fetched first when it is missing. Safe to run twice at once. Raises FetchFailed."""
    program = PROGRAMS[name]
    if program.node:
        fetch("node")
    with _fetching[name]:
        try:
            return find(name)
        except ProgramMissing:
            pass
        package = _package(program)
        npm = shutil.which("npm")
        if npm is None:
            raise FetchFailed("npm is not on the PATH; it brings the agents' programs")
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=cache_folder()) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            _install(npm, program, package, made, Path(scratch) / "npm-cache")
            _check(made, package.name, package.version or program.version, f"sha512-{package.sha512}")
            binary = Path("node_modules") / package.name / package.binary
            (made / binary).chmod(0o755)
            if program.unpacks:
                _unpack(made, made / binary, program.unpacks)
            if program.node:
                binary = _launcher(made, program.name)
            (made / "version").write_text(f"{_pin(program)}\n{binary.as_posix()}\n")
            _move_into_place(made, cache_folder() / program.name, Path(scratch) / "old")
        return find(name)


def _pin(program: Program) -> str:
    """What the cache has to hold: the version, and with it the tree of dependencies where there is one."""
    if program.lock is None:
        return program.version
    digest = hashlib.sha256((LOCKS / program.lock).read_bytes()).hexdigest()
    return f"{program.version}+{digest[:12]}"


def _package(program: Program) -> Package:
    for place in (platform_name(), "any"):
        if place in program.packages:
            return program.packages[place]
    raise FetchFailed(f"{program.name} has no program for {platform_name()}")


def _install(npm: str, program: Program, package: Package, prefix: Path, cache: Path) -> None:
    spec = f"{package.name}@{package.version or program.version}"
    if program.lock is None:
        what = ["install", "--no-save", "--omit=optional", spec]
    else:
        # npm refuses a lock that does not fit this, and whatever has another digest than the lock says.
        wanted = {"private": True, "dependencies": {package.name: program.version}}
        (prefix / "package.json").write_text(json.dumps(wanted))
        shutil.copyfile(LOCKS / program.lock, prefix / "package-lock.json")
        what = ["ci"]
    # Its own cache folder, in the scratch: nothing stays in the person's ~/.npm.
    command = [npm, *what, "--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier"]
    command += [f"--prefix={prefix}", f"--cache={cache}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if result.returncode:
        raise FetchFailed(f"npm could not install {spec}:\n{result.stderr[-2000:]}")


def _check(prefix: Path, package: str, version: str, integrity: str) -> None:
    # npm compares what it unpacks with this digest; here the digest itself is compared with the pinned one.
    lock = json.loads((prefix / "node_modules" / ".package-lock.json").read_text())
    entry = lock["packages"].get(f"node_modules/{package}", {})
    if entry.get("version") != version or entry.get("integrity") != integrity:
        raise FetchFailed(
            f"npm brought {entry.get('version')} {entry.get('integrity')} as {package}, not the pinned one"
        )


def _unpack(made: Path, binary: Path, arguments: tuple[str, ...]) -> None:
    home = made / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TERM": "dumb", "COPILOT_OFFLINE": "true"}
    done = subprocess.run(
        [binary, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode or not (home / ".cache").is_dir():
        raise FetchFailed(f"{binary.name} did not unpack itself: {done.stdout[-500:]}{done.stderr[-500:]}")
    (home / ".cache").rename(made / "unpacked")
    shutil.rmtree(home)


def _launcher(made: Path, name: str) -> Path:
    path = Path("bin") / name
    (made / "bin").mkdir()
    (made / path).write_text(_LAUNCHER.format(node=find("node").relative_to(cache_folder()).as_posix(), name=name))
    (made / path).chmod(0o755)
    return path


def _move_into_place(made: Path, target: Path, old: Path) -> None:
    try:
        if target.exists():
            target.rename(old)
        made.rename(target)
    except OSError:
        # Another run was faster; what it put there has passed the same checks.
        if not (target / "version").is_file():
            raise


def main(names: list[str]) -> int:
    """Fetch these programs, or all; say of each where it is, or on standard error why it is not there."""
    names = names or sorted(PROGRAMS)
    failed = 0
    # npm mostly waits: for the network, then for the disk.
    with ThreadPoolExecutor(4) as pool:
        fetching = {name: pool.submit(fetch, name) for name in names}
        for name, future in fetching.items():
            said = f"{name} {PROGRAMS[name].version}"
            try:
                print(f"{said}: {future.result()}", flush=True)
            except (FetchFailed, OSError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"{said}: NOT FETCHED: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
