"""What a model reads as the answer of a tool: a sentence of ours, and recalled text in the same fence as in a prompt."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from cems.core.recall.escape import cut, escape
from cems.core.recall.render import MEMORY_TAG, SHORT_ID, Block, Line, line, notice

_LISTED_CHARS = 400


def added_text(found: Mapping[str, Any]) -> str:
    """A sentence for the model about what became of an addition."""
    # Why something was forgotten, an agent may have said.
    status, reason, short = found.get("status"), escape(str(found.get("reason") or "")), short_id(found.get("id"))
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
    reason = f" ({escape(str(found['reason']))})" if found.get("reason") else ""
    return f"{short_id(found.get('replaced'))} is replaced by {short_id(found.get('id'))}{reason}."


def history_text(found: Mapping[str, Any]) -> str:
    """The chain of corrections, the oldest first, with why each was closed."""
    lines = []
    for link in found["chain"]:
        closed = link.get("closed") or {}
        believed, valid = link["believed"], link["valid"]
        parts = (
            _span("believed", believed["from"], believed["to"]),
            _span("true", valid["from"], valid["to"]),
            f"by {(link.get('source') or {}).get('agent') or (link.get('source') or {}).get('actor') or 'somebody'}",
            _trust(link),
            link["state"] if link["state"] != "live" else "",
        )
        head = f"- [{short_id(link['id'])} {', '.join(escape(part) for part in parts if part)}] "
        lines.append(Line(head + _words(link), 0))
        if closed:
            by = f"replaced by {short_id(link['closed_by'])}" if link.get("closed_by") else "closed"
            who = closed.get("agent") or closed.get("actor")
            why = f": {closed['reason']}" if closed.get("reason") else ""
            lines.append(Line(f"  {by} on {str(closed['at'])[:10]} by {escape(f'{who}{why}')}", 0))
    more = [(found.get("elsewhere"), "in other scopes"), (found.get("withheld"), "withheld until a person decides")]
    left = ", ".join(f"{number} {what}" for number, what in more if number)
    only = "It was never corrected.\n" if len(lines) == 1 and not left else ""
    return only + (f"Not shown: {left}.\n" if left else "") + fenced(lines, found["chain"])


def timeline_text(found: Mapping[str, Any]) -> str:
    """What was learnt and changed, the newest first."""
    events = found.get("events") or []
    if not events:
        return "Nothing was learnt or changed in that time."
    total = int((found.get("coverage") or {}).get("total") or len(events))
    lines = []
    for event in events:
        place = "project" if event["scope"].startswith("project:") else event["scope"]
        of = f" {', '.join(map(short_id, event['corrects']))} by" if event.get("corrects") else ""
        who = event.get("agent") or event.get("actor")
        why = f": {event['reason']}" if event.get("reason") else ""
        head = f"{event['at'][:16].replace('T', ' ')} {event['what']}{of} {short_id(event['id'])}, {event['category']}, {place}"
        lines.append(Line(f"- [{escape(f'{head}, by {who}{why}')}] {_words(event)}", 0))
    rest = f"The newest {len(events)} of {total}; `until` goes further back.\n" if total > len(events) else ""
    return rest + fenced(lines, events)


def asked_text(found: Mapping[str, Any]) -> str:
    """A sentence for the model about a request for promotion."""
    short = short_id(found.get("id"))
    if found.get("status") == "waiting":
        return f"{short} waits for the person's decision already. There is nothing to add."
    return f"Asked: the person decides in `cems review` whether {short} holds in all their projects. Until then it stays here."


def maintenance_text(found: Mapping[str, Any]) -> str:
    """The report, or the result of a job, in lines."""
    if found.get("job"):
        return _job_text(found)
    kinds = ", ".join(f"{number} {kind}" for kind, number in found["review"].items() if kind != "total" and number)
    counts = ", ".join(f"{number} {name}" for name, number in found["memories"].items() if number)
    twice = found["duplicates"]
    pairs = "".join(f"\n  {short_id(one)} and {short_id(other)}" for one, other in twice["pairs"])
    store = found["store"]
    troubled = f", writing fails ({store['failure']})" if store.get("failure") else ""
    reason = f": {store['reason']}" if store.get("reason") else ""
    jobs = "".join(f"\n  {job['name']}: {job['does']}" for job in found["jobs"])
    return (
        f"Memories of {found['scope']['project'] or 'no project'} and the person: {counts or 'none'}.\n"
        f"Waiting for the person in `cems review`: {found['review']['total']}{f' ({kinds})' if kinds else ''}.\n"
        f"Suspected duplicates: {twice['suspected']} among the newest {twice['compared']}{':' if pairs else '.'}{pairs}\n"
        f"Search store: {store['state']}{reason}{troubled}. Last copy of the journal: {found['last_copy'] or 'none yet'}.\n"
        f"Jobs:{jobs}"
    )


def _job_text(found: Mapping[str, Any]) -> str:
    result, took = found["result"], f"{found['seconds']:g} s"
    if found["job"] == "verify":
        lines = [
            f"{'ok' if each['ok'] else 'NOT OK'}  {each['name']}: {each['detail']}{'; ' + each['fix'] if each['fix'] else ''}"
            for each in result["checks"]
        ]
        head = "Everything is sound" if result["sound"] else "Not everything is sound: tell the person"
        return "\n".join((f"{head} ({took}).", *lines))
    if not result["done"]:
        return f"{found['job']} was not done: {result['reason']}."
    return f"{found['job']} done in {took}: {result['bytes_before']:,} bytes before, {result['bytes_after']:,} after."


def status_text(found: Mapping[str, Any]) -> str:
    """The status as JSON, without what concerns this machine only."""
    daemon, memories = found["daemon"], found["memories"]
    shown = {
        "version": daemon["version"],
        "state": daemon["state"],
        "project": found["scope"]["project"],
        "memories_here": memories["here"],
        "waiting_for_review": found["review"],
        "waiting_for_index": memories["pending_index"],
        "search": {
            "by": "meaning and words" if found["embedding"]["state"] == "ready" else "words",
            **found["embedding"],
        },
    }
    return json.dumps(shown, ensure_ascii=False, indent=1)


_WHOSE = {"user": "the person's own, for all projects", "shared": "shared with a team"}


def summary_text(found: Mapping[str, Any]) -> str:
    """A scope's memories in their fence, and how many there are."""
    scope, total, given = found["scope"], found["total"], found["given"]
    if scope == "project" and not found["project"]:
        return "This session is in no project, so there are no project memories."
    whose = f"of the project {escape(found['project'])}" if scope == "project" else _WHOSE[scope]
    team = "No team store is connected: what is marked as shared stays on this machine.\n" if scope == "shared" else ""
    if not total:
        return f"{team}No memory is {whose}."
    part = (
        "" if given == total else f" The {given} most important and newest are below; memory_search finds the others."
    )
    one = "memory is" if total == 1 else "memories are"
    return f"{team}{total} {one} {whose}.{part}\n{found['block']}"


def _span(what: str, since: str | None, until: str | None) -> str:
    times = f"{'from ' + since[:10] if since else ''}{' until ' + until[:10] if until else ''}".strip()
    return f"{what} {times}" if times else ""


def _trust(memory: Mapping[str, Any]) -> str:
    return "unverified" if memory.get("trust") == "candidate" else str(memory.get("trust") or "")


def _words(memory: Mapping[str, Any]) -> str:
    """Its content as it may stand in a line of a list; what is forgotten has none."""
    whole = escape(str(memory.get("content") or ""))
    kept = cut(whole, _LISTED_CHARS).replace("\n", "\n  ")
    if not whole:
        return "(forgotten)"
    return kept if len(whole) <= _LISTED_CHARS else f"{kept} … (cut; whole: memory_get {short_id(memory.get('id'))})"


def short_id(memory_id: object) -> str:
    """Long enough to be told apart, short enough to be typed."""
    return str(memory_id or "")[:SHORT_ID]


def noted(found: Mapping[str, Any], memories: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same answer for a client whose model reads the JSON and not the text: what the fence says comes first, and no
    text in it has a tag that means something.
    """
    note = {"note": notice(MEMORY_TAG, unverified=_unverified(memories))} if memories else {}
    return note | {name: _escaped(value) for name, value in found.items()}


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {name: _escaped(each) for name, each in value.items()}
    return [_escaped(each) for each in value] if isinstance(value, (list, tuple)) else value


def _unverified(memories: Sequence[Mapping[str, Any]]) -> bool:
    return any(memory.get("trust") == "candidate" for memory in memories)


def fenced(lines: list[Line], memories: Sequence[Mapping[str, Any]]) -> str:
    """The lines in the fence of recalled memories, as in a prompt, but as many as there are."""
    block = Block(MEMORY_TAG, max_tokens=math.inf, max_units=sys.maxsize)
    unverified = _unverified(memories)
    for each in lines:
        block.add_line(each, unverified=unverified)
    return block.text
