"""Where a memory's text can come out: each surface is read through the real parts and gives the text it gave out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from tests.fakes import real_parts
from tests.negative_eval.case import Stored, Surface

from cems.core.embedding import Embedder
from cems.core.indexer import Indexer
from cems.core.policy import RecallPolicy
from cems.core.service.context import HEADER, encode
from cems.core.service.operations import OperationFailed
from cems.core.service.routes import build_app

YESTERDAY = "yesterday"
WITHOUT_INDEX = ("profile", "list", "get", "mcp get", "audit", "export")
"""Surfaces that read the records alone: there is nothing that could lag behind."""
_MOST = 50
_INTERACTIVE = real_parts.INTERACTIVE


class Home:
    """A CEMS_HOME with its real parts, its store open."""

    def __init__(self, parts: real_parts.Place, indexer: Indexer) -> None:
        self.parts = parts
        self._indexer = indexer
        transport = httpx.ASGITransport(app=build_app(parts.operations))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60)
        self._sessions = 0

    def new_session(self) -> str:
        self._sessions += 1
        return f"s{self._sessions}"

    async def settle(self) -> None:
        self._indexer.wake()
        assert await self._indexer.settled(60)


@asynccontextmanager
async def open_home(root: Path, embedder: Embedder) -> AsyncIterator[Home]:
    """A new home below `root`."""
    root.mkdir(parents=True)
    parts = real_parts.Place(root, RecallPolicy())
    try:
        async with parts.with_vectors(embedder) as indexer:
            yield Home(parts, indexer)
    finally:
        parts.close()


@dataclass(frozen=True, slots=True)
class Place:
    """Someone working in `folder` with the memory of `home`; `session` is one that goes on over the whole case."""

    home: Home
    folder: Path
    session: str

    async def call(self, operation: str, body: dict[str, Any], *, agent: bool = False) -> dict[str, Any]:
        """One operation by the person at their terminal, or by an agent. Raises OperationFailed."""
        if body.get("at") == YESTERDAY:
            body = body | {"at": (datetime.now(UTC) - timedelta(days=1)).isoformat()}
        parts = self.home.parts
        asking: dict[str, Any] = {"client": "mcp", "agent": "claude-code", "tty": False} if agent else {}
        return await parts.call(operation, body, parts.caller(self.folder, **asking))

    async def remember(self, memory: Stored) -> str:
        """Store a memory of the case; returns its id."""
        body = {"content": memory.text, "category": memory.category}
        added = await self.call("add", body, agent=memory.by == "agent")
        assert added["status"] == ("candidate" if memory.by == "agent" else "added"), added
        return str(added["id"])

    async def read(self, surface: Surface, query: str, ids: Sequence[str]) -> str:
        """All the text that the surface gives out; `ids` is what is asked for where it takes ids."""
        match surface:
            case "search":
                return json.dumps(await self.call("search", {"query": query, "limit": _MOST}), ensure_ascii=False)
            case "injection":
                return await self._typed(query)
            case "recall":
                return await self._typed(f"/recall {query}")
            case "context":
                await self._typed(query, self.session)
                return await self._typed("/context", self.session)
            case "profile":
                return await self.home.parts.hook(
                    "SessionStart", session=self.home.new_session(), folder=self.folder, source="startup"
                )
            case "list":
                return json.dumps(await self.call("list", {"limit": _MOST}), ensure_ascii=False)
            case "why":
                answer = await self.call("why", {"prompt": query})
                return json.dumps(answer["candidates"], ensure_ascii=False) + str(answer["block"])
            case "get":
                return "\n".join([await self._shown(each) for each in ids])
            case "audit":
                return json.dumps(await self.call("audit", {"limit": _MOST}), ensure_ascii=False)
            case "mcp":
                return await self._tool("memory_search", query=query, limit=_MOST)
            case "mcp get":
                return "\n".join([await self._tool("memory_get", id=each) for each in ids])
            case "export":
                return json.dumps(await self.call("export", {}), ensure_ascii=False)

    async def _typed(self, text: str, session: str = "") -> str:
        session = session or self.home.new_session()
        return await self.home.parts.prompt(text, session=session, folder=self.folder, variables=_INTERACTIVE)

    async def _shown(self, memory: str) -> str:
        try:
            return json.dumps(await self.call("show", {"id": memory}), ensure_ascii=False)
        except OperationFailed as refused:
            return str(refused)

    async def _tool(self, tool: str, **arguments: Any) -> str:
        context = {"client": "mcp", "cwd": str(self.folder), "CLAUDECODE": "1"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
            HEADER: encode(context),
        }
        answer = await self.home.http.post("/mcp/", json=message, headers=headers)
        assert answer.status_code == 200, answer.text
        return json.dumps(answer.json()["result"], ensure_ascii=False)
