"""Runs the real Copilot CLI, headless, against the fake model service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.e2e import programs
from tests.e2e.agent import Agent, Outcome, json_lines, merge_json


class Copilot(Agent):
    name = "copilot"
    executable = "copilot"
    own = (".copilot/", ".cache/copilot", ".cache/Microsoft")
    settings_files = (".copilot/settings.json",)

    def configure(self) -> None:
        self.write_json(".copilot/settings.json", {"banner": "never"})
        # Else each home would unpack these 235 MB again.
        self.file(".cache/copilot/pkg").symlink_to(programs.unpacked(self.name) / "copilot" / "pkg")

    @property
    def variables(self) -> Mapping[str, str]:
        return {
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_BASE_URL": self.model.url,
            "COPILOT_PROVIDER_API_KEY": "dummy",
            "COPILOT_MODEL": "claude-sonnet-4.6",
        }

    def command(self, prompt: str, resume: str | None) -> Sequence[str]:
        continued = [f"--resume={resume}"] if resume else []
        return ["-p", prompt, *continued, "--allow-all-tools", "--output-format", "json", "--no-color"]

    def outcome(self, stdout: str, stderr: str) -> Outcome:
        events = json_lines(stdout)
        result = next(event for event in events if event["type"] == "result")
        answers = [event["data"]["content"] for event in events if event["type"] == "assistant.message"]
        return Outcome(result["sessionId"], answers[-1] if answers else "", result)

    def tool(self, name: str, server: str = "cems") -> str:
        return f"{server}-{name}"

    def add_server(self, name: str, command: Sequence[str]) -> None:
        entry = {"type": "local", "command": command[0], "args": list(command[1:]), "tools": ["*"]}
        merge_json(self.file(".copilot/mcp-config.json"), "mcpServers", name, value=entry)
