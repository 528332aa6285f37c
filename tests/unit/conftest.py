"""What the unit tests of the core share: an empty home, its journal, the gateway, and the bundled model."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.fakes.real_parts import Place

from cems.core.embedding import BUNDLED, Embedder, load_embedder
from cems.core.journal import Journal
from cems.core.memories import Author, Memories, Statement
from cems.core.paths import Home
from cems.core.records import Records
from cems.core.scope import SessionScope, project_scope

KEY = bytes(range(32))
SHOP = SessionScope(project_scope("github.com/org/shop"))
SHOP_2 = SessionScope(project_scope("github.com/org/shop-2"))
NOWHERE = SessionScope(None)
PERSON = Author("person", session="s1", present=True)
AGENT = Author("agent", agent="claude-code", session="s1")

# The machine may be busy with other tests: a slow example is no failure.
settings.register_profile("cems", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cems")

_TEXTS = ["deploy on fridays", "the build needs node 22", "数据库用三号端口", "use tabs"]

OpenJournal = Callable[[], Journal]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "cems")
    made.create()
    return made


@pytest.fixture
def open_journal(home: Home) -> Iterator[OpenJournal]:
    """Opens the home's journal; each one opened is closed at the end."""
    opened: list[Journal] = []

    def open_it() -> Journal:
        opened.append(Journal(home.journal, Records(KEY)))
        return opened[-1]

    yield open_it
    for journal in opened:
        journal.close()


@pytest.fixture
def journal(open_journal: OpenJournal) -> Journal:
    return open_journal()


@pytest.fixture
def memories(journal: Journal) -> Memories:
    return Memories(journal, KEY, lambda text: len(text) // 4 + 1)


@pytest.fixture(scope="session")
def bundled() -> Embedder:
    """The model that comes with CEMS; loading it takes a second."""
    return load_embedder(BUNDLED)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A home with hooks and operations over it, answering by words until a test opens the store."""
    made = Place(tmp_path)
    yield made
    made.close()


def records_of(connection: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Everything the records hold, table by table, the keyword index by what it finds."""
    kept = {
        name: connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()  # noqa: S608
        for name in ("records", "tombstones", "derivations", "scope_terms", "scope_sizes")
    }
    words = {word for row in connection.execute("SELECT terms FROM records") for word in row[0].split()}
    found = [
        (word, *connection.execute("SELECT rowid FROM keywords WHERE keywords MATCH ? ORDER BY rowid", (f'"{word}"',)))
        for word in sorted(words)
    ]
    connection.execute("INSERT INTO keywords (keywords, rank) VALUES ('integrity-check', 1)")
    return kept | {"keywords": found}


@pytest.fixture
def filled(memories: Memories) -> list[str]:
    """Four live memories, a closed one and a forgotten one; their ids in that order."""
    ids = [str(memories.remember(Statement(text), SHOP, PERSON).id) for text in _TEXTS]
    old = str(memories.remember(Statement("old"), SHOP, PERSON).id)
    ids[3:4] = [str(memories.correct(ids[3], {"content": "use spaces"}, SHOP, PERSON)[0].id), ids[3]]
    memories.forget([old], SHOP, PERSON)
    return [*ids, old]
