"""Gemini CLI: reads what its hooks send and answers in the one shape it accepts.

Imported by the daemon's first stage, so: standard library, and the wiring (`config.py`) only when asked for.
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

    from cems.adapters.base import HookCall

CONTEXT_LIMIT = 9_500
"""Gemini has no limit of its own that was found; it is ours, and the same as everywhere."""

SCRIPTS: dict[str, tuple[EventKind, str]] = {
    "cems_session_start": ("session_start", "SessionStart"),
    "cems_user_prompts_submit": ("prompt", "BeforeAgent"),
    "cems_pre_tool_use": ("pre_tool", "BeforeTool"),
    "cems_stop": ("stop", "AfterAgent"),
    "cems_session_end": ("session_end", "SessionEnd"),
}
"""Hook script -> our event and Gemini's name for it."""

_ANSWERED: dict[EventKind, str] = {"session_start": "SessionStart", "prompt": "BeforeAgent"}

# In print mode the prompt comes with what the session's start was answered in front of it.
_HOOK_CONTEXT = re.compile(r"\A(?:\s*<hook_context>.*?</hook_context>)+\s*", re.DOTALL)
TOOLS = {"run_shell_command": tools.BASH, "replace": tools.EDIT, "write_file": tools.WRITE}
_ID = "GEMINI_SESSION_ID"


class Gemini(Adapter):
    """The adapter; see `cems.adapters.base.Agent`."""

    name = "gemini"
    title = "Gemini CLI"
    uses_shared_skills = True

    # -- hooks

    def recognises(self, variables: Mapping[str, str], payload: Mapping[str, Any]) -> bool:
        """Whether the input has Gemini's form and the environment says it is of its session, or says nothing."""
        session = text_at(payload, "session_id")
        if not session or "timestamp" not in payload or text_at(payload, "hook_event_name") not in _NAMES:
            return False
        if _ID in variables:
            return variables[_ID] == session
        # No word from the environment, as in a recorded input: where the transcript stands has to do.
        return "/.gemini/tmp/" in text_at(payload, "transcript_path").replace("\\", "/")

    def parse(self, script: str, payload: Mapping[str, Any]) -> HookEvent | None:
        """The event; None when script and event name disagree or the input lacks a session."""
        kind, name = SCRIPTS.get(script, (None, ""))
        session = text_at(payload, "session_id")
        if kind is None or text_at(payload, "hook_event_name") != name or not session:
            return None
        tool = _tool(payload)
        given = payload.get("tool_input")
        return HookEvent(
            agent=self.name,
            kind=kind,
            session=session,
            cwd=text_at(payload, "cwd"),
            prompt=_HOOK_CONTEXT.sub("", text_at(payload, "prompt")) if kind == "prompt" else "",
            source=text_at(payload, "source") or text_at(payload, "reason"),
            transcript=text_at(payload, "transcript_path"),
            tool=tool,
            subject=tools.subject(tool, given) if kind == "pre_tool" and isinstance(given, dict) else "",
            last_message=text_at(payload, "prompt_response"),
        )

    def render(self, event: HookEvent, context: str) -> bytes:
        """Gemini's JSON for `context`: ASCII, without lone surrogates."""
        name = _ANSWERED.get(event.kind)
        if name is None or not context:
            return b""
        whole = whole_characters(context)
        return compact_json({"hookSpecificOutput": {"hookEventName": name, "additionalContext": whole}})

    def render_verdict(self, event: HookEvent, verdict: Verdict) -> bytes:
        """Refuses or asks. Gemini has no way to warn a model before a tool: then nothing is said."""
        if event.kind != "pre_tool" or verdict.severity == "warn":
            return b""
        return compact_json({"decision": "deny" if verdict.severity == "block" else "ask", "reason": verdict.text})

    def context_limit(self, event: HookEvent) -> int:
        return CONTEXT_LIMIT if event.kind in _ANSWERED else 0

    def transcript_folders(self, home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
        """Its sessions word by word, and what was typed at its prompt."""
        from cems.adapters.base import Machine
        from cems.adapters.gemini.detect import config_dir

        return (config_dir(Machine(home, environ)) / "tmp",)

    # -- setup

    def prompt_call(self, prompt: str, project: Path, session: str, turn: str) -> HookCall:
        from cems.adapters.base import HookCall

        payload = {
            "session_id": session,
            "transcript_path": str(project / ".gemini/tmp/project/chats" / f"session-{turn}.jsonl"),
            "cwd": str(project),
            "hook_event_name": "BeforeAgent",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "prompt": prompt,
        }
        variables = {_ID: session, "GEMINI_PROJECT_DIR": str(project), "CLAUDE_PROJECT_DIR": str(project)}
        return HookCall("cems_user_prompts_submit", variables, payload)

    def context_in(self, output: bytes) -> str:
        try:
            return str(json.loads(output)["hookSpecificOutput"]["additionalContext"])
        except (ValueError, KeyError, TypeError):
            return ""


_NAMES = {name for _, name in SCRIPTS.values()} | {
    "AfterTool", "BeforeModel", "AfterModel", "BeforeToolSelection", "PreCompress", "Notification",
}  # fmt: skip


def _tool(payload: Mapping[str, Any]) -> str:
    served = payload.get("mcp_context")
    if isinstance(served, dict) and text_at(served, "server_name"):
        return tools.mcp_tool(text_at(served, "server_name"), text_at(served, "tool_name"))
    return tools.canonical(TOOLS, text_at(payload, "tool_name"))


AGENT = Gemini()
