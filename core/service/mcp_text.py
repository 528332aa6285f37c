"""What a model reads as the answer of a tool: a sentence of ours, and recalled text in the same fence as in a prompt."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from cems.core.recall.escape import escape
from cems.core.recall.render import MEMORY_TAG, SHORT_ID, Block, Line, line


def added_text(found: Mapping[str, Any]) -> str:
    """A sentence for the model about what became of an addition."""
    status, reason, short = found.get("status"), found.get("reason"), short_id(found.get("id"))
    cut = found.get("redacted") or 0
    note = f" {cut} secret or private part{'s were' if cut > 1 else ' was'} cut from it." if cut else ""
    because = f": {reason}" if reason else ""
    if status == "refused":
        return f"Not stored{because}. Do not try again in other words; tell the person."
    if status == "duplicate":
        return f"Already remembered as {short}{because}.{note}"
    if status == "candidate":
        return f"Stored as {short}, unverified until the person approves it{because}.{note}"
    return f"Stored as {short}{because}.{note}"


def search_text(found: Mapping[str, Any]) -> str:
    """The memories found, fenced as everywhere."""
    memories = found.get("memories") or []
    asked = _time_asked(found.get("at") or {})
    if not memories:
        return f"{asked}Nothing is remembered about this."
    keyword = "" if found.get("mode") != "keyword" else "Only words were compared, not meanings.\n"
    gone = [short_id(memory["id"]) for memory in memories if (memory.get("now") or {}).get("state", "live") != "live"]
    since = f"No longer believed today: {', '.join(gone)}.\n" if gone else ""
    return asked + keyword + since + fenced([line(memory) for memory in memories], memories)


def _time_asked(at: Mapping[str, Any]) -> str:
    asked = (("believed at", at.get("as_of")), ("true at", at.get("valid_at")))
    said = " and ".join(f"{what} {time}" for what, time in asked if time)
    return f"This is what was {said}, not what holds now.\n" if said else ""


def shown_text(found: Mapping[str, Any]) -> str:
    """A memory in full, and how it changed."""
    memory = found["memory"]
    head = line(memory | {"title": None, "content": ""}).text
    whole = f"{memory['title']}: {memory['content']}" if memory.get("title") else memory["content"]
    lines = [head + escape(whole).replace("\n", "\n  ")]
    if quote := (memory.get("source") or {}).get("quote"):
        lines.append(f"  evidence: {escape(quote)}")
    for entry in found.get("history") or []:
        said = (entry.get("at"), entry.get("op"), "by", entry.get("agent") or entry.get("actor"), entry.get("reason"))
        lines.append("  history: " + escape(" ".join(str(part) for part in said if part)))
    closed = (
        f"It is closed since {memory['expired_at'][:10]}; another memory may have replaced it.\n"
        if memory.get("expired_at")
        else ""
    )
    return closed + fenced([Line(text, 0) for text in lines], [memory])


def hidden_text(found: Mapping[str, Any]) -> str:
    """A sentence for the model about what was forgotten."""
    ids = ", ".join(short_id(memory.get("id")) for memory in found.get("hidden") or [])
    return f"Forgotten: {ids}. It is not recalled any more, and the same text will be refused."


def updated_text(found: Mapping[str, Any]) -> str:
    """A sentence for the model about a correction."""
    if found.get("status") == "refused":
        return added_text(found)
    reason = f" ({found['reason']})" if found.get("reason") else ""
    return f"{short_id(found.get('replaced'))} is replaced by {short_id(found.get('id'))}{reason}."


def short_id(memory_id: object) -> str:
    """Long enough to be told apart, short enough to be typed."""
    return str(memory_id or "")[:SHORT_ID]


def fenced(lines: list[Line], memories: list[dict[str, Any]]) -> str:
    """The lines in the fence of recalled memories, as in a prompt, but as many as there are."""
    block = Block(MEMORY_TAG, max_tokens=math.inf, max_units=sys.maxsize)
    unverified = any(memory.get("trust") == "candidate" for memory in memories)
    for each in lines:
        block.add_line(each, unverified=unverified)
    return block.text
