"""Runs the real Codex, headless, against the fake model service."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

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


class Codex(Agent):
    """`bypass_hook_trust`: hooks run though nobody reviewed them in Codex, which without it skips them silently."""

    name = "codex"
    executable = "codex"
    own = (".codex/",)
    bypass_hook_trust = False

    def configure(self) -> None:
        self.file(".codex/config.toml").write_text(_CONFIG.format(url=self.model.url))

    @property
    def variables(self) -> Mapping[str, str]:
        return {"FAKE_KEY": "dummy"}

    def command(self, prompt: str, resume: str | None) -> Sequence[str]:
        options = ["--json", "--skip-git-repo-check", "-c", 'sandbox_mode="danger-full-access"']
        options += ["--dangerously-bypass-hook-trust"] if self.bypass_hook_trust else []
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
