"""The daemon's operations: one coroutine each, JSON in, JSON out. The command line and the MCP tools call nothing else.

Changes run on the writer's one thread; reads run at once on a connection of their own.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from cems.core import promotion
from cems.core.fold import Operation
from cems.core.journal import Journal
from cems.core.memories import AmbiguousId, Memories, NothingMatched, Refused, Unusable
from cems.core.paths import Home
from cems.core.pauses import Paused, PausesDamaged
from cems.core.recall import lookup
from cems.core.recall.engine import KeywordSearcher, Patient, Searcher, Within
from cems.core.recall.lexical import Weights
from cems.core.recall.profile import profile
from cems.core.recall.question import Question, ask
from cems.core.recall.summary import summary
from cems.core.scope import SHARED, USER, Scope, project_name
from cems.core.service.caller import Caller
from cems.core.service.checks import run_checks
from cems.core.service.history_operations import OPERATIONS as HISTORY
from cems.core.service.hooks import STARTING, HookService
from cems.core.service.http_operations import OPERATIONS as HTTP
from cems.core.service.maintenance_operations import OPERATIONS as MAINTENANCE
from cems.core.service.pause_operations import OPERATIONS as PAUSE
from cems.core.service.pause_operations import refuse_while_paused
from cems.core.service.purge_operations import OPERATIONS as PURGE
from cems.core.service.request import MAX_LIMIT, Request
from cems.core.service.review_operations import OPERATIONS as REVIEW
from cems.core.service.rule_operations import OPERATIONS as RULES
from cems.core.service.shapes import event_json, is_related, memory_json, outcome_json, without_content
from cems.core.service.status import status_json
from cems.core.service.storage import storage_problem
from cems.core.timeline import Moment, believed_rows
from cems.core.trust import SEARCHED, WITHHELD

if TYPE_CHECKING:
    from cems.core.config import Settings
    from cems.core.embedding import Embedder
    from cems.core.indexer import Indexer
    from cems.core.service.mcp_http import McpHttp

T = TypeVar("T")
_MOST_AT_ONCE = 256
_MOST_ITEMS = 1_000
_SEARCH_SECONDS = 10.0
_MOST_SECONDS = 600.0


class OperationFailed(Exception):
    """An operation's error as the caller sees it: a code, a sentence, the exit status."""

    def __init__(self, code: str, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.code = code
        self.exit_status = exit_status


_FAILURES: tuple[tuple[type[Exception], str, int], ...] = (
    (Unusable, "usage", 2),
    (AmbiguousId, "ambiguous", 2),
    (NothingMatched, "not_found", 3),
    (Refused, "refused", 4),
    (Paused, "paused", 4),
    (PausesDamaged, "damaged", 1),
)


class Operations:
    """Everything a caller can ask of the daemon; `equip` adds what takes seconds to load."""

    def __init__(
        self,
        *,
        home: Home,
        memories: Memories,
        journal: Journal,
        reader: sqlite3.Connection,
        writer: ThreadPoolExecutor,
        hooks: HookService,
    ) -> None:
        self.home = home
        self.memories = memories
        self.journal = journal
        self.reader = reader
        self.hooks = hooks
        self.searcher: Searcher = KeywordSearcher(reader, STARTING)
        self.indexer: Indexer | None = None
        self.embedder: Embedder | None = None
        self.without = STARTING
        self.settings: Settings | None = None
        self.http: McpHttp | None = None
        self.began = time.monotonic()
        self._writer = writer
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)

    def equip(
        self, searcher: Searcher, indexer: Indexer | None, embedder: Embedder | None, without: str, settings: Settings
    ) -> None:
        """Vectors are there, or it is known why not (`without`)."""
        self.searcher = searcher if indexer is None else Patient(searcher, self.reader, _SEARCH_SECONDS)
        self.indexer, self.embedder = indexer, embedder
        self.without, self.settings = without, settings

    async def run(self, name: str, body: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """One operation by name. Raises OperationFailed with what the caller is told."""
        operation = _OPERATIONS.get(name)
        if operation is None:
            raise OperationFailed("usage", f"there is no operation {name!r}", 2)
        try:
            request = Request(body, caller)
            if caller.client == "mcp" and caller.agent:
                self.hooks.sessions.hear(caller.agent, "tools")
            refuse_while_paused(self, name, request)
            answer: dict[str, Any] = await operation(self, request)
            if name in _TAKES_BACK:
                await asyncio.to_thread(self.hooks.stand_everywhere)
            return answer
        except tuple(kind for kind, _, _ in _FAILURES) as error:
            code, status = next((code, status) for kind, code, status in _FAILURES if isinstance(error, kind))
            raise OperationFailed(code, str(error), status) from error
        except sqlite3.Error as error:
            # SQLite's own words hold no text of a memory.
            raise OperationFailed("storage", storage_problem(error, self.home), 1) from error

    async def change(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a change on the writer's thread and have the store follow it."""
        result = await self.on_writer(function, *arguments)
        if self.indexer is not None:
            self.indexer.wake()
        return result

    async def on_writer(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run something on the writer's thread, whose connection sees every change before it."""
        async with self._room:
            return await asyncio.get_running_loop().run_in_executor(self._writer, function, *arguments)

    # -- change --------------------------------------------------------------------------------------------------

    async def add(self, request: Request) -> dict[str, Any]:
        statement = request.statement(request.body)
        outcome = await self.change(self.memories.remember, statement, request.scope, request.author)
        memory = outcome.memory
        return outcome_json(outcome) | {
            "scope": memory.scope if memory else None,
            "category": memory.category if memory else None,
        }

    async def add_many(self, request: Request) -> dict[str, Any]:
        """Each item by itself: one that cannot be used or is refused keeps none of the others out."""
        items = request.body.get("items")
        if not isinstance(items, list) or len(items) > _MOST_ITEMS:
            raise Unusable(f"items must be a list of at most {_MOST_ITEMS:,} objects")

        def remember(item: Any) -> dict[str, Any]:
            try:
                return outcome_json(self.memories.remember(request.statement(item), request.scope, request.author))
            except (Unusable, Refused) as error:
                status = "refused" if isinstance(error, Refused) else "unusable"
                return {"id": None, "status": status, "reason": str(error), "redacted": 0}

        return {"results": await self.change(lambda: [remember(item) for item in items])}

    async def edit(self, request: Request) -> dict[str, Any]:
        arguments = (request.text("id"), request.changes(), request.scope, request.author, request.text("reason", ""))
        outcome, old = await self.change(self.memories.correct, *arguments)
        return outcome_json(outcome) | {"replaced": old}

    async def forget(self, request: Request) -> dict[str, Any]:
        author, reason = request.author, request.text("reason", "")
        if text := request.text("text", ""):
            hidden = await self.change(self.memories.forget_text, text, request.scope, author, reason)
        else:
            ids = request.texts("ids") or [request.text("id")]
            hidden = await self.change(self.memories.forget, ids, request.scope, author, reason)
        values = {(row["scope"], row["content"]) for row in hidden}
        return {"hidden": [memory_json(row) for row in hidden], "tombstones": len(values)}

    async def lift(self, request: Request) -> dict[str, Any]:
        arguments = (request.text("text"), request.scope, request.author, request.text("reason", ""))
        return {"lifted": await self.change(self.memories.lift, *arguments)}

    async def pin(self, request: Request) -> dict[str, Any]:
        pinned = request.flag("pinned", True)
        memory = await self.change(self.memories.pin, request.text("id"), pinned, request.scope, request.author)
        return {"id": memory, "pinned": pinned}

    async def share(self, request: Request) -> dict[str, Any]:
        target = request.text("to", USER)
        if target not in (USER, SHARED):
            raise Unusable("a memory is shared to user or to shared")
        arguments = (request.text("id"), Scope(target), request.scope, request.author)
        return {"id": await self.change(self.memories.widen, *arguments), "scope": target}

    async def promote(self, request: Request) -> dict[str, Any]:
        """Ask a person to let a project's memory hold everywhere. Whoever asks, nothing is widened by it."""
        arguments = (request.text("id"), request.scope, request.author, request.text("reason", ""))
        memory, new = await self.on_writer(promotion.ask, self.memories, *arguments)
        return {"id": memory, "status": "asked" if new else "waiting", "to": USER}

    async def mark(self, request: Request) -> dict[str, Any]:
        row = await self.on_writer(self.memories.find, request.text("id"), request.scope)
        useful = request.flag("useful", True)
        self.hooks.sessions.mark(row["id"], useful=useful)
        return {"id": row["id"], "useful": useful}

    # -- ask -----------------------------------------------------------------------------------------------------

    async def search(self, request: Request) -> dict[str, Any]:
        limit = request.limit(10)
        question = ask(request.text("query"))
        moment = request.moment()
        within = Within(request.scopes(), SEARCHED, request.categories(), at=moment, readable=request.scope.readable)
        if question.empty:
            raise Unusable("there is nothing to search for in that query")
        found = await self.searcher.search(question, within)
        related = [candidate for candidate in found.candidates if is_related(candidate)]
        rows = [(candidate.row, candidate.rank) for candidate in related if _may_see(request, candidate.row)]
        if request.flag("include_closed", False):
            # What waits for a verdict, or had a bad one, is a person's to see.
            trust = (*SEARCHED, *WITHHELD) if request.author.is_person else SEARCHED
            rows = sorted((*rows, *self._closed(question, within, trust)), key=lambda pair: -pair[1])
        total = lookup.live_count(self.reader, within.scopes)
        return {
            "memories": [self._memory(row, score) for row, score in rows[:limit]],
            "coverage": {"considered": total, "total": total},
            "next": None,
            "at": moment.as_json(),
            "mode": found.mode,
            "reason": found.reason,
        }

    async def list_memories(self, request: Request) -> dict[str, Any]:
        limit, offset, moment = request.limit(50), request.offset(), request.moment()
        rows, total = await self._believed(request, moment) if moment.as_of else self._listed(request, moment)
        page = rows[offset:] if moment.as_of else rows
        return {
            "memories": [self._memory(row) for row in page[:limit]],
            "coverage": {"considered": min(limit, len(page)), "total": total},
            "next": str(offset + limit) if len(page) > limit else None,
            "at": moment.as_json(),
        }

    def _listed(self, request: Request, moment: Moment) -> tuple[list[lookup.Row], int]:
        """One page and a row more of what is believed now, and how many memories that is of."""
        scopes, categories = request.scopes(), request.categories()
        everything = request.flag("include_closed", False)
        condition = lookup.ANY if everything else moment.condition if moment else lookup.not_over()
        if not (everything and request.author.is_person):
            condition = lookup.trusted_as(condition, SEARCHED)
        if not request.author.is_person:
            condition = (f"{condition[0]} AND trust NOT IN (?, ?)", (*condition[1], *WITHHELD))
        rows = lookup.listed_rows(
            self.reader, scopes, condition=condition, categories=categories, limit=request.limit(50) + 1,
            offset=request.offset(),
        )  # fmt: skip
        return rows, lookup.count_where(self.reader, scopes, condition, categories)

    async def _believed(self, request: Request, moment: Moment) -> tuple[list[lookup.Row], int]:
        """Everything that was believed at an instant. On the writer's thread: it may be much to fold."""
        readable = request.scope.readable
        scopes, categories = request.scopes(), request.categories()
        rows = await self.on_writer(
            lambda: list(believed_rows(self.journal.connection, scopes, moment, readable, categories=categories))
        )
        if not (request.flag("include_closed", False) and request.author.is_person):
            rows = [row for row in rows if row["trust"] not in WITHHELD]
        seen = [row for row in rows if _may_see(request, row)]
        return seen, len(seen)

    async def show(self, request: Request) -> dict[str, Any]:
        def find() -> tuple[lookup.Row, list[Operation]]:
            row = self.memories.find(request.text("id"), request.scope)
            return row, self.memories.history(row["id"])

        row, operations = await self.on_writer(find)
        memory = self._memory(row)
        if row["state"] == "hidden":
            memory = without_content(memory)
        memory |= {"state": row["state"], "closed_by": row["closed_by"]}
        return {"memory": memory, "history": [event_json(each) for each in operations]}

    async def why(self, request: Request) -> dict[str, Any]:
        prompt = request.text("prompt")
        explanation = await self.hooks.explain(prompt, request.scope, request.text("session", ""))
        return explanation.as_json()

    async def profile(self, request: Request) -> dict[str, Any]:
        hooks = self.hooks
        text, ids = profile(self.reader, request.scope, hooks.policy, max_units=9_500, count=hooks.count)
        return {"block": text, "ids": ids}

    async def summary(self, request: Request) -> dict[str, Any]:
        """What is remembered in one of the caller's scopes (`scope`: project, user or shared), as a fenced block."""
        hooks, named = self.hooks, request.text("scope")
        scopes = () if named == "project" and request.scope.project is None else request.scopes()
        text, given, total = summary(self.reader, scopes, hooks.policy, max_units=9_500, count=hooks.count)
        project = request.scope.project
        return {
            "scope": named,
            "project": project_name(project) if project else None,
            "block": text,
            "given": given,
            "total": total,
        }

    async def session(self, request: Request) -> dict[str, Any]:
        """What a session was given, as far as it is still there and in the caller's scopes."""
        shown = self.hooks.sessions.get(request.text("session")).shown
        rows = lookup.rows_by_id(self.reader, list(shown)).values()
        seen = [row for row in rows if row["scope"] in request.scope.readable and row["state"] != "hidden"]
        return {"given": [self._memory(row) | {"how": shown[row["id"]]} for row in seen]}

    async def status(self, request: Request) -> dict[str, Any]:
        return status_json(self, request)

    async def check(self, _request: Request) -> dict[str, Any]:
        return {"checks": await run_checks(self)}

    async def settle(self, request: Request) -> dict[str, Any]:
        """Wait until everything written can be found by meaning too."""
        seconds = request.seconds("seconds", 30.0, _MOST_SECONDS)
        return {"settled": self.indexer is None or await self.indexer.settled(seconds)}

    async def rebuild(self, _request: Request) -> dict[str, Any]:
        began = time.monotonic()
        if self.indexer is None:
            raise OperationFailed("no_store", f"there is no store to rebuild: {self.without}", 1)
        await self.on_writer(self.journal.refold)
        count = await self.indexer.rebuild()
        return {"memories": count, "seconds": round(time.monotonic() - began, 2)}

    def _memory(self, row: lookup.Row, score: float | None = None) -> dict[str, Any]:
        stored = self.embedder is not None and self.indexer is not None and row["seq"] <= self.indexer.applied
        shown = memory_json(row, score, self.embedder.identity if stored and self.embedder else "")
        # What was believed at another time may be believed no longer.
        return shown | {"now": row["now"]} if "now" in row else shown

    def _closed(self, question: Question, within: Within, trust: tuple[str, ...]) -> list[tuple[lookup.Row, float]]:
        """Corrected and archived memories, and live ones that do not hold now or are withheld, that share words with the
        question.
        """
        states = ("closed", "archived", "live")
        rows = lookup.listed_rows(
            self.reader, within.scopes, states=states, categories=within.categories, limit=MAX_LIMIT
        )
        weights = Weights(self.reader, question, within.scopes)
        candidates = [weights.candidate(row) for row in rows if row["trust"] in trust and not within.admits(row)]
        return [(candidate.row, candidate.overlap) for candidate in candidates if candidate.matched]


def _may_see(request: Request, row: lookup.Row) -> bool:
    """What a person withholds today was believed once, and is still a person's to see."""
    return request.author.is_person or (row.get("now") or row)["trust"] not in WITHHELD


_OPERATIONS: dict[str, Any] = {"list": Operations.list_memories} | {
    name: getattr(Operations, name)
    for name in ("add", "add_many", "edit", "forget", "lift", "pin", "share", "promote", "mark", "search", "show", "why", "profile",
                 "summary", "session", "status", "check", "settle", "rebuild")
}  # fmt: skip
# After these, what stands in a file that an agent reads may hold what nobody may read any more.
_TAKES_BACK = frozenset(("edit", "forget", "share", "decide", "retract", "undo", "pause", "resume"))
_OPERATIONS |= {**PURGE, **REVIEW, **HISTORY, **PAUSE, **RULES, **MAINTENANCE, **HTTP}
