"""Runs the real Codex, headless, against the fake model service."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.e2e.agent import Agent, Outcome, json_lines

_CONFIG = """\
# Codex's own settings, with a comment that has to stay.
model = "fake-model"
model_provider = "fake"

[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "FAKE_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[features]
# Its own list of plugins, which it gets from github.com.
plugins = false
"""

_TRUST = re.compile(r"^\[hooks\.state[^\n]*\n(?:trusted_hash = [^\n]*\n)?\n*", re.MULTILINE)


class Codex(Agent):
    """Skips every hook that nobody has trusted, without a word; `approve` is what a person does for it."""

    name = "codex"
    executable = "codex"
    own = (".codex/",)
    settings_files = (".codex/config.toml",)

    def configure(self) -> None:
        self.file(".codex/config.toml").write_text(_CONFIG.format(url=self.model.url))

    @property
    def variables(self) -> Mapping[str, str]:
        return {"FAKE_KEY": "dummy"}

    def hooks(self) -> list[dict[str, Any]]:
        """Every hook as Codex itself lists it: `key`, `command`, `currentHash`, `trustStatus` and more."""
        with self._server() as call:
            return _hooks(call)

    def approve(self) -> None:
        """Trust every hook, with the call that its own review (`Trust all and continue`) makes."""
        with self._server() as call:
            trusted = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in _hooks(call)}
            edit = {"keyPath": "hooks.state", "mergeStrategy": "upsert", "value": trusted}
            call("config/batchWrite", {"edits": [edit]})
            assert {hook["trustStatus"] for hook in _hooks(call)} <= {"trusted"}

    def settings(self) -> dict[str, str]:
        # Whom a person trusts stands among them.
        return {name: _TRUST.sub("", text).rstrip("\n") for name, text in super().settings().items()}

    @contextmanager
    def _server(self) -> Iterator[Callable[[str, object], Any]]:
        """Codex as a server of its own screens, and how to call it."""
        with self.running(["app-server"], self.sandbox.home, self.patience) as process:
            stdin, stdout = process.stdin, process.stdout
            assert stdin is not None
            assert stdout is not None
            numbers = itertools.count()

            def call(method: str, params: object) -> Any:
                number = next(numbers)
                stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
                stdin.flush()
                for line in stdout:
                    answer = json.loads(line)
                    if answer.get("id") == number:
                        return answer["result"]
                raise AssertionError(f"Codex did not answer {method}")

            call("initialize", {"clientInfo": {"name": "tests", "version": "1"}})
            stdin.write(json.dumps({"jsonrpc": "2.0", "method": "initialized"}) + "\n")
            yield call
            process.communicate()

    def command(self, prompt: str, resume: str | None) -> Sequence[str]:
        options = ["--json", "--skip-git-repo-check", "-c", 'sandbox_mode="danger-full-access"']
        return ["exec", *(["resume", resume] if resume else []), *options, prompt]

    def outcome(self, stdout: str, stderr: str) -> Outcome:
        events = json_lines(stdout)
        session = next(event["thread_id"] for event in events if event["type"] == "thread.started")
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        answers = [item["text"] for item in items if item["type"] == "agent_message"]
        return Outcome(session, answers[-1] if answers else "", events[-1])

    def tool(self, name: str, server: str = "cems") -> str:
        return f"mcp__{server}__{name}"

    def add_server(self, name: str, command: Sequence[str]) -> None:
        with self.file(".codex/config.toml").open("a") as config:
            # JSON's strings and lists are TOML's too.
            config.write(
                f"\n[mcp_servers.{name}]\ncommand = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n"
            )


def _hooks(call: Callable[[str, object], Any]) -> list[dict[str, Any]]:
    (folder,) = call("hooks/list", {"cwds": ["/"]})["data"]
    assert not folder["errors"], folder["errors"]
    hooks: list[dict[str, Any]] = folder["hooks"]
    return hooks
