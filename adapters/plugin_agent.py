"""Agents that run a plugin of ours inside them: both ends of the hook are ours, and so is the form they speak.

The plugin (`plugin_hook.js` and the agent's own part) runs the hook program with `{"cems_agent": name, "hook_event_name":
kind, "session_id", "cwd", …}` and is answered `{"context": text}` or `{"verdict": {"severity", "text"}}`.
Imported by the daemon's first stage, so: standard library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cems.adapters import tools
from cems.adapters.adapter import Adapter, compact_json, text_at, whole_characters
from cems.core.events import EventKind, HookEvent, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from cems.adapters.base import HookCall, Launchers

CONTEXT_LIMIT = 9_500
"""None of these agents has a limit of its own that was found; ours is the same as everywhere."""

SCRIPTS: dict[str, EventKind] = {
    "cems_session_start": "session_start",
    "cems_user_prompts_submit": "prompt",
    "cems_pre_tool_use": "pre_tool",
    "cems_stop": "stop",
    "cems_session_end": "session_end",
}
_ANSWERED = ("session_start", "prompt")
_SOURCES = {"new": "startup", "reload": "resume"}
_OUR_COMMAND = re.compile(r"\s*/(?:cems:)?(?:remember|recall|forget|share|context)\b")


class PluginAgent(Adapter):
    """What the adapters of such agents have in common; see `cems.adapters.base.Agent`."""

    name = ""
    title = ""
    tool_names: Mapping[str, str] = {}
    cannot_ask = False

    def recognises(self, _variables: Mapping[str, str], payload: Mapping[str, Any]) -> bool:
        """Whether our plugin in this agent says so; variables are inherited and say less."""
        return payload.get("cems_agent") == self.name

    def parse(self, script: str, payload: Mapping[str, Any]) -> HookEvent | None:
        """The event; None when script and event name disagree or the input lacks a session."""
        kind, session = SCRIPTS.get(script), text_at(payload, "session_id")
        if kind is None or text_at(payload, "hook_event_name") != kind or not session:
            return None
        typed, source = text_at(payload, "typed"), text_at(payload, "source")
        tool = self.tool(text_at(payload, "tool_name"))
        given = payload.get("tool_input")
        return HookEvent(
            agent=self.name,
            kind=kind,
            session=session,
            cwd=text_at(payload, "cwd"),
            # A command of ours as it was typed: the agent's own reading of it may have dropped its quotes.
            prompt=typed if _OUR_COMMAND.match(typed) else self.prompt(text_at(payload, "prompt")),
            turn=text_at(payload, "turn"),
            source=_SOURCES.get(source, source),
            transcript=text_at(payload, "transcript_path"),
            machine_turn=payload.get("machine") is True,
            tool=tool,
            subject=tools.subject(tool, given) if kind == "pre_tool" and isinstance(given, dict) else "",
            last_message=text_at(payload, "last_assistant_message"),
        )

    def tool(self, name: str) -> str:
        """Claude's name for the agent's tool."""
        return tools.canonical(self.tool_names, name)

    def prompt(self, text: str) -> str:
        """What the person typed, of what the agent says they did."""
        return text

    def render(self, event: HookEvent, context: str) -> bytes:
        if event.kind not in _ANSWERED or not context:
            return b""
        whole = whole_characters(context)
        return compact_json({"context": whole})

    def render_verdict(self, event: HookEvent, verdict: Verdict) -> bytes:
        """The plugin refuses, or asks where it can. Neither agent has a way to warn before a tool: then nothing is said."""
        if event.kind != "pre_tool" or verdict.severity == "warn":
            return b""
        in_words = verdict.severity == "confirm" and self.cannot_ask
        text = tools.ask_in_words(self.title, verdict.text) if in_words else verdict.text
        return compact_json({"verdict": {"severity": verdict.severity, "text": text}})

    def context_limit(self, event: HookEvent) -> int:
        return CONTEXT_LIMIT if event.kind in _ANSWERED else 0

    def prompt_call(self, prompt: str, project: Path, session: str, turn: str) -> HookCall:
        from cems.adapters.base import HookCall

        payload = {
            "cems_agent": self.name,
            "hook_event_name": "prompt",
            "session_id": session,
            "cwd": str(project),
            "prompt": prompt,
            "turn": turn,
        }
        return HookCall("cems_user_prompts_submit", {}, payload)

    def context_in(self, output: bytes) -> str:
        try:
            return str(json.loads(output)["context"])
        except (ValueError, KeyError, TypeError):
            return ""


def plugin_source(agents_part: Path, launchers: Launchers) -> bytes:
    """The plugin's file: the way to the hook program, and the agent's own part."""
    from pathlib import Path

    shared = (Path(__file__).parent / "plugin_hook.js").read_text("utf-8")
    hook = shared.replace('"{cems-hook}"', json.dumps(str(launchers.hook)))
    head = "// CEMS (memory). Written by `cems setup`, which also brings it up to date; `cems uninstall` removes it.\n"
    return f"{head}{hook}\n{agents_part.read_text('utf-8')}".encode()
