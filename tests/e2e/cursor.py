"""Runs Cursor's own hook engine over a home's hooks files. Cursor itself needs an account and speaks to its own servers."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.sandbox import Sandbox

SCRIPT = Path(__file__).with_name("cursor_engine.mjs")
CONVERSATION = "5f0c7c8e-6f1b-4f3a-9b43-3a1c3a7a9d10"


class Engine:
    """One conversation in one window. `files`: what the engine made of the hooks files, and its complaints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._turns = 0
        self.files: dict[str, Any] = self._read()

    def tell(self, step: str, **fields: Any) -> dict[str, Any]:
        """What the hooks of this step answered, merged by the engine; empty for nothing."""
        base = {"conversation_id": CONVERSATION, "generation_id": f"g-{self._turns}", "model": "default"}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"step": step, "input": base | fields}) + "\n")
        self._process.stdin.flush()
        return self._read() or {}

    def start(self) -> str:
        return str(self.tell("sessionStart", is_background_agent=False).get("additional_context", ""))

    def prompt(self, text: str) -> str:
        """What is given with a prompt of the person's."""
        self._turns += 1
        answer = self.tell("beforeSubmitPrompt", prompt=text, attachments=[], composer_mode="agent")
        assert set(answer) <= {"additional_context"}
        return str(answer.get("additional_context", ""))

    def before_tool(self, command: str) -> dict[str, Any]:
        return self.tell("preToolUse", tool_name="Shell", tool_input={"command": command}, tool_use_id="t", cwd="")

    def after_tool(self, command: str) -> str:
        answer = self.tell(
            "postToolUse", tool_name="Shell", tool_input={"command": command}, tool_output="{}", tool_use_id="t", cwd=""
        )
        return str(answer.get("additional_context", ""))

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the engine ended: {self._process.stderr.read()[-2000:] if self._process.stderr else ''}"
        return json.loads(line)


@contextmanager
def engine(node: Path, package: Path, sandbox: Sandbox, project: Path, version: str) -> Iterator[Engine]:
    """The engine of the package in a window on `project`, as Cursor of this version."""
    environment = {name: value for name, value in sandbox.environment.items() if name != "CEMS_HOME"}
    process = subprocess.Popen(
        [node, SCRIPT, package, project, version],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=project,
        env=environment,
        text=True,
        start_new_session=True,
    )
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    try:
        yield Engine(process)
        process.communicate()
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
