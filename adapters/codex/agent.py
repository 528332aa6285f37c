"""Codex CLI: reads what its hooks send and answers in the one shape it accepts.

Imported by the daemon's first stage, so: standard library, and the wiring (`config.py`) only when asked for.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cems.adapters.adapter import Adapter, compact_json, text_at, whole_characters
from cems.adapters.tools import BASH, EDIT, READ, ask_in_words, canonical, subject
from cems.core.events import EventKind, HookEvent, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from cems.adapters.base import AgentRecord, HookCall, Launchers, Machine, Trust

# Codex measures tokens as bytes of UTF-8 by four. What is longer than its limit is cut, and the whole of it written
# to a file that everybody on the machine can read: so our hooks ask for a limit that the longest context stays under.
CONTEXT_LIMIT = 9_500
CONTEXT_TOKENS = 8_000

SCRIPTS: dict[str, tuple[EventKind, str]] = {
    "cems_session_start": ("session_start", "SessionStart"),
    "cems_user_prompts_submit": ("prompt", "UserPromptSubmit"),
    "cems_pre_tool_use": ("pre_tool", "PreToolUse"),
    "cems_post_tool_use": ("post_tool", "PostToolUse"),
    "cems_stop": ("stop", "Stop"),
    "cems_session_end": ("session_end", "SessionEnd"),
    "cems_pre_compact": ("pre_compact", "PreCompact"),
    "cems_subagent_start": ("subagent_start", "SubagentStart"),
}
"""Hook script -> our event and Codex's name for it; a script run for another event is not answered."""

# Codex drops a whole answer, without a word, for one key too many: other events take no context.
_ANSWERED: frozenset[EventKind] = frozenset(("session_start", "prompt", "pre_tool", "post_tool", "subagent_start"))

_ROLLOUT = re.compile(r"(?:\A|[/\\])rollout-[^/\\]+\.jsonl\Z")
_OTHERS_KEYS = ("prompt_id", "timestamp", "sessionId", "cursor_version", "conversation_id", "generation_id")
# A session that is not kept (`--ephemeral`) has null as its transcript; then the rest of the form has to tell.
_FORM = {
    "SessionStart": ("model", "permission_mode", "source"),
    "SessionEnd": ("reason",),
}
_FORM_IN_A_TURN = ("turn_id", "model")

OWN_TOOLS = {"spawn_agent": "Agent", "view_image": READ}
# A patch as a shell command, which Codex applies itself when nothing else is in the command.
_SHELL_PATCH = re.compile(
    r"\s*(?:cd\s+(?P<folder>[\w./~@+'\" -]+?)\s*&&\s*)?apply_?patch\s+<<\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[ \t]*\n"
)
_RUNS_INSIDE = ("$(", "`")

# How a person names a skill; a name alone could be a variable in what they write (`$context is empty here`).
_TYPED = re.compile(
    r"\s*\$(?:(?P<name>remember|recall|forget|share)(?=\s+[^\s=.,;:()\[\]+*/<>&|-])|(?P<alone>context)(?=\s*\Z|\s+(?:useful|noise)\s))"
)
# What the program itself sends as prompts: a goal that goes on, its own memory at work. The last is what setup tries.
MACHINE_PREFIXES = (
    "Continue working toward the active thread goal.",
    "## Memory Writing Agent",
    "<hook_prompt",
    "<subagent_notification>",
    "<turn_aborted>",
    "<task-notification>",
)


class Codex(Adapter):
    """The adapter; see `cems.adapters.base.Agent`."""

    name = "codex"
    title = "Codex CLI"
    uses_shared_skills = True
    cannot_ask = True

    # -- hooks

    def recognises(self, variables: Mapping[str, str], payload: Mapping[str, Any]) -> bool:
        """Whether the input is one that Codex makes: it adds nothing to the environment, and inherits what others add."""
        session, event = text_at(payload, "session_id"), text_at(payload, "hook_event_name")
        if not session or not event or any(key in payload for key in _OTHERS_KEYS):
            return False
        if variables.get("CLAUDE_CODE_SESSION_ID") == session:
            return False
        transcript = payload.get("transcript_path", "")
        if transcript is None:
            return all(isinstance(payload.get(key), str) for key in _FORM.get(event, _FORM_IN_A_TURN))
        return isinstance(transcript, str) and bool(_ROLLOUT.search(transcript))

    def parse(self, script: str, payload: Mapping[str, Any]) -> HookEvent | None:
        """The event; None when script and event name disagree or the input lacks a session."""
        kind, name = SCRIPTS.get(script, (None, ""))
        session = text_at(payload, "session_id")
        if kind is None or text_at(payload, "hook_event_name") != name or not session:
            return None
        prompt = text_at(payload, "prompt") if kind == "prompt" else ""
        tool, what = _tool(payload) if kind in ("pre_tool", "post_tool") else ("", "")
        return HookEvent(
            agent=self.name,
            kind=kind,
            session=session,
            cwd=text_at(payload, "cwd"),
            prompt=_as_typed(prompt),
            turn=text_at(payload, "turn_id"),
            source=text_at(payload, "source") or text_at(payload, "reason") or text_at(payload, "trigger"),
            transcript=text_at(payload, "transcript_path"),
            machine_turn=kind == "prompt" and _is_machine_turn(prompt, payload),
            tool=tool,
            subject=what,
            last_message=text_at(payload, "last_assistant_message"),
            # What hooks gave stands in the rollout as messages of its own.
            replayed=kind == "session_start" and text_at(payload, "source") == "resume",
        )

    def render(self, event: HookEvent, context: str) -> bytes:
        """Codex's JSON for `context`, which goes to the model as a message of its own."""
        if event.kind not in _ANSWERED or not context:
            return b""
        whole = whole_characters(context)
        return _answer(_event_name(event), {"additionalContext": whole})

    def render_verdict(self, event: HookEvent, verdict: Verdict) -> bytes:
        """Refuses, or gives the model words where the tool may run. Codex takes no `ask`: it would let the tool run."""
        if event.kind != "pre_tool" or not verdict.text:
            return b""
        if verdict.severity == "warn":
            return _answer("PreToolUse", {"additionalContext": verdict.text})
        reason = verdict.text if verdict.severity == "block" else ask_in_words(self.title, verdict.text)
        return _answer("PreToolUse", {"permissionDecision": "deny", "permissionDecisionReason": reason})

    def context_limit(self, event: HookEvent) -> int:
        return CONTEXT_LIMIT if event.kind in _ANSWERED else 0

    def transcript_folders(self, home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
        """Its sessions word by word, what was typed at its prompt, and what its own databases keep of both."""
        from cems.adapters.base import Machine
        from cems.adapters.codex.detect import codex_home

        folder = codex_home(Machine(home, environ))
        kept = ("sessions", "archived_sessions", "session_index.jsonl", "history.jsonl", "memories", "attachments")
        return (*(folder / name for name in kept), *sorted(folder.glob("*.sqlite*")))

    # -- setup

    def prompt_call(self, prompt: str, project: Path, session: str, turn: str) -> HookCall:
        from cems.adapters.base import HookCall

        payload = {
            "session_id": session,
            "turn_id": turn,
            "transcript_path": str(project / ".codex" / f"rollout-{session}.jsonl"),
            "cwd": str(project),
            "hook_event_name": "UserPromptSubmit",
            "model": "none",
            "permission_mode": "default",
            "prompt": prompt,
        }
        return HookCall("cems_user_prompts_submit", {}, payload)

    def context_in(self, output: bytes) -> str:
        try:
            answer = json.loads(output)["hookSpecificOutput"]
            return str(answer["additionalContext"]) if set(answer) == {"hookEventName", "additionalContext"} else ""
        except (ValueError, KeyError, TypeError):
            return ""

    def trust(self, machine: Machine, launchers: Launchers, record: AgentRecord) -> Trust:
        from cems.adapters.codex import config

        return config.trust(machine, launchers, record)


def _answer(name: str, rest: Mapping[str, str]) -> bytes:
    return compact_json({"hookSpecificOutput": {"hookEventName": name, **rest}})


def _event_name(event: HookEvent) -> str:
    return next(name for kind, name in SCRIPTS.values() if kind == event.kind)


def _tool(payload: Mapping[str, Any]) -> tuple[str, str]:
    """The tool's name as everywhere, and what it is about to work on."""
    tool, given = canonical(OWN_TOOLS, text_at(payload, "tool_name")), payload.get("tool_input")
    if not isinstance(given, (dict, str)):
        return tool, ""
    what = subject(tool, given)
    if tool == BASH and (folder := _patched_in(what)) is not None:
        return EDIT, "\n".join(posixpath.join(folder, path) for path in subject(EDIT, given).split("\n"))
    return tool, what


def _patched_in(command: str) -> str | None:
    """The folder (empty for the working one) of a patch that is all there is to the command; None for any other command,
    which a rule on commands has to see."""
    head = _SHELL_PATCH.match(command)
    if head is None:
        return None
    lines = command[head.end() :].split("\n")
    if head["end"] not in lines or lines[0].strip() != "*** Begin Patch":
        return None
    at = lines.index(head["end"])
    if any(line.strip() for line in lines[at + 1 :]):
        return None
    if not head["quote"] and any(mark in line for line in lines[:at] for mark in _RUNS_INSIDE):
        return None
    return (head["folder"] or "").strip(" '\"")


def _as_typed(prompt: str) -> str:
    """The prompt, with a skill of ours named as `$remember` written as `/remember`: Codex takes a line that begins with a
    slash for a command of its own."""
    named = _TYPED.match(prompt)
    return f"/{named['name'] or named['alone']}{prompt[named.end() :]}" if named else prompt


def _is_machine_turn(prompt: str, payload: Mapping[str, Any]) -> bool:
    """A subagent's task, Codex's own memory at work in its folder, or a prompt that the program made."""
    if text_at(payload, "agent_id") or prompt.lstrip().startswith(MACHINE_PREFIXES):
        return True
    home, marked, _ = text_at(payload, "transcript_path").replace("\\", "/").rpartition("/sessions/")
    place = text_at(payload, "cwd").replace("\\", "/").rstrip("/")
    return bool(marked) and home != "" and f"{place}/".startswith(f"{home}/memories/")


AGENT = Codex()
