"""Acceptance: what was corrected stays corrected."""

from __future__ import annotations

import json

from tests.acceptance.ways import HOST, KEPT, MACHINES, NEEDLE, PORT, everywhere, only
from tests.fakes.machine import Machine

NEW = "The staging database listens on port 6001."


def test_correction_survives_reindex(machine: Machine) -> None:
    folder = machine.project()
    old = machine.add(PORT, folder)
    machine.add(HOST, folder)
    everywhere(machine, folder, NEEDLE, KEPT)
    corrected = machine.call("edit", {"id": old, "content": NEW, "reason": "moved"}, folder)
    only(machine, folder, "port 6001", NEEDLE)
    machine.settle()
    machine.call("rebuild", {}, folder)
    machine.settle()
    only(machine, folder, "port 6001", NEEDLE)
    only(machine, folder, KEPT, NEEDLE)
    # Nothing was overwritten: the old one is closed, and says by what.
    shown = machine.call("show", {"id": old}, folder)["memory"]
    assert (shown["state"], shown["closed_by"], shown["content"]) == ("closed", corrected["id"], PORT)


def test_a_superseded_value_repeated_ten_times_by_a_machine_stays_superseded(machine: Machine) -> None:
    folder = machine.project()
    old = machine.add(PORT, folder)
    machine.call("edit", {"id": old, "content": NEW}, folder)
    for turn in range(10):
        way = list(MACHINES.values())[turn % len(MACHINES)]
        assert way(machine, folder, PORT) == "refused"
    only(machine, folder, "port 6001", NEEDLE)


def test_a_b_a_the_person_wins_and_the_machine_does_not(machine: Machine) -> None:
    folder = machine.project()
    old = machine.add(PORT, folder)
    new = machine.call("edit", {"id": old, "content": NEW}, folder)["id"]
    assert MACHINES["a tool"](machine, folder, PORT) == "refused"
    only(machine, folder, "port 6001", NEEDLE)
    restated = machine.call("add", {"content": PORT}, folder)
    assert restated["status"] == "added"
    only(machine, folder, NEEDLE, "port 6001")
    assert machine.call("show", {"id": new}, folder)["memory"]["closed_by"] == restated["id"]
    # And back again: the last word is the person's.
    assert MACHINES["an operation"](machine, folder, NEW) == "refused"
    assert machine.call("add", {"content": NEW}, folder)["status"] == "added"
    only(machine, folder, "port 6001", NEEDLE)


def test_correction_retraction_without_replacement(machine: Machine) -> None:
    folder = machine.project()
    old = machine.add(PORT, folder)
    machine.add(HOST, folder)
    everywhere(machine, folder, NEEDLE, KEPT)
    machine.cli("retract", old, "--reason", "it never was", folder=folder).ok()
    only(machine, folder, KEPT, NEEDLE)
    machine.settle()
    machine.call("rebuild", {}, folder)
    machine.settle()
    only(machine, folder, KEPT, NEEDLE)
    shown = machine.call("show", {"id": old}, folder)
    assert (shown["memory"]["state"], shown["memory"]["closed_by"]) == ("closed", "")
    assert "it never was" in json.dumps(shown["history"])
    assert MACHINES["a tool"](machine, folder, PORT) == "refused"
    # It is not forgotten: the person may say it again.
    assert machine.call("add", {"content": PORT}, folder)["status"] == "added"
    everywhere(machine, folder, NEEDLE, KEPT)
