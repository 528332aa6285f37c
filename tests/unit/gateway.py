"""The callers of the gateway that the tests know, and short ways to ask what became of a memory."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.conftest import PERSON, SHOP

from cems.core.journal import Journal
from cems.core.memories import Author, Memories, Statement
from cems.core.paths import Home
from cems.core.recall import lookup
from cems.core.scope import SessionScope

ABSENT = Author("person", session="s1", present=False)
IMPORT = Author("import", session="i")
TOOL = Author("tool", session="t")
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TABS = "Use tabs in the shop's templates."


def added(memories: Memories, text: str, scope: SessionScope = SHOP, author: Author = PERSON, **more: Any) -> str:
    outcome = memories.remember(Statement(text, **more), scope, author)
    assert outcome.status in ("added", "candidate"), outcome
    assert outcome.id
    return outcome.id


def row(memories: Memories, memory: str, scope: SessionScope = SHOP) -> lookup.Row:
    return memories.find(memory, scope)


def live(journal: Journal, scope: SessionScope = SHOP) -> list[str]:
    return sorted(each["content"] for each in lookup.listed_rows(journal.connection, scope.readable))


def entries(journal: Journal) -> list[tuple[str, str, dict[str, Any]]]:
    rows = journal.connection.execute("SELECT kind, actor, body FROM chain JOIN payloads USING (op_id) ORDER BY seq")
    return [(kind, actor, json.loads(body)) for kind, actor, body in rows]


def refusals(journal: Journal) -> list[str]:
    return [body["reason"] for kind, _, body in entries(journal) if kind == "refuse"]


def files_with(home: Home, *secrets: str) -> list[str]:
    return [
        f"{path.name}: {secret}"
        for path in home.root.rglob("*")
        if path.is_file()
        for secret in secrets
        if secret.encode() in path.read_bytes()
    ]
