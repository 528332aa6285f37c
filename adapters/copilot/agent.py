"""GitHub Copilot CLI: reads what its hooks send and answers in the one shape it accepts.

Imported by the daemon's first stage, so: standard library, and the wiring (`config.py`) only when asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cems.adapters.adapter import Adapter, compact_json, text_at, whole_characters
from cems.adapters.tools import canonical, mcp_tool, subject
from cems.core.events import EventKind, HookEvent, Verdict

if TYPE_CHECKING:
    from cems.adapters.base import HookCall

CONTEXT_LIMIT = 9_500
"""UTF-16 units. Copilot has no limit of its own with a prompt or a start, and cuts a tool's context at 10,240."""

SCRIPTS: dict[str, tuple[EventKind, str]] = {
    "cems_session_start": ("session_start", "SessionStart"),
    "cems_user_prompts_submit": ("prompt", "UserPromptSubmit"),
    "cems_pre_tool_use": ("pre_tool", "PreToolUse"),
    "cems_post_tool_use": ("post_tool", "PostToolUse"),
    "cems_stop": ("stop", "Stop"),
    "cems_session_end": ("session_end", "SessionEnd"),
    "cems_pre_compact": ("pre_compact", "PreCompact"),
}
"""Hook script -> our event and Copilot's name for it. Under a name in this case it sends Claude's form of input."""

_ANSWERED: tuple[EventKind, ...] = ("session_start", "prompt")
_SESSIONS = "session-state"
# Prompts that no person typed: what the program itself says, and the notice with which setup tries the hook.
MACHINE_PREFIXES = ("<system_reminder>", "<system_notification>", "<task-notification>")
_OTHERS_KEYS = ("cursor_version", "conversation_id", "turn_id", "prompt_id")
_RECORD = "events.jsonl"
_NAME = re.compile(r"[\w-]+")
_LONGEST_ANSWER = 100
_NEWEST_BYTES = 256 * 1024


class Copilot(Adapter):
    """The adapter; see `cems.adapters.base.Agent`."""

    name = "copilot"
    title = "GitHub Copilot CLI"
    uses_shared_skills = True

    # -- hooks

    def recognises(self, _variables: Mapping[str, str], payload: Mapping[str, Any]) -> bool:
        """By the input alone: a session, a time, and no transcript but one of Copilot's.

        No other agent sends that. Its variables prove nothing: COPILOT_CLI is inherited by whatever is started from its
        shell, and Copilot itself sets CLAUDE_PROJECT_DIR.
        """
        session = text_at(payload, "session_id") or text_at(payload, "sessionId")
        if not session or "timestamp" not in payload or any(key in payload for key in _OTHERS_KEYS):
            return False
        transcripts = [payload[key] for key in ("transcript_path", "transcriptPath") if key in payload]
        return all(isinstance(path, str) and _SESSIONS in path.replace("\\", "/").split("/") for path in transcripts)

    def parse(self, script: str, payload: Mapping[str, Any]) -> HookEvent | None:
        """The event; None when script and event name disagree or the input lacks a session.

        A subagent's task and end carry `agent_id`; a start says `new` where others say `startup`.
        """
        kind, name = SCRIPTS.get(script, (None, ""))
        session, transcript = text_at(payload, "session_id"), text_at(payload, "transcript_path")
        if kind is None or text_at(payload, "hook_event_name") != name or not session:
            return None
        tool, given = text_at(payload, "tool_name"), payload.get("tool_input")
        tool = tool_name(tool) if tool else ""
        source = text_at(payload, "source") or text_at(payload, "reason") or text_at(payload, "trigger")
        prompt = text_at(payload, "prompt") if kind == "prompt" else ""
        return HookEvent(
            agent=self.name,
            kind=kind,
            session=session,
            cwd=text_at(payload, "cwd"),
            prompt=prompt,
            source="compact" if kind == "pre_compact" else "startup" if source == "new" else source,
            transcript=transcript,
            machine_turn=bool(payload.get("agent_id")) or prompt.lstrip().startswith(MACHINE_PREFIXES),
            tool=tool,
            subject=subject(tool, given) if isinstance(given, dict | str) else "",
            last_message=_last_message(transcript, session, prompt) if kind in ("stop", "prompt") else "",
        )

    def render(self, event: HookEvent, context: str) -> bytes:
        """Copilot reads the key at the top only. ASCII, without lone surrogates, which models' APIs refuse."""
        if event.kind not in _ANSWERED or not context:
            return b""
        whole = whole_characters(context)
        return compact_json({"additionalContext": whole})

    def render_verdict(self, event: HookEvent, verdict: Verdict) -> bytes:
        """Refuses or asks (which refuses where nobody can be asked); words for the model where the tool may run."""
        if event.kind != "pre_tool":
            return b""
        if verdict.severity == "warn":
            return compact_json({"additionalContext": verdict.text})
        decision = "deny" if verdict.severity == "block" else "ask"
        return compact_json({"permissionDecision": decision, "permissionDecisionReason": verdict.text})

    def context_limit(self, event: HookEvent) -> int:
        return CONTEXT_LIMIT if event.kind in _ANSWERED else 0

    def transcript_folders(self, home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
        """Its sessions word by word, their index, and its logs."""
        from cems.adapters.base import Machine
        from cems.adapters.copilot.detect import config_dir

        folder = config_dir(Machine(home, environ))
        return tuple(folder / name for name in (_SESSIONS, "session-store.db", "session-store.db-wal", "logs"))

    # -- setup

    def prompt_call(self, prompt: str, project: Path, session: str, turn: str) -> HookCall:  # noqa: ARG002
        from cems.adapters.base import HookCall

        payload = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": session,
            "timestamp": "2026-01-01T00:00:00.000Z",
            "cwd": str(project),
            "prompt": prompt,
        }
        variables = {"COPILOT_CLI": "1", "COPILOT_PROJECT_DIR": str(project), "CLAUDE_PROJECT_DIR": str(project)}
        return HookCall("cems_user_prompts_submit", variables, payload)

    def context_in(self, output: bytes) -> str:
        try:
            return str(json.loads(output)["additionalContext"])
        except (ValueError, KeyError, TypeError):
            return ""


def tool_name(name: str) -> str:
    """Claude's name: Copilot uses it for its own tools, none of which has a dash, and for a server's writes `server-tool`.

    Servers' names have dashes more often than their tools' have, so the last one parts them.
    """
    server, dash, tool = name.rpartition("-")
    return mcp_tool(server, tool) if dash and server and tool else canonical({}, name)


def _last_message(transcript: str, session: str, prompt: str) -> str:
    """What the assistant said last, "" where the session's own record does not tell: no input of a hook has it.

    The record may be written only after `Stop`, so a prompt that can be an answer to it looks there again.
    """
    path = Path(transcript) if transcript else Path.home() / ".copilot" / _SESSIONS / session / _RECORD
    known = path.is_absolute() and path.parts[-3:] == (_SESSIONS, session, _RECORD)
    if not known or not _NAME.fullmatch(session) or len(prompt) > _LONGEST_ANSWER:
        return ""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _NEWEST_BYTES))
            lines = file.read(_NEWEST_BYTES).split(b"\n")
    except OSError:
        return ""
    for line in reversed(lines):
        if b'"assistant.message"' not in line:
            continue
        try:
            entry = json.loads(line)
            said = entry["data"]["content"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if entry.get("type") == "assistant.message" and not entry.get("agentId") and isinstance(said, str) and said:
            return said
    return ""


AGENT = Copilot()
