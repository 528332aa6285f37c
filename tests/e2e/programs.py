"""The agents' real programs, from npm, pinned to a version and to each platform's package's digest.

`python -m tests.e2e.programs` fetches what is missing into `$CEMS_TEST_CACHE` (default `.cache/agents` in
this repository) and prints where each one is. Tests only look; they never fetch.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Program:
    """One agent's program: an npm package per platform, all of one version.

    `packages` maps `linux-x64` and the like to (package, its SHA-512 in base64); `binary` is the file in it.
    """

    name: str
    version: str
    binary: str
    packages: Mapping[str, tuple[str, str]]


PROGRAMS = {
    "claude-code": Program(
        name="claude-code",
        version="2.1.332",
        binary="claude",
        packages={
            "linux-x64": (
                "@anthropic-ai/claude-code-linux-x64",
                "f4JWhzwYutJIHScC7/dYOPX6s28tt7ZADhsOi8zwOHq5fFPEuUeChh2NMfinSg0GrUckYxaeebC4h0DqiKzLcw==",
            ),
            "linux-arm64": (
                "@anthropic-ai/claude-code-linux-arm64",
                "BlHNEtK38KBPWU31F4lUSS9sHclCyfWbThT1CErvxxH8+XcljYLZlQwdyXBkTD62rw1TgfE1u1a+quMWS0NSJg==",
            ),
            "linux-x64-musl": (
                "@anthropic-ai/claude-code-linux-x64-musl",
                "QoQzwipnqRAdBKDAJNJ2Qvl37G6x8nCugfOQa+nuMcGIRgGEOLeWoq3pTLMQRScL37estAQBGH9ygR3WFVbIfw==",
            ),
            "linux-arm64-musl": (
                "@anthropic-ai/claude-code-linux-arm64-musl",
                "jdjkkJLfAQ9M1HbT05tZHQpGNZUEPUebYwW/xpiMypZddB0lNlHlB9mXfOVV/UUPO0JCghj1NSQjxhhJc4L4CA==",
            ),
            "darwin-x64": (
                "@anthropic-ai/claude-code-darwin-x64",
                "i0GV2ejBOeHMXs+XPCd1IaJj1GV3VdZl8hiQD6hLMR/N7f4Nt8q4Edj1GYJCKXPLJa/zsE9Uv6r9rZ/ldVFQPQ==",
            ),
            "darwin-arm64": (
                "@anthropic-ai/claude-code-darwin-arm64",
                "L/F5mypyB7SK59cesiAqGv1bVNd+8xTn0LF5kV6EGL6UMhofVJMFlokhDRoxNzANNC5i/5JdzfJyDOKUbZObiA==",
            ),
        },
    ),
}
"""Another agent is one entry here."""


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
    if held != program.version:
        raise ProgramMissing(f"{name} {held} is fetched, {program.version} is wanted: run ./test.sh --agents")
    path = folder / binary.strip()
    if not path.is_file():
        raise ProgramMissing(f"{path} is gone: run ./test.sh --agents")
    return path


def fetch(name: str) -> Path:
    """The program, fetched first when it is missing. Safe to run twice at once. Raises FetchFailed."""
    try:
        return find(name)
    except ProgramMissing:
        pass
    program = PROGRAMS[name]
    if platform_name() not in program.packages:
        raise FetchFailed(f"{name} has no program for {platform_name()}")
    package, sha512 = program.packages[platform_name()]
    npm = shutil.which("npm")
    if npm is None:
        raise FetchFailed("npm is not on the PATH; it brings the agents' programs")
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=cache_folder()) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        _install(npm, f"{package}@{program.version}", made, Path(scratch) / "npm-cache")
        _check(made, package, program.version, f"sha512-{sha512}")
        binary = Path("node_modules") / package / program.binary
        (made / binary).chmod(0o755)
        (made / "version").write_text(f"{program.version}\n{binary.as_posix()}\n")
        _move_into_place(made, cache_folder() / program.name, Path(scratch) / "old")
    return find(name)


def _install(npm: str, spec: str, prefix: Path, cache: Path) -> None:
    # Its own cache folder, in the scratch: nothing stays in the person's ~/.npm.
    command = [
        npm,
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--no-save",
        "--no-update-notifier",
    ]
    command += [f"--prefix={prefix}", f"--cache={cache}", spec]
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
    failed = 0
    for name in names or sorted(PROGRAMS):
        try:
            print(f"{name} {PROGRAMS[name].version}: {fetch(name)}", flush=True)
        except FetchFailed as error:
            failed += 1
            print(f"{name} {PROGRAMS[name].version}: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
