"""The daemon's operations: one coroutine each, JSON in, JSON out. The command line and the MCP tools call nothing else.

Changes run on the writer's one thread; reads run at once on a connection of their own.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cems import __version__
from cems.core.fold import Operation
from cems.core.journal import Journal
from cems.core.memories import AmbiguousId, Author, Memories, NothingMatched, Refused, Statement, Unusable
from cems.core.memory import category_name, format_time
from cems.core.paths import Home
from cems.core.recall import lookup
from cems.core.recall.candidate import Candidate
from cems.core.recall.engine import KeywordSearcher, Searcher, is_valid
from cems.core.recall.question import ask
from cems.core.scope import SHARED, USER, Scope, SessionScope, project_name, session_scope
from cems.core.service.caller import Caller
from cems.core.service.checks import run_checks
from cems.core.service.hooks import HookService

if TYPE_CHECKING:
    from cems.core.config import Settings
    from cems.core.embedding import Embedder
    from cems.core.indexer import Indexer

T = TypeVar("T")
_MOST_AT_ONCE = 256
_MAX_LIMIT = 500
_RELATED_COSINE = 0.2
_SEARCHED_TRUST = ("trusted", "candidate", "disputed")


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
    (sqlite3.OperationalError, "storage", 1),
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
        self.indexer: Indexer | None = None
        self.embedder: Embedder | None = None
        self.without = "the daemon is still starting: words only"
        self.settings: Settings | None = None
        self._searcher: Searcher = KeywordSearcher(reader, self.without)
        self._writer = writer
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)
        self._began = time.monotonic()

    def equip(
        self, searcher: Searcher, indexer: Indexer | None, embedder: Embedder | None, without: str, settings: Settings
    ) -> None:
        """Vectors are there, or it is known why not (`without`)."""
        self._searcher, self.indexer, self.embedder = searcher, indexer, embedder
        self.without, self.settings = without, settings

    async def run(self, name: str, body: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """One operation by name. Raises OperationFailed with what the caller is told."""
        operation = _OPERATIONS.get(name)
        if operation is None:
            raise OperationFailed("usage", f"there is no operation {name!r}", 2)
        try:
            answer: dict[str, Any] = await operation(self, Request(body, caller))
            return answer
        except KeyError as error:
            raise OperationFailed("usage", f"{error.args[0]} is missing", 2) from None
        except tuple(kind for kind, _, _ in _FAILURES) as error:
            code, status = next((code, status) for kind, code, status in _FAILURES if isinstance(error, kind))
            raise OperationFailed(code, str(error), status) from error

    # -- change --------------------------------------------------------------------------------------------------

    async def add(self, request: Request) -> dict[str, Any]:
        statement = request.statement(request.body)
        outcome = await self._change(self.memories.remember, statement, request.scope, request.author)
        return {"id": outcome.id, "status": outcome.status, "reason": outcome.reason, "redacted": outcome.redacted,
                "scope": outcome.memory.scope if outcome.memory else None,
                "category": outcome.memory.category if outcome.memory else None}  # fmt: skip

    async def add_many(self, request: Request) -> dict[str, Any]:
        items = request.body["items"]
        if not isinstance(items, list):
            raise Unusable("items must be a list")
        statements = [request.statement(item) for item in items]

        def all_of_them() -> list[dict[str, Any]]:
            results = []
            for number, statement in enumerate(statements):
                try:
                    outcome = self.memories.remember(statement, request.scope, request.author)
                    results.append({"id": outcome.id, "status": outcome.status, "reason": outcome.reason,
                                    "redacted": outcome.redacted})  # fmt: skip
                except Unusable as error:
                    results.append(
                        {"id": None, "status": "unusable", "reason": str(error), "redacted": 0, "item": number}
                    )
            return results

        return {"results": await self._change(all_of_them)}

    async def edit(self, request: Request) -> dict[str, Any]:
        names = ("content", "category", "title", "tags", "kind", "valid_from", "valid_to")
        changes = {name: request.body.get(name) for name in names}
        outcome, old = await self._change(
            self.memories.correct,
            request.text("id"),
            changes,
            request.scope,
            request.author,
            request.text("reason", ""),
        )
        return {"id": outcome.id, "replaced": old, "status": outcome.status, "reason": outcome.reason,
                "redacted": outcome.redacted}  # fmt: skip

    async def forget(self, request: Request) -> dict[str, Any]:
        reason = request.text("reason", "")
        if request.body.get("text"):
            hidden = await self._change(
                self.memories.forget_text, request.text("text"), request.scope, request.author, reason
            )
        else:
            ids = request.body.get("ids") or [request.text("id")]
            hidden = await self._change(
                self.memories.forget, list(map(str, ids)), request.scope, request.author, reason
            )
        values = {(row["scope"], row["content"]) for row in hidden}
        return {"hidden": [memory_json(row) for row in hidden], "tombstones": len(values)}

    async def lift(self, request: Request) -> dict[str, Any]:
        lifted = await self._change(
            self.memories.lift, request.text("text"), request.scope, request.author, request.text("reason", "")
        )
        return {"lifted": lifted}

    async def pin(self, request: Request) -> dict[str, Any]:
        pinned = bool(request.body.get("pinned", True))
        memory = await self._change(self.memories.pin, request.text("id"), pinned, request.scope, request.author)
        return {"id": memory, "pinned": pinned}

    async def share(self, request: Request) -> dict[str, Any]:
        target = request.text("to", USER)
        if target not in (USER, SHARED):
            raise Unusable("a memory is shared to user or to shared")
        memory = await self._change(
            self.memories.widen, request.text("id"), Scope(target), request.scope, request.author
        )
        return {"id": memory, "scope": target}

    async def mark(self, request: Request) -> dict[str, Any]:
        row = await self._write(self.memories.find, request.text("id"), request.scope)
        useful = bool(request.body.get("useful", True))
        self.hooks.sessions.mark(row["id"], useful=useful)
        return {"id": row["id"], "useful": useful}

    # -- ask -----------------------------------------------------------------------------------------------------

    async def search(self, request: Request) -> dict[str, Any]:
        limit = request.limit(10)
        question = ask(request.text("query"))
        scopes = request.scopes()
        total = lookup.live_count(self.reader, scopes)
        if question.empty:
            raise Unusable("there is nothing to search for in that query")
        found = await self._searcher.search(question, scopes, _SEARCHED_TRUST)
        rows = [(candidate.row, candidate.score) for candidate in found.candidates if _is_related(candidate)]
        if request.body.get("include_closed"):
            rows += self._closed(question.terms, scopes)
        if request.body.get("category"):
            category = category_name(request.text("category"))
            rows = [(row, score) for row, score in rows if row["category"] == category]
        return {
            "memories": [memory_json(row, score) for row, score in rows[:limit]],
            "coverage": {"considered": total, "total": total},
            "next": None,
            "mode": found.mode,
            "reason": found.reason,
        }

    async def list_memories(self, request: Request) -> dict[str, Any]:
        limit, offset = request.limit(50), int(request.body.get("cursor") or 0)
        scopes = request.scopes()
        states = ("live", "closed", "archived") if request.body.get("include_closed") else ("live",)
        category = request.body.get("category")
        rows = lookup.listed_rows(
            self.reader, scopes, states=states, categories=(category_name(str(category)),) if category else (),
            limit=limit + 1, offset=offset,
        )  # fmt: skip
        counts = lookup.count_by_state(self.reader, scopes)
        return {
            "memories": [memory_json(row) for row in rows[:limit]],
            "coverage": {"considered": min(limit, len(rows)), "total": sum(counts.get(state, 0) for state in states)},
            "next": str(offset + limit) if len(rows) > limit else None,
        }

    async def show(self, request: Request) -> dict[str, Any]:
        def find() -> tuple[lookup.Row, list[Operation]]:
            row = self.memories.find(request.text("id"), request.scope)
            return row, self.memories.history(row["id"])

        row, operations = await self._write(find)
        memory = memory_json(row)
        if row["state"] == "hidden":
            memory |= {"content": "", "title": "", "tags": []}
            memory["source"] = {**memory["source"], "quote": ""}
        history = [
            {"op": each.kind, "at": format_time(each.at), "actor": each.actor, "agent": each.agent,
             "reason": str(each.body.get("reason", ""))}
            for each in operations
        ]  # fmt: skip
        return {"memory": memory | {"state": row["state"], "closed_by": row["closed_by"]}, "history": history}

    async def why(self, request: Request) -> dict[str, Any]:
        prompt = request.text("prompt")
        explanation = await self.hooks.explain(prompt, request.scope, request.text("session", ""))
        return explanation.as_json()

    async def profile(self, request: Request) -> dict[str, Any]:
        from cems.core.recall.profile import profile

        text, ids = profile(self.reader, request.scope, self.hooks.policy, max_units=9_500)
        return {"block": text, "ids": ids}

    async def session(self, request: Request) -> dict[str, Any]:
        shown = self.hooks.sessions.get(request.text("session")).shown
        rows = lookup.rows_by_id(self.reader, list(shown))
        return {"given": [memory_json(row) | {"how": shown[row["id"]]} for row in rows.values()]}

    async def status(self, request: Request) -> dict[str, Any]:
        counts = lookup.count_by_state(self.reader)
        here = lookup.count_by_state(self.reader, request.scope.readable)
        candidates = self.reader.execute(
            "SELECT COUNT(*) FROM records WHERE state='live' AND trust='candidate'"
        ).fetchone()
        ready = self.settings is not None
        return {
            "daemon": {
                "pid": os.getpid(), "version": __version__, "state": "ready" if ready else "keyword",
                "uptime_s": round(time.monotonic() - self._began, 1), "rss_mib": _rss_mib(),
            },
            "memories": {
                "live": counts.get("live", 0), "closed": counts.get("closed", 0), "hidden": counts.get("hidden", 0),
                "archived": counts.get("archived", 0), "total": sum(counts.values()), "here": here.get("live", 0),
                "pending_index": self.indexer.waiting if self.indexer else 0,
            },
            "embedding": {
                "model": self.embedder.identity if self.embedder else "none",
                "state": "ready" if self.embedder and self.indexer else "unavailable" if self.settings else "loading",
                "reason": self.without,
            },
            "review": candidates[0],
            "hook_failures": hook_failures(self.home.hook_failures),
            "sessions": self.hooks.sessions.alive(),
            "scope": {"project": project_name(request.scope.project) if request.scope.project else None,
                      "readable": list(request.scope.readable)},
            "home": str(self.home.root),
        }  # fmt: skip

    async def check(self, request: Request) -> dict[str, Any]:
        return {"checks": await run_checks(self)}

    async def settle(self, request: Request) -> dict[str, Any]:
        """Wait until everything written can be found by meaning too."""
        return {"settled": self.indexer is None or await self.indexer.settled(float(request.body.get("seconds", 30)))}

    async def rebuild(self, request: Request) -> dict[str, Any]:
        began = time.monotonic()
        if self.indexer is None:
            raise OperationFailed("no_store", f"there is no store to rebuild: {self.without}", 1)
        count = await self.indexer.rebuild()
        return {"memories": count, "seconds": round(time.monotonic() - began, 2)}

    # -- inside --------------------------------------------------------------------------------------------------

    async def _change(self, function: Callable[..., T], *arguments: Any) -> T:
        result = await self._write(function, *arguments)
        if self.indexer is not None:
            self.indexer.wake()
        return result

    async def _write(self, function: Callable[..., T], *arguments: Any) -> T:
        async with self._room:
            return await asyncio.get_running_loop().run_in_executor(self._writer, function, *arguments)

    def _closed(self, terms: tuple[str, ...], scopes: tuple[Scope, ...]) -> list[tuple[lookup.Row, float]]:
        rows = lookup.listed_rows(self.reader, scopes, states=("closed", "archived"), limit=_MAX_LIMIT)
        wanted = set(terms)
        scored = [(row, len(wanted & set(row["terms"].split())) / max(1, len(wanted))) for row in rows]
        return sorted(((row, score) for row, score in scored if score > 0), key=lambda pair: -pair[1])


class Request:
    """One call: its body, who makes it, and what that lets it see and do."""

    def __init__(self, body: Mapping[str, Any], caller: Caller) -> None:
        self.body = body
        self.caller = caller
        self.scope: SessionScope = session_scope(caller.cwd, caller.roots if caller.client == "mcp" else ())

    @property
    def author(self) -> Author:
        caller = self.caller
        if caller.person:
            return Author("person", session=caller.session, present=caller.tty)
        return Author("agent", agent=caller.agent or "mcp", session=caller.session)

    def text(self, name: str, default: str | None = None) -> str:
        """A text argument. Raises Unusable for another type, KeyError where a needed one is missing."""
        value = self.body[name] if default is None else self.body.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise Unusable(f"{name} must be text")
        return value

    def limit(self, default: int) -> int:
        value = self.body.get("limit")
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_LIMIT:
            raise Unusable(f"limit must be a number from 1 to {_MAX_LIMIT}")
        return value

    def scopes(self) -> tuple[Scope, ...]:
        """The scopes to read: the session's, or the one of them that was named."""
        named = self.body.get("scope")
        readable = self.scope.readable
        if not named:
            return readable
        wanted = (self.scope.project or "project:none") if named == "project" else str(named)
        chosen = tuple(scope for scope in readable if scope == wanted)
        if not chosen:
            raise Refused(f"the scope {named!r} is not this session's; its own are {', '.join(readable)}")
        return chosen

    def statement(self, item: Any) -> Statement:
        """A statement from a JSON object. Raises Unusable for wrong types."""
        if not isinstance(item, dict):
            raise Unusable("an item must be an object")
        content = item.get("content")
        if not isinstance(content, str):
            raise Unusable("content must be text")
        tags = item.get("tags") or []
        if not isinstance(tags, (list, tuple)) or not all(isinstance(tag, str) for tag in tags):
            raise Unusable("tags must be a list of texts")
        confidence = item.get("confidence")
        if confidence is not None and not isinstance(confidence, (int, float)):
            raise Unusable("confidence must be a number from 0 to 1")
        texts = ("category", "title", "kind", "scope", "valid_from", "valid_to", "recorded_at", "quote")
        given = {name: item[name] for name in texts if item.get(name) is not None}
        if wrong := next((name for name, value in given.items() if not isinstance(value, str)), None):
            raise Unusable(f"{wrong} must be text")
        if not self.caller.person:
            # What a model says of its own sureness or of when it learned something is no evidence.
            given.pop("recorded_at", None)
        return Statement(content, tags=tuple(tags), confidence=confidence, pinned=bool(item.get("pin")), **given)


def memory_json(row: Mapping[str, Any], score: float | None = None) -> dict[str, Any]:
    """A memory as every interface shows it."""
    names = ("id", "content", "title", "category", "kind", "tags", "scope", "trust", "valid_from", "valid_to", "recorded_at",
             "expired_at", "archived_at", "confidence", "pinned", "tokens", "source")  # fmt: skip
    return {name: row.get(name) for name in names} | {
        "score": None if score is None else round(score, 4),
        "valid_now": is_valid(dict(row)),
    }


def _is_related(candidate: Candidate) -> bool:
    """Whether a search should show it at all: it shares a word with the question or comes near in meaning."""
    return candidate.matched > 0 or (candidate.cosine or 0.0) >= _RELATED_COSINE


def hook_failures(path: Path, days: float = 7) -> int:
    """Hooks of the last days that could not be answered."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    since = time.time() - days * 86_400
    return sum(
        1
        for line in lines
        if line.split(" ", 1)[0].replace(".", "", 1).isdigit() and float(line.split(" ", 1)[0]) > since
    )


def _rss_mib() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return round(pages * resource.getpagesize() / 2**20, 1)
    except (OSError, ValueError, IndexError):
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


_OPERATIONS: dict[str, Any] = {"list": Operations.list_memories} | {
    name: getattr(Operations, name)
    for name in ("add", "add_many", "edit", "forget", "lift", "pin", "share", "mark", "search", "show", "why", "profile",
                 "session", "status", "check", "settle", "rebuild")
}  # fmt: skip
