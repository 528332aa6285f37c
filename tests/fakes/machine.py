"""One person's machine with a real daemon, and every way in and out of it: command line, MCP through the proxy, hooks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.daemon_home import REPOSITORY, DaemonHome

from cems.core.service.client import Client
from cems.core.service.launch import launcher_source

SOURCE = REPOSITORY / "src"
_CLI = "import sys; sys.path.insert(0, sys.argv.pop(1)); from cems.core.cli.main import run; run()"
INTERACTIVE = {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli"}
PRINT_MODE = {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}
IN_CLAUDE = {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_SESSION_ID": "s-claude"}
_SECONDS = 90.0
_INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed and how it ended."""

    exit: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def ok(self) -> Said:
        assert self.exit == 0, self
        return self


class Machine(DaemonHome):
    """A home with a daemon of this checkout. Memories live in folders that `project` makes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, SOURCE)
        self._made = 0
        self._sessions = 0
        self._proxies: list[Proxy] = []
        self.mcp_launcher = self.home.bin / "cems-mcp"
        self.mcp_launcher.write_bytes(launcher_source(Path(sys.executable), SOURCE, self.home.root, "mcp"))
        self.mcp_launcher.chmod(0o700)

    def start(self, **env: str) -> int:
        """Start a daemon and wait until it has its store; returns its pid."""
        pid = self.daemon(package=None, **env).pid
        self.settle()
        return pid

    def settle(self) -> None:
        """Everything written can be found by meaning too."""
        assert self.call("settle", {"seconds": 60}, self.root)["settled"]

    def project(self, name: str = "") -> Path:
        """A new folder that is a project of its own."""
        self._made += 1
        folder = self.root / f"w{self._made}" / (name or "project")
        folder.mkdir(parents=True)
        return folder

    def session(self) -> str:
        """The id of a session that nothing was given to yet."""
        self._sessions += 1
        return f"session-{self._sessions}"

    # -- in and out ----------------------------------------------------------------------------------------------

    def call(
        self, op: str, body: Mapping[str, Any], folder: Path, *, tty: bool = True, **context: str
    ) -> dict[str, Any]:
        """One operation, as the person's command line in that folder asks for it. Raises OperationError."""
        said = {"client": "cli", "cwd": str(folder), "tty": "1" if tty else "0", **context}
        return Client(self.home, said).call(op, body, start=False, timeout=_SECONDS)

    def cli(
        self,
        *words: str,
        folder: Path,
        under: Sequence[str] = (),
        terminal: bool = False,
        given: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Said:
        """`cems WORDS`, its standard input a terminal or a pipe; `under` is a command line to run it with."""
        master, slave = os.openpty() if terminal else (-1, -1)
        try:
            done = subprocess.run(
                [*under, sys.executable, "-I", "-c", _CLI, str(SOURCE), *words],
                **({"stdin": slave} if terminal else {"input": given.encode()}),
                capture_output=True, cwd=folder, env={**self.environment, **(env or {})}, timeout=_SECONDS, check=False,
            )  # fmt: skip
        finally:
            for end in {master, slave} - {-1}:
                os.close(end)
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def add(self, content: str, folder: Path, **fields: Any) -> str:
        """The person remembers something; returns its id."""
        answer = self.call("add", {"content": content, **fields}, folder)
        assert answer["status"] == "added", answer
        return str(answer["id"])

    def prompt(
        self,
        text: str,
        folder: Path,
        *,
        session: str = "",
        under: Sequence[str] = (),
        env: Mapping[str, str] = INTERACTIVE,
    ) -> str:
        """What Claude Code's prompt hook puts in front of the model."""
        return self.event("cems_user_prompts_submit", "UserPromptSubmit", folder, session, under, env, prompt=text)

    def begin(self, folder: Path, *, session: str = "", source: str = "startup") -> str:
        """What the hook at a session's start does."""
        return self.event("cems_session_start", "SessionStart", folder, session, (), INTERACTIVE, source=source)

    def event(
        self,
        script: str,
        name: str,
        folder: Path,
        session: str,
        under: Sequence[str],
        env: Mapping[str, str],
        **fields: str,
    ) -> str:
        session = session or self.session()
        payload = {"session_id": session, "cwd": str(folder), "hook_event_name": name, **fields}
        done = subprocess.run(
            [*under, self.launcher, script], input=json.dumps(payload).encode(), capture_output=True, cwd=folder,
            env={**self.environment, "CEMS_HOOK_DEADLINE": "30", "CLAUDE_CODE_SESSION_ID": session, **env}, timeout=_SECONDS, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b""), done
        return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""

    def mcp(self, folder: Path, *, roots: Sequence[str] = (), env: Mapping[str, str] = IN_CLAUDE) -> Proxy:
        """An agent's MCP client, connected through the proxy that the agent started in this folder."""
        self._proxies.append(Proxy(self.mcp_launcher, folder, {**self.environment, **env}, roots))
        return self._proxies[-1]

    def end(self) -> None:
        for proxy in self._proxies:
            proxy.end()
        super().end()


class Proxy:
    """The agent's end of `cems mcp`."""

    def __init__(self, launcher: Path, cwd: Path, environment: Mapping[str, str], roots: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [launcher],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=environment,
        )
        self._watchdog = threading.Timer(_SECONDS, self._process.kill)
        self._watchdog.start()
        self._last = 0
        capabilities: dict[str, dict[str, str]] = {"roots": {}} if roots else {}
        self.ask("initialize", **{**_INITIALIZE, "capabilities": capabilities})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        if roots:
            question = self._receive()
            listed = [{"uri": root} for root in roots]
            self._send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": listed}})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        self._send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        return self._receive()

    def call(self, tool: str, **arguments: Any) -> Said:
        """A tool's answer: `out` is its structured content as JSON (or its text), `exit` 1 for an error."""
        answer = self.ask("tools/call", name=tool, arguments=arguments)
        result = answer.get("result") or {"isError": True, "content": [{"text": json.dumps(answer["error"])}]}
        text = result["content"][0]["text"]
        structured = result.get("structuredContent")
        return Said(int(result.get("isError", False)), json.dumps(structured) if structured else text, text)

    def end(self) -> None:
        self._watchdog.cancel()
        self._process.kill()
        self._process.wait()

    def _send(self, message: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the proxy ended"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextlib.contextmanager
def running(session_root: Path, **env: str) -> Iterator[Machine]:
    """A machine with its daemon up, ended with the block."""
    made = Machine(Path(tempfile.mkdtemp(prefix="d", dir=session_root)).resolve())
    try:
        made.start(**env)
        yield made
    finally:
        made.end()
