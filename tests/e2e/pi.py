"""Runs the real Pi, headless, against the fake model service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.e2e.agent import Agent, Outcome, json_lines, merge_json


class Pi(Agent):
    name = "pi"
    executable = "pi"
    own = (".pi/",)
    settings_files = (".pi/agent/models.json", ".pi/agent/settings.json")

    def configure(self) -> None:
        provider = {
            "baseUrl": f"{self.model.url}/v1",
            "apiKey": "dummy",
            "api": "openai-completions",
            "models": [{"id": "fake-model"}],
        }
        self.write_json(".pi/agent/models.json", {"providers": {"fake": provider}})
        settings = {"defaultProvider": "fake", "defaultModel": "fake-model", "enableInstallTelemetry": False}
        self.write_json(".pi/agent/settings.json", settings)

    @property
    def variables(self) -> Mapping[str, str]:
        return {"PI_OFFLINE": "1"}

    def command(self, prompt: str, resume: str | None) -> Sequence[str]:
        return ["-p", "--mode", "json", *(["--session", resume] if resume else []), prompt]

    def outcome(self, stdout: str, stderr: str) -> Outcome:
        events = json_lines(stdout)
        session = next(event["id"] for event in events if event["type"] == "session")
        messages = [event["message"] for event in events if event["type"] == "message_end"]
        answer = [message for message in messages if message["role"] == "assistant"][-1]
        assert answer["stopReason"] != "error", answer["errorMessage"]
        said = [part["text"] for part in answer["content"] if part["type"] == "text"]
        return Outcome(session, "\n".join(said), answer)

    def tool(self, name: str, server: str = "cems") -> str:
        return f"mcp__{server}__{name}"

    def add_server(self, name: str, command: Sequence[str]) -> None:
        entry = {"command": command[0], "args": list(command[1:]), "exposure": "direct"}
        merge_json(self.file(".pi/agent/mcp.json"), "mcpServers", name, value=entry)
