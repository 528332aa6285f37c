"""One person's machine in a test: a home of its own, with the CEMS that all tests share."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes import throwaway


@dataclass(frozen=True, slots=True)
class Result:
    """What a command did. `seconds` is wall time."""

    command: Sequence[str]
    returncode: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def json(self) -> Any:
        """Standard output as JSON; fails with all the command said when it is not."""
        try:
            return json.loads(self.stdout)
        except ValueError:
            raise AssertionError(f"not JSON: {self}") from None

    def ok(self) -> Result:
        """The same result; fails with all the command said when it exited with another code than 0."""
        assert self.returncode == 0, str(self)
        return self

    def __str__(self) -> str:
        said = f"--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"
        return f"{' '.join(self.command)} exited with {self.returncode} after {self.seconds:.2f} s\n{said}"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """`program` is the installed `cems`; `environment` is all that commands here see of the outside."""

    home: Path
    runtime: Path
    program: Path
    environment: Mapping[str, str] = field(repr=False)

    @property
    def cems_home(self) -> Path:
        return self.home / ".cems"

    def run(
        self,
        command: Sequence[str | Path],
        *,
        input: str | None = None,  # noqa: A002 - subprocess.run's own name
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 120,
    ) -> Result:
        """Run a command in this home; `env` is added to the environment. Raises TimeoutExpired."""
        words = [str(word) for word in command]
        started = time.monotonic()
        done = subprocess.run(
            words,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            cwd=cwd or self.home,
            env={**self.environment, **(env or {})},
            timeout=timeout,
            check=False,
        )
        return Result(words, done.returncode, done.stdout, done.stderr, time.monotonic() - started)

    def cems(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 120,
    ) -> Result:
        """`cems …` as the person at a terminal would run it."""
        return self.run([self.program, *arguments], input=input, cwd=cwd, env=env, timeout=timeout)

    def project(self, name: str, remote: str | None = None) -> Path:
        """A git repository of this name in the home, with an origin when `remote` says one."""
        folder = self.home / "work" / name
        folder.mkdir(parents=True)
        self.run(["git", "init", "--quiet", "--initial-branch=main", folder]).ok()
        if remote:
            self.run(["git", "-C", folder, "remote", "add", "origin", remote]).ok()
        return folder

    def daemon(self) -> int:
        """The pid of this home's daemon, started when there is none."""
        pid: int = self.cems("status", "--json").ok().json["daemon"]["pid"]
        return pid

    def processes(self) -> dict[int, str]:
        return throwaway.processes_under(self.cems_home)

    def end(self) -> None:
        """End every process of this home and delete it."""
        throwaway.end_processes(self.home)
        throwaway.remove(self.home)
