"""Runs the real Claude Code, headless, against the fake model service."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.fakes.model_api import ModelRequest
from tests.fakes.model_server import FakeModel
from tests.fakes.sandbox import Sandbox

_CONTEXT = re.compile(r"^(\w+)(?::\w+)? hook (?:additional context|success): ", re.MULTILINE)
"""How Claude introduces what a hook gave it, for every hook in the same message of role `system`."""

_OWN_PART = re.compile(r"\n# Environment\n|\n\nToday's date is \d")
"""Where Claude's own words go on in that message."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt to its answer: Claude's report, and what it sent to its model. `seconds` is wall time.

    `sent` is when the prompt went to Claude (`time.monotonic`): at the start of a run of its own, so that the
    program's start counts too.
    """

    prompt: str
    report: Mapping[str, Any]
    sent: float
    seconds: float
    requests: Sequence[ModelRequest]

    @property
    def session(self) -> str:
        return str(self.report["session_id"])

    @property
    def request(self) -> ModelRequest:
        """The request that carries the prompt: the turn's first."""
        assert self.requests, f"Claude sent no request: {self.report}"
        return self.requests[0]

    @property
    def delay(self) -> float:
        """Seconds from the prompt to its request's arrival at the model service; hooks run in this time."""
        return self.request.arrived - self.sent

    @property
    def context(self) -> str:
        """What the hooks gave Claude for this prompt; empty when they gave nothing. No earlier turn's."""
        return self._given("UserPromptSubmit")

    @property
    def session_context(self) -> str:
        """What the hooks gave Claude at the session's start, or at its resumption with this turn."""
        return self._given("SessionStart")

    def _given(self, event: str) -> str:
        texts = self.request.texts
        prompts = [index for index, (where, text) in enumerate(texts) if where == "user" and self.prompt in text]
        newest = [text for where, text in texts[prompts[-1] if prompts else 0 :] if where == "system"]
        found = []
        for text in newest:
            starts = [*_CONTEXT.finditer(text)]
            ends = [*(start.start() for start in starts[1:]), len(text)]
            for start, end in zip(starts, ends, strict=False):
                if start[1] == event:
                    found.append(_OWN_PART.split(text[start.end() : end])[0])
        return "\n".join(found).strip()


class Claude:
    """The program in one sandbox's home, talking to one model service."""

    def __init__(self, program: Path, sandbox: Sandbox, model: FakeModel) -> None:
        self.program = program
        self.sandbox = sandbox
        self.model = model

    @property
    def environment(self) -> dict[str, str]:
        """All that Claude sees of the outside. No CEMS_HOME: the hooks have to know their own."""
        environment = {
            **self.sandbox.environment,
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }
        del environment["CEMS_HOME"]
        return environment

    def ask(
        self,
        prompt: str,
        *,
        cwd: Path,
        resume: str | None = None,
        allow: Sequence[str] = (),
        timeout: float = 60,
    ) -> Turn:
        """One turn in a run of its own (`claude -p`), in a new or a resumed session; fails if Claude does.

        `allow` names tools Claude may use unasked. After `timeout` seconds Claude and its hooks are ended.
        """
        arguments = [prompt, "--output-format", "json"]
        arguments += ["--resume", resume] if resume else []
        arguments += ["--allowedTools", *allow] if allow else []
        before, started = len(self.model.requests), time.monotonic()
        with self._running(arguments, cwd, timeout) as process:
            stdout, stderr = process.communicate()
        seconds = time.monotonic() - started
        said = f"claude exited with {process.returncode} after {seconds:.2f} s\n{stdout}\n{stderr}"
        assert process.returncode == 0, said
        report = json.loads(stdout)
        assert not report["is_error"], said
        return Turn(prompt, report, started, seconds, self.model.requests[before:])

    @contextmanager
    def conversation(self, *, cwd: Path, timeout: float = 60) -> Iterator[Conversation]:
        """One session in which several prompts follow each other, as they do for a person at the terminal."""
        arguments = ["--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]
        with self._running(arguments, cwd, timeout) as process:
            yield Conversation(process, self.model)
            # The end of its input is the session's end; hooks of the end run before Claude exits.
            _, stderr = process.communicate()
        assert process.returncode == 0, f"claude exited with {process.returncode}: {stderr}"

    @contextmanager
    def _running(self, arguments: Sequence[str], cwd: Path, timeout: float) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [str(self.program), "-p", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=self.environment,
            text=True,
            # A session of its own, so that the end of a hanging Claude takes its hooks with it.
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


class Conversation:
    """A running session of Claude that takes one prompt after the other."""

    def __init__(self, process: subprocess.Popen[str], model: FakeModel) -> None:
        self._process = process
        self._model = model

    def say(self, prompt: str) -> Turn:
        """Send a prompt and wait for the end of Claude's turn; fails when the turn does."""
        stdin, stdout = _open(self._process.stdin), _open(self._process.stdout)
        before = len(self._model.requests)
        started = time.monotonic()
        message = {"type": "user", "message": {"role": "user", "content": prompt}}
        stdin.write(json.dumps(message) + "\n")
        stdin.flush()
        for line in stdout:
            report = json.loads(line)
            if report.get("type") == "result":
                seconds = time.monotonic() - started
                assert not report["is_error"], f"Claude's turn failed: {report}"
                return Turn(prompt, report, started, seconds, self._model.requests[before:])
        raise AssertionError(f"Claude ended before its turn did: {_open(self._process.stderr).read()}")


def _open(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
