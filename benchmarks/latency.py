"""What CEMS costs an agent in time: `python benchmarks/latency.py`.

Measures whole processes, as an agent pays for them, each beside a bare interpreter started in the same
minute, because only ratios can be compared between machines: the hook (with a daemon that answers at once,
and with real recall), the cold start of the daemon, and the start of the MCP server. Everything happens in a
temporary home. Prints a table and writes `benchmarks/results/latency.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

SOURCE = Path(__file__).resolve().parents[1] / "src"
sys.path.insert(0, str(SOURCE))

from cems import __version__  # noqa: E402
from cems.core.paths import Home  # noqa: E402
from cems.core.service.client import Client, DaemonUnreachable, OperationError, stop_daemon  # noqa: E402
from cems.core.service.launch import launcher_source  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results" / "latency.json"
HOOK = "cems_user_prompts_submit"
ECHO_BODY = b'{"hookSpecificOutput": {"additionalContext": "' + b"x" * 4000 + b'"}}'
FACTS = (
    (
        "The {0} service keeps its settings in {0}.toml, read once at start.",
        "Where does the {0} service keep its settings?",
    ),
    ("We decided that {0} retries three times with jitter and then gives up.", "Add the retries to {0} as we decided"),
    ("Never log the customer number in {0}; the auditors asked for that.", "Log the customer number in {0} on failure"),
    ("Tests of {0} run against a real database on port 55{1:02d}.", "Which database port do the tests of {0} use?"),
)
SUBJECTS = (
    *("billing", "search", "import", "export", "ledger", "gateway", "mailer"),
    *("report", "session", "cache", "audit", "upload", "invoice", "quota"),
)
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "latency", "version": "1"},
    },
}

Measured = dict[str, list[float]]


class Place:
    """A temporary home with launchers, and the environment that an agent in it would give a hook."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = Home(root / ".cems")
        self.home.create()
        (root / "project").mkdir()
        (root / "run").mkdir(mode=0o700)
        self.environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(root),
            "LANG": "C.UTF-8",
            "TMPDIR": str(root / "run"),
            "XDG_RUNTIME_DIR": str(root / "run"),
            "CLAUDECODE": "1",
            "CEMS_HOOK_DEADLINE": "10",
        }
        targets: tuple[Literal["hook", "mcp"], ...] = ("hook", "mcp")
        for target in targets:
            path = self.home.bin / f"cems-{target}"
            path.write_bytes(launcher_source(Path(sys.executable), SOURCE, self.home.root, target))
            path.chmod(0o700)

    def run(self, *command: str | Path, given: bytes = b"", cwd: Path | None = None) -> tuple[float, bytes]:
        """Seconds a whole process takes, and its output. It runs in `cwd`, else in the project's folder."""
        began = time.perf_counter()
        done = subprocess.run(
            command,
            input=given,
            stdout=subprocess.PIPE,
            env=self.environment,
            cwd=cwd or self.root / "project",
            check=True,
        )
        return time.perf_counter() - began, done.stdout

    def hook(self, given: bytes, script: str = HOOK, cwd: Path | None = None) -> tuple[float, bytes]:
        return self.run(self.home.bin / "cems-hook", script, given=given, cwd=cwd)

    def bare(self) -> float:
        return self.run(sys.executable, "-I", "-S", "-c", "pass")[0]


def prompt(place: Place, text: str) -> bytes:
    """What Claude Code sends its UserPromptSubmit hook."""
    return json.dumps(
        {
            "session_id": f"s{time.time_ns()}",
            "transcript_path": str(place.root / "transcript.jsonl"),
            "cwd": str(place.root / "project"),
            "hook_event_name": "UserPromptSubmit",
            "prompt": text,
        }
    ).encode()


def measure_hook(place: Place, runs: int) -> Measured:
    """The hook with a daemon that answers at once, beside a bare interpreter."""
    found: Measured = {"bare": [], "hook": []}
    given = prompt(place, "Where does the billing service keep its settings?")
    with echo_daemon(place):
        for _ in range(runs):
            found["bare"].append(place.bare())
            seconds, output = place.hook(given)
            assert output == ECHO_BODY
            found["hook"].append(seconds)
    return found


def measure_recall(place: Place, runs: int, memories: int) -> Measured:
    """The hook with the real daemon, warm, over `memories` memories; every prompt asks about one of them."""
    client = Client(place.home, {"client": "cli", "version": __version__, "cwd": str(place.root / "project")})
    with started(place):
        for number in range(memories):
            subject = f"{SUBJECTS[number % len(SUBJECTS)]}{number // len(SUBJECTS)}"
            content = FACTS[number % len(FACTS)][0].format(subject, number % 100)
            client.call("add", {"content": content, "scope": "user"}, timeout=120)
        found: Measured = {"bare": [], "recall": []}
        answered = 0
        for number in range(runs):
            found["bare"].append(place.bare())
            asked = number % memories
            subject = f"{SUBJECTS[asked % len(SUBJECTS)]}{asked // len(SUBJECTS)}"
            seconds, output = place.hook(prompt(place, FACTS[asked % len(FACTS)][1].format(subject)))
            answered += bool(output)
            found["recall"].append(seconds)
        print(f"  {answered} of {runs} prompts were given memories")
        return found


def measure_cold_start(place: Place, runs: int) -> Measured:
    """From the start of a hook with no daemon to its answer, and to the second stage being there."""
    found: Measured = {"bare": [], "cold first answer": [], "cold ready": []}
    client = Client(place.home, {"client": "cli", "version": __version__})
    for _ in range(runs):
        stop_daemon(place.home)
        found["bare"].append(place.bare())
        began = time.perf_counter()
        place.hook(prompt(place, "Where does the billing service keep its settings?"))
        found["cold first answer"].append(time.perf_counter() - began)
        while (health := client.health()) is None or health["state"] == "keyword":
            assert time.perf_counter() - began < 120, "the daemon does not get ready"
            time.sleep(0.01)
        assert health["state"] == "ready", health["reason"]
        found["cold ready"].append(time.perf_counter() - began)
    stop_daemon(place.home)
    return found


def measure_mcp(place: Place, runs: int) -> Measured:
    """From the start of the MCP server to its answer to `initialize`, with a warm daemon."""
    found: Measured = {"python -c pass": [], "mcp initialize": []}
    with started(place):
        for _ in range(runs):
            found["python -c pass"].append(place.run(sys.executable, "-c", "pass")[0])
            found["mcp initialize"].append(initialize(place))
    return found


def initialize(place: Place) -> float:
    began = time.perf_counter()
    with subprocess.Popen(
        [place.home.bin / "cems-mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=place.environment,
        cwd=place.root / "project",
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        seconds = time.perf_counter() - began
        assert "result" in answer, answer
        server.stdin.close()
        server.wait(30)
    return seconds


@contextlib.contextmanager
def started(place: Place) -> Iterator[None]:
    """The real daemon, with its second stage there."""
    client = Client(place.home, {"client": "cli", "version": __version__})
    place.hook(b"{}")
    client.call("status", {}, timeout=120)
    try:
        yield
    finally:
        stop_daemon(place.home)


@contextlib.contextmanager
def echo_daemon(place: Place) -> Iterator[None]:
    """The real server and front door, over hooks that answer at once."""
    command = [sys.executable, __file__, "--serve-echo", str(place.home.root)]
    server = subprocess.Popen(command, env=place.environment)
    try:
        while not place.home.endpoint.exists():
            assert server.poll() is None, "the echo server ended"
            time.sleep(0.01)
        place.hook(b"{}")
        yield
    finally:
        server.terminate()
        server.wait(30)


def serve_echo(root: Path) -> None:
    """Be the server of `echo_daemon`."""
    from cems.core.service.asgi import FrontDoor
    from cems.core.service.http_server import HttpServer
    from cems.core.service.listening import Listener

    class Echo:
        async def answer(self, script: str, context: dict[str, str], raw: bytes) -> bytes:  # noqa: ARG002
            return ECHO_BODY

    listener = Listener(Home(root))

    async def serve() -> None:
        await HttpServer(FrontDoor(Echo())).serve(sockets=[listener.socket])

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())


def summarise(measured: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median and 95th percentile in ms; `ratio` is the median over that of the first entry, the yardstick."""
    yardstick = statistics.median(next(iter(measured.values())))
    return {
        name: {
            "p50_ms": round(statistics.median(seconds) * 1000, 2),
            "p95_ms": round(sorted(seconds)[int(len(seconds) * 0.95)] * 1000, 2),
            "ratio": round(statistics.median(seconds) / yardstick, 2),
        }
        for name, seconds in measured.items()
    }


def available(module: str) -> bool:
    return importlib.util.find_spec(f"cems.core.service.{module}") is not None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--runs", type=int, default=150, help="runs of each process (default: %(default)s)")
    options.add_argument("--cold", type=int, default=15, help="cold starts (default: %(default)s)")
    options.add_argument("--memories", type=int, default=200, help="memories to recall from (default: %(default)s)")
    options.add_argument("--output", type=Path, default=RESULTS)
    options.add_argument("--serve-echo", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve_echo:
        serve_echo(chosen.serve_echo)
        return

    parts: list[tuple[str, bool, Callable[[Place], Measured]]] = [
        ("hook", True, lambda place: measure_hook(place, chosen.runs)),
        ("recall", available("runtime"), lambda place: measure_recall(place, chosen.runs, chosen.memories)),
        ("cold start", available("runtime"), lambda place: measure_cold_start(place, chosen.cold)),
        ("mcp", available("mcp_proxy"), lambda place: measure_mcp(place, chosen.cold * 2)),
    ]
    results: dict[str, Any] = {}
    for title, present, measure in parts:
        if not present:
            print(f"{title}: left out, this tree does not have that part")
            continue
        print(title)
        root = Path(tempfile.mkdtemp(prefix="cems-")).resolve()
        try:
            results[title] = summarise(measure(Place(root)))
        except (DaemonUnreachable, OperationError) as problem:
            sys.exit(f"{title}: {problem}")
        finally:
            stop_daemon(Home(root / ".cems"))
            shutil.rmtree(root, ignore_errors=True)
        for name, row in results[title].items():
            measured = f"p50 {row['p50_ms']:9.2f} ms  p95 {row['p95_ms']:9.2f} ms"
            print(f"  {name:20} {measured}  x{row['ratio']:.2f}")

    configuration = {
        "cems": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "runs": chosen.runs,
        "cold_starts": chosen.cold,
        "memories": chosen.memories,
    }
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    report = {"configuration": configuration, "results": results}
    chosen.output.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    print(f"written to {chosen.output}")


if __name__ == "__main__":
    main()
