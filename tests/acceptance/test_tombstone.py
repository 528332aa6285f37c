"""Acceptance: what was forgotten does not come back."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from tests.acceptance.ways import HOST, KEPT, MACHINES, NEEDLE, PORT, forgotten, only
from tests.fakes.daemon_home import wait_for
from tests.fakes.machine import Machine, running
from tests.fakes.real_parts import AGENT_AUTHOR, Place, run

from cems.core.memories import Author, Statement
from cems.core.service.client import OperationError

UPKEEP = Author("derived", session="upkeep")


def test_tombstone_laundering_sequence(machine: Machine) -> None:
    """One after the other, everything a model might try to get a forgotten value back in."""
    folder, other = machine.project(), machine.project()
    memory = forgotten(machine, folder)
    client = machine.mcp(folder)
    for category in ("decisions", "learnings", "gate-rules"):
        assert client.call("memory_add", content=PORT, category=category).exit == 1
    for text in (PORT.upper(), f"  {PORT}\n", PORT.rstrip(".") + ".", f"<private>x</private>{PORT}"):
        assert client.call("memory_add", content=text, title="New", tags=["new"]).exit == 1
    for way in MACHINES.values():
        assert way(machine, folder, PORT) == "refused"
    harmless = client.call("memory_add", content="A note about ports.").ok().json["id"]
    assert client.call("memory_update", id=harmless, content=PORT, reason="better").exit == 1
    assert client.call("memory_update", id=memory, content=PORT, reason="better").exit == 1
    assert client.call("memory_get", id=memory).out.count(NEEDLE) == 0
    with pytest.raises(OperationError, match="person"):
        machine.call("lift", {"text": PORT}, folder, CLAUDECODE="1")
    with pytest.raises(OperationError, match="person"):
        machine.call("undo", {"what": memory}, folder, CLAUDECODE="1")
    # Nor does making everything again from the journal bring it back.
    machine.call("rebuild", {}, folder)
    only(machine, folder, KEPT, NEEDLE)
    # It was forgotten here, not everywhere: another project may say it, and this one still does not.
    assert MACHINES["a tool"](machine, other, PORT) == "candidate"
    only(machine, folder, KEPT, NEEDLE)
    client.end()


def test_tombstone_laundering_sequence_ends_where_a_person_lifts_it(machine: Machine) -> None:
    folder = machine.project()
    forgotten(machine, folder)
    assert MACHINES["a tool"](machine, folder, PORT) == "refused"
    machine.cli("lift", PORT, folder=folder, terminal=True).ok()
    assert MACHINES["a tool"](machine, folder, PORT) in ("candidate", "added", "duplicate")


def test_tombstone_survives_ttl_and_prune(session_root: Path) -> None:
    """Neither the end of a memory's validity, nor pruning, purging, rebuilding or a restart takes its tombstone away."""
    with running(session_root) as machine:
        folder = machine.project()
        ended = machine.add("The freeze lasts until Monday.", folder, valid_to="2026-01-01T00:00:00Z")
        erased = machine.add("The vault code is swordfish.", folder)
        hidden = forgotten(machine, folder)
        machine.call("forget", {"ids": [ended, erased]}, folder)
        machine.call("purge", {"ids": [erased]}, folder)
        machine.call("rebuild", {}, folder)
        pid = machine.pid()
        assert pid
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: machine.pid() is None)
        machine.start()
        for text in ("The freeze lasts until Monday.", "the vault code is SWORDFISH.", PORT):
            for way in ("a tool", "an operation"):
                assert MACHINES[way](machine, folder, text) == "refused", text
        assert MACHINES["a tool"](machine, folder, "The freeze lasts until Tuesday week.") != "refused"
        only(machine, folder, KEPT, NEEDLE)
        assert machine.call("show", {"id": hidden}, folder)["memory"]["content"] == ""


SPELLINGS = {
    "case": PORT.swapcase(),
    "white space": "The\u00a0staging\tdatabase \n listens  on port 5433.",
    "full width": PORT.replace("5433", "\uff15\uff14\uff13\uff13"),
    "invisible": "The sta\u200bging data\u2060base listens on port 54\u200d33.",
    "soft hyphens": PORT.replace("staging", "sta\u00adging"),
    "direction marks": f"\u202e\u202c{PORT}\u200f",
    "composed": PORT.replace("listens", "listens\ufeff"),
    "look-alikes": PORT.replace("a", "\u0430").replace("o", "\u043e"),
    "variation selectors": PORT.replace("port", "port\ufe0f"),
    "around": f"  {PORT}  ",
}
OTHERS = {
    "another number": PORT.replace("5433", "5434"),
    "another sign": PORT.replace("listens", "does not listen"),
    "another subject": PORT.replace("staging", "production"),
    "Chinese": "预发布数据库监听五四三三端口。",
    "Chinese, another number": "预发布数据库监听五四三四端口。",
    "Arabic": "قاعدة البيانات تستمع على المنفذ",
    "emoji": "🐘 → 🔌",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_tombstone_key_normalization_attack(place: Place, spelling: str) -> None:
    place.memories.forget([place.add(PORT)], place.scope(), AGENT_AUTHOR)
    refused = place.memories.remember(Statement(SPELLINGS[spelling]), place.scope(), AGENT_AUTHOR)
    assert refused.status == "refused", refused
    assert "forgotten" in refused.reason


@pytest.mark.parametrize("other", OTHERS)
def test_tombstone_key_does_not_collapse_other_values(place: Place, other: str) -> None:
    place.memories.forget([place.add(PORT)], place.scope(), AGENT_AUTHOR)
    for text in OTHERS.values():
        if text != OTHERS[other]:
            place.memories.forget([place.add(text)], place.scope(), AGENT_AUTHOR)
    assert place.memories.remember(Statement(OTHERS[other]), place.scope(), AGENT_AUTHOR).status == "candidate"


def test_two_chinese_facts_have_two_keys(place: Place) -> None:
    one, other = OTHERS["Chinese"], OTHERS["Chinese, another number"]
    memory, kept = place.add(one), place.add(other)
    assert memory != kept
    place.memories.forget([memory], place.scope(), AGENT_AUTHOR)
    assert place.memories.remember(Statement(one), place.scope(), AGENT_AUTHOR).status == "refused"
    found = run(place.call("search", {"query": "数据库端口"}))
    assert [each["content"] for each in found["memories"]] == [other]


def test_tombstone_reextraction_stays_inactive(place: Place) -> None:
    """Reading the same session again says the same again, in the same words and in others."""
    source = place.add(PORT)
    kept = place.add(HOST)
    scope = place.scope()
    made = place.memories.derive(Statement("Staging: port 5433."), [source], "summary", scope, UPKEEP)
    assert made.id
    place.memories.forget([made.id], scope, AGENT_AUTHOR)
    for turn in range(10):
        again = Author("derived", session=f"s{turn}")
        for text in (
            "Staging: port 5433.",
            "On staging one connects to port 5433.",
            f"port 5433 is staging's ({turn}).",
        ):
            refused = place.memories.derive(Statement(text), [source], "summary", scope, again)
            assert refused.status == "refused", refused
    # Another way of making something of the same source, and the same way of another one.
    assert place.memories.derive(Statement("Ports: staging."), [source], "list", scope, UPKEEP).id
    assert place.memories.derive(Statement("Hosts: mercury."), [kept], "summary", scope, UPKEEP).id
    place.memories.forget([source], scope, AGENT_AUTHOR)
    for _ in range(10):
        assert place.memories.remember(Statement(PORT), scope, AGENT_AUTHOR).status == "refused"
    assert NEEDLE not in json.dumps(run(place.call("list", {})))
    assert HOST in json.dumps(run(place.call("list", {})))


def test_tombstone_no_second_memory_unit(machine: Machine) -> None:
    """No second row of the same value comes up beside the forgotten one, and all there were are hidden with it."""
    folder = machine.project()
    memory = forgotten(machine, folder)
    counted = machine.call("status", {}, folder)["memories"]
    for way in MACHINES.values():
        way(machine, folder, PORT)
    now = machine.call("status", {}, folder)["memories"]
    # One harmless note, by the correction that was refused.
    assert now["hidden"] == counted["hidden"]
    assert now["live"] == counted["live"] + 1
    assert machine.call("show", {"id": memory}, folder)["memory"]["state"] == "hidden"


def test_a_forget_that_matched_nothing_says_so(machine: Machine) -> None:
    folder = machine.project()
    memory = machine.add(PORT, folder)
    for words in (("m_ffffffff",), ("--text", "nothing like it")):
        said = machine.cli("forget", *words, folder=folder)
        assert said.exit == 3
        assert said.err
    refused = machine.mcp(folder).call("memory_forget", text="nothing like it", reason="asked")
    assert (refused.exit, "no memory" in refused.out) == (1, True)
    assert "forgot nothing" in machine.prompt("/forget nothing like it", folder)
    hidden = machine.cli("forget", memory, "--yes", "--json", folder=folder).ok().json
    assert [each["id"] for each in hidden["hidden"]] == [memory]
    assert machine.cli("forget", memory, folder=folder).exit == 3
