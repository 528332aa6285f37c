"""Runs the real Goose, headless, against the fake model service."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import yaml  # type: ignore[import-untyped]
from tests.e2e.agent import Agent, Outcome

_CONFIG = """\
# Goose's own settings, with a comment that has to stay.
GOOSE_PROVIDER: openai
GOOSE_MODEL: fake-model
GOOSE_MODE: auto
GOOSE_TELEMETRY_ENABLED: false
OPENAI_HOST: {url}
OPENAI_BASE_PATH: v1/chat/completions
extensions:
  developer:
    enabled: true
    type: platform
    name: developer
"""

_SESSION = re.compile(r"\b(\d{8}_\d+)\b")

_REWRITTEN = {"GOOSE_PROVIDER", "GOOSE_MODEL", "providers", "active_provider", "extensions"}
_BUILT_IN = {"builtin", "platform"}


class Goose(Agent):
    name = "goose"
    executable = "goose"
    own = (".config/goose/", ".local/share/goose/", ".local/state/goose/")
    settings_files = (".config/goose/config.yaml",)

    by_cems = False
    """Whether a person starts it by `cems run goose`."""

    extra: Mapping[str, str] = MappingProxyType({})
    """Variables that a person has set besides."""

    def configure(self) -> None:
        self.file(".config/goose/config.yaml").write_text(_CONFIG.format(url=self.model.url))

    @property
    def variables(self) -> Mapping[str, str]:
        return {"OPENAI_API_KEY": "dummy", "GOOSE_DISABLE_KEYRING": "1", **self.extra}

    @property
    def start(self) -> Sequence[str]:
        return [str(self.sandbox.home / ".local" / "bin" / "cems"), "run", "goose"] if self.by_cems else super().start

    def command(self, prompt: str, resume: str | None) -> Sequence[str]:
        continued = ["--resume", "--session-id", resume] if resume else []
        return ["run", "--output-format", "json", *continued, "-t", prompt]

    def outcome(self, stdout: str, stderr: str) -> Outcome:
        # The banner with the session's id stands before the JSON.
        banner, _, rest = stdout.partition("\n{")
        session = _SESSION.search(banner)
        assert session, "no session id"
        report = json.loads("{" + rest)
        said = [part["text"] for part in report["messages"][-1]["content"] if part["type"] == "text"]
        # Goose reports a refused request as the assistant's words, and exits with 0.
        assert not any("Ran into this error" in text for text in said), "the turn failed"
        return Outcome(session[1], "\n".join(said), report)

    def settings(self) -> dict[str, str]:
        # Some runs of Goose write the file anew: without comments, the provider in another form, its own extensions in.
        content = yaml.safe_load(super().settings()[".config/goose/config.yaml"])
        others = {name: value for name, value in content.items() if name not in _REWRITTEN}
        servers = {name: each for name, each in content["extensions"].items() if each["type"] not in _BUILT_IN}
        return {"servers": str(servers), "others": str(sorted(others.items()))}

    def tool(self, name: str, server: str = "cems") -> str:
        return f"{server}__{name}"

    def add_server(self, name: str, command: Sequence[str]) -> None:
        with self.file(".config/goose/config.yaml").open("a") as config:
            # JSON's strings and lists are YAML's too.
            config.write(
                f"  {name}:\n    enabled: true\n    type: stdio\n    name: {name}\n    description: {name}\n"
                f"    cmd: {json.dumps(command[0])}\n    args: {json.dumps(command[1:])}\n    timeout: 30\n"
            )
