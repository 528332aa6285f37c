"""Pi's sessions: `sessions/--<folder>--/<time>_<id>.jsonl`, a tree of entries. A fork begins with copies of the entries on its
way, which keep their ids and times. What extensions (ours too) put in are entries of a type of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cems.adapters.adapter import text_at
from cems.adapters.base import Machine
from cems.adapters.line_reader import LineReader, found
from cems.adapters.pi.agent import AGENT
from cems.adapters.pi.detect import config_dir
from cems.adapters.telling import Teller, instant, list_of, number_of, object_of, texts
from cems.adapters.tools import BASH
from cems.core.learn.lines import first_records
from cems.core.learn.transcript import SessionSource


class PiReader(LineReader):
    """See `cems.core.learn.transcript.ReadsTranscripts`."""

    def files(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        return found(config_dir(Machine(home, environ)) / "sessions", "*/*.jsonl", "*.jsonl")

    def source(self, path: Path) -> SessionSource | None:
        about = next((record for record in first_records(path) if record.get("type") == "session"), {})
        session = text_at(about, "id")
        return SessionSource("pi", path, session, text_at(about, "cwd")) if session else None

    def tell(self, record: dict[str, Any], offset: int, teller: Teller) -> None:
        if record.get("type") != "message":
            return
        message, name = object_of(record, "message"), text_at(record, "id")
        # Eight digits are too few to be alone on a machine.
        key = f"{name or teller.source.session} {record.get('timestamp', offset)}"
        also: dict[str, Any] = {"at": instant(record.get("timestamp")), "turn": name}
        content = message.get("content")
        match message.get("role"):
            case "user":
                teller.person(texts(content), key, offset, **also)
            case "assistant":
                teller.assistant(texts(content), key, offset, **also)
                for number, part in enumerate(list_of(message, "content")):
                    if isinstance(part, dict) and part.get("type") == "toolCall":
                        tool = AGENT.tool(text_at(part, "name"))
                        given, call = part.get("arguments"), text_at(part, "id")
                        teller.call(call, tool, given, f"{key} {number}", offset, **also)
            case "toolResult":
                tool, failed = AGENT.tool(text_at(message, "toolName")), message.get("isError")
                ok = not failed if isinstance(failed, bool) else None
                call = text_at(message, "toolCallId")
                teller.result(call, texts(content), key, offset, ok=ok, tool=tool, **also)
            case "bashExecution":
                # A command that the person ran at the prompt.
                code = number_of(message, "exitCode")
                teller.call(key, BASH, {"command": message.get("command")}, key, offset, **also)
                output = text_at(message, "output")
                ok = None if code is None else not code
                teller.result(key, output, f"{key} result", offset, ok=ok, exit=code, **also)


READER = PiReader()
