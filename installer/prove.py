"""Proof that it works: a memory goes in, and the installed hook, run as an agent runs it, brings it back.

The round trip is made in a throwaway CEMS_HOME beside the person's memories, with the same program and the
same launchers, so that nothing of it stays. Then the person's own hook is run once, with a prompt nothing
is kept of.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from cems import __version__
from cems.adapters.base import Connects, ShowsItsWay
from cems.adapters.claude_code.agent import AGENT as CLAUDE_CODE
from cems.adapters.hook_groups import hook_command
from cems.core.paths import PRIVATE_DIR, Home
from cems.core.service.client import Client, DaemonUnreachable, OperationError, stop_daemon
from cems.core.service.heard import TRIAL
from cems.installer import launchers
from cems.installer.apply import apply_launchers

MEMORY = "The demonstration server of this project listens on port 4817, because 8080 was taken."
PROMPT = "Which port does the demonstration server of this project listen on?"
SIGN = "4817"
# A command of nobody's: whichever agent runs the hook, it is answered with nothing, and nothing is kept of it.
IDLE_PROMPT = "/cems-trial"

# Loading the store and the model for the first time can take this long on a slow disk.
PATIENCE = 60.0
HOOK_SECONDS = 10.0
SAMPLES = 5
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Proof:
    """`block`: what the model would have seen; `milliseconds`: the hook's median; `agents`: titles of those whose way it
    came; `problem`: "" for none."""

    block: str = ""
    milliseconds: float = 0.0
    agents: tuple[str, ...] = ()
    problem: str = ""


def prove(home: Home, agents: Sequence[Connects], environ: Mapping[str, str] = os.environ) -> Proof:
    """Make the round trip, at most some minutes on the slowest machine, the way of each of `agents` that takes context from
    a hook; Claude Code's where none does, since all have the same launcher. Needs the launchers of `home` in place."""
    ways = [(agent.title, cast(ShowsItsWay, agent)) for agent in agents if hasattr(agent, "prompt_call")]
    ways = ways or [(CLAUDE_CODE.title, CLAUDE_CODE)]
    try:
        # It loads while the throwaway one works.
        Client(home, context={}).start(PATIENCE)
        proof = _round_trip(home, ways, environ)
        return proof if proof.problem else replace(proof, problem=_own_hook(home, ways[0][1], environ))
    except (DaemonUnreachable, OperationError, OSError, subprocess.TimeoutExpired) as problem:
        return Proof(problem=f"the round trip failed: {problem}")


def _round_trip(home: Home, ways: Sequence[tuple[str, ShowsItsWay]], environ: Mapping[str, str]) -> Proof:
    with _throwaway(home) as (proof, project):
        apply_launchers(proof)
        person = {"client": "cli", "version": __version__, "tty": "0", "cwd": str(project)}
        try:
            answer = Client(proof, context=person).call("add", {"content": MEMORY}, timeout=PATIENCE)
        except (DaemonUnreachable, OperationError) as problem:
            # Its log goes with its folder: say here what it holds.
            return Proof(problem=f"the demonstration memory was not taken: {problem}{_last_word(proof)}")
        if answer.get("status") != "added":
            return Proof(problem=f"the demonstration memory was not taken: {answer.get('reason') or answer}")
        block = ""
        end = time.monotonic() + PATIENCE
        for title, way in ways:
            while True:
                code, output, _ = _run_hook(proof, project, PROMPT, way, environ)
                block = way.context_in(output) if code == 0 else ""
                if SIGN in block:
                    break
                if time.monotonic() > end:
                    what = f"{title}'s hook ended with {code} and did not bring the memory back: {output[:200]!r}"
                    return Proof(problem=f"{what}{_last_word(proof)}")
                time.sleep(0.2)
        times = [_run_hook(proof, project, PROMPT, ways[-1][1], environ)[2] for _ in range(SAMPLES)]
        return Proof(block, statistics.median(times), tuple(title for title, _ in ways))


def _last_word(home: Home) -> str:
    """The end of the daemon's log, as an addition to a sentence."""
    try:
        lines = (home.logs / "daemon.log").read_text("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return " | " + " | ".join(line for line in lines[-4:] if line)


def _own_hook(home: Home, way: ShowsItsWay, environ: Mapping[str, str]) -> str:
    """Run the person's own hook until it has its answer; what is wrong, "" for nothing."""
    client = Client(home, context={})
    end = time.monotonic() + PATIENCE
    while (state := (client.health() or {}).get("state")) != "ready":
        if time.monotonic() > end:
            return f"the daemon is {state or 'not running'} after {PATIENCE:.0f} s; `cems daemon logs` says why"
        time.sleep(0.1)
    with tempfile.TemporaryDirectory(prefix=TRIAL) as folder:
        for _ in range(ATTEMPTS):
            before = _failures(home)
            code, output, _ = _run_hook(home, Path(folder), IDLE_PROMPT, way, environ)
            if code != 0 or output:
                return f"the hook answered {code} {output[:200]!r} to a prompt that wants no memory"
            if _failures(home) == before:
                return ""
    return f"the hook gets no answer: {(_failures(home).splitlines() or [b''])[-1].decode(errors='replace')}"


def _failures(home: Home) -> bytes:
    try:
        return home.hook_failures.read_bytes()
    except FileNotFoundError:
        return b""


def _run_hook(
    home: Home, project: Path, prompt: str, way: ShowsItsWay, environ: Mapping[str, str]
) -> tuple[int, bytes, float]:
    """The installed command as the agent runs it: its line given to a shell, the event on its input."""
    call = way.prompt_call(prompt, project, str(uuid.uuid4()), str(uuid.uuid4()))
    variables = {
        name: environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR") if name in environ
    }
    shell = shutil.which("sh") or "/bin/sh"
    line = hook_command(launchers.launchers(home), call.script)
    began = time.monotonic()
    done = subprocess.run(
        [shell, "-c", line],
        input=json.dumps(dict(call.payload)).encode(),
        capture_output=True,
        cwd=project,
        env={**variables, **call.variables},
        timeout=HOOK_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, (time.monotonic() - began) * 1000


@contextmanager
def _throwaway(home: Home) -> Iterator[tuple[Home, Path]]:
    """A CEMS_HOME of its own and a project beside it; both and their daemon are gone afterwards."""
    remove_leftovers(home)
    root = Path(tempfile.mkdtemp(prefix="proof-", dir=home.root))
    proof, project = Home(root / "home"), root / "project"
    try:
        proof.root.mkdir(mode=PRIVATE_DIR)
        for folder in ("objects", "refs"):
            (project / ".git" / folder).mkdir(parents=True)
        (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        yield proof, project
    finally:
        try:
            stop_daemon(proof)
        finally:
            shutil.rmtree(root, ignore_errors=True)


def remove_leftovers(home: Home) -> None:
    """Stop and remove what a proof that was interrupted left behind."""
    for root in home.root.glob("proof-*") if home.root.is_dir() else ():
        stop_daemon(Home(root / "home"))
        shutil.rmtree(root, ignore_errors=True)
