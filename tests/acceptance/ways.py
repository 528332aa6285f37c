"""Every way into and out of a machine's memory, and what each says of one text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.fakes.machine import IN_CLAUDE, Machine
from tests.negative_eval.case import could_be_in_an_id

from cems.core.service.client import OperationError

PORT = "The staging database listens on port 5433."
HOST = "The staging database runs on the host mercury."
QUESTION = "which port does the staging database listen on, and which host does it run on"
NEEDLE, KEPT = "port 5433", "mercury"

Write = Callable[[Machine, Path, str], str]
"""Writes a text; gives what became of it: a status, or `refused` for an error."""


def _by_operation(machine: Machine, folder: Path, text: str) -> str:
    try:
        return str(machine.call("add", {"content": text}, folder, CLAUDECODE="1")["status"])
    except OperationError as error:
        return error.code


def _by_many(machine: Machine, folder: Path, text: str) -> str:
    items = [{"content": text, "category": "decisions"}]
    return str(machine.call("add_many", {"items": items}, folder, CLAUDECODE="1")["results"][0]["status"])


def _by_tool(machine: Machine, folder: Path, text: str) -> str:
    client = machine.mcp(folder)
    try:
        return str(client.call("memory_add", content=text, category="learnings").json["status"])
    finally:
        client.end()


def _by_correcting(machine: Machine, folder: Path, text: str) -> str:
    """An agent adds something harmless and then makes it say the text."""
    client = machine.mcp(folder)
    try:
        first = client.call("memory_add", content=f"A note of {machine.session()}.").ok().json["id"]
        return str(client.call("memory_update", id=first, content=text, reason="better").json["status"])
    finally:
        client.end()


def _by_command_line(machine: Machine, folder: Path, text: str) -> str:
    return str(machine.cli("add", text, "--json", folder=folder, env=IN_CLAUDE).json["status"])


MACHINES: dict[str, Write] = {
    "an operation": _by_operation,
    "many at once": _by_many,
    "a tool": _by_tool,
    "a correction": _by_correcting,
    "a shell of an agent": _by_command_line,
}
"""Every way by which a model writes."""


def read_everywhere(machine: Machine, folder: Path, question: str = QUESTION) -> dict[str, str]:
    """What each way out gives for the question."""
    client = machine.mcp(folder)
    try:
        return {
            "operation": json.dumps(
                machine.call("search", {"query": question, "limit": 50}, folder), ensure_ascii=False
            ),
            "command line": machine.cli("search", question, "--json", "--limit", "50", folder=folder).out,
            "tool": client.call("memory_search", query=question, limit=50).out,
            "hook": machine.prompt(question, folder),
            "typed": machine.prompt(f"/recall {question}", folder),
            "list": json.dumps(machine.call("list", {}, folder), ensure_ascii=False),
            "why": json.dumps(machine.call("why", {"prompt": question}, folder), ensure_ascii=False),
        }
    finally:
        client.end()


def only(machine: Machine, folder: Path, present: str, absent: str, question: str = QUESTION) -> None:
    """Every way out has `present`, and none has `absent`."""
    assert not could_be_in_an_id(absent)
    for way, text in read_everywhere(machine, folder, question).items():
        assert present in text, f"{way} lost {present!r}: {text}"
        assert absent not in text, f"{way} has {absent!r}: {text}"


def everywhere(machine: Machine, folder: Path, *present: str) -> None:
    """Every way out has all of these: what is taken away later is shown to have been there."""
    for way, text in read_everywhere(machine, folder).items():
        assert all(each in text for each in present), f"{way}: {text}"


def forgotten(machine: Machine, folder: Path) -> str:
    """PORT and HOST, both found everywhere, and then PORT forgotten by the person; returns its id."""
    memory = machine.add(PORT, folder)
    machine.add(HOST, folder)
    everywhere(machine, folder, NEEDLE, KEPT)
    machine.call("forget", {"id": memory, "reason": "wrong"}, folder)
    only(machine, folder, KEPT, NEEDLE)
    return memory
