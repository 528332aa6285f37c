"""What the runners of the agents' real programs share: one program, in one home, with one model service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.fakes.model_api import ModelRequest
from tests.fakes.model_server import FakeModel
from tests.fakes.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt to its answer: what the agent said, and what it sent to its model. `seconds` is wall time.

    `sent` is when the prompt went to the agent (`time.monotonic`): at the start of a run of its own, so that the
    program's start counts too. `asides` are requests beside the conversation, such as one for a title. `report` is
    what the agent itself said of the turn, in its own words.
    """

    prompt: str
    answer: str
    session: str
    sent: float
    seconds: float
    requests: Sequence[ModelRequest]
    asides: Sequence[ModelRequest]
    report: Mapping[str, Any]

    @property
    def request(self) -> ModelRequest:
        """The request that carries the prompt: the turn's first."""
        assert self.requests, f"no request came from the agent, which answered: {self.answer}"
        return self.requests[0]

    @property
    def text(self) -> str:
        """All the model read in the turn's first request."""
        return self.request.text

    @property
    def delay(self) -> float:
        """Seconds from the prompt to its request's arrival at the model service; hooks run in this time."""
        return self.request.arrived - self.sent


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run said: the session's id, to resume it by, the agent's last words, and its report."""

    session: str
    answer: str
    report: Mapping[str, Any]


class Agent(ABC):
    """The program in one sandbox's home, talking to one model service.

    Made before CEMS is set up: it writes the least the agent needs to find its model, so that the installer meets
    files with content of somebody else's.
    """

    name: ClassVar[str]
    """The agent's name in CEMS, and of its program in `pins.py`."""

    executable: ClassVar[str]
    """What a person types."""

    own: ClassVar[Sequence[str]]
    """Starts of the paths in a home that the program itself writes to."""

    settings_files: ClassVar[Sequence[str]]
    """What holds the person's settings, and is there before CEMS is."""

    patience: ClassVar[float] = 60
    """Seconds a turn may take, on a machine with much else to do."""

    turn_class: ClassVar[type[Turn]] = Turn

    def __init__(self, program: Path, sandbox: Sandbox, model: FakeModel) -> None:
        self.program = program
        self.sandbox = sandbox
        self.model = model
        on_path = sandbox.home / ".local" / "bin" / self.executable
        on_path.parent.mkdir(parents=True, exist_ok=True)
        on_path.symlink_to(program)
        self.configure()

    @abstractmethod
    def configure(self) -> None:
        """Write the program's own settings into the home."""

    @property
    @abstractmethod
    def variables(self) -> Mapping[str, str]:
        """What the program's environment needs: the model, no telemetry, no updates."""

    @abstractmethod
    def command(self, prompt: str, resume: str | None) -> Sequence[str]:
        """The arguments of one headless turn, in a new session or in that of this id."""

    @abstractmethod
    def outcome(self, stdout: str, stderr: str) -> Outcome:
        """What a run said that ended well. Fails with AssertionError when the turn did not."""

    @abstractmethod
    def tool(self, name: str, server: str = "cems") -> str:
        """How the model calls a tool of an MCP server."""

    @abstractmethod
    def add_server(self, name: str, command: Sequence[str]) -> None:
        """Write a person's own MCP server into the agent's settings."""

    def approve(self) -> None:
        """What a person has to do in the program itself once CEMS is set up; mostly nothing."""
        return

    def settings(self) -> dict[str, str]:
        """What the person's settings say, by file; without what the program itself writes among them."""
        return {name: (self.sandbox.home / name).read_text() for name in self.settings_files}

    def allowing(self, tools: Sequence[str]) -> Sequence[str]:
        """The arguments that let the model use these tools unasked. Most are run so that it may use every tool."""
        return ()

    def stdin(self, prompt: str) -> str:
        """What the program is given to read."""
        return ""

    @property
    def environment(self) -> dict[str, str]:
        """All that the program sees of the outside. No CEMS_HOME: the hooks have to know their own."""
        environment = {
            **self.sandbox.environment,
            # Where the program wants to go anywhere but to its model, the service notes it as a problem.
            **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), self.model.url),
            **dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost"),
            **self.variables,
        }
        del environment["CEMS_HOME"]
        return environment

    @property
    def start(self) -> Sequence[str]:
        """The command that starts it, before its arguments."""
        return [str(self.program)]

    def ask(
        self,
        prompt: str,
        *,
        cwd: Path,
        resume: str | None = None,
        allow: Sequence[str] = (),
        options: Sequence[str] = (),
        timeout: float | None = None,
    ) -> Turn:
        """One turn in a run of its own, in a new or a resumed session; fails if the program does.

        `allow` names tools it may use unasked, where it asks; `options` are added to its arguments. After `timeout`
        seconds (default `patience`) the program and its hooks are ended.
        """
        before, started = len(self.model.everything), time.monotonic()
        arguments = [*self.command(prompt, resume), *(self.allowing(allow) if allow else []), *options]
        with self.running(arguments, cwd, timeout or self.patience) as process:
            stdout, stderr = process.communicate(self.stdin(prompt))
        seconds = time.monotonic() - started
        said = f"{self.name} exited with {process.returncode} after {seconds:.2f} s\n{stdout}\n{stderr}"
        assert process.returncode == 0, said
        try:
            outcome = self.outcome(stdout, stderr)
        except (AssertionError, LookupError, ValueError) as error:
            raise AssertionError(f"{error!r}: {said}") from None
        return self.turn(prompt, outcome, started, seconds, before)

    def turn(self, prompt: str, outcome: Outcome, sent: float, seconds: float, before: int) -> Turn:
        """The turn that ended now; `before` is how many requests had come when it began."""
        arrived = self.model.everything[before:]
        requests = [request for request in arrived if not request.aside]
        asides = [request for request in arrived if request.aside]
        return self.turn_class(prompt, outcome.answer, outcome.session, sent, seconds, requests, asides, outcome.report)

    @contextmanager
    def running(self, arguments: Sequence[str], cwd: Path, timeout: float) -> Iterator[subprocess.Popen[str]]:
        """The program with these arguments; ended with all it started when the block fails or time is up."""
        process = subprocess.Popen(
            [*self.start, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=self.environment,
            text=True,
            # A session of its own, so that the end of a hanging program takes its hooks with it.
            start_new_session=True,
        )
        watchdog = threading.Timer(timeout, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        try:
            yield process
        except BaseException:
            process.kill()
            process.communicate()
            raise
        finally:
            watchdog.cancel()

    def file(self, name: str) -> Path:
        """A file of the home, whose folder is made."""
        path = self.sandbox.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        self.file(name).write_text(json.dumps(content, indent=2) + "\n")


def merge_json(path: Path, *keys: str, value: object) -> None:
    """Set what stands at these keys of a JSON file, which is made when there is none."""
    content = json.loads(path.read_text()) if path.exists() else {}
    inner = content
    for key in keys[:-1]:
        inner = inner.setdefault(key, {})
    inner[keys[-1]] = value
    path.write_text(json.dumps(content, indent=2) + "\n")


def json_lines(text: str) -> list[dict[str, Any]]:
    """The objects of a text with one JSON object a line; other lines are left out."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
