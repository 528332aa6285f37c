"""Acceptance: what is claimed can be followed to who said it, and goes when that goes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from tests.acceptance.ways import HOST, KEPT, NEEDLE, PORT, QUESTION, forgotten, only
from tests.fakes.daemon_home import wait_for
from tests.fakes.machine import Machine, running
from tests.fakes.real_parts import AGENT_AUTHOR, PERSON, Place, run

from cems.core.embedding import Embedder
from cems.core.memories import Author, Statement

UPKEEP = Author("derived", session="upkeep")


def test_evidence_claim_resolves_to_source(machine: Machine) -> None:
    """Each injected line names its memory, and the memory who said it, in which session, in what words."""
    folder = machine.project()
    session = machine.session()
    machine.prompt(f"/remember {HOST}", folder, session=session)
    quoted = {"content": PORT, "quote": "we moved it to port 5433 last week"}
    by_agent = machine.call("add", quoted, folder, CLAUDECODE="1", CLAUDE_CODE_SESSION_ID="s-claude")["id"]
    block = machine.prompt(QUESTION, folder)
    lines = re.findall(r"^- \[(m_[0-9a-f]+) [^\]]*?, (person|claude-code)[^\]]*\] (.*)$", block, re.MULTILINE)
    assert {line[2]: line[1] for line in lines} == {HOST: "person", PORT: "claude-code"}
    sources = {}
    for short, _, content in lines:
        shown = machine.mcp(folder).call("memory_get", id=short).ok().json
        assert shown["memory"]["content"] == content
        sources[content] = shown["memory"]["source"]
        assert shown["history"][0]["op"] == "remember"
        assert shown["history"][0]["actor"] == sources[content]["actor"]
    assert sources[HOST]["session"] == session
    assert (sources[PORT]["agent"], sources[PORT]["session"]) == ("claude-code", "s-claude")
    assert machine.call("show", {"id": by_agent}, folder)["memory"]["source"]["quote"] == quoted["quote"]


def test_evidence_source_delete_reaches_derived(place: Place) -> None:
    """A chain of derivations goes with its first source, at once, on every path; what has other sources stays."""
    scope = place.scope()
    source, other = place.add(PORT), place.add(HOST)

    def derive(text: str, kind: str, *sources: str) -> str:
        made = place.memories.derive(Statement(text), sources, kind, scope, UPKEEP)
        assert made.id, made
        return str(made.id)

    first = derive("Staging: port 5433.", "summary", source)
    second = derive("Connect staging clients to port 5433.", "advice", first)
    third = derive("Staging: port 5433 on mercury.", "merge", second, other)
    kept = derive("Staging: host mercury.", "summary", other)
    before = json.dumps(run(place.call("search", {"query": QUESTION, "limit": 50})))
    assert all(each in before for each in (source, first, second, third, kept))
    hidden = place.memories.forget([source], scope, PERSON)
    assert {row["id"] for row in hidden} == {source, first, second, third}
    for operation, body in (("search", {"query": QUESTION, "limit": 50}), ("list", {}), ("why", {"prompt": QUESTION})):
        after = json.dumps(run(place.call(operation, body)))
        assert NEEDLE not in after
        assert KEPT in after
    assert NEEDLE not in run(place.prompt(QUESTION))
    for each in (first, second, third):
        assert run(place.call("show", {"id": each}))["memory"]["content"] == ""
    # Nor does it come back in other words.
    again = place.memories.derive(Statement("On staging: port 5433."), [source], "summary", scope, UPKEEP)
    assert again.status == "refused"


def test_evidence_rebuild_from_retained(session_root: Path) -> None:
    """Without its store, and without its records, a home comes back from the journal as it was."""
    with running(session_root) as machine:
        folder = machine.project()
        forgotten(machine, folder)
        old = machine.add("We deploy on Fridays.", folder, category="decisions", tags=["deploy"])
        machine.call("edit", {"id": old, "content": "We deploy on Tuesdays."}, folder)
        machine.settle()

        def state() -> object:
            everything = machine.call("list", {"limit": 500, "include_closed": True}, folder)
            found = machine.call("search", {"query": "when do we deploy", "limit": 50}, folder)
            return everything["memories"], [each["id"] for each in found["memories"]]

        before = state()
        pid = machine.pid()
        assert pid
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: machine.pid() is None)
        shutil.rmtree(machine.home.store)
        machine.start()
        assert state() == before
        only(machine, folder, KEPT, NEEDLE)
        machine.call("rebuild", {}, folder)
        machine.settle()
        assert state() == before
        only(machine, folder, KEPT, NEEDLE)


@pytest.mark.parametrize("lost", ["records", "keywords", "tombstones"])
def test_evidence_rebuild_from_retained_records(place: Place, bundled: Embedder, lost: str) -> None:
    """What is kept beside the journal for speed is made again from it, forgotten values and all."""
    from cems.core.records import Records

    memory = place.add(PORT)
    place.add(HOST)
    place.memories.forget([memory], place.scope(), AGENT_AUTHOR)

    async def found() -> object:
        return (await place.call("search", {"query": QUESTION}))["memories"]

    before = asyncio.run(found())
    connection = place.journal.connection
    connection.execute(f"DROP TABLE {lost}")
    Records(b"k" * 32).rebuild(connection)
    assert asyncio.run(found()) == before
    assert HOST in json.dumps(before)
    assert place.memories.remember(Statement(PORT), place.scope(), AGENT_AUTHOR).status == "refused"
