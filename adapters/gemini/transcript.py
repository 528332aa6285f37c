"""Gemini CLI's sessions: `tmp/<project>/chats/session-<time>-<id>.jsonl`.

A message is written again, under the same id, when its tool calls are done, and all of them are when a session is resumed or
compressed (`{"$set": {"messages": […]}}`): the same things have the same keys. What hooks gave stands in `<hook_context>`,
with `<` in it written `&lt;`; what the person typed stands in `displayContent` where a hook or a file came with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cems.adapters.adapter import text_at
from cems.adapters.base import Machine
from cems.adapters.gemini.agent import TOOLS
from cems.adapters.gemini.detect import config_dir
from cems.adapters.line_reader import LineReader, found
from cems.adapters.telling import Teller, instant, list_of, object_of
from cems.adapters.tools import BASH, canonical, mcp_tool
from cems.core.learn.lines import first_records
from cems.core.learn.transcript import SessionSource

_CHATS = "chats"
_SERVED = re.compile(r"\((.+) MCP Server\)\Z")
_WRAPPED = re.compile(r"\A\s*<untrusted_context>\n?(.*?)\n?</untrusted_context>", re.DOTALL)
_EXIT = re.compile(r"^Exit Code: (\d{1,10})\s*$", re.MULTILINE)
_DONE = {"success": True, "error": False, "cancelled": False}


class GeminiReader(LineReader):
    """See `cems.core.learn.transcript.ReadsTranscripts`."""

    def files(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        return found(config_dir(Machine(home, environ)) / "tmp", f"*/{_CHATS}/*.jsonl", f"*/{_CHATS}/*/*.jsonl")

    def source(self, path: Path) -> SessionSource | None:
        about = next((record for record in first_records(path) if text_at(record, "sessionId")), {})
        session = text_at(about, "sessionId")
        if not session:
            return None
        project = path.parent if path.parent.name == _CHATS else path.parent.parent
        machine = text_at(about, "kind") not in ("", "main")
        parent = path.parent.name if machine and path.parent.name != _CHATS else ""
        return SessionSource("gemini", path, session, _folder_of(project.parent), machine, parent)

    def tell(self, record: dict[str, Any], offset: int, teller: Teller) -> None:
        if "type" in record:
            _message(record, offset, teller)
            return
        for message in list_of(object_of(record, "$set"), "messages"):
            if isinstance(message, dict):
                _message(message, offset, teller)


def _message(message: Mapping[str, Any], offset: int, teller: Teller) -> None:
    name, when = text_at(message, "id"), instant(message.get("timestamp"))
    key = name or f"{teller.source.session} {offset}"
    if message.get("type") == "user":
        shown = message.get("displayContent")
        teller.person(_text(message.get("content") if shown is None else shown), key, offset, at=when, turn=name)
    elif message.get("type") == "gemini":
        teller.assistant(_text(message.get("content")), key, offset, at=when, turn=name)
        for call in list_of(message, "toolCalls"):
            if isinstance(call, dict):
                _call(call, key, offset, teller, {"at": instant(call.get("timestamp")) or when, "turn": name})


def _call(call: Mapping[str, Any], message: str, offset: int, teller: Teller, also: dict[str, Any]) -> None:
    name, status = text_at(call, "id"), text_at(call, "status")
    tool, key = _tool(call), f"{message} {name}"
    teller.call(name, tool, call.get("args"), key, offset, **also)
    if status not in _DONE:
        return
    text = "\n".join(_output(part) for part in list_of(call, "result") if isinstance(part, dict))
    wrapped = _WRAPPED.match(text)
    text = wrapped[1] + text[wrapped.end() :] if wrapped else text
    code = _EXIT.search(text) if tool == BASH else None
    number = int(code[1]) if code else 0 if tool == BASH and status == "success" else None
    teller.result(
        name, text or text_at(call, "resultDisplay"), f"{key} result", offset,
        ok=_DONE[status] and not number, exit=number, declined=status == "cancelled", **also,
    )  # fmt: skip


def _output(part: Mapping[str, Any]) -> str:
    response = object_of(object_of(part, "functionResponse"), "response")
    return text_at(response, "output") or text_at(response, "error") or text_at(part, "text")


def _tool(call: Mapping[str, Any]) -> str:
    """A server's tool is named `mcp_<server>_<tool>`, and both may have underscores: only what is shown parts them."""
    name, served = text_at(call, "name"), _SERVED.search(text_at(call, "displayName"))
    if served and name.startswith(before := f"mcp_{served[1]}_"):
        return mcp_tool(served[1], name.removeprefix(before))
    return canonical(TOOLS, name)


def _text(content: Any) -> str:
    """Of a text, or of parts, which have no type."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(text_at(part, "text") for part in parts if isinstance(part, dict) and text_at(part, "text"))


def _folder_of(project: Path) -> str:
    """The project's folder, by the name Gemini CLI gave it; "" where its list does not tell."""
    try:
        known = json.loads((project.parent.parent / "projects.json").read_bytes())["projects"]
        return next((folder for folder, name in known.items() if name == project.name), "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""


READER = GeminiReader()
