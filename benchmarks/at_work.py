"""A home of generated memories at work: recall between single writes, and what the word statistics cost.

The records are filled as a rebuild fills them, in one transaction; from there on everything goes the way of a user's
memories: gateway, journal, indexer, recall. Only the model is replaced: a text's vector is drawn from its digest.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from generated import DIMENSION, MODEL, NARROW, WIDE, Generator, Vectors
from measuring import disk_mib, peak_mib, summary, timed

from cems.core.embedding import Embedder
from cems.core.indexer import Indexer
from cems.core.journal import Draft, Journal, connect
from cems.core.memories import Author, Memories, Statement
from cems.core.policy import RecallPolicy
from cems.core.recall import lookup
from cems.core.recall.engine import Within, keyword_rows
from cems.core.recall.hybrid import HybridSearcher
from cems.core.recall.lexical import Weights
from cems.core.recall.question import Question
from cems.core.records import _COLUMNS, Records
from cems.core.scope import SHARED, USER, Scope, SessionScope
from cems.core.trust import admitted

Result = dict[str, Any]

_KEY = b"benchmark" * 4
_PERSON = Author("person")
_WARM_UP = 10
_AT_THE_END = 500
_LOOKED_FOR_EVERY = 50


class DrawnModel:
    """In place of fastembed's model: like the vectors of `Generator`, the same for the same text."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def query_embed(self, texts: Iterable[str]) -> Iterator[Vectors]:
        return map(self._vector, texts)

    def passage_embed(self, texts: Iterable[str], **_: object) -> Iterator[Vectors]:
        return map(self._vector, texts)

    def _vector(self, text: str) -> Vectors:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
        return self._generator.vectors(np.random.default_rng(seed), 1)[0]


@dataclass(slots=True)
class Home:
    """The parts of a home that is open, and questions to it."""

    folder: Path
    memories: Memories
    indexer: Indexer
    searcher: HybridSearcher
    questions: list[Question]

    async def ask(self, number: int, scope: str = WIDE) -> float:
        """Seconds that one search takes, with the model's part left out."""
        within = Within((scope, USER, SHARED), admitted(RecallPolicy()))
        return (await timed(self.searcher.search(self.questions[number % len(self.questions)], within)))[0]


@asynccontextmanager
async def home(folder: Path, size: int, seed: int, questions: int) -> AsyncIterator[Home]:
    """A home with its records made, over the store in `folder`."""
    generator = Generator(size, seed)
    journal = _filled_journal(folder / "journal.db", generator)
    reader = connect(folder / "journal.db", write=False)
    embedder = Embedder(DrawnModel(generator), MODEL, DIMENSION)
    indexer = Indexer(folder / "store", reader, embedder)
    await indexer.open()
    following = asyncio.create_task(indexer.run())
    try:
        assert await indexer.settled(600)
        asked = [
            Question(" ".join(terms), tuple(terms), False, False, False, 0, 0.0)
            for terms in generator.questions(questions)[0]
        ]
        yield Home(
            folder,
            Memories(journal, _KEY, lambda text: len(text) // 4),
            indexer,
            HybridSearcher(reader, indexer, embedder),
            asked,
        )
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        indexer.store.close()
        reader.close()
        journal.close()


async def measure_words(folder: Path, size: int, seed: int, questions: int) -> Result:
    """What SQLite answers for each question: its terms' counts, the scope's size, and the best rows by words alone."""
    result: Result = {}
    async with home(folder, size, seed, questions) as there:
        connection = connect(folder / "journal.db", write=False)
        everywhere = tuple(row[0] for row in connection.execute("SELECT scope FROM scope_sizes"))
        for name, scopes in {"wide": (WIDE,), "narrow": (NARROW,), "everywhere": everywhere}.items():
            within = Within((*scopes, USER, SHARED), admitted(RecallPolicy()))
            parts: dict[str, Callable[[Question], object]] = {
                "term_counts": lambda asked: lookup.term_counts(connection, asked.terms, within.scopes),  # noqa: B023
                "live_count": lambda _: lookup.live_count(connection, within.scopes),  # noqa: B023
                "weights": lambda asked: Weights(connection, asked, within.scopes),  # noqa: B023
                "keyword_rows": lambda asked: keyword_rows(connection, asked, within),  # noqa: B023
            }
            result[name] = {part: summary(_each(there.questions, function)) for part, function in parts.items()}
            result[name]["scopes"] = len(scopes)
        connection.close()
    return result


async def measure_writes(folder: Path, size: int, seed: int, questions: int, writes: int) -> Result:
    """Single memories, each followed by a search, while the indexer does what it does beside them."""
    async with home(folder, size, seed, questions) as there:
        disk = disk_mib(folder / "store")
        before = [await there.ask(i) for i in range(_WARM_UP + questions)][_WARM_UP:]
        sizes: list[float] = []
        watch = asyncio.create_task(_watch_disk(folder / "store", sizes))
        scope = SessionScope(Scope(WIDE))
        terms = (row["content"] for row in Generator(size, seed).block(size, writes).rows)
        told, between, readable = list[float](), list[float](), list[float]()
        began = time.perf_counter()
        for number, words in enumerate(terms):
            told_at = time.perf_counter()
            outcome = await asyncio.to_thread(there.memories.remember, Statement(words, scope=""), scope, _PERSON)
            there.indexer.wake()
            told.append(time.perf_counter() - told_at)
            if number % _LOOKED_FOR_EVERY == 0:
                await _until_found(there, words, str(outcome.id))
                readable.append(time.perf_counter() - told_at)
            between.append(await there.ask(number))
        spent = time.perf_counter() - began
        watch.cancel()
        peak = peak_mib()
        settled, _ = await timed(there.indexer.settled(600))
        await there.indexer.store.optimize(force=True)
        left = disk_mib(folder / "store")
        afterwards = [await there.ask(i) for i in range(questions)]
        await there.indexer.store.rewrite()
        compacted = disk_mib(folder / "store")
    end = between[-min(_AT_THE_END, max(1, writes // 10)) :]
    return {
        "writes": writes, "seconds": round(spent, 1), "write": summary(told), "readable": summary(readable),
        "search_before": summary(before), "search_between": summary(between), "search_at_the_end": summary(end),
        "search_afterwards": summary(afterwards), "settled_s": round(settled, 2), "peak_rss_mib": peak,
        "disk_before_mib": disk, "disk_p95_mib": round(float(np.percentile(sizes, 95)), 1), "disk_most_mib": max(sizes),
        "disk_afterwards_mib": left, "disk_compacted_mib": compacted,
        "p95_ratio": round(summary(end)["p95_ms"] / summary(before)["p95_ms"], 2),
        "disk_ratio": round(max(sizes) / compacted, 2),
    }  # fmt: skip


async def _watch_disk(folder: Path, sizes: list[float]) -> None:
    """Note the size of the folder twice a second, until cancelled."""
    while True:
        sizes.append(await asyncio.to_thread(disk_mib, folder))
        await asyncio.sleep(0.5)


async def _until_found(there: Home, words: str, memory: str) -> None:
    """Search for the memory's own words until it is found with a cosine."""
    terms = tuple(dict.fromkeys(words.split()))
    question = Question(words, terms, False, False, False, 0, 0.0)
    within = Within((WIDE, USER, SHARED), admitted(RecallPolicy()))
    while True:
        found = await there.searcher.search(question, within)
        if any(each.id == memory and each.cosine is not None for each in found.candidates):
            return
        await asyncio.sleep(0.005)


def _each(questions: Iterable[Question], function: Callable[[Question], object]) -> list[float]:
    seconds = []
    for question in questions:
        began = time.perf_counter()
        function(question)
        seconds.append(time.perf_counter() - began)
    return seconds


def _filled_journal(path: Path, generator: Generator) -> Journal:
    """A journal whose records hold all generated memories; one entry stands for those that told them."""
    if path.exists():
        return Journal(path, Records(_KEY))
    journal = Journal(path, Records(_KEY))
    connection = journal.connection
    connection.execute("BEGIN")
    live: Counter[str] = Counter()
    words: Counter[tuple[str, str]] = Counter()
    for block in generator.blocks(5_000):
        connection.executemany(
            f"INSERT INTO records ({', '.join(_COLUMNS)}) VALUES ({', '.join(':' + each for each in _COLUMNS)})",  # noqa: S608
            map(_record, block.rows),
        )
        for row in block.rows:
            if row["state"] == "live":
                live[row["scope"]] += 1
                words.update((row["scope"], term) for term in set(row["terms"].split()))
    connection.execute("INSERT INTO keywords (keywords) VALUES ('rebuild')")
    connection.executemany("INSERT INTO scope_sizes VALUES (?, ?)", live.items())
    connection.executemany("INSERT INTO scope_terms VALUES (?, ?, ?)", ((*key, n) for key, n in words.items()))
    connection.execute("COMMIT")
    # The chain goes on after the entry that the last row came from.
    journal.append([Draft("refuse", "", {"operation": "remember", "reason": "filled", "scope": "", "value_key": ""})])
    connection.execute("DROP TRIGGER chain_no_update")
    connection.execute("UPDATE chain SET seq = ?", (generator.rows + 1,))
    return journal


def _record(row: dict[str, Any]) -> dict[str, Any]:
    """A generated row as the records keep it."""
    number = row["seq"]
    source = row["source"] | {"session": "", "place": None, "derived_from": [], "recipe": "", "agent": ""}
    return row | {
        "n": number, "value_key": row["id"], "recipe": "", "closed_by": "", "forgotten": 0, "session": "",
        "place": number, "pinned": int(row["pinned"]), "body": json.dumps(row | {"source": source}),
    }  # fmt: skip
