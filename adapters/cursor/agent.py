"""Cursor: reads what its hooks send, under its own names or Claude's, and answers in the one shape it accepts.

Imported by the daemon's first stage, so: standard library, and the wiring (`config.py`) only when asked for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cems.adapters.adapter import Adapter, compact_json, text_at, whole_characters
from cems.adapters.cursor.versions import takes_prompt_context, takes_start_context
from cems.adapters.tools import ask_in_words, canonical, mcp_tool, subject
from cems.core.events import EventKind, HookEvent, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from cems.adapters.base import HookCall

CONTEXT_LIMIT = 9_500
"""UTF-16 units. Of a tool's context Cursor drops what is longer than 10,000 whole; of a prompt's it makes a file."""

SCRIPTS: dict[str, tuple[EventKind, tuple[str, ...]]] = {
    "cems_session_start": ("session_start", ("sessionStart", "SessionStart")),
    "cems_user_prompts_submit": ("prompt", ("beforeSubmitPrompt", "UserPromptSubmit")),
    "cems_pre_tool_use": ("pre_tool", ("preToolUse", "PreToolUse")),
    "cems_post_tool_use": ("post_tool", ("postToolUse", "PostToolUse")),
    "cems_agent_response": ("stop", ("afterAgentResponse",)),
    "cems_stop": ("stop", ("stop", "Stop")),
    "cems_session_end": ("session_end", ("sessionEnd", "SessionEnd")),
    "cems_pre_compact": ("pre_compact", ("preCompact", "PreCompact")),
}
"""Hook script -> our event, and Cursor's name for it beside Claude's: it runs the hooks in Claude's files too."""

# No context with `preToolUse`: older versions take it with `postToolUse` only, and it must not be given to nobody.
_ANSWERED: tuple[EventKind, ...] = ("session_start", "prompt", "post_tool")

MACHINE_PREFIXES = ("<system_reminder>", "<system-reminder>", "<task-notification>")
_TOOLS = {"Shell": "Bash", "TabRead": "Read", "TabWrite": "Write", "Task": "Agent"}
_MCP = "MCP:"
_OUR_TOOLS = "memory_"
_OTHERS_KEYS = ("timestamp", "turn_id", "prompt_id", "event", "cems_agent")


class Cursor(Adapter):
    """The adapter; see `cems.adapters.base.Agent`."""

    name = "cursor"
    title = "Cursor"
    uses_shared_skills = True
    cannot_ask = True
    reads_project_rules = True

    # -- hooks

    def recognises(self, variables: Mapping[str, str], payload: Mapping[str, Any]) -> bool:
        """Whether the input says so; or, in Claude's form, the environment, which Cursor sets for hooks alone."""
        if not text_at(payload, "hook_event_name"):
            return False
        if text_at(payload, "cursor_version") or text_at(payload, "conversation_id"):
            return True
        if "CURSOR_VERSION" not in variables or any(key in payload for key in _OTHERS_KEYS):
            return False
        transcript = text_at(payload, "transcript_path")
        return bool(text_at(payload, "session_id")) and (not transcript or ".cursor" in transcript)

    def parse(self, script: str, payload: Mapping[str, Any]) -> HookEvent | None:
        """The event; None when script and event name disagree or the input lacks a conversation.

        A version that is not known to pass on what a prompt or a start is given has it wait for the next tool.
        """
        kind, names = SCRIPTS.get(script, (None, ()))
        session = text_at(payload, "conversation_id") or text_at(payload, "session_id")
        if kind is None or text_at(payload, "hook_event_name") not in names or not session:
            return None
        version = text_at(payload, "cursor_version")
        prompt = text_at(payload, "prompt") if kind == "prompt" else ""
        tool, given = text_at(payload, "tool_name"), payload.get("tool_input")
        tool = tool_name(tool) if tool else ""
        taken = takes_prompt_context(version) if kind == "prompt" else takes_start_context(version)
        return HookEvent(
            agent=self.name,
            kind=kind,
            session=session,
            cwd=_folder(payload),
            prompt=prompt,
            turn=_turn(text_at(payload, "generation_id"), session, prompt),
            # It has no start that tells of compaction, and no word for any other start.
            source="compact" if kind == "pre_compact" else text_at(payload, "source") or text_at(payload, "reason"),
            transcript=text_at(payload, "transcript_path"),
            machine_turn=bool(payload.get("parent_tool_call_id")) or prompt.lstrip().startswith(MACHINE_PREFIXES),
            tool=tool,
            subject=subject(tool, given) if isinstance(given, dict | str) else "",
            last_message=text_at(payload, "text") if script == "cems_agent_response" else "",
            held=kind in ("prompt", "session_start") and not taken,
            replayed=kind == "session_start" or (kind == "pre_compact" and taken),
        )

    def render(self, event: HookEvent, context: str) -> bytes:
        """Cursor's own key, whoever's name the event has. ASCII, without lone surrogates, which models' APIs refuse."""
        if event.kind not in _ANSWERED or event.machine_turn or not context:
            return b""
        whole = whole_characters(context)
        return compact_json({"additional_context": whole})

    def render_verdict(self, event: HookEvent, verdict: Verdict) -> bytes:
        """Refuses, or gives the model words where the tool may run. Cursor's `ask` would let this event's tool run."""
        if event.kind != "pre_tool":
            return b""
        if verdict.severity == "warn":
            return compact_json({"additional_context": verdict.text})
        reason = verdict.text if verdict.severity == "block" else ask_in_words(self.title, verdict.text)
        return compact_json({"permission": "deny", "user_message": reason, "agent_message": reason})

    def context_limit(self, event: HookEvent) -> int:
        """None for a subagent's tool: what waits is for the model that the person spoke to."""
        return CONTEXT_LIMIT if event.kind in _ANSWERED and not event.machine_turn else 0

    def transcript_folders(self, home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:  # noqa: ARG002
        """Its agents' sessions word by word, and the editor's databases, which hold its chats."""
        editor = (home / ".config/Cursor/User", home / "Library/Application Support/Cursor/User")
        chats = [folder / place for folder in editor for place in ("globalStorage", "workspaceStorage")]
        return (home / ".cursor/projects", home / ".cursor/chats", *chats)

    # -- setup

    def prompt_call(self, prompt: str, project: Path, session: str, turn: str) -> HookCall:
        from cems.adapters.base import HookCall

        payload = {
            "conversation_id": session,
            "generation_id": turn,
            "model": "default",
            "prompt": prompt,
            "attachments": [],
            "session_id": session,
            "hook_event_name": "beforeSubmitPrompt",
            "cursor_version": "3.20.17",
            "workspace_roots": [str(project)],
            "user_email": None,
            "transcript_path": None,
        }
        variables = {
            "CURSOR_VERSION": "3.20.17",
            "CURSOR_PROJECT_DIR": str(project),
            "CLAUDE_PROJECT_DIR": str(project),
        }
        return HookCall("cems_user_prompts_submit", variables, payload)

    def context_in(self, output: bytes) -> str:
        try:
            return str(json.loads(output)["additional_context"])
        except (ValueError, KeyError, TypeError):
            return ""


def _folder(payload: Mapping[str, Any]) -> str:
    """The project: the first folder of the window. The hook itself runs in `~/.cursor`, which is nobody's project, and so
    a window without a folder is in none."""
    roots = payload.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    return first or text_at(payload, "cwd") or "/"


def _turn(generation: str, session: str, prompt: str) -> str:
    """A name for the turn, "" where Cursor gives none. Some versions repeat a generation for the next prompt, and where
    they have none they say the conversation's; neither may take a new prompt for one that was answered."""
    if not generation or generation == session:
        return ""
    words = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{generation} {words}"


def tool_name(name: str) -> str:
    """Claude's name. Of a server's tool Cursor tells the tool alone, so only our own can be named whole."""
    if not name.startswith(_MCP):
        return canonical(_TOOLS, name)
    tool = name.removeprefix(_MCP)
    return mcp_tool("cems", tool) if tool.startswith(_OUR_TOOLS) else name


AGENT = Cursor()
