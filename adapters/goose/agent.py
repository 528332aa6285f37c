"""Goose: reads what its hooks send, and answers in the one file of ours that it reads.

Imported by the daemon's first stage, so: standard library, and the wiring (`config.py`) only when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cems.adapters.adapter import Adapter, compact_json, text_at, whole_characters
from cems.adapters.tools import ask_in_words, canonical, mcp_tool, subject
from cems.core.agent_launch import Launch
from cems.core.events import ContextFile, EventKind, HookEvent, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from cems.core.paths import Home

CONTEXT_LIMIT = 9_500
"""UTF-16 units. Goose reads 65,536 bytes of its file, which these cannot be more than."""

SCRIPTS: dict[str, tuple[EventKind, str]] = {
    "cems_session_start": ("session_start", "SessionStart"),
    "cems_user_prompts_submit": ("prompt", "UserPromptSubmit"),
    "cems_pre_tool_use": ("pre_tool", "PreToolUse"),
    "cems_stop": ("stop", "Stop"),
    "cems_session_end": ("session_end", "SessionEnd"),
}
"""Hook script -> our event and Goose's name for it."""

_OWN_TOOLS = {"delegate": "Agent"}

MESSAGE_FILE = "GOOSE_MOIM_MESSAGE_FILE"
"""Goose's variable for the file whose text it puts beside each prompt. Read from its own environment only."""


class Goose(Adapter):
    """The adapter; see `cems.adapters.base.Agent`. Goose throws away what a hook prints; `reads_context_file` says that
    context reaches it in the file that `cems run goose` has made for its process, and without one not at all."""

    name = "goose"
    title = "Goose"
    uses_shared_skills = True
    reads_context_file = True
    cannot_ask = True

    # -- hooks

    def recognises(self, _variables: Mapping[str, str], payload: Mapping[str, Any]) -> bool:
        """By the input alone: no other agent names its event so. Variables are inherited, and Goose sets none."""
        named = text_at(payload, "event") and text_at(payload, "session_id")
        return bool(named) and "matcher_context" in payload and "hook_event_name" not in payload

    def parse(self, script: str, payload: Mapping[str, Any]) -> HookEvent | None:
        """The event; None when script and event name disagree or the input lacks a session.

        Its sessions are counted by the day, so their ids are no other agent's only with its name in front. Only tools and
        the turn's end name a folder: else it is the one the hook runs in.
        """
        kind, name = SCRIPTS.get(script, (None, ""))
        session = text_at(payload, "session_id")
        if kind is None or text_at(payload, "event") != name or not session:
            return None
        tool, given = tool_name(text_at(payload, "tool_name")), payload.get("tool_input")
        return HookEvent(
            agent=self.name,
            kind=kind,
            session=f"{self.name}:{session}",
            cwd=text_at(payload, "working_dir"),
            prompt=text_at(payload, "message") if kind == "prompt" else "",
            tool=tool,
            subject=subject(tool, given) if tool and isinstance(given, dict | str) else "",
            last_message=text_at(payload, "last_assistant_message"),
            # Its file is read with a prompt only.
            held=kind == "session_start",
            # It keeps what stood beside a prompt, and shows it to its model again.
            replayed=kind == "session_start",
        )

    def render(self, event: HookEvent, context: str) -> bytes:
        """Text for its file, without lone surrogates. Goose puts it in `<turn-context>`, which stored text cannot close."""
        if event.kind != "prompt" or not context:
            return b""
        return ContextFile(whole_characters(context).encode())

    def render_verdict(self, event: HookEvent, verdict: Verdict) -> bytes:
        """Refuses; Goose's hooks cannot ask. Words alone have no way to the model."""
        if event.kind != "pre_tool" or verdict.severity == "warn":
            return b""
        reason = verdict.text if verdict.severity == "block" else ask_in_words(self.title, verdict.text)
        return compact_json({"decision": "block", "reason": reason})

    def context_limit(self, event: HookEvent) -> int:
        return CONTEXT_LIMIT if event.kind in ("session_start", "prompt") else 0

    def write_standing(self, home: Home, text: str) -> bool:
        """Put what holds for the person everywhere into the block of ours in the global AGENTS.md; whether it is there."""
        from cems.adapters.goose.standing import write_standing

        return write_standing(home, text)

    def transcript_folders(self, home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
        """Its sessions word by word, its logs with what it sent to its model, what was typed, and what it reads always."""
        from cems.adapters.base import Machine
        from cems.adapters.goose import detect

        machine = Machine(home, environ)
        config = detect.config_dir(machine)
        return (
            detect.data_dir(machine) / "sessions",
            detect.state_dir(machine) / "logs",
            config / "history.txt",
            config / "AGENTS.md",
        )

    def launch(self, home: Path, environ: Mapping[str, str], context: Path) -> Launch:
        """How to start it so that it reads the file `context` with each prompt."""
        from cems.adapters.base import Machine
        from cems.adapters.goose import detect

        program, theirs = detect.program(Machine(home, environ)), environ.get(MESSAGE_FILE, "")
        if theirs and context.parent not in context.__class__(theirs).parents:
            note = f"{MESSAGE_FILE} names a file of yours: Goose goes on reading that one, and gets no memories with a prompt"
            return Launch(program, {}, note)
        return Launch(program, {MESSAGE_FILE: str(context)})

    # -- setup


def tool_name(name: str) -> str:
    """Claude's name. Goose's own tools stand bare or behind `developer__`; those of a server are `server__tool`."""
    known = canonical(_OWN_TOOLS, name)
    server, between, tool = name.partition("__")
    return mcp_tool(server, tool) if known == name and between and server and tool else known


AGENT = Goose()
