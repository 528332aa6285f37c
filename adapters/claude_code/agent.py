"""Claude Code: reads what its hooks send and answers in the one shape it accepts.

Imported by the daemon's first stage, so: standard library, and the wiring (`config.py`) only when asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cems.adapters.adapter import Adapter, compact_json, text_at, whole_characters
from cems.adapters.tools import subject
from cems.core.events import EventKind, HookEvent, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from cems.adapters.base import HookCall

# Claude passes on 10,000 UTF-16 units of one hook's context; of more the model sees a preview of 2 KB.
CONTEXT_LIMIT = 9_500

SCRIPTS: dict[str, tuple[EventKind, tuple[str, ...]]] = {
    "cems_session_start": ("session_start", ("SessionStart",)),
    "cems_user_prompts_submit": ("prompt", ("UserPromptSubmit",)),
    "cems_pre_tool_use": ("pre_tool", ("PreToolUse",)),
    "cems_post_tool_use": ("post_tool", ("PostToolUse", "PostToolUseFailure")),
    "cems_stop": ("stop", ("Stop",)),
    "cems_session_end": ("session_end", ("SessionEnd",)),
    "cems_pre_compact": ("pre_compact", ("PreCompact",)),
    "cems_subagent_start": ("subagent_start", ("SubagentStart",)),
}
"""Hook script -> our event and Claude's names for it; a script run for another event is not answered."""

# Context from another event is an error on the person's terminal (SessionEnd) or keeps the turn going (Stop).
_ANSWERED: dict[EventKind, str] = {
    "session_start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "subagent_start": "SubagentStart",
}

# What the program itself sends as prompts: a background task's end, a slash command's echo, shell output.
MACHINE_PREFIXES = (
    "<task-notification>",
    "<command-",
    "<local-command-",
    "<bash-",
    "<system-reminder>",
    "<user-memory-input>",
    "[Request interrupted by user",
)
_PEOPLES_SOURCES = ("", "user", "sdk")

# Set in the hook processes of other agents, some of which run hooks from Claude's files. A terminal inside
# Cursor sets CURSOR_TRACE_ID for everything in it, Claude included, so that one says nothing.
_OTHER_AGENTS = (
    "COPILOT_CLI",
    "COPILOT_PROJECT_DIR",
    "CURSOR_VERSION",
    "CURSOR_PROJECT_DIR",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "GEMINI_PROJECT_DIR",
)
# Codex puts nothing of its own into the environment: started from Claude's shell, its hooks have Claude's variables alone.
_CODEX_TRANSCRIPT = re.compile(r"[/\\]rollout-[^/\\]*\.jsonl\Z")
_OTHER_KEYS = ("cursor_version", "conversation_id", "sessionId", "timestamp", "cems_agent")


class ClaudeCode(Adapter):
    """The adapter; see `cems.adapters.base.Agent`."""

    name = "claude-code"
    title = "Claude Code"
    uses_shared_skills = False

    # -- hooks

    def recognises(self, variables: Mapping[str, str], payload: Mapping[str, Any]) -> bool:
        """Whether Claude says so (the environment has the input's session id) or nothing says otherwise.

        Variables are inherited: an agent started from Claude's shell has CLAUDECODE too, and Claude started
        from another agent's has that agent's.
        """
        session = text_at(payload, "session_id")
        if not text_at(payload, "hook_event_name"):
            return False
        named = variables.get("CLAUDE_CODE_SESSION_ID", "")
        if session and named == session:
            return True
        if any(name in variables for name in _OTHER_AGENTS) or any(key in payload for key in _OTHER_KEYS):
            return False
        transcript = payload.get("transcript_path", "")
        if transcript is None or _CODEX_TRANSCRIPT.search(str(transcript)):
            return False
        if variables.get("CLAUDECODE") == "1" and not named:
            return True
        # No word from the environment, as in a recorded input: its form has to do.
        in_claude = ".claude" in text_at(payload, "transcript_path") or "transcript_path" not in payload
        return bool(session and text_at(payload, "hook_event_name")) and in_claude

    def parse(self, script: str, payload: Mapping[str, Any]) -> HookEvent | None:
        """The event; None when script and event name disagree or the input lacks a session."""
        kind, names = SCRIPTS.get(script, (None, ()))
        name, session = text_at(payload, "hook_event_name"), text_at(payload, "session_id")
        if kind is None or name not in names or not session:
            return None
        prompt = text_at(payload, "prompt") if kind == "prompt" else ""
        tool, given = text_at(payload, "tool_name"), payload.get("tool_input")
        return HookEvent(
            agent=self.name,
            kind=kind,
            session=session,
            cwd=text_at(payload, "cwd"),
            prompt=prompt,
            turn=text_at(payload, "prompt_id"),
            source=text_at(payload, "source") or text_at(payload, "reason") or text_at(payload, "trigger"),
            transcript=text_at(payload, "transcript_path"),
            machine_turn=kind == "prompt" and _is_machine_turn(prompt, text_at(payload, "source")),
            tool=tool,
            subject=subject(tool, given) if isinstance(given, dict) else "",
            last_message=text_at(payload, "last_assistant_message"),
        )

    def render(self, event: HookEvent, context: str) -> bytes:
        """Claude's JSON for `context`: ASCII, without lone surrogates, which the model's API refuses."""
        name = _ANSWERED.get(event.kind)
        if name is None or not context:
            return b""
        whole = whole_characters(context)
        answer = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": whole}}
        return compact_json(answer)

    def render_verdict(self, event: HookEvent, verdict: Verdict) -> bytes:
        """Refuses or asks; words for the model where the tool may run."""
        if event.kind != "pre_tool":
            return b""
        if verdict.severity == "warn":
            answer = {"hookEventName": "PreToolUse", "additionalContext": verdict.text}
        else:
            decision = "deny" if verdict.severity == "block" else "ask"
            answer = {
                "hookEventName": "PreToolUse",
                "permissionDecision": decision,
                "permissionDecisionReason": verdict.text,
            }
        return compact_json({"hookSpecificOutput": answer})

    def context_limit(self, event: HookEvent) -> int:
        return CONTEXT_LIMIT if event.kind in _ANSWERED else 0

    def transcript_folders(self, home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
        """Its sessions word by word, what was typed at its prompt, and its copies of files before it changed them."""
        from cems.adapters.base import Machine
        from cems.adapters.claude_code.detect import config_dir

        folder = config_dir(Machine(home, environ))
        return tuple(folder / name for name in ("projects", "history.jsonl", "file-history", "todos", "plans"))

    # -- setup

    def prompt_call(self, prompt: str, project: Path, session: str, turn: str) -> HookCall:
        from cems.adapters.base import HookCall

        payload = {
            "session_id": session,
            "transcript_path": str(project / ".claude" / f"{session}.jsonl"),
            "cwd": str(project),
            "prompt_id": turn,
            "permission_mode": "default",
            "hook_event_name": "UserPromptSubmit",
            "prompt": prompt,
        }
        variables = {
            "CLAUDECODE": "1",
            "CLAUDE_CODE_ENTRYPOINT": "cli",
            "CLAUDE_CODE_SESSION_ID": session,
            "CLAUDE_PROJECT_DIR": str(project),
        }
        return HookCall("cems_user_prompts_submit", variables, payload)

    def context_in(self, output: bytes) -> str:
        try:
            return str(json.loads(output)["hookSpecificOutput"]["additionalContext"])
        except (ValueError, KeyError, TypeError):
            return ""


def _is_machine_turn(prompt: str, source: str) -> bool:
    return prompt.lstrip().startswith(MACHINE_PREFIXES) or source not in _PEOPLES_SOURCES


AGENT = ClaudeCode()
