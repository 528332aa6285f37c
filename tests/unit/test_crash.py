"""kill -9 at any moment loses nothing that was acknowledged, and the store finds out by itself what it lacks."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.fakes.small_model import small_embedder
from tests.unit.conftest import KEY, OpenJournal, records_of

from cems.core.indexer import Indexer
from cems.core.journal import Journal, connect
from cems.core.memories import Author, Memories, Statement
from cems.core.paths import Home
from cems.core.recall import lookup
from cems.core.scope import SessionScope

CYCLES = 20
REPOSITORY = Path(__file__).resolve().parents[2]

# Remembers, corrects, pins and forgets without pause, and says what was done once the gateway has answered.
WRITER = """
import os, random, sys, threading
from pathlib import Path
from cems.core.journal import Journal, connect
from cems.core.memories import Author, Memories, Statement
from cems.core.paths import Home
from cems.core.records import Records
from cems.core.redact import clean
from cems.core.scope import SessionScope

KEY = bytes(range(32))
home = Home(Path(sys.argv[1]))

def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())

def write(seed, wake=lambda: None):
    journal = Journal(home.journal, Records(KEY))
    memories = Memories(journal, KEY, len)
    scope, person, dice = SessionScope(None), Author("person", present=True), random.Random(seed)
    say("pid", str(os.getpid()))
    mine = []
    for number in range(100_000):
        kind = dice.random()
        if kind < 0.7 or not mine:
            mine.append(memories.remember(Statement(f"fact {seed} {number} " + "word " * dice.randrange(40)), scope, person).id)
            say("live", mine[-1])
        elif kind < 0.85:
            old = mine.pop(dice.randrange(len(mine)))
            new = memories.correct(old, {"content": f"corrected {seed} {number}"}, scope, person)[0].id
            mine.append(new)
            say("closed", old)
            say("live", new)
        else:
            gone = mine.pop(dice.randrange(len(mine)))
            memories.forget([gone], scope, person)
            say("hidden", gone)
        wake()
"""

# Everything is imported once; each line on standard input makes one writer, as cheap as a fork.
NURSERY = (
    WRITER
    + """
clean("warm")
for line in sys.stdin:
    child = os.fork()
    if not child:
        write(int(line))
    os.waitpid(child, 0)
    say("ended")
"""
)

# One that feeds the store meanwhile, so that it is torn away in the middle of a write too.
FEEDER = (
    WRITER
    + """
import asyncio
sys.path.insert(0, sys.argv[2])
from tests.fakes.small_model import small_embedder
from cems.core.indexer import Indexer

async def follow():
    indexer = Indexer(home.store, connect(home.journal, write=False), small_embedder())
    await indexer.open()
    loop = asyncio.get_running_loop()
    wake = lambda: loop.call_soon_threadsafe(indexer.wake)
    threading.Thread(target=write, args=(99, wake), daemon=True).start()
    await indexer.run()

asyncio.run(follow())
"""
)


class Writer:
    """A process that writes, and what it acknowledged before it was killed."""

    def __init__(self, home: Home, script: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", script, str(home.root), str(REPOSITORY)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
        )  # fmt: skip
        self.acknowledged: list[tuple[str, str]] = []

    def start(self, seed: int) -> None:
        assert self._process.stdin
        self._process.stdin.write(b"%d\n" % seed)
        self._process.stdin.flush()

    def kill_after(self, acknowledgements: int, seconds: float) -> None:
        """Let it write that much and that much longer, then kill it; what it said until then was acknowledged."""
        word, pid = self._line()
        assert word == "pid"
        for _ in range(acknowledgements):
            self.acknowledged.append(self._line())
        time.sleep(seconds)
        os.kill(int(pid), signal.SIGKILL)
        while (line := self._line())[0] not in ("ended", ""):
            self.acknowledged.append(line)

    def end(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        assert self._process.wait(timeout=30) in (0, -signal.SIGKILL)

    def _line(self) -> tuple[str, str]:
        assert self._process.stdout
        word, _, rest = self._process.stdout.readline().decode().strip().partition(" ")
        return word, rest


def missed(journal: Journal, said: list[tuple[str, str]]) -> dict[str, str]:
    """Acknowledged changes that the journal does not have. The last change of all may be there unacknowledged."""
    acknowledged = {memory: state for state, memory in said}
    rows = lookup.rows_by_id(journal.connection, list(acknowledged))
    wrong = {m: state for m, state in acknowledged.items() if m not in rows or rows[m]["state"] != state}
    ahead = [m for m, state in wrong.items() if m in rows and state == "live"]
    return {m: state for m, state in wrong.items() if m not in ahead[:1]}


def test_nothing_acknowledged_is_lost_by_kill_9(home: Home, open_journal: OpenJournal) -> None:
    dice = random.Random()  # noqa: S311 - any moment will do
    writer = Writer(home, NURSERY)
    acknowledged = 0
    for cycle in range(CYCLES):
        writer.acknowledged = []
        writer.start(cycle)
        writer.kill_after(dice.randrange(15), dice.uniform(0, 0.01))
        acknowledged += len(writer.acknowledged)
        journal = open_journal()
        assert missed(journal, writer.acknowledged) == {}, f"cycle {cycle}"
        assert journal.verify() == []
        assert journal.connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
        journal.close()
    writer.end()
    assert acknowledged > CYCLES
    assert_equal_after_replay(home, open_journal())


def test_a_store_torn_away_in_the_middle_of_a_write_is_put_right(home: Home, open_journal: OpenJournal) -> None:
    open_journal().close()
    writer = Writer(home, FEEDER)
    writer.kill_after(60, random.uniform(0, 0.02))  # noqa: S311 - any moment will do
    writer.end()
    journal = open_journal()
    assert missed(journal, writer.acknowledged) == {}
    assert_equal_after_replay(home, journal)


def assert_equal_after_replay(home: Home, journal: Journal) -> None:
    kept = records_of(journal.connection)
    journal.refold()
    assert records_of(journal.connection) == kept
    wanted = dict(journal.connection.execute("SELECT id, seq FROM records WHERE state != 'hidden'").fetchall())
    assert wanted
    assert asyncio.run(reconciled(home)) == (wanted, [])


async def reconciled(home: Home) -> tuple[dict[str, int], list[str]]:
    reader = connect(home.journal, write=False)
    indexer = Indexer(home.store, reader, small_embedder())
    await indexer.open()
    task = asyncio.create_task(indexer.run())
    assert await indexer.settled(60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    found = await indexer.store.faults()
    indexer.store.close()
    reader.close()
    return found


REFOLDER = """
import sys; from pathlib import Path
from cems.core.journal import Journal
from cems.core.records import Records
journal = Journal(Path(sys.argv[1]) / "journal.db", Records(bytes(range(32))))
print("ready", flush=True)
while True:
    journal.refold()
"""


def test_a_kill_in_the_middle_of_a_fold_leaves_whole_records(home: Home, open_journal: OpenJournal) -> None:
    journal = open_journal()
    memories = Memories(journal, KEY, len)
    for number in range(60):
        memories.remember(Statement(f"fact {number} of many words"), SessionScope(None), Author("person"))
    expected = records_of(journal.connection)
    process = subprocess.Popen(
        [sys.executable, "-c", REFOLDER, str(home.root)], stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    time.sleep(random.uniform(0.01, 0.1))  # noqa: S311
    process.kill()
    process.wait(timeout=30)
    process.stdout.close()
    assert records_of(journal.connection) == expected
