"""The daemon's second stage: settings, gateway, embedder, store, and the app that serves everything but hooks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cems import __version__
from cems.core import redact
from cems.core.audit import head_note
from cems.core.backups import advising
from cems.core.config import Settings, load, recall_policy
from cems.core.embedding import NO_MODEL, Embedder, EmbedderUnavailable, load_embedder
from cems.core.indexer import Indexer
from cems.core.journal import Journal, connect
from cems.core.memories import Memories
from cems.core.paths import Home
from cems.core.policy import Snapshot, write_snapshot
from cems.core.recall.engine import KeywordSearcher, Searcher, Within
from cems.core.recall.hybrid import HybridSearcher
from cems.core.recall.question import ask
from cems.core.records import Records
from cems.core.scope import USER
from cems.core.service.adapters import load_agents, registered_agents
from cems.core.service.commands import TypedCommands
from cems.core.service.hooks import HookService
from cems.core.service.housekeeping import keep_house, look_for_releases
from cems.core.service.http_tokens import HttpTokens
from cems.core.service.logs import where
from cems.core.service.mcp_http import McpHttp
from cems.core.service.operations import Operations
from cems.core.service.sessions import Sessions
from cems.core.tokens import count_tokens
from cems.core.value import load_value_key

logger = logging.getLogger("cems.daemon")

_FLUSH_SECONDS = 1.0
_PRUNE_SECONDS = 3_600.0


class Runtime:
    """Everything the second stage holds open."""

    def __init__(self, home: Home, hooks: HookService) -> None:
        """Import and open what takes time; runs in a thread while hooks are answered by words."""
        self.settings: Settings = load(home)
        self.idle_seconds = self.settings.idle_seconds
        self.hook_deadline = self.settings.hook_deadline
        logging.getLogger("cems").setLevel(self.settings.log_level)
        self._home = home
        self._hooks = hooks
        with advising(home):
            key = load_value_key(home.keys, create=not home.journal.exists())
            self.journal = Journal(home.journal, Records(key), head_note(home))
        self._reader: sqlite3.Connection = connect(home.journal, write=False)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="cems-writer")
        self._indexer: Indexer | None = None
        self.operations = Operations(
            home=home, memories=Memories(self.journal, key, count_tokens), journal=self.journal, reader=self._reader,
            writer=self._writer, hooks=hooks,
        )  # fmt: skip
        targets = registered_agents()
        policy = recall_policy(self.settings)
        _leave_snapshot(home, Snapshot(policy, targets))
        # The tokenizer takes a fifth of a second to load: now, and not while the first prompt waits.
        count_tokens("")
        hooks.connect(self._reader)
        hooks.accept(TypedCommands(self.operations), load_agents(targets), policy, count_tokens)
        self._embedder, self._without = self._load_embedder()
        self.operations.memories.tombstones.meaning = self._embedder
        if self._embedder is not None:
            # Over half of a cold start: here, in the thread, not in the event loop. What it raises, `startup` meets again.
            with contextlib.suppress(Exception):
                import lancedb  # noqa: F401
        # The detectors of secrets load slowly too, and a person's first `/remember` is to be answered in time.
        redact.clean("")
        from cems.core.service.routes import build_app

        self.app: Any = build_app(self.operations)
        self.http = self.operations.http = McpHttp(HttpTokens(home), self.app)

    async def startup(self) -> None:
        """Open the store in the event loop that will use it."""
        searcher: Searcher
        if self._embedder is None:
            searcher = KeywordSearcher(self._reader, self._without)
        else:
            try:
                self._indexer = Indexer(self._home.store, self._reader, self._embedder)
                await self._indexer.open()
                searcher = await asyncio.to_thread(HybridSearcher, self._reader, self._indexer, self._embedder)
                await _wake(searcher)
            except Exception as error:  # noqa: BLE001 - LanceDB raises many kinds
                logger.error("the store cannot be used: %s", where(error))
                self._indexer = None
                self._without = f"the store cannot be used ({type(error).__name__}); `cems doctor` says more"
                searcher = KeywordSearcher(self._reader, self._without)
        chosen = self.settings.embedding_model == NO_MODEL
        self._hooks.upgrade(searcher, "" if chosen else self._without)
        self.operations.equip(searcher, self._indexer, self._embedder, self._without, self.settings)

    async def run_background(self) -> None:
        """Follow the records and keep the session table, until cancelled."""
        tasks = [
            asyncio.create_task(self._keep_sessions(self._hooks.sessions)),
            asyncio.create_task(keep_house(self.operations)),
            asyncio.create_task(look_for_releases(self.operations)),
            asyncio.create_task(self._learn_forgotten()),
            asyncio.create_task(self.http.run()),
        ]
        if self._indexer is not None:
            tasks.append(asyncio.create_task(self._indexer.run()))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                # One that is leaving already must not be disturbed in closing what it holds.
                if not task.cancelling():
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def busy(self) -> bool:
        """Whether leaving now would leave work undone, or shut out a client that cannot start a daemon."""
        return self._hooks.busy or self.http.wanted or (self._indexer is not None and self._indexer.busy)

    def close(self) -> None:
        """Let the writer finish, then close every file."""
        self._writer.shutdown(wait=True)
        if self._indexer is not None:
            self._indexer.store.close()
        self._reader.close()
        self.journal.close()

    def _load_embedder(self) -> tuple[Embedder | None, str]:
        settings = self.settings
        try:
            return load_embedder(
                settings.embedding_model, cache=settings.embedding_cache, download=settings.embedding_download,
                threads=settings.embedding_threads,
            ), ""  # fmt: skip
        except EmbedderUnavailable as error:
            logger.warning("full text alone: %s", error)
            return None, f"full text alone: {error}"

    async def _learn_forgotten(self) -> None:
        """Make what the tombstones' other words are compared with, where a model was missing or another one was used."""
        try:
            while await self.operations.on_writer(self.operations.memories.tombstones.fill_in):
                await asyncio.sleep(0)
        except sqlite3.Error as error:
            logger.warning("other words for what was forgotten are not known yet (%s)", type(error).__name__)

    async def _keep_sessions(self, sessions: Sessions) -> None:
        """Write the session table once a second. A disk that is full now may not be later: it is tried again."""
        pruned = time.monotonic() - _PRUNE_SECONDS
        failing = False
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            try:
                await asyncio.to_thread(sessions.flush)
                if time.monotonic() - pruned > _PRUNE_SECONDS:
                    pruned = time.monotonic()
                    await asyncio.to_thread(sessions.prune)
                failing = False
            except sqlite3.Error as error:
                if not failing:
                    logger.error("the session table cannot be written (%s), trying again", type(error).__name__)
                failing = True


def open_runtime(home: Home, hooks: HookService) -> Runtime:
    """The second stage for a home; raises what keeps it from opening, with a message a person can act on."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        return Runtime(home, hooks)
    except Exception as error:
        hooks.give_up(f"the daemon could not load everything ({' '.join(str(error).split()) or type(error).__name__})")
        raise


async def _wake(searcher: Searcher) -> None:
    """Search once: that makes indexes and wakes libraries now, and not while the first prompt waits."""
    try:
        await searcher.search(ask("is everything ready"), Within((USER,), ("trusted",)))
    except Exception as error:  # noqa: BLE001 - each prompt meets it again and goes on by words
        logger.error("the store cannot be searched: %s", where(error))


def _leave_snapshot(home: Home, snapshot: Snapshot) -> None:
    try:
        write_snapshot(home, __version__, snapshot)
    except OSError as error:
        # Only the next start's first answers are slower without it.
        logger.warning("the settings' snapshot cannot be written (%s)", type(error).__name__)
