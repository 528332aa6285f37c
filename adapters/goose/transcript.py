"""Goose's sessions: `sessions/sessions.db`, a row for each message. What the person does not see (the turn's context with what
our hook gave, summaries of a compacted session) says so beside the message.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cems.adapters.adapter import text_at
from cems.adapters.base import Machine
from cems.adapters.goose.agent import tool_name
from cems.adapters.goose.detect import data_dir
from cems.adapters.row_reader import Row, RowReader
from cems.adapters.telling import Teller, instant, list_of, number_of, object_of, texts
from cems.core.learn.transcript import LONGEST_RECORD, SessionSource, digest

_NAME = "goose"
_NO_PERSONS = ("sub_agent", "subagent", "sub_task", "hidden", "scheduled")


class GooseReader(RowReader):
    """See `cems.core.learn.transcript.ReadsTranscripts`."""

    def database(self, home: Path, environ: Mapping[str, str]) -> Path:
        return data_dir(Machine(home, environ)) / "sessions" / "sessions.db"

    def sources(self, connection: sqlite3.Connection, path: Path, since: float) -> Iterator[SessionSource]:
        asked = (
            "SELECT * FROM sessions WHERE id IN (SELECT session_id FROM messages"
            " WHERE CASE WHEN created_timestamp > 100000000000 THEN created_timestamp / 1000 ELSE created_timestamp END >= ?)"
        )
        for row in connection.execute(asked, (int(since),)):
            known = dict(row)
            yield SessionSource(
                _NAME, path, f"{_NAME}:{known['id']}", str(known.get("working_dir") or ""),
                machine=known.get("session_type") in _NO_PERSONS,
                parent=f"{_NAME}:{known['parent_session_id']}" if known.get("parent_session_id") else "",
            )  # fmt: skip

    def row_name(self, connection: sqlite3.Connection, source: SessionSource, number: int) -> str | None:
        asked = "SELECT message_id, created_timestamp FROM messages WHERE id = ? AND session_id = ?"
        row = connection.execute(asked, (number, _session(source))).fetchone()
        return _row_name(row) if row else None

    def rows(self, connection: sqlite3.Connection, source: SessionSource, after: int) -> Iterator[Row]:
        asked = (
            "SELECT id, message_id, role, created_timestamp, metadata_json, length(CAST(content_json AS BLOB)) AS length,"
            " CASE WHEN length(CAST(content_json AS BLOB)) <= ? THEN content_json END AS content"
            " FROM messages WHERE session_id = ? AND id > ? ORDER BY id"
        )
        for row in connection.execute(asked, (LONGEST_RECORD, _session(source), after)):
            data = {**dict(row), "content": _json(row["content"]), "about": _json(row["metadata_json"])}
            yield Row(row["id"], _row_name(row), row["length"], data if isinstance(data["content"], list) else {})

    def tell(self, row: Row, teller: Teller) -> None:
        about = object_of(row.data, "about")
        if about.get("userVisible") is False or about.get("turnContext") is True:
            return
        turn, person = text_at(row.data, "message_id"), row.data.get("role") == "user"
        # Some models' servers count their messages anew each time: the id alone is not enough.
        key = f"{row.name} {digest(json.dumps(row.data['content']).encode())}"
        also: dict[str, Any] = {"at": instant(row.data.get("created_timestamp")), "turn": turn}
        said = texts(row.data["content"])
        if person:
            teller.person(said, key, row.number, **also)
        else:
            teller.assistant(said, key, row.number, **also)
        for number, part in enumerate(list_of(row.data, "content")):
            if not isinstance(part, dict):
                continue
            call, place = text_at(part, "id"), f"{key} {number}"
            if part.get("type") == "toolRequest":
                asked = object_of(object_of(part, "toolCall"), "value")
                name = tool_name(text_at(asked, "name"))
                teller.call(call, name, asked.get("arguments"), place, row.number, **also)
            elif part.get("type") == "toolResponse":
                answer = object_of(part, "toolResult")
                value = object_of(answer, "value")
                more = object_of(value, "structuredContent")
                code = next(
                    (code for name in ("exit_code", "exitCode") if (code := number_of(more, name)) is not None), None
                )
                failed = answer.get("status") != "success" or value.get("isError") is True or bool(code)
                text = texts(value.get("content")) or text_at(answer, "error")
                teller.result(call, text, place, row.number, ok=not failed, exit=code, **also)


def _session(source: SessionSource) -> str:
    return source.session.removeprefix(f"{_NAME}:")


def _row_name(row: sqlite3.Row) -> str:
    return f"{row['message_id'] or ''} {row['created_timestamp']}"


def _json(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


READER = GooseReader()
