"""A home with a real launcher and real daemons, whose hooks and second stage are small ones of the test.

The package is a copy, so that a test can give it a version, break a part of it, or put it at an awkward path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.fakes import throwaway

from cems.core.paths import Home
from cems.core.service.client import connect
from cems.core.service.endpoint import Endpoint, read_endpoint
from cems.core.service.launch import launcher_source
from cems.core.service.lock import lock_holder

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE = 20.0
"""Seconds after which something that should happen at once is taken not to happen; machines are noisy."""

ECHO_HOOKS = """
import asyncio
from cems import __version__

class HookService:
    async def answer(self, script, context, raw):
        if raw.startswith(b"fail"):
            raise ValueError("a secret prompt")
        if raw.startswith(b"sleep"):
            await asyncio.sleep(float(raw[5:]))
        return b"%s|%s|" % (script.encode(), __version__.encode()) + raw

    def close(self):
        pass

def open_stage_one(home):
    return HookService()
"""

SMALL_RUNTIME = """
import asyncio, json, os, time

class Runtime:
    idle_seconds = float(os.environ.get("CEMS_IDLE_SECONDS", "1800"))

    def __init__(self, home):
        self.home = home

    async def startup(self):
        pass

    async def run_background(self):
        await asyncio.Event().wait()

    def busy(self):
        return (self.home.root / "busy").exists()

    def close(self):
        (self.home.root / "closed").touch()

    async def app(self, scope, receive, send):
        if scope["path"] == "/v1/fail":
            raise ValueError("a secret memory")
        if scope["path"] == "/v1/hang":
            await asyncio.sleep(600)
        status, answer = 200, {"path": scope["path"], "pid": os.getpid(), "environment": dict(os.environ)}
        if scope["path"] == "/v1/refuse":
            status, answer = 409, {"error": {"code": "tombstone", "message": "It was forgotten.", "exit": 4}}
        body = json.dumps(answer).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

def open_runtime(home, hooks):
    time.sleep(float(os.environ.get("CEMS_SLOW_START", "0")))
    return Runtime(home)
"""


def copy_package(parent: Path, version: str = "0.1.0", hooks: str = ECHO_HOOKS, runtime: str = SMALL_RUNTIME) -> Path:
    """Copy what the hook and the daemon's own part need to `parent`/cems; returns `parent`."""
    package = parent / "cems"
    service = package / "core" / "service"
    service.mkdir(parents=True)
    text = (REPOSITORY / "src/cems/__init__.py").read_text("utf-8")
    assert '__version__ = "' in text
    own = text.partition('__version__ = "')[2].partition('"')[0]
    (package / "__init__.py").write_text(text.replace(f'"{own}"', f'"{version}"'), "utf-8")
    for name in ("__init__", "agent_env", "events", "paths"):
        shutil.copy(REPOSITORY / "core" / f"{name}.py", package / "core")
    for name in ("__init__", "ancestry", "asgi", "client", "context", "context_file", "daemon", "endpoint"):
        shutil.copy(REPOSITORY / "core" / "service" / f"{name}.py", service)
    for name in ("handover", "hook_client", "http_server", "launch", "listening", "lock", "logs"):
        shutil.copy(REPOSITORY / "core" / "service" / f"{name}.py", service)
    scripts = package / "adapters" / "claude_code" / "hooks"
    scripts.mkdir(parents=True)
    for script in (REPOSITORY / "adapters" / "claude_code" / "hooks").glob("cems_*.py"):
        shutil.copy(script, scripts)
    (service / "hooks.py").write_text(hooks, "utf-8")
    (service / "runtime.py").write_text(runtime, "utf-8")
    return parent


class DaemonHome:
    """`root` is the person's home folder; every process started here is ended by `end`."""

    def __init__(self, root: Path, package: Path) -> None:
        self.root = root
        self.package = package
        self.home = Home(root / ".cems")
        self.home.create()
        self.runtime_dir = root / "r"
        self.runtime_dir.mkdir(mode=0o700)
        self.environment = throwaway.child_environment(root, self.runtime_dir)
        self.install(package)

    def install(self, package: Path) -> None:
        """Write the launcher, as setup does, for the package at `package`."""
        source = launcher_source(Path(sys.executable), package, self.home.root, "hook")
        self.launcher.write_bytes(source)
        self.launcher.chmod(0o700)

    @property
    def launcher(self) -> Path:
        return self.home.bin / "cems-hook"

    def hook(
        self,
        script: str = "cems_user_prompts_submit",
        given: bytes = b"{}",
        *,
        deadline: float | None = 10.0,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> HookResult:
        """Run the hook as an agent does. `deadline` None leaves it to the endpoint file."""
        chosen = {} if deadline is None else {"CEMS_HOOK_DEADLINE": str(deadline)}
        began = time.monotonic()
        done = subprocess.run(
            [self.launcher, script],
            input=given,
            capture_output=True,
            env={**self.environment, **chosen, **(env or {})},
            cwd=cwd or self.root,
            timeout=60,
            check=False,
        )
        return HookResult(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def daemon(self, *options: str, package: Path | None = None, **env: str) -> subprocess.Popen[bytes]:
        """Start a daemon as a child of the test, and wait until it listens."""
        process = self.spawn(*options, package=package, **env)

        def listens() -> bool:
            # The file of a daemon that was killed is still there when the next one has the lock.
            endpoint = self.endpoint()
            if self.pid() != process.pid or endpoint is None:
                return False
            try:
                connect(endpoint, 1.0).close()
            except OSError:
                return False
            return True

        wait_for(lambda: process.poll() is not None or listens())
        return process

    def spawn(self, *options: str, package: Path | None = None, **env: str) -> subprocess.Popen[bytes]:
        code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from cems.core.service.daemon import run; run()"
        return subprocess.Popen(
            [sys.executable, "-I", "-c", code, package or self.package, "--home", self.home.root, *options],
            env={**self.environment, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def python(self, code: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run code against the copied package, with `home` defined."""
        head = (
            f"import sys, pathlib; sys.path.insert(0, {str(self.package)!r})\n"
            f"from cems.core.paths import Home; home = Home(pathlib.Path({str(self.home.root)!r}))\n"
        )
        return subprocess.run(
            [sys.executable, "-I", "-c", head + code],
            env={**self.environment, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def endpoint(self) -> Endpoint | None:
        return read_endpoint(self.home.endpoint)

    def pid(self) -> int | None:
        """The pid of the daemon that holds the lock."""
        return lock_holder(self.home.lock)

    def log(self) -> str:
        path = self.home.logs / "daemon.log"
        return path.read_text("utf-8") if path.exists() else ""

    def failures(self) -> list[str]:
        """The reasons in the failure log."""
        if not self.home.hook_failures.exists():
            return []
        return [line.split(" ", 1)[1] for line in self.home.hook_failures.read_text("utf-8").splitlines()]

    def daemons(self) -> list[int]:
        """Pids of the running daemons of this home."""
        needle = os.fsencode(self.home.root)
        found = throwaway.processes_under(self.home.root)
        commands = {pid: Path(f"/proc/{pid}/cmdline") for pid in found}
        running = []
        for pid, path in commands.items():
            try:
                text = path.read_bytes()
            except OSError:
                continue
            if b"--home\0" + needle in text:
                running.append(pid)
        return running

    def end(self) -> None:
        throwaway.end_processes(self.root)
        throwaway.remove(self.root)


class HookResult:
    """What an agent sees of a hook; `seconds` is wall time."""

    def __init__(self, returncode: int, stdout: bytes, stderr: bytes, seconds: float) -> None:
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr
        self.seconds = seconds

    @property
    def silent(self) -> bool:
        """Whether the agent notices nothing at all."""
        return (self.returncode, self.stdout, self.stderr) == (0, b"", b"")

    def __repr__(self) -> str:
        said = f"{self.stdout[:200]!r} {self.stderr[-2000:]!r}"
        return f"exit {self.returncode} after {self.seconds:.2f} s: {said}"


def wait_for(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until `what()` is true; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"it did not happen within {seconds:g} s"
        time.sleep(0.02)
