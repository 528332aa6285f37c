"""Memories in the real parts (journal, gateway, LanceDB, the bundled model), for the benchmarks of recall.

Whatever is measured goes the way of a user's memories: through the gateway, into the records and the store.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from cems.core.embedding import BUNDLED, Embedder, load_embedder
from cems.core.indexer import Indexer
from cems.core.journal import Journal, connect
from cems.core.memories import Author, Memories, Statement
from cems.core.policy import RecallPolicy
from cems.core.recall.candidate import Candidate
from cems.core.recall.engine import KeywordSearcher, Searcher, Within
from cems.core.recall.hybrid import HybridSearcher
from cems.core.recall.question import ask
from cems.core.records import Records
from cems.core.scope import SessionScope, project_scope
from cems.core.statement import tidy_statement
from cems.core.tokens import count_tokens
from cems.core.trust import admitted

RESULTS = Path(__file__).parent / "results"
_PERSON = Author("person")
PATIENCE = 3_600.0
_BATCH = 500

Named = tuple[str, str | None, Statement]
"""A statement with its name in the data and its project; None for the person's own."""


@dataclass(slots=True)
class Bank:
    """Memories that were kept, and the two searchers over them. `names`: what the data calls each memory, by its id.
    `reader`: the records.

    A statement that says the same as an earlier one is one memory with two names.
    """

    embedder: Embedder
    hybrid: Searcher
    keyword: Searcher
    reader: sqlite3.Connection
    gateway: Memories
    indexer: Indexer
    names: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def model(self) -> str:
        return self.embedder.identity

    async def add(self, statements: Iterable[Named], *, compared: bool = True) -> list[str]:
        """Keep statements; returns their ids once the store has them."""
        if compared:
            kept = [
                (str(self.gateway.remember(said, scope_of(project), _PERSON).id), called)
                for called, project, said in statements
            ]
        else:
            kept = list(_append(self.gateway, list(statements), _PERSON))
        for memory, called in kept:
            self.names[memory].add(called)
        await self._settle()
        return [memory for memory, _ in kept]

    async def remove(self, ids: Sequence[str], project: str | None) -> None:
        """Forget memories of a project or of the person's own."""
        self.gateway.forget(ids, scope_of(project), _PERSON)
        await self._settle()

    async def _settle(self) -> None:
        self.indexer.wake()
        if not await self.indexer.settled(PATIENCE):
            raise TimeoutError("the store did not take all memories in")

    async def ranking(self, question: str, scope: SessionScope, searcher: Searcher | None = None) -> list[Candidate]:
        """What a search for this finds, best first."""
        within = Within(scope.readable, admitted(RecallPolicy()))
        return (await (searcher or self.hybrid).search(ask(question), within)).candidates


@asynccontextmanager
async def bank(statements: Iterable[Named], *, compared: bool = True) -> AsyncIterator[Bank]:
    """Keep statements in a temporary folder.

    Where they are not `compared`, each is a memory of its own whatever the others say, and asking what it contradicts is
    left out: tens of thousands of sentences, some of which were said in several sessions, take minutes less.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, key = Path(name), b"benchmark" * 4
        journal = Journal(folder / "journal.db", Records(key))
        gateway = Memories(journal, key, count_tokens)
        reader = connect(folder / "journal.db", write=False)
        embedder = bundled()
        indexer = Indexer(folder / "store", reader, embedder)
        await indexer.open()
        following = asyncio.create_task(indexer.run())
        try:
            searchers = HybridSearcher(reader, indexer, embedder), KeywordSearcher(reader, "benchmark")
            made = Bank(embedder, *searchers, reader, gateway, indexer)
            await made.add(statements, compared=compared)
            await indexer.store.optimize(force=True)
            yield made
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            indexer.store.close()
            reader.close()


def _append(gateway: Memories, statements: Sequence[Named], author: Author) -> Iterator[tuple[str, str]]:
    """Write the statements as the gateway would if nothing spoke against them; yields each one's id and name."""
    for first in range(0, len(statements), _BATCH):
        drafts = []
        for called, project, statement in statements[first : first + _BATCH]:
            memory, salt = gateway.compose(tidy_statement(statement)[0], scope_of(project).default, author)
            body = {"memory": memory.model_dump(mode="json")}
            drafts.append(gateway.draft("remember", memory.id, body, author, salt))
            yield memory.id, called
        gateway.append(drafts)


@lru_cache(maxsize=1)
def bundled() -> Embedder:
    """The bundled model, loaded once."""
    return load_embedder(BUNDLED)


def scope_of(project: str | None) -> SessionScope:
    return SessionScope(None if project is None else project_scope(project))


def data_file(name: str) -> Path:
    """A file of the data that is not ours. Exits with a sentence where it is absent."""
    folder = os.environ.get("CEMS_BENCH_DATA", "")
    path = Path(folder) / name
    if not folder or not path.is_file():
        raise SystemExit(f"set CEMS_BENCH_DATA to the folder that holds {name}")
    return path


def json_lines(path: Path) -> list[dict[str, Any]]:
    # Not splitlines(): it also splits at characters that JSON allows inside a string.
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def write_result(name: str, result: dict[str, Any]) -> Path:
    """Write `results/<name>.json`."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n", "utf-8")
    return path


def recall_at(ranking: Sequence[set[str]], relevant: set[str], k: int) -> float:
    """The share of what is relevant among the first k."""
    return len(relevant & set().union(*ranking[:k])) / len(relevant)


def reciprocal_rank(ranking: Sequence[set[str]], relevant: set[str]) -> float:
    return next((1 / place for place, names in enumerate(ranking, 1) if names & relevant), 0.0)


def ndcg(ranking: Sequence[set[str]], relevant: set[str], k: int = 10) -> float:
    gain = sum(1 / math.log2(place + 2) for place, names in enumerate(ranking[:k]) if names & relevant)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(k, len(relevant))))
