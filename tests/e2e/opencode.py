"""Runs the real OpenCode, headless, against the fake model service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.e2e.agent import Agent, Outcome, json_lines, merge_json
from tests.e2e.pins import PROGRAMS


class OpenCode(Agent):
    name = "opencode"
    executable = "opencode"
    patience = 240
    own = (".config/opencode/", ".local/share/opencode/", ".local/state/opencode/", ".cache/opencode/")
    settings_files = (".config/opencode/opencode.json",)
    _models = ".cache/opencode/no-models.json"

    def configure(self) -> None:
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "dummy"},
            "models": {"fake-model": {"name": "fake"}},
        }
        self.write_json(
            ".config/opencode/opencode.json",
            {"model": "fake/fake-model", "autoupdate": False, "share": "disabled", "provider": {"fake": provider}},
        )
        # OpenCode gets a package of types for plugins from npm where it does not find this.
        self.file(".config/opencode/node_modules/.keep").touch()
        types = {"@opencode-ai/plugin": PROGRAMS[self.name].version}
        lock = {"lockfileVersion": 3, "packages": {"": {"dependencies": types}}}
        self.write_json(".config/opencode/package-lock.json", lock)
        self.write_json(self._models, {})

    @property
    def variables(self) -> Mapping[str, str]:
        return {
            # A third of its processor time goes into the list of all models it has with it.
            "OPENCODE_MODELS_PATH": str(self.sandbox.home / self._models),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        }

    def command(self, prompt: str, resume: str | None) -> Sequence[str]:
        return ["run", "--format", "json", *(["--session", resume] if resume else [])]

    def stdin(self, prompt: str) -> str:
        # As an argument with a space in it, it would be kept in quotes.
        return prompt

    def outcome(self, stdout: str, stderr: str) -> Outcome:
        events = json_lines(stdout)
        answers = [event["part"]["text"] for event in events if event["type"] == "text"]
        return Outcome(events[0]["sessionID"], answers[-1] if answers else "", events[-1])

    def tool(self, name: str, server: str = "cems") -> str:
        return f"{server}_{name}"

    def add_server(self, name: str, command: Sequence[str]) -> None:
        entry = {"type": "local", "command": list(command), "enabled": True}
        merge_json(self.file(".config/opencode/opencode.json"), "mcp", name, value=entry)
