"""Throwaway homes: the environment a program gets in one, and the end of every process started there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path

REFUSED_NAME = re.compile(
    r"(?:ANTHROPIC|OPENAI|OPENROUTER|AZURE_OPENAI|GEMINI|GOOGLE|GROQ|MISTRAL|DEEPSEEK|XAI|AWS_BEARER).*"
    r"|(?:CLAUDE|CURSOR|CODEX|COPILOT|GOOSE|OPENCODE|PI_|GITHUB|GH_|HF_|HUGGING|MCP_|XDG_).*"
    r"|CEMS_(?!TEST_|BENCH_|REQUIRE_).*|GIT_(?!SSL_).*"
    r"|.*_(?:API_KEY|TOKEN|SECRET)|PYTHONPATH|PYTHONHOME|AI_AGENT"
)
"""What no test may see: providers' keys, signs that an agent runs us, folders outside the throwaway home."""

_PASSED_NAME = re.compile(
    r"LANG|LC_.*|TZ|(?:https?|no|all)_proxy|SSL_CERT_.*|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS"
    r"|PIP_.*|UV_.*|OPENBLAS_.*",
    re.IGNORECASE,
)
"""What a program of ours gets from the outer environment: the language, and how to reach a package index."""


def clean(environ: MutableMapping[str, str]) -> None:
    """Remove every variable of `REFUSED_NAME`."""
    for name in [name for name in environ if REFUSED_NAME.fullmatch(name)]:
        del environ[name]


def child_environment(home: Path, runtime: Path, outer: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The whole environment of a program in `home`; sockets go to `runtime`, whose path is short."""
    # The interpreter outside the virtual environment: what a person's `python3` would be.
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    passed = {name: value for name, value in outer.items() if _PASSED_NAME.fullmatch(name)}
    return {
        **passed,
        "HOME": str(home),
        "CEMS_HOME": str(home / ".cems"),
        "PATH": f"{home}/.local/bin:{python.parent}:/usr/local/bin:/usr/bin:/bin",
        "TERM": "dumb",
        "LANG": passed.get("LANG", "C.UTF-8"),
        "TMPDIR": str(runtime),
        "XDG_RUNTIME_DIR": str(runtime),
        "PYTHONDONTWRITEBYTECODE": outer.get("PYTHONDONTWRITEBYTECODE", ""),
    }


def processes_under(folder: Path) -> dict[int, str]:
    """Running processes, other than this one, whose command or environment names `folder`: pid to command."""
    has_proc = Path("/proc/self/environ").exists()
    found = _from_proc(os.fsencode(folder)) if has_proc else _from_ps(str(folder))
    found.pop(os.getpid(), None)
    return found


def _from_proc(needle: bytes) -> dict[int, str]:
    found = {}
    # A following letter or digit would be another folder: /x/s1 is not /x/s10.
    names = re.compile(re.escape(needle) + rb"(?![A-Za-z0-9_.-])")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            environment = (entry / "environ").read_bytes()
        except OSError:
            # Gone in the meantime, or another user's.
            continue
        if names.search(command) or names.search(environment):
            found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def _from_ps(needle: str) -> dict[int, str]:
    names = re.compile(re.escape(needle) + r"(?![A-Za-z0-9_.-])")
    # -E adds the environment on macOS, where there is no /proc.
    listing = subprocess.run(
        ["ps", "-axwwE", "-o", "pid=,command="], capture_output=True, text=True, check=False
    ).stdout
    lines = (line.split(maxsplit=1) for line in listing.splitlines())
    return {int(pid): command for pid, command in (line for line in lines if len(line) == 2) if names.search(command)}


def end_processes(folder: Path, patience: float = 5.0) -> dict[int, str]:
    """End, by pid, every process `processes_under` finds; SIGKILL for what ignores SIGTERM for `patience` s.

    Returns those it found at first.
    """
    found = processes_under(folder)
    for sign, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
        left = processes_under(folder)
        for pid in left:
            _signal(pid, sign)
        deadline = time.monotonic() + seconds
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = processes_under(folder)
        if not left:
            break
    return found


def _signal(pid: int, sign: signal.Signals) -> None:
    try:
        os.kill(pid, sign)
        # A stopped process takes SIGTERM only once it goes on.
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def remove(folder: Path) -> None:
    """Delete a folder with everything in it, read-only parts too."""
    for path, _, _ in os.walk(folder):
        Path(path).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
