"""Codex's sessions: `sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`.

What is said stands there twice, as what goes to the model and as what the thread shows. The second is read: it has no text of
hooks, and commands in it have their exit codes. Threads that are no person's say so in their first line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from cems.adapters.adapter import text_at
from cems.adapters.base import Machine
from cems.adapters.codex.agent import MACHINE_PREFIXES, OWN_TOOLS
from cems.adapters.codex.detect import codex_home
from cems.adapters.line_reader import LineReader, found
from cems.adapters.telling import Teller, as_json, instant, list_of, number_of, object_of, texts
from cems.adapters.tools import BASH, EDIT, WEB_SEARCH, canonical, mcp_tool
from cems.core.learn.lines import first_records
from cems.core.learn.transcript import SessionSource

_TEXT = ("text", "Text", "input_text", "output_text")


class CodexReader(LineReader):
    """See `cems.core.learn.transcript.ReadsTranscripts`."""

    def files(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        folder = codex_home(Machine(home, environ))
        yield from found(folder / "sessions", "*/*/*/rollout-*.jsonl")
        yield from found(folder / "archived_sessions", "rollout-*.jsonl")

    def source(self, path: Path) -> SessionSource | None:
        first = next((record for record in first_records(path) if record.get("type") == "session_meta"), {})
        about = object_of(first, "payload")
        session = text_at(about, "session_id") or text_at(about, "id")
        if not session:
            return None
        # A subagent, a review, Codex's own memory at work: an object that says which, where a person's thread has a word.
        machine = isinstance(about.get("source"), dict) or text_at(about, "thread_source") not in ("", "user")
        return SessionSource(
            "codex", path, session, text_at(about, "cwd"), machine, parent=text_at(about, "parent_thread_id")
        )

    def tell(self, record: dict[str, Any], offset: int, teller: Teller) -> None:
        payload = object_of(record, "payload")
        if record.get("type") != "event_msg" or payload.get("type") != "item_completed":
            return
        item = object_of(payload, "item")
        begun, ended = instant(payload.get("started_at_ms")), instant(payload.get("completed_at_ms"))
        kind, name = text_at(item, "type"), text_at(item, "id")
        key = f"{name or offset} {kind} {payload.get('started_at_ms', '')}"
        turn = text_at(payload, "turn_id")
        if kind == "UserMessage":
            text = texts(item.get("content"), _TEXT)
            machine = text.lstrip().startswith(MACHINE_PREFIXES)
            teller.person(text, key, offset, machine=machine, at=ended, turn=turn)
        elif kind == "AgentMessage":
            teller.assistant(texts(item.get("content"), _TEXT), key, offset, at=ended, turn=turn)
        elif (made := _CALLS.get(kind)) is not None:
            tool, given, text = made(item)
            cwd, status, code = _path(text_at(item, "cwd")), text_at(item, "status"), number_of(item, "exit_code")
            teller.call(name, tool, given, key, offset, at=begun, turn=turn, cwd=cwd)
            failed = bool(code) or status not in ("", "completed") or object_of(item, "result").get("isError") is True
            declined = status == "declined"
            ok = None if status == "in_progress" else not failed
            teller.result(
                name, text, f"{key} result", offset,
                ok=ok, exit=code, declined=declined, at=ended, turn=turn, cwd=cwd,
            )  # fmt: skip


def _command(item: Mapping[str, Any]) -> tuple[str, Any, str]:
    return BASH, {"command": item.get("command")}, text_at(item, "aggregated_output")


def _served(item: Mapping[str, Any]) -> tuple[str, Any, str]:
    error = item.get("error")
    wrong = error if isinstance(error, str) else text_at(object_of(item, "error"), "message")
    text = texts(object_of(item, "result").get("content")) or wrong
    return mcp_tool(text_at(item, "server"), text_at(item, "tool")), item.get("arguments"), text


def _changed(item: Mapping[str, Any]) -> tuple[str, Any, str]:
    changes = item.get("changes")
    paths = list(changes) if isinstance(changes, dict) else []
    said = "\n".join(part for part in (text_at(item, "stdout"), text_at(item, "stderr")) if part)
    return EDIT, {"paths": paths, "changes": changes}, said


def _agents(item: Mapping[str, Any]) -> tuple[str, Any, str]:
    tool = canonical(OWN_TOOLS, text_at(item, "tool"))
    return tool, {"prompt": item.get("prompt"), "agents": list_of(item, "receiver_thread_ids")}, ""


def _searched(item: Mapping[str, Any]) -> tuple[str, Any, str]:
    return WEB_SEARCH, {"query": item.get("query")}, as_json(item.get("results"))


_CALLS = {
    "CommandExecution": _command,
    "McpToolCall": _served,
    "FileChange": _changed,
    "CollabAgentToolCall": _agents,
    "WebSearch": _searched,
}


def _path(url: str) -> str:
    return unquote(urlsplit(url).path) if url.startswith("file:") else url


READER = CodexReader()
