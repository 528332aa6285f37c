"""Runs the real Claude Code, headless, against the fake model service."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.e2e.agent import Agent, Outcome, Turn, merge_json

_CONTEXT = re.compile(r"^(\w+)(?::\w+)? hook (?:additional context|success): ", re.MULTILINE)
"""How Claude introduces what a hook gave it, for every hook in the same message of role `system`."""

_OWN_PART = re.compile(r"\n# Environment\n|\n\nToday's date is \d")
"""Where Claude's own words go on in that message."""


@dataclass(frozen=True, slots=True)
class ClaudeTurn(Turn):
    """A turn, and what the hooks gave Claude in it."""

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


class Claude(Agent):
    name = "claude-code"
    executable = "claude"
    # A log about each tool server is among them.
    own = (".claude/", ".claude.json", ".cache/claude-cli-nodejs")
    settings_files = ()
    turn_class = ClaudeTurn

    def configure(self) -> None:
        self.file(".claude/settings.json").parent.mkdir(exist_ok=True)

    @property
    def variables(self) -> Mapping[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }

    def command(self, prompt: str, resume: str | None) -> Sequence[str]:
        return ["-p", prompt, "--output-format", "json", *(["--resume", resume] if resume else [])]

    def outcome(self, stdout: str, stderr: str) -> Outcome:
        return _outcome(json.loads(stdout))

    def ask(
        self,
        prompt: str,
        *,
        cwd: Path,
        resume: str | None = None,
        allow: Sequence[str] = (),
        options: Sequence[str] = (),
        timeout: float | None = None,
    ) -> ClaudeTurn:
        turn = super().ask(prompt, cwd=cwd, resume=resume, allow=allow, options=options, timeout=timeout)
        assert isinstance(turn, ClaudeTurn)
        return turn

    def allowing(self, tools: Sequence[str]) -> Sequence[str]:
        return ["--allowedTools", *tools]

    def tool(self, name: str, server: str = "cems") -> str:
        return f"mcp__{server}__{name}"

    def add_server(self, name: str, command: Sequence[str]) -> None:
        entry = {"type": "stdio", "command": command[0], "args": list(command[1:]), "alwaysLoad": True}
        merge_json(self.file(".claude.json"), "mcpServers", name, value=entry)

    @contextmanager
    def conversation(self, *, cwd: Path, timeout: float = 60) -> Iterator[Conversation]:
        """One session in which several prompts follow each other, as they do for a person at the terminal."""
        arguments = ["-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]
        with self.running(arguments, cwd, timeout) as process:
            yield Conversation(process, self)
            # The end of its input is the session's end; hooks of the end run before Claude exits.
            _, stderr = process.communicate()
        assert process.returncode == 0, f"claude exited with {process.returncode}: {stderr}"


class Conversation:
    """A running session of Claude that takes one prompt after the other."""

    def __init__(self, process: subprocess.Popen[str], claude: Claude) -> None:
        self._process = process
        self._claude = claude

    def say(self, prompt: str) -> ClaudeTurn:
        """Send a prompt and wait for the end of Claude's turn; fails when the turn does."""
        stdin, stdout = _open(self._process.stdin), _open(self._process.stdout)
        before = len(self._claude.model.everything)
        started = time.monotonic()
        message = {"type": "user", "message": {"role": "user", "content": prompt}}
        stdin.write(json.dumps(message) + "\n")
        stdin.flush()
        for line in stdout:
            report = json.loads(line)
            if report.get("type") == "result":
                seconds = time.monotonic() - started
                turn = self._claude.turn(prompt, _outcome(report), started, seconds, before)
                assert isinstance(turn, ClaudeTurn)
                return turn
        raise AssertionError(f"Claude ended before its turn did: {_open(self._process.stderr).read()}")


def _outcome(report: Mapping[str, Any]) -> Outcome:
    assert not report["is_error"], f"Claude's turn failed: {report}"
    return Outcome(report["session_id"], report["result"], report)


def _open(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
