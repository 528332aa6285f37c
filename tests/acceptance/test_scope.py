"""Acceptance: whose memories are whose."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.acceptance.ways import HOST, KEPT, NEEDLE, PORT, QUESTION, everywhere, only
from tests.fakes.machine import IN_CLAUDE, Machine
from tests.fakes.real_parts import Place

from cems.core.memories import Author, NothingMatched, Refused, Statement
from cems.core.scope import session_scope
from cems.core.service.client import OperationError


def test_scope_cross_tenant_absent(machine: Machine) -> None:
    ours, theirs = machine.project("same-name"), machine.project("same-name")
    there = machine.add(PORT, theirs)
    machine.add(HOST, ours)
    for _ in range(2):
        # At once, and when the index has both.
        only(machine, ours, KEPT, NEEDLE)
        only(machine, theirs, NEEDLE, KEPT)
        machine.settle()
    for named in (there, there[:12]):
        assert machine.cli("show", named, folder=ours).exit == 3
        assert machine.mcp(ours).call("memory_get", id=named).exit == 1
        for operation in ("history", "audit"):
            with pytest.raises(OperationError, match="no memory"):
                machine.call(operation, {"id": named}, ours)
    assert NEEDLE in machine.cli("show", there[:12], folder=theirs).ok().out
    assert NEEDLE not in json.dumps(machine.call("audit", {"limit": 500}, ours))
    assert NEEDLE in json.dumps(machine.call("audit", {"limit": 500}, theirs))


def test_scope_caller_cannot_widen(machine: Machine) -> None:
    ours, theirs = machine.project(), machine.project()
    machine.add(PORT, theirs)
    mine = machine.add(HOST, ours)
    name = str(session_scope(str(theirs)).project)
    for argument in ({"scope": name}, {"cwd": str(theirs)}, {"roots": [str(theirs)]}, {"session": "other"}):
        found = machine.mcp(ours).call("memory_search", query=QUESTION, **argument)
        assert NEEDLE not in found.out
    assert machine.cli("search", QUESTION, "--scope", name, folder=ours).exit == 2
    with pytest.raises(OperationError, match="not this session's"):
        machine.call("search", {"query": QUESTION, "scope": name}, ours)
    assert NEEDLE in json.dumps(machine.call("search", {"query": QUESTION, "scope": name}, theirs))
    refused = machine.mcp(ours).call("memory_add", content="For all.", scope="user")
    assert refused.exit == 1
    for env in (IN_CLAUDE, {"CODEX_SANDBOX": "seatbelt"}, {"CURSOR_AGENT": "1"}):
        assert machine.cli("share", mine, folder=ours, env=env, terminal=True).exit == 4
        assert machine.cli("add", "For all.", "--scope", "user", folder=ours, env=env).exit == 4
    only(machine, ours, KEPT, NEEDLE)
    only(machine, theirs, NEEDLE, KEPT)
    # The person at a terminal may.
    assert machine.cli("share", mine, folder=ours, terminal=True).exit == 0
    everywhere(machine, theirs, NEEDLE, KEPT)
    machine.call("forget", {"id": mine}, ours)
    machine.call("lift", {"text": HOST}, ours)


def test_scope_background_respects_boundary(machine: Machine, place: Place) -> None:
    """What works over all projects (the indexer, a rebuild, what derives memories) keeps them apart."""
    ours, theirs = machine.project(), machine.project()
    machine.add(PORT, theirs)
    machine.add(HOST, ours)
    machine.settle()
    machine.call("rebuild", {}, ours)
    machine.settle()
    only(machine, ours, KEPT, NEEDLE)
    only(machine, theirs, NEEDLE, KEPT)
    # A derivation lands where its sources are, and is made of no other project's.
    upkeep = Author("derived", session="upkeep")
    alpha, beta = place.add(PORT), place.add(HOST, folder=place.beta)
    made = place.memories.derive(Statement("Staging: port 5433."), [alpha], "summary", place.scope(), upkeep)
    assert made.id
    assert place.row(made.id)["scope"] == place.row(alpha)["scope"]
    with pytest.raises(NothingMatched):
        place.memories.derive(Statement("Both: port 5433, mercury."), [alpha, beta], "summary", place.scope(), upkeep)
    wide = place.add("Everybody's staging is read-only.", everywhere=True)
    assert place.memories.derive(Statement("Mixed."), [alpha, wide], "s", place.scope(), upkeep).status == "refused"
    with pytest.raises(Refused):
        place.memories.derive(Statement("Wide."), [wide], "summary", place.scope(), upkeep)


def test_two_sessions_in_one_folder_are_two_sessions(machine: Machine) -> None:
    """What one was given is given to the other too, and neither tells what the other was given."""
    folder = machine.project()
    machine.add(PORT, folder)
    one, other = machine.session(), machine.session()
    assert NEEDLE in machine.prompt(QUESTION, folder, session=one)
    assert machine.prompt(QUESTION, folder, session=one) == ""
    assert "nothing so far" in machine.prompt("/context", folder, session=other)
    assert NEEDLE in machine.prompt(QUESTION, folder, session=other)
    assert NEEDLE in machine.prompt("/context", folder, session=other)


def test_a_repository_that_moves_keeps_its_memories_and_a_folder_with_another_remote_does_not(machine: Machine) -> None:
    folder = machine.project("repo")
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)

    def remote(url: str, verb: str = "set-url") -> None:
        subprocess.run(["git", "-C", str(folder), "remote", verb, "origin", url], check=True)

    remote("git@example.com:org/moving.git", "add")
    machine.add(PORT, folder)
    moved = folder.rename(folder.parent / "elsewhere")
    assert NEEDLE in machine.prompt(QUESTION, moved)
    folder = moved
    remote("git@example.com:org/renamed.git")
    assert NEEDLE not in machine.prompt(QUESTION, moved)
    remote("https://example.com/org/moving")
    assert NEEDLE in machine.prompt(QUESTION, moved)
