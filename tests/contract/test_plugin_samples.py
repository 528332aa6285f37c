"""What Pi 1.6.0 and OpenCode 1.18.33 really sent to a plugin: ours tells our hook program of it, and gives its answer back."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.fixtures import program_of

from cems.adapters.base import Launchers
from cems.adapters.opencode.agent import AGENT as OPENCODE
from cems.adapters.opencode.config import PLUGIN as OPENCODE_PLUGIN
from cems.adapters.pi.agent import AGENT as PI
from cems.adapters.pi.config import PLUGIN as PI_PLUGIN
from cems.adapters.plugin_agent import PluginAgent, plugin_source

pytestmark = pytest.mark.e2e

FIXTURES = Path(__file__).parents[1] / "fixtures"
HOOK = """#!/bin/sh
{ printf '%s ' "$1"; cat; } >"$(dirname "$0")/heard.$$"
printf '{"context":"from %s"}' "$1"
"""


def replay(tmp_path: Path, plugin: Path, events: Path) -> tuple[list[tuple[str, dict[str, Any]]], list[dict[str, Any]]]:
    """Each run of the hook program (script, input), and what the plugin gave its agent at each event."""
    hook = tmp_path / "cems-hook"
    hook.write_text(HOOK)
    hook.chmod(0o755)
    (tmp_path / "plugin.mjs").write_bytes(
        # Recorded folders are not on this machine.
        plugin_source(plugin, Launchers(hook, hook)).replace(b"cwd: event.cwd, ", b"")
    )
    done = subprocess.run(
        [program_of("node"), Path(__file__).with_name("replay_plugin.mjs"), tmp_path / "plugin.mjs", events],
        capture_output=True, text=True, cwd=tmp_path, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, timeout=60, check=True,
    )  # fmt: skip
    told = sorted(tmp_path.glob("heard.*"), key=lambda path: path.stat().st_mtime_ns)
    heard = [path.read_text().partition(" ") for path in told]
    return [(script, json.loads(given)) for script, _, given in heard], json.loads(done.stdout)


def parsed(agent: PluginAgent, heard: list[tuple[str, dict[str, Any]]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for script, given in heard:
        assert agent.recognises({}, given)
        event = agent.parse(script, given)
        assert event is not None, (script, given)
        found.setdefault(event.kind, []).append(event)
    return found


def test_pis_events(tmp_path: Path) -> None:
    heard, given = replay(tmp_path, PI_PLUGIN, FIXTURES / "pi" / "extension_events.jsonl")
    events = parsed(PI, heard)
    assert [event.source for event in events["session_start"]] == ["startup"]
    assert [(event.prompt, event.machine_turn) for event in events["prompt"]] == [("say hi", False)]
    assert [(event.tool, event.subject) for event in events["pre_tool"]] == [
        ("Bash", "echo hello-pi"),
        ("mcp__mem__recall", '{"query":"abc"}'),
    ]
    assert [event.last_message for event in events["stop"]] == ["OK-FROM-FAKE"]
    assert len(events["session_end"]) == 1
    (prompt,) = [each for each in given if each["ev"] == "before_agent_start"]
    assert prompt["answer"]["message"]["content"] == "from cems_user_prompts_submit"
    assert prompt["sections"] == {"cems": "from cems_session_start"}


def test_opencodes_events(tmp_path: Path) -> None:
    heard, given = replay(tmp_path, OPENCODE_PLUGIN, FIXTURES / "opencode" / "plugin_events.jsonl")
    events = parsed(OPENCODE, heard)
    assert [event.source for event in events["session_start"]] == ["startup"]
    assert [(event.prompt, bool(event.turn)) for event in events["prompt"]] == [("say hi", True)]
    assert [(event.tool, event.subject) for event in events["pre_tool"]] == [
        ("Bash", "echo hello-oc"),
        ("mem_recall", '{"query":"abc"}'),
    ]
    assert [event.last_message for event in events["stop"]] == ["OK-FROM-FAKE"]
    (message,) = [each for each in given if each["ev"] == "chat.message"]
    added = [part["text"] for part in message["output"]["parts"] if part.get("synthetic")]
    assert added == ["from cems_session_start", "from cems_user_prompts_submit"]
