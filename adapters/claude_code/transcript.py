"""Claude Code's sessions: `projects/<folder>/<session>.jsonl`, a line for each block of each message.

A fork or a resumed session begins with copies of the earlier lines, which keep their `uuid`. Attachments are what the program
and hooks (ours too) put in front of the model; the one that is somebody's words is a prompt typed while the model worked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cems.adapters.adapter import text_at
from cems.adapters.base import Machine
from cems.adapters.claude_code.agent import MACHINE_PREFIXES
from cems.adapters.claude_code.detect import config_dir
from cems.adapters.line_reader import LineReader, found
from cems.adapters.telling import Teller, instant, list_of, object_of, texts
from cems.adapters.tools import BASH
from cems.core.learn.lines import first_records
from cems.core.learn.transcript import SessionSource

_SUBAGENTS = "subagents"
_REMINDER = "<system-reminder>"
_PEOPLE = ("", "human", "user", "sdk")
_NOT_SAID = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_NO_MODEL = "<synthetic>"
_EXIT = re.compile(r"Exit code (\d{1,10})\b")


class ClaudeCodeReader(LineReader):
    """See `cems.core.learn.transcript.ReadsTranscripts`."""

    def files(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        return found(config_dir(Machine(home, environ)) / "projects", "*/*.jsonl", f"*/*/{_SUBAGENTS}/*.jsonl")

    def source(self, path: Path) -> SessionSource:
        first = first_records(path)
        cwd = next((cwd for record in first if (cwd := text_at(record, "cwd"))), "")
        session = next((name for record in first if (name := text_at(record, "sessionId"))), path.stem)
        if path.parent.name == _SUBAGENTS:
            return SessionSource("claude-code", path, session, cwd, machine=True, parent=path.parent.parent.name)
        # Older versions keep a subagent's lines in its session's file, or in one beside it.
        marks = [record.get("isSidechain") is True for record in first if record.get("type") in ("user", "assistant")]
        aside = bool(marks) and all(marks)
        return SessionSource("claude-code", path, session if aside else path.stem, cwd, machine=aside)

    def tell(self, record: dict[str, Any], offset: int, teller: Teller) -> None:
        kind = record.get("type")
        if kind not in ("user", "assistant", "attachment") or any(record.get(sign) is True for sign in _NOT_SAID):
            return
        message = object_of(record, "message")
        session = text_at(record, "sessionId") or teller.source.session
        uuid = (
            text_at(object_of(record, "forkedFrom"), "messageUuid") or text_at(record, "uuid") or f"{session} {offset}"
        )
        also = {
            "at": instant(record.get("timestamp")),
            "session": session,
            "cwd": text_at(record, "cwd"),
            "machine": record.get("isSidechain") is True,
        }
        if kind == "attachment":
            _queued(object_of(record, "attachment"), uuid, offset, teller, also)
        elif kind == "assistant":
            _assistant(message, uuid, offset, teller, also)
        else:
            _user(record, message, uuid, offset, teller, also)


def _assistant(message: Mapping[str, Any], uuid: str, offset: int, teller: Teller, also: dict[str, Any]) -> None:
    if message.get("model") == _NO_MODEL:
        return
    turn = text_at(message, "id")
    if isinstance(said := message.get("content"), str):
        teller.assistant(said, uuid, offset, turn=turn, **also)
    for number, block in enumerate(list_of(message, "content")):
        if not isinstance(block, dict):
            continue
        key = f"{uuid} {number}" if number else uuid
        if block.get("type") == "text":
            teller.assistant(text_at(block, "text"), key, offset, turn=turn, **also)
        elif block.get("type") == "tool_use":
            teller.call(
                text_at(block, "id"), text_at(block, "name"), block.get("input"), key, offset, turn=turn, **also
            )


def _user(
    record: Mapping[str, Any], message: Mapping[str, Any], uuid: str, offset: int, teller: Teller, also: dict[str, Any]
) -> None:
    turn = text_at(record, "promptId")
    _person(texts(message.get("content")), record, uuid, offset, teller, {**also, "turn": turn})
    for number, block in enumerate(list_of(message, "content")):
        if not isinstance(block, dict) or block.get("type") != "tool_result":
            continue
        text, call = texts(block.get("content")), text_at(block, "tool_use_id")
        failed, told = block.get("is_error") is True, object_of(record, "toolUseResult")
        stopped, left = told.get("interrupted") is True, bool(told.get("backgroundTaskId"))
        code = _EXIT.match(text) if failed else None
        clean = not failed and not stopped and not left and teller.tool_of(call) == BASH
        teller.result(
            call,
            text,
            f"{uuid} result {number}" if number else f"{uuid} result",
            offset,
            ok=None if stopped or left else not failed,
            exit=int(code[1]) if code else 0 if clean else None,
            declined=bool(record.get("toolDenialKind")),
            turn=turn,
            **also,
        )


def _queued(attachment: Mapping[str, Any], uuid: str, offset: int, teller: Teller, also: dict[str, Any]) -> None:
    if attachment.get("type") == "queued_command" and attachment.get("isMeta") is not True:
        mode = text_at(attachment, "commandMode")
        machine = bool(also["machine"]) or mode not in ("", "prompt")
        also = {**also, "machine": machine, "turn": text_at(attachment, "source_uuid") or uuid}
        _person(texts(attachment.get("prompt")), attachment, uuid, offset, teller, also)


def _person(text: str, record: Mapping[str, Any], uuid: str, offset: int, teller: Teller, also: dict[str, Any]) -> None:
    start = text.lstrip()
    by_program = start.startswith(MACHINE_PREFIXES) and not start.startswith(_REMINDER)
    machine = also.pop("machine") or by_program or text_at(object_of(record, "origin"), "kind") not in _PEOPLE
    teller.person(text, uuid, offset, machine=machine, **also)


READER = ClaudeCodeReader()
