"""GitHub Copilot CLI's sessions: `session-state/<id>/events.jsonl`.

`data.content` of a prompt is what was typed; its `transformedContent` has what hooks gave. What a subagent says and does
stands in the same file, with an `agentId`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cems.adapters.adapter import text_at
from cems.adapters.base import Machine
from cems.adapters.copilot.agent import MACHINE_PREFIXES, tool_name
from cems.adapters.copilot.detect import config_dir
from cems.adapters.line_reader import LineReader, found
from cems.adapters.telling import Teller, instant, number_of, object_of
from cems.adapters.tools import mcp_tool
from cems.core.learn.lines import first_records
from cems.core.learn.transcript import SessionSource

_DENIED = "denied"


class CopilotReader(LineReader):
    """See `cems.core.learn.transcript.ReadsTranscripts`."""

    def files(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        return found(config_dir(Machine(home, environ)) / "session-state", "*/events.jsonl")

    def source(self, path: Path) -> SessionSource:
        first = next((record for record in first_records(path) if record.get("type") == "session.start"), {})
        about = object_of(first, "data")
        cwd = text_at(object_of(about, "context"), "cwd")
        return SessionSource("copilot", path, text_at(about, "sessionId") or path.parent.name, cwd)

    def tell(self, record: dict[str, Any], offset: int, teller: Teller) -> None:
        data = object_of(record, "data")
        key = text_at(record, "id") or f"{teller.source.session} {offset}"
        turn = text_at(data, "interactionId") or text_at(data, "turnId")
        also: dict[str, Any] = {"at": instant(record.get("timestamp")), "turn": turn}
        also["machine"] = bool(text_at(record, "agentId"))
        match record.get("type"):
            case "user.message":
                text = text_at(data, "content")
                by_program = bool(text_at(data, "source").startswith("agent-")) or text.startswith(MACHINE_PREFIXES)
                also["machine"] = also["machine"] or by_program
                teller.person(text, key, offset, **also)
            case "assistant.message":
                teller.assistant(text_at(data, "content"), key, offset, **also)
            case "tool.execution_start":
                server, tool = text_at(data, "mcpServerName"), text_at(data, "mcpToolName")
                name = mcp_tool(server, tool) if server and tool else tool_name(text_at(data, "toolName"))
                teller.call(text_at(data, "toolCallId"), name, data.get("arguments"), key, offset, **also)
            case "tool.execution_complete":
                error, code = object_of(data, "error"), number_of(object_of(data, "shellExecution"), "exitCode")
                teller.result(
                    text_at(data, "toolCallId"),
                    text_at(object_of(data, "result"), "content") or text_at(error, "message"),
                    key,
                    offset,
                    ok=data.get("success") is True and not code if "success" in data else None,
                    exit=code,
                    declined=text_at(error, "code") == _DENIED,
                    **also,
                )


READER = CopilotReader()
