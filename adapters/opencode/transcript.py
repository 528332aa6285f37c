"""OpenCode's sessions: `opencode.db`, a row for each part of each message, written again until the part is done.

What plugins (ours too) put beside a prompt is `synthetic`. A fork is made of copies with new ids, which keep the message's
time: that and the text are what a part is known by.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cems.adapters.adapter import text_at
from cems.adapters.base import Machine
from cems.adapters.opencode.agent import AGENT
from cems.adapters.opencode.detect import data_dir
from cems.adapters.row_reader import Row, RowReader
from cems.adapters.telling import Teller, instant, number_of, object_of
from cems.core.learn.transcript import LONGEST_RECORD, SessionSource, digest

_FINAL = ("completed", "error")
_REFUSED = ("rejected permission", "user rejected", "denied")


class OpenCodeReader(RowReader):
    """See `cems.core.learn.transcript.ReadsTranscripts`."""

    def database(self, home: Path, environ: Mapping[str, str]) -> Path:
        return data_dir(Machine(home, environ)) / "opencode.db"

    def sources(self, connection: sqlite3.Connection, path: Path, since: float) -> Iterator[SessionSource]:
        asked = (
            "SELECT id, parent_id, directory FROM session"
            " WHERE id IN (SELECT session_id FROM part WHERE time_updated >= ?) ORDER BY rowid"
        )
        for row in connection.execute(asked, (int(since * 1000),)):
            parent = row["parent_id"] or ""
            yield SessionSource(
                "opencode", path, row["id"], row["directory"] or "", machine=bool(parent), parent=parent
            )

    def row_name(self, connection: sqlite3.Connection, source: SessionSource, number: int) -> str | None:
        row = connection.execute(
            "SELECT id FROM part WHERE rowid = ? AND session_id = ?", (number, source.session)
        ).fetchone()
        return row["id"] if row else None

    def rows(self, connection: sqlite3.Connection, source: SessionSource, after: int) -> Iterator[Row]:
        newest = connection.execute(
            "SELECT id FROM message WHERE session_id = ? ORDER BY rowid DESC LIMIT 1", (source.session,)
        ).fetchone()
        asked = (
            "SELECT part.rowid AS number, part.id, part.message_id, message.data AS message, part.time_created AS time,"
            " length(CAST(part.data AS BLOB)) AS length,"
            " CASE WHEN length(CAST(part.data AS BLOB)) <= ? THEN part.data END AS part"
            " FROM part JOIN message ON message.id = part.message_id"
            " WHERE part.session_id = ? AND part.rowid > ? ORDER BY part.rowid"
        )
        for row in connection.execute(asked, (LONGEST_RECORD, source.session, after)):
            message, part = _json(row["message"]), _json(row["part"])
            # A part of an older message is not written any more, whatever became of it.
            if newest and row["message_id"] == newest["id"] and not _finished(message, part):
                return
            told = {"message": message, "part": part, "time": row["time"], "turn": row["message_id"]}
            yield Row(row["number"], row["id"], row["length"], told if message and part else {})

    def tell(self, row: Row, teller: Teller) -> None:
        message, part = object_of(row.data, "message"), object_of(row.data, "part")
        if part.get("synthetic") is True or part.get("ignored") is True or message.get("summary") is True:
            return
        written = number_of(object_of(message, "time"), "created") or number_of(row.data, "time") or 0
        also: dict[str, Any] = {"at": instant(written), "turn": text_at(row.data, "turn")}
        kind, text = part.get("type"), text_at(part, "text")
        key = f"{written} {message.get('role')} {kind} "
        if kind == "text" and message.get("role") == "user":
            teller.person(AGENT.prompt(text), key + _digest(text), row.number, **also)
        elif kind == "text":
            teller.assistant(text, key + _digest(text), row.number, **also)
        elif kind == "tool":
            _tool(part, key, row.number, teller, also)


def _tool(part: Mapping[str, Any], key: str, number: int, teller: Teller, also: dict[str, Any]) -> None:
    call, state, tool = text_at(part, "callID"), object_of(part, "state"), AGENT.tool(text_at(part, "tool"))
    key += call
    time = object_of(state, "time")
    teller.call(call, tool, state.get("input"), key, number, **{**also, "at": instant(time.get("start")) or also["at"]})
    status, error = text_at(state, "status"), text_at(state, "error")
    if status not in _FINAL:
        return
    code = number_of(object_of(state, "metadata"), "exit")
    teller.result(
        call, text_at(state, "output") or error, f"{key} result", number,
        ok=status == "completed" and not code, exit=code,
        declined=any(words in error.lower() for words in _REFUSED),
        **{**also, "at": instant(time.get("end")) or also["at"]},
    )  # fmt: skip


def _finished(message: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Whether a part of the newest message is written for good."""
    over = "completed" in object_of(message, "time") or bool(message.get("error"))
    if over or message.get("role") != "assistant":
        return True
    if part.get("type") == "tool":
        return object_of(part, "state").get("status") in _FINAL
    return part.get("type") not in ("text", "reasoning") or "end" in object_of(part, "time")


def _digest(text: str) -> str:
    return digest(text.encode("utf-8", "replace"))


def _json(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


READER = OpenCodeReader()
