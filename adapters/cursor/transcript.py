"""Cursor's sessions: `projects/<folder>/agent-transcripts/<id>/<id>.jsonl`, in older versions `<id>.jsonl`.

Its lines have neither times nor ids, and no results of tools. What the person typed stands in `<user_query>` where the editor
puts files and reminders beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cems.adapters.adapter import text_at
from cems.adapters.base import Machine
from cems.adapters.cursor.agent import MACHINE_PREFIXES, tool_name
from cems.adapters.cursor.detect import config_dir
from cems.adapters.line_reader import LineReader, found
from cems.adapters.telling import Teller, as_json, list_of, object_of, texts
from cems.core.learn.transcript import SessionSource, digest

_FOLDER = "agent-transcripts"
_SUBAGENTS = "subagents"
_TYPED = re.compile(r"<user_query>(.*?)(?:</user_query>|\Z)", re.DOTALL)
_USERS, _ASSISTANTS = "user", "assistant"


class CursorReader(LineReader):
    """See `cems.core.learn.transcript.ReadsTranscripts`."""

    def files(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        below = (f"*/{_FOLDER}/*.jsonl", f"*/{_FOLDER}/*/*.jsonl", f"*/{_FOLDER}/*/{_SUBAGENTS}/*.jsonl")
        return found(config_dir(Machine(home, environ)) / "projects", *below)

    def source(self, path: Path) -> SessionSource:
        aside = path.parent.name == _SUBAGENTS
        parent = path.parent.parent.name if aside else ""
        return SessionSource("cursor", path, path.stem, machine=aside, parent=parent)

    def tell(self, record: dict[str, Any], offset: int, teller: Teller) -> None:
        role, message = record.get("role"), object_of(record, "message")
        content = message.get("content")
        key = f"{teller.source.session} {offset} {digest(as_json(record).encode('utf-8', 'replace'))}"
        if role == _USERS:
            text = texts(content)
            typed = _TYPED.findall(text)
            machine = not typed and text.lstrip().startswith(MACHINE_PREFIXES)
            teller.person("\n".join(typed) if typed else text, key, offset, machine=machine)
        elif role == _ASSISTANTS:
            teller.assistant(texts(content), key, offset)
            for number, part in enumerate(list_of(message, "content")):
                if isinstance(part, dict) and part.get("type") == "tool_use":
                    call = text_at(part, "id") or text_at(part, "tool_use_id")
                    tool = tool_name(text_at(part, "name"))
                    teller.call(call, tool, part.get("input"), f"{key} {number}", offset)


READER = CursorReader()
