"""A CEMS_HOME with its real parts in this process: journal, gateway, hooks, operations, and the store when asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from cems.adapters.claude_code.agent import AGENT
from cems.core.config import load
from cems.core.embedding import Embedder
from cems.core.indexer import Indexer
from cems.core.journal import Journal, connect
from cems.core.memories import Author, Memories, Statement
from cems.core.paths import Home
from cems.core.policy import RecallPolicy
from cems.core.recall import lookup
from cems.core.recall.hybrid import HybridSearcher
from cems.core.records import Records
from cems.core.scope import SessionScope, session_scope
from cems.core.service.caller import Caller
from cems.core.service.commands import TypedCommands
from cems.core.service.hooks import HookService
from cems.core.service.operations import Operations
from cems.core.service.sessions import Sessions
from cems.core.tokens import count_tokens

T = TypeVar("T")

PERSON = Author("person", session="s-person", present=True)
AGENT_AUTHOR = Author("agent", agent="claude-code", session="s-agent")
TOOL = Author("tool", agent="claude-code", session="s-agent")
INTERACTIVE = {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli"}


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, in a loop of its own."""
    return asyncio.run(work)


class Place:
    """One home below `root`. Memories go to the project `alpha` unless said otherwise; `beta` is another project."""

    def __init__(self, root: Path, policy: RecallPolicy | None = None) -> None:
        self.home = Home(root / ".cems")
        self.home.create()
        self.alpha, self.beta = root / "alpha", root / "beta"
        for folder in (self.alpha, self.beta):
            folder.mkdir()
        key = b"k" * 32
        self.journal = Journal(self.home.journal, Records(key))
        self.memories = Memories(self.journal, key, count_tokens)
        self.reader = connect(self.home.journal, write=False)
        self.writer = ThreadPoolExecutor(1)
        self.policy = policy or RecallPolicy()
        self.open_hooks()

    def open_hooks(self) -> None:
        """Hooks and operations as a daemon that has just come up in this home has them."""
        self.hooks = HookService(self.home, {"claude-code": AGENT}, self.policy, Sessions(self.home.state))
        self.hooks.connect(self.reader)
        self.operations = Operations(
            home=self.home, memories=self.memories, journal=self.journal, reader=self.reader, writer=self.writer,
            hooks=self.hooks,
        )  # fmt: skip
        self.hooks.accept(TypedCommands(self.operations), {"claude-code": AGENT}, self.policy, count_tokens)

    def restart(self) -> None:
        """End one daemon's hooks and start the next one's."""
        self.hooks.close()
        self.open_hooks()

    def close(self) -> None:
        self.hooks.close()
        self.writer.shutdown()
        self.reader.close()
        self.journal.close()

    def scope(self, folder: Path | None = None) -> SessionScope:
        return session_scope(str(folder or self.alpha))

    def add(
        self,
        content: str,
        *,
        folder: Path | None = None,
        everywhere: bool = False,
        author: Author = PERSON,
        **fields: Any,
    ) -> str:
        """Remember something; returns its id."""
        scope = SessionScope(None) if everywhere else self.scope(folder)
        outcome = self.memories.remember(Statement(content, **fields), scope, author)
        assert outcome.id is not None, outcome.reason
        return outcome.id

    def row(self, memory: str) -> dict[str, Any]:
        return lookup.rows_by_id(self.reader, [memory])[memory]

    def caller(self, folder: Path | None = None, *, tty: bool = True, **fields: Any) -> Caller:
        """The person's command line in that folder, unless `fields` says otherwise."""
        given: dict[str, Any] = {"client": "cli", "cwd": str(folder or self.alpha), "tty": tty}
        return Caller(**(given | fields))

    async def call(self, name: str, body: Mapping[str, Any], caller: Caller | None = None) -> dict[str, Any]:
        """One operation; the answer has gone through JSON as it does for every caller."""
        answer: dict[str, Any] = json.loads(json.dumps(await self.operations.run(name, body, caller or self.caller())))
        return answer

    async def hook(
        self,
        event: str,
        *,
        session: str = "s1",
        folder: Path | None = None,
        variables: Mapping[str, str] = {},
        **fields: Any,
    ) -> str:
        """What Claude Code's hook for this event puts in front of the model; empty for nothing."""
        scripts = {"SessionStart": "cems_session_start", "UserPromptSubmit": "cems_user_prompts_submit", "Stop": "cems_stop",
                   "SessionEnd": "cems_session_end"}  # fmt: skip
        payload = {"session_id": session, "cwd": str(folder or self.alpha), "hook_event_name": event, **fields}
        answer = await self.hooks.answer(scripts[event], dict(variables), json.dumps(payload).encode())
        return str(json.loads(answer)["hookSpecificOutput"]["additionalContext"]) if answer else ""

    async def prompt(self, text: str, **fields: Any) -> str:
        return await self.hook("UserPromptSubmit", prompt=text, **fields)

    @asynccontextmanager
    async def with_vectors(self, embedder: Embedder) -> AsyncIterator[Indexer]:
        """Open the store, fill it, and answer with vectors until left."""
        indexer = Indexer(self.home.store, self.reader, embedder)
        await indexer.open()
        following = asyncio.create_task(indexer.run())
        try:
            assert await indexer.settled(60)
            searcher = HybridSearcher(self.reader, indexer, embedder)
            # The machine may be busy; how haste is answered has tests of its own.
            self.hooks.upgrade(searcher, patience=60)
            self.operations.equip(searcher, indexer, embedder, "", load(self.home))
            yield indexer
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            indexer.store.close()
