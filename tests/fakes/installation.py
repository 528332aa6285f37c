"""CEMS installed once for all tests, the way a person installs it: `./install.sh` of a copy of this tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from tests.fakes import throwaway
from tests.fakes.sandbox import Result, Sandbox

REPOSITORY = Path(__file__).resolve().parents[2]
_TIMEOUT = 1200


class InstallFailed(RuntimeError):
    """`install.sh` exited with an error; the message holds all it said."""


@dataclass(frozen=True, slots=True)
class Installation:
    """`sandbox` is the home `install.sh` ran in, `source` the copy it ran from, `result` what it said."""

    source: Path
    sandbox: Sandbox
    result: Result


def install(root: Path) -> Installation:
    """Install this tree under `root`, or wait for the process of this run that does. Raises InstallFailed."""
    source, home, runtime = root / "source", root / "i", root / "r"
    program = given_program() or home / ".cems" / "env" / "bin" / "cems"
    sandbox = Sandbox(home, runtime, program, throwaway.child_environment(home, runtime))
    record = root / "install.json"
    with FileLock(root / "install.lock"):
        if not record.exists():
            home.mkdir(mode=0o700)
            copy_tree(source)
            command: list[str | Path] = [source / "install.sh"]
            if given_program():
                command = [program, "setup", "--yes"]
            result = sandbox.run(command, cwd=source, timeout=_TIMEOUT)
            record.write_text(json.dumps([result.returncode, result.stdout, result.stderr, result.seconds]))
        returncode, stdout, stderr, seconds = json.loads(record.read_text())
    result = Result(["./install.sh"], returncode, stdout, stderr, seconds)
    if returncode:
        raise InstallFailed(str(result))
    return Installation(source, sandbox, result)


def given_program() -> Path | None:
    """`CEMS_TEST_PROGRAM`: a `cems` to use as it is, such as `.venv/bin/cems`, where a fresh install takes too long."""
    named = os.environ.get("CEMS_TEST_PROGRAM")
    return Path(named).absolute() if named else None


def copy_tree(target: Path) -> None:
    """A clone of HEAD when nothing is changed, else all files of the tree that git does not ignore."""
    if _git("status", "--porcelain") == "" and _git("rev-parse", "--verify", "--quiet", "HEAD"):
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", REPOSITORY, target], check=True)
        return
    for name in _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        source = REPOSITORY / name
        # A file that is deleted but still in the index has no place in the copy.
        if name and os.path.lexists(source):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", REPOSITORY, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip("\n")
