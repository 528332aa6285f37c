"""Mark: audit log. Every change and every refusal is an entry with who, when, why, before and after, written in the
transaction of the change; a changed, removed or inserted entry is found and named.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.machine import IN_CLAUDE, Machine
from tests.fakes.real_parts import AGENT_AUTHOR, PERSON, Place, run
from tests.unit.conftest import KEY, records_of
from tests.unit.test_journal import tampered

from cems.core import journal as journal_module
from cems.core import review
from cems.core.audit import HeadNote, head_note, verify
from cems.core.journal import ChainFault, Draft, Journal, operations_where
from cems.core.memories import Memories, Refused, Statement
from cems.core.paths import Home
from cems.core.purge import Purge
from cems.core.records import Records
from cems.core.scope import USER
from cems.core.service.operations import OperationFailed
from cems.core.timeline import retract
from cems.core.undo import undo

TABS = "Use tabs in the shop's templates."
SPACES = "Use spaces in the shop's templates."
OTHER = "Releases happen on Thursdays."


def audit(place: Place, folder: Path | None = None, **body: Any) -> dict[str, Any]:
    return run(place.call("audit", body, place.caller(folder)))


def told(place: Place, **body: Any) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = audit(place, **body)["entries"]
    return entries


# -- what an entry tells -----------------------------------------------------------------------------------------------


def corrected(place: Place, memory: str, **changes: str) -> None:
    place.memories.correct(memory, {"content": SPACES, **changes}, place.scope(), PERSON, "the linter says so")


CHANGES: dict[str, tuple[Callable[[Place, str], object], list[tuple[str, dict[str, Any], dict[str, Any]]]]] = {
    "pin": (
        lambda place, memory: place.memories.pin(memory, True, place.scope(), PERSON),
        [("pin", {"pinned": False}, {"pinned": True})],
    ),
    "approve": (
        lambda place, memory: review.approve(place.memories, memory, place.scope(), PERSON),
        [("trust", {"trust": "candidate"}, {"trust": "trusted"})],
    ),
    "reject": (
        lambda place, memory: review.reject(place.memories, memory, place.scope(), PERSON),
        [("trust", {"trust": "candidate"}, {"trust": "rejected"})],
    ),
    "widen": (
        lambda place, memory: place.memories.widen(memory, USER, place.scope(), PERSON),
        [("widen", {"scope": "HERE"}, {"scope": "user"})],
    ),
    "forget": (
        lambda place, memory: place.memories.forget([memory], place.scope(), PERSON),
        [("forget", {"state": "live"}, {"state": "hidden"})],
    ),
    "lift": (
        lambda place, memory: (
            place.memories.forget([memory], place.scope(), PERSON),
            place.memories.lift(TABS, place.scope(), PERSON),
        ),
        [("lift", {"forgotten": True}, {"forgotten": False, "value_key": "KEY"})],
    ),
    "archive": (
        lambda place, memory: place.memories.append([place.memories.draft("archive", memory, {}, PERSON)]),
        [("archive", {"archived_at": None, "state": "live"}, {"archived_at": "AT", "state": "archived"})],
    ),
    "correct": (
        corrected,
        [
            (
                "close",
                {"expired_at": None, "state": "live", "closed_by": ""},
                {"expired_at": "AT", "state": "closed", "closed_by": "NEW"},
            )
        ],
    ),
    "correct since a day": (
        lambda place, memory: corrected(place, memory, valid_from="2026-05-01T00:00:00Z"),
        [("close", {"valid_to": None, "closed_by": ""}, {"valid_to": "2026-05-01T00:00:00.000Z", "closed_by": "NEW"})],
    ),
    "retract": (
        lambda place, memory: retract(place.memories, memory, place.scope(), PERSON),
        [("retract", {"expired_at": None, "state": "live"}, {"expired_at": "AT", "state": "closed"})],
    ),
    "undo": (
        lambda place, memory: (
            place.memories.pin(memory, True, place.scope(), PERSON),
            undo(place.memories, memory, place.scope(), PERSON),
        ),
        [("pin", {"pinned": True}, {"pinned": False})],
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_each_change_tells_what_was_before_and_after(place: Place, kind: str) -> None:
    memory = place.add(TABS, author=AGENT_AUTHOR)
    change, expected = CHANGES[kind]
    change(place, memory)
    [*_, entry] = told(place)
    op, before, after = expected[0]
    stands_for = {"HERE": place.scope().default, "AT": entry["at"]}
    if "NEW" in after.values():
        stands_for["NEW"] = entry["after"]["closed_by"]
        assert place.row(stands_for["NEW"])["content"] == SPACES
    if op == "lift":
        stands_for["KEY"] = place.memories.known.key_of(place.scope().default, TABS)[:16]

    def real(fields: dict[str, Any]) -> dict[str, Any]:
        return {name: stands_for.get(value, value) for name, value in fields.items()}

    assert (entry["op"], entry["before"], entry["after"]) == (op, real(before), real(after))


def test_an_addition_tells_all_that_was_said(place: Place) -> None:
    memory = place.add(TABS, title="Style", tags=("a", "b"), valid_from="2026-01-01T00:00:00Z")
    [entry] = told(place)
    assert (entry["op"], entry["id"], entry["before"]) == ("remember", memory, {})
    assert entry["after"] == {
        "content": TABS, "title": "Style", "tags": ["a", "b"], "category": "general", "scope": place.scope().default,
        "trust": "trusted", "confidence": 1.0, "pinned": False, "valid_from": "2026-01-01T00:00:00.000Z",
        "recorded_at": entry["at"], "state": "live",
    }  # fmt: skip


def test_an_entry_tells_who_when_where_and_why(place: Place) -> None:
    memory = place.add(TABS, author=AGENT_AUTHOR)
    place.memories.correct(memory, {"content": SPACES}, place.scope(), PERSON, "the linter says so")
    first, second, third = told(place)
    assert (first["actor"], first["agent"], first["session"]) == ("agent", "claude-code", "s-agent")
    assert (third["actor"], third["agent"], third["session"]) == ("person", "", "s-person")
    assert third["reason"] == "the linter says so"
    assert [each["seq"] for each in (first, second, third)] == [1, 2, 3]
    assert first["at"] <= second["at"] == third["at"]
    assert second["group"] == third["group"]
    assert {each["scope"] for each in (first, second, third)} == {place.scope().default}
    chain = [operation.op_id for _, operation in operations_where(place.reader, "1")]
    assert [each["op_id"] for each in (first, second, third)] == chain


def test_every_kind_of_refusal_is_there(place: Place) -> None:
    memory = place.add(TABS)
    place.memories.forget([memory], place.scope(), PERSON)
    everywhere = place.add(OTHER, everywhere=True)
    assert place.memories.remember(Statement(TABS), place.scope(), AGENT_AUTHOR).status == "refused"
    assert (
        place.memories.remember(Statement("<private>all of it</private>"), place.scope(), AGENT_AUTHOR).status
        == "refused"
    )
    attempts: list[Callable[[], object]] = [
        lambda: place.memories.lift(TABS, place.scope(), AGENT_AUTHOR),
        lambda: place.memories.widen(everywhere, USER, place.scope(), AGENT_AUTHOR),
        lambda: place.memories.correct(everywhere, {"content": "x"}, place.scope(), AGENT_AUTHOR),
        lambda: place.memories.remember(Statement("x", scope="user"), place.scope(), AGENT_AUTHOR),
        lambda: place.memories.remember(Statement("x", scope="project:other"), place.scope(), AGENT_AUTHOR),
        lambda: retract(place.memories, everywhere, place.scope(), AGENT_AUTHOR),
        lambda: review.reject(place.memories, everywhere, place.scope(), AGENT_AUTHOR),
        lambda: undo(place.memories, memory, place.scope(), AGENT_AUTHOR),
        lambda: Purge(place.memories, place.journal).by_id([everywhere], place.scope(), AGENT_AUTHOR),
    ]
    for attempt in attempts:
        with pytest.raises(Refused):
            attempt()
    refused = [each for each in told(place) if each["op"].startswith("refuse")]
    assert [each["op"].removeprefix("refuse ") for each in refused] == [
        *(
            "remember",
            "remember",
            "lift",
            "widen",
            "correct",
            "remember",
            "remember",
            "retract",
            "reject",
            "undo",
            "purge",
        )
    ]
    assert all(
        (each["actor"], each["agent"], each["session"]) == ("agent", "claude-code", "s-agent") for each in refused
    )
    assert all(each["reason"] and each["at"] and not each["before"] for each in refused)
    assert refused[0]["after"] == {"value_key": place.memories.known.key_of(place.scope().default, TABS)[:16]}
    assert TABS not in json.dumps(refused)


def test_the_log_can_be_asked_for_a_memory_a_time_and_an_actor(place: Place) -> None:
    noted, other = place.add(TABS, author=AGENT_AUTHOR), place.add(OTHER)
    place.memories.pin(other, True, place.scope(), PERSON)
    place.memories.forget([noted], place.scope(), PERSON)
    place.memories.remember(Statement(TABS), place.scope(), AGENT_AUTHOR)
    assert [each["op"] for each in told(place)] == ["remember", "remember", "pin", "forget", "refuse remember"]
    assert [each["op"] for each in told(place, id=noted[:12])] == ["remember", "forget", "refuse remember"]
    assert [each["op"] for each in told(place, actor="agent")] == ["remember", "refuse remember"]
    assert told(place, actor="claude-code") == told(place, actor="agent")
    assert told(place, actor="tool") == []
    since = told(place)[3]["at"]
    assert {each["op"] for each in told(place, since=since)} >= {"forget", "refuse remember"}
    assert all(each["at"] >= since for each in told(place, since=since))
    last = audit(place, limit=2)
    assert [each["seq"] for each in last["entries"]] == [4, 5]
    assert last["coverage"] == {"considered": 2, "total": 5}
    with pytest.raises(OperationFailed, match="since: 'soon' is not a date"):
        audit(place, since="soon")


# -- whose entries -----------------------------------------------------------------------------------------------------


def test_another_projects_entries_are_a_number(place: Place) -> None:
    here, there = place.add(TABS), place.add("The vault code of beta is 1234.", folder=place.beta)
    place.memories.remember(Statement("y", scope="user"), place.scope(place.beta), PERSON)
    with pytest.raises(Refused):
        place.memories.remember(Statement("x", scope="project:other"), place.scope(place.beta), AGENT_AUTHOR)
    place.memories.forget([there], place.scope(place.beta), PERSON)
    place.memories.lift("The vault code of beta is 1234.", place.scope(place.beta), PERSON)
    log = audit(place)
    assert [each["id"] for each in log["entries"] if each["scope"] != "user"] == [here]
    assert log["elsewhere"] == 4
    assert "beta" not in json.dumps(log)
    assert [each["op"] for each in audit(place, place.beta)["entries"]] == [
        *("remember", "remember", "refuse remember", "forget", "lift")
    ]
    with pytest.raises(OperationFailed) as unknown:
        audit(place, id=there)
    assert unknown.value.exit_status == 3


def test_a_widened_memory_does_not_tell_which_project_it_came_from(place: Place) -> None:
    memory = place.add(TABS)
    place.memories.widen(memory, USER, place.scope(), PERSON)
    elsewhere = audit(place, place.beta)
    assert [each["op"] for each in elsewhere["entries"]] == ["remember", "widen"]
    assert elsewhere["entries"][1]["before"] == {"scope": "another project"}
    assert str(place.scope().project) not in json.dumps(elsewhere)
    assert told(place)[1]["before"] == {"scope": place.scope().project}


# -- what is forgotten and erased --------------------------------------------------------------------------------------


def test_of_what_is_forgotten_a_digest_is_told(place: Place) -> None:
    memory = place.add("The alarm code is 4711.", title="Alarm code", tags=("pin-4711",))
    place.memories.pin(memory, True, place.scope(), PERSON)
    place.add(OTHER)
    assert "pin-4711" in json.dumps(told(place))
    place.memories.forget([memory], place.scope(), PERSON)
    entries = told(place)
    assert "pin-4711" not in json.dumps(entries)
    assert "code is 4711" not in json.dumps(entries)
    assert "Alarm" not in json.dumps(entries)
    assert entries[2]["after"]["content"] == OTHER
    commitment = place.reader.execute("SELECT lower(hex(commitment)) FROM chain WHERE seq = 1").fetchone()[0]
    assert entries[0]["after"]["content"] == {"digest": f"sha256:{commitment}"}
    assert entries[1]["after"] == {"pinned": True}


def test_an_erased_entry_stays_in_the_log_with_its_commitment(place: Place) -> None:
    memory = place.add("The alarm code is 4711.")
    place.add(OTHER)
    purging = Purge(place.memories, place.journal)
    purging.carry_out(purging.by_id([memory], place.scope(), PERSON), PERSON, "a secret")
    entries = told(place)
    assert "code is 4711" not in json.dumps(entries)
    first = next(each for each in entries if each["seq"] == 1)
    assert first["erased"]
    assert (first["op"], first["actor"], first["before"]) == ("remember", "person", {})
    assert first["after"]["content"]["digest"].startswith("sha256:")
    assert entries[-1]["op"] == "purge"
    assert next(each for each in entries if each["seq"] == 2)["after"]["content"] == OTHER
    assert verify(place.journal).faults == ()


# -- one transaction ---------------------------------------------------------------------------------------------------


class Stops(Exception):
    """What the process meets in the middle of a change."""


@pytest.mark.parametrize("table", ["chain", "payloads", "records", "tombstones", "keywords", "meta"])
def test_a_change_and_its_entry_are_there_both_or_neither(place: Place, table: str) -> None:
    """Stopped while any of the tables is written."""
    memory = place.add(TABS)
    connection = place.journal.connection
    rows = [connection.execute(f"SELECT * FROM {each} ORDER BY 1").fetchall() for each in ("chain", "payloads")]  # noqa: S608
    before = records_of(connection)
    writes = 0

    def stop(action: int, what: str | None, *_: object) -> int:
        nonlocal writes
        if action in (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE) and str(what).startswith(table):
            writes += 1
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    connection.set_authorizer(stop)
    with pytest.raises(sqlite3.DatabaseError):
        place.memories.forget([memory], place.scope(), PERSON)
    connection.set_authorizer(None)
    assert writes
    assert records_of(connection) == before
    assert [connection.execute(f"SELECT * FROM {each} ORDER BY 1").fetchall() for each in ("chain", "payloads")] == rows  # noqa: S608
    assert place.row(memory)["state"] == "live"
    place.memories.forget([memory], place.scope(), PERSON)
    assert (place.row(memory)["state"], len(told(place))) == ("hidden", 2)


def test_nothing_but_entries_makes_the_records(place: Place) -> None:
    """Whatever the records say follows from the entries: made again from them they are the same."""
    memory = place.add(TABS, author=AGENT_AUTHOR)
    for change, _ in CHANGES.values():
        change(place, place.add(f"{TABS} {len(told(place, limit=500))}", author=AGENT_AUTHOR)) if change is not CHANGES[
            "lift"
        ][0] else None
    kept = records_of(place.journal.connection)
    place.journal.refold()
    assert records_of(place.journal.connection) == kept
    assert place.row(memory)["content"] == TABS


# -- tampering ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(home: Home) -> Home:
    """A home whose journal has five entries and a note of the last."""
    home.create()
    written(home, 5)
    return home


def written(home: Home, count: int) -> None:
    journal = opened(home)
    for n in range(count):
        journal.append([Draft("refuse", "", {"reason": f"entry {n}", "scope": "user"})])
    journal.close()


def opened(home: Home) -> Journal:
    return Journal(home.journal, Records(KEY), head_note(home))


def faults(home: Home, against: str = "") -> list[ChainFault]:
    journal = opened(home)
    try:
        return list(verify(journal, head_note(home), against).faults)
    finally:
        journal.close()


def op_id(home: Home, seq: int) -> str:
    connection = sqlite3.connect(home.journal)
    found = connection.execute("SELECT op_id FROM chain WHERE seq = ?", (seq,)).fetchone()[0]
    connection.close()
    return str(found)


def head_of(home: Home) -> str:
    journal = opened(home)
    head = verify(journal).head
    journal.close()
    return head


def test_an_untouched_journal_is_whole(kept: Home) -> None:
    journal = opened(kept)
    found = verify(journal, head_note(kept))
    journal.close()
    assert (found.faults, found.entries, found.after_note) == ((), 5, 0)
    assert found.head.startswith("5:")


def test_a_changed_entry_is_named(kept: Home) -> None:
    name = op_id(kept, 3)
    tampered(kept.journal, "UPDATE chain SET actor = 'agent' WHERE seq = 3")
    assert (faults(kept)[0].seq, faults(kept)[0].op_id) == (3, name)
    assert "not the one that was written" in faults(kept)[0].problem


def test_a_changed_payload_is_named(kept: Home) -> None:
    name = op_id(kept, 2)
    tampered(kept.journal, f"UPDATE payloads SET body = replace(body, 'entry', 'other') WHERE op_id = '{name}'")  # noqa: S608
    assert [(each.seq, each.op_id) for each in faults(kept)] == [(2, name)]


def test_a_removed_entry_is_named(kept: Home) -> None:
    name = op_id(kept, 2)
    tampered(kept.journal, "DELETE FROM chain WHERE seq = 2")
    found = faults(kept)
    assert "entry 2 is missing" in found[0].problem
    assert name in {each.op_id for each in found}


def test_an_inserted_entry_is_named(kept: Home) -> None:
    tampered(
        kept.journal,
        "UPDATE chain SET seq = seq + 10 WHERE seq > 2",
        "INSERT INTO chain SELECT 3, 'put-in', kind, entity, clock, device, 99, actor, agent, session, commitment, hash "
        "FROM chain WHERE seq = 2",
        "UPDATE chain SET seq = seq - 9 WHERE seq > 10",
    )
    assert (faults(kept)[0].seq, faults(kept)[0].op_id) == (3, "put-in")


def cut_off(home: Home, *, patched: bool) -> None:
    """Take the last two entries away, and leave the journal as if they had never been there."""
    connection = sqlite3.connect(home.journal)
    digest = connection.execute("SELECT lower(hex(hash)) FROM chain WHERE seq = 3").fetchone()[0]
    connection.close()
    patch = [f"UPDATE meta SET value = '3 {digest}' WHERE key = 'head'"] if patched else []  # noqa: S608
    gone = "DELETE FROM payloads WHERE op_id IN (SELECT op_id FROM chain WHERE seq > 3)"
    tampered(home.journal, gone, "DELETE FROM chain WHERE seq > 3", *patch)


@pytest.mark.parametrize("patched", [False, True])
def test_a_cut_off_end_is_missed_even_where_the_journal_was_patched(kept: Home, patched: bool) -> None:
    cut_off(kept, patched=patched)
    found = faults(kept)
    assert {each.seq for each in found} == {5}
    assert any("keys/journal-head names entry 5, the journal has 3" in each.problem for each in found)


def test_writing_on_does_not_cover_a_cut_off_end(kept: Home) -> None:
    cut_off(kept, patched=True)
    written(kept, 4)
    found = faults(kept)
    assert [each.seq for each in found] == [5]
    assert "journal-head.unmet has another digest" in found[0].problem
    written(kept, 1)
    assert faults(kept) == found


def test_an_older_copy_in_the_place_of_the_journal_is_told(kept: Home, tmp_path: Path) -> None:
    connection = sqlite3.connect(kept.journal)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    shutil.copy(kept.journal, tmp_path / "copy")
    written(kept, 2)
    for each in kept.root.glob("journal.db*"):
        each.unlink()
    shutil.copy(tmp_path / "copy", kept.journal)
    found = faults(kept)
    assert [each.seq for each in found] == [7]
    assert "older copy" in found[0].problem


def rewritten(home: Home) -> None:
    """Change an entry and make every digest after it anew, as somebody who knows how could."""
    journal = opened(home)
    rows = journal.connection.execute(
        "SELECT seq, commitment FROM chain JOIN payloads USING (op_id) ORDER BY seq"
    ).fetchall()
    operations = dict(operations_where(journal.connection, "1"))
    salt = journal.connection.execute("SELECT salt FROM payloads WHERE op_id = ?", (operations[2].op_id,)).fetchone()[0]
    journal.close()
    body, head, statements = '{"reason": "nothing to see", "scope": "user"}', b"\0" * 32, []
    for seq, commitment in rows:
        if seq == 2:
            commitment = hashlib.sha256(salt + body.encode()).digest()
            statements.append(f"UPDATE payloads SET body = '{body}' WHERE op_id = '{operations[seq].op_id}'")  # noqa: S608
        head = journal_module._link(head, seq, operations[seq], commitment)
        statements.append(
            f"UPDATE chain SET commitment = x'{commitment.hex()}', hash = x'{head.hex()}' WHERE seq = {seq}"  # noqa: S608
        )
    statements.append(f"UPDATE meta SET value = '5 {head.hex()}' WHERE key = 'head'")  # noqa: S608
    tampered(home.journal, *statements)


def test_a_journal_hashed_anew_throughout_is_told_by_the_note(kept: Home) -> None:
    head = head_of(kept)
    rewritten(kept)
    journal = opened(kept)
    assert verify(journal).faults == ()
    journal.close()
    [found] = faults(kept)
    assert (found.seq, found.op_id) == (5, op_id(kept, 5))
    assert "it, or one before it, was rewritten" in found.problem
    # Who forges the note too is found by a head that was kept elsewhere.
    (kept.keys / "journal-head").unlink()
    assert faults(kept) == []
    assert [each.seq for each in faults(kept, head)] == [5]
    assert faults(kept, head_of(kept)) == []


def test_a_note_that_lags_behind_after_a_crash_is_no_fault(kept: Home) -> None:
    old = (kept.keys / "journal-head").read_bytes()
    written(kept, 3)
    (kept.keys / "journal-head").write_bytes(old)
    journal = opened(kept)
    found = verify(journal, head_note(kept))
    assert (found.faults, found.after_note) == ((), 3)
    journal.append([Draft("refuse", "", {"reason": "x"})])
    assert verify(journal, head_note(kept)).after_note == 0
    journal.close()
    assert not (kept.keys / "journal-head.unmet").exists()


@pytest.mark.parametrize("damage", [b"", b"7 abc", b"\xff" * 200, b"5 0000 0000000000000000\n"])
def test_a_torn_note_is_as_good_as_none(kept: Home, damage: bytes) -> None:
    (kept.keys / "journal-head").write_bytes(damage)
    journal = opened(kept)
    found = verify(journal, head_note(kept))
    assert (found.faults, found.after_note) == ((), None)
    journal.append([Draft("refuse", "", {"reason": "x"})])
    assert verify(journal, head_note(kept)).after_note == 0
    journal.close()


def test_a_note_that_cannot_be_written_costs_no_change(kept: Home) -> None:
    note = HeadNote(kept.root / "no such folder" / "head")
    journal = Journal(kept.journal, Records(KEY), note)
    memories = Memories(journal, KEY, len)
    assert memories.append([Draft("refuse", "", {"reason": "x"})])
    assert (verify(journal, note).faults, verify(journal, note).after_note) == ((), None)
    journal.close()


# -- on the machine ----------------------------------------------------------------------------------------------------


def test_the_log_from_the_command_line(machine: Machine) -> None:
    folder = machine.project()
    machine.add(OTHER, machine.project())
    machine.cli("add", TABS, folder=folder).ok()
    [memory] = machine.cli("list", "--json", folder=folder).ok().json["memories"]
    machine.cli("edit", memory["id"], SPACES, "--reason", "the linter says so", folder=folder).ok()
    agent = machine.mcp(folder)
    assert agent.call("memory_add", content=TABS).exit == 1
    entries = machine.cli("audit", memory["id"][:10], "--json", folder=folder).ok().json["entries"]
    assert [each["op"] for each in entries] == ["remember", "close", "refuse remember"]
    assert (entries[2]["actor"], entries[2]["agent"], entries[2]["session"]) == ("agent", "claude-code", "s-claude")
    said = machine.cli("audit", "--actor", "person", "-n", "20", folder=folder).ok().out
    assert "the linter says so" in said
    assert f"content: {SPACES}" in said
    assert "in other projects" in said
    assert "by agent" not in said
    assert machine.cli("audit", "--since", "2099-01-01", folder=folder).ok().out.startswith("no entry fits")


def test_verify_and_undo_from_the_command_line(machine: Machine) -> None:
    folder = machine.project()
    memory = machine.add(TABS, folder)
    machine.cli("forget", memory, folder=folder).ok()
    verified = machine.cli("audit", "verify", "--json", folder=folder).ok().json
    assert (verified["whole"], verified["after_note"]) == (True, 0)
    assert machine.cli("audit", "verify", "--against", verified["head"], folder=folder).exit == 0
    other = f"1:{'0' * 64}"
    denied = machine.cli("audit", "verify", "--against", other, folder=folder)
    assert denied.exit == 1
    assert "entry 1" in denied.out
    assert machine.cli("audit", "verify", "--against", "soon", folder=folder).exit == 2
    entry = machine.cli("audit", memory, "--json", folder=folder).ok().json["entries"][-1]
    refused = machine.cli("undo", str(entry["seq"]), folder=folder, terminal=True, env=IN_CLAUDE)
    assert refused.exit == 4
    assert "a person's act" in refused.err
    assert machine.cli("undo", str(entry["seq"]), folder=folder).exit == 4  # no terminal: nobody is there
    done = machine.cli("undo", str(entry["seq"]), "--reason", "a slip", folder=folder, terminal=True).ok()
    assert f"restored {memory[:10]}  {TABS}" in done.out
    assert machine.cli("show", memory, "--json", folder=folder).ok().json["memory"]["state"] == "live"
    ops = [each["op"] for each in machine.cli("audit", memory, "--json", folder=folder).ok().json["entries"]]
    assert ops == ["remember", "forget", "refuse undo", "refuse undo", "unforget"] or ops[-1] == "unforget"
