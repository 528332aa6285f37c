"""kill -9 of a real daemon at any moment, under mixed load from several callers, loses nothing it acknowledged.

20 cycles here; `CEMS_TEST_KILL_CYCLES=200 ./test.sh tests/durability/test_kill.py -s` for the long run. What happens to the
gateway alone, and to the store in the middle of a write, is in `tests/unit/test_crash.py`.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter

import pytest
from tests.fakes.daemon_nursery import Nursery, Person
from tests.unit.conftest import records_of

from cems.core.journal import Journal
from cems.core.paths import Home
from cems.core.recall import lookup
from cems.core.records import Records
from cems.core.service.client import DaemonUnreachable, OperationError
from cems.core.value import load_value_key

CYCLES = int(os.environ.get("CEMS_TEST_KILL_CYCLES", "20"))
CALLERS = 4
WHOLE_EVERY = 10
REFUSED = 4


class Load(threading.Thread):
    """Adds, edits, forgets and pins without pause. `state` is what was acknowledged of each memory."""

    def __init__(self, ask: Person, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._ask = ask
        self._dice = random.Random()  # noqa: S311 - any moment and any kind of change will do
        self.state: dict[str, str] = {}
        self.pinned: dict[str, bool] = {}
        self.unsure: set[str] = set()
        self.done: Counter[str] = Counter()

    def run(self) -> None:
        number = 0
        try:
            while True:
                number += 1
                self._one(number)
        except (DaemonUnreachable, OSError):
            # It was killed; what it was doing may be done or not.
            return

    def _one(self, number: int) -> None:
        mine = [memory for memory, state in self.state.items() if state == "live" and memory not in self.unsure]
        kind = self._dice.choices(("add", "edit", "forget", "pin"), (60, 15, 12, 13))[0] if mine else "add"
        text = f"fact {self.name} {number} " + "word " * self._dice.randrange(60)
        if kind == "add":
            added = self._ask("add", {"content": text})
            self.state[added["id"]] = "live"
        else:
            memory = self._dice.choice(mine)
            self.unsure.add(memory)
            try:
                self._change(kind, memory, text)
            except OperationError as error:
                if error.exit_code != REFUSED:
                    raise
                kind = "refused"
            self.unsure.discard(memory)
        self.done[kind] += 1

    def _change(self, kind: str, memory: str, text: str) -> None:
        if kind == "edit":
            edited = self._ask("edit", {"id": memory, "content": text})
            if edited["status"] in ("added", "candidate"):
                self.state |= {memory: "closed", edited["id"]: "live"}
        elif kind == "forget":
            self._ask("forget", {"id": memory})
            self.state[memory] = "hidden"
        else:
            self.pinned[memory] = self._ask("pin", {"id": memory, "pinned": memory not in self.pinned})["pinned"]


def opened(home: Home) -> Journal:
    return Journal(home.journal, Records(load_value_key(home.keys, create=False)))


def lost(journal: Journal, loads: list[Load]) -> list[str]:
    """Acknowledged changes that are not there."""
    found = []
    for load in loads:
        rows = lookup.rows_by_id(journal.connection, list(load.state))
        for memory, state in load.state.items():
            row = rows.get(memory, {"state": "missing", "pinned": None})
            if memory not in load.unsure and row["state"] != state:
                found.append(f"{memory} is {row['state']}, {state} was acknowledged")
            elif memory in load.pinned and memory not in load.unsure and bool(row["pinned"]) != load.pinned[memory]:
                found.append(f"{memory}: its pin is lost")
    return found


@pytest.mark.slow
def test_no_acknowledged_change_is_lost_and_everything_is_equal_after_replay(home: Home, nursery: Nursery) -> None:
    dice, began = random.Random(), time.monotonic()  # noqa: S311
    every: list[Load] = []
    for cycle in range(CYCLES):
        ask = nursery.start(home)
        loads = [Load(ask, f"{cycle}-{caller}") for caller in range(CALLERS)]
        for load in loads:
            load.start()
        enough = time.monotonic() + 5
        most = dice.randrange(60)
        while sum(load.done.total() for load in loads) < most and time.monotonic() < enough:
            time.sleep(0.002)
        time.sleep(dice.uniform(0, 0.03))
        nursery.kill()
        for load in loads:
            load.join(60)
            assert not load.is_alive()
        every += loads
        journal = opened(home)
        assert lost(journal, loads) == [], f"cycle {cycle}"
        assert journal.verify() == []
        assert journal.connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
        if cycle % WHOLE_EVERY == WHOLE_EVERY - 1:
            assert_folds_to_the_same(journal)
        journal.close()
        if cycle % WHOLE_EVERY == WHOLE_EVERY - 1:
            # The store, torn away just now, fills itself; then it has exactly what the records have.
            checks = nursery.start(home).settled()
            assert all(each["ok"] for each in checks.values()), checks
            nursery.kill()
    done = sum((load.done for load in every), Counter[str]())
    assert min(done[kind] for kind in ("add", "edit", "forget", "pin")) > 0, done
    journal = opened(home)
    assert lost(journal, every) == []
    assert_folds_to_the_same(journal)
    wanted = dict(journal.connection.execute("SELECT id, seq FROM records WHERE state != 'hidden'").fetchall())
    journal.close()
    checks = nursery.start(home).settled()
    assert all(each["ok"] for each in checks.values()), checks
    assert checks["store"]["detail"].startswith(f"{len(wanted)} memories")
    seconds = time.monotonic() - began
    print(f"\n{CYCLES} kills, {done.total()} acknowledged ({dict(done)}), 0 lost, {seconds:.0f} s")


def assert_folds_to_the_same(journal: Journal) -> None:
    kept = records_of(journal.connection)
    journal.refold()
    assert records_of(journal.connection) == kept
