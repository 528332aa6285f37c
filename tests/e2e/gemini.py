"""Runs the real Gemini CLI, headless, against the fake model service."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tests.e2e.agent import Agent, Outcome, merge_json


class Gemini(Agent):
    name = "gemini"
    executable = "gemini"
    own = (".gemini/",)
    settings_files = (".gemini/settings.json",)

    def configure(self) -> None:
        self.write_json(
            ".gemini/settings.json",
            {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                # With its default, `auto`, it asks another model first which one to take.
                "model": {"name": "gemini-2.5-flash"},
                "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
                "privacy": {"usageStatisticsEnabled": False},
            },
        )

    @property
    def variables(self) -> Mapping[str, str]:
        return {
            "GEMINI_API_KEY": "dummy",
            "GOOGLE_GEMINI_BASE_URL": self.model.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_TELEMETRY_ENABLED": "false",
        }

    def command(self, prompt: str, resume: str | None) -> Sequence[str]:
        continued = ["--resume", resume] if resume else []
        return ["--output-format", "json", "--approval-mode", "yolo", *continued, "--prompt", prompt]

    def outcome(self, stdout: str, stderr: str) -> Outcome:
        report = json.loads(stdout[stdout.index("{") :])
        return Outcome(report["session_id"], report["response"], report)

    def tool(self, name: str, server: str = "cems") -> str:
        return f"mcp_{server}_{name}"

    def add_server(self, name: str, command: Sequence[str]) -> None:
        entry = {"command": command[0], "args": list(command[1:]), "trust": True}
        merge_json(self.file(".gemini/settings.json"), "mcpServers", name, value=entry)
