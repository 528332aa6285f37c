"""The MCP server as the daemon mounts it, on a unix socket, over operations that only write down what was asked."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from cems.core.paths import Home
from cems.core.service import progress
from cems.core.service.caller import Caller
from cems.core.service.endpoint import UNIX, Endpoint
from cems.core.service.mcp_server import OpenMcpApp, open_mcp_app
from cems.core.service.operations import OperationFailed

TOKEN = "ab12" * 16

MEMORY: dict[str, Any] = {
    "id": "m_3fa2c1d4e5f60718", "content": "Tests run with pytest -q", "title": None, "category": "decisions", "kind": "decision",
    "tags": ["tests"], "scope": "project:example.com/team/app", "trust": "candidate", "valid_from": None, "valid_to": None,
    "recorded_at": "2026-11-20T10:00:00Z", "expired_at": None, "archived_at": None, "confidence": 0.9, "pinned": False, "score": 0.8,
    "tokens": 7, "model": "", "source": {"actor": "agent", "agent": "claude-code", "session": "s1", "quote": ""},
}  # fmt: skip
LINK: dict[str, Any] = {
    "id": MEMORY["id"], "content": MEMORY["content"], "title": "", "category": "decisions", "scope": MEMORY["scope"], "trust": "candidate",
    "state": "closed", "valid": {"from": None, "to": None}, "believed": {"from": "2026-11-20T10:00:00Z", "to": "2026-11-22T10:00:00Z"},
    "source": {"actor": "agent", "agent": "claude-code", "session": ""}, "corrects": [], "closed_by": "m_99887766554433",
    "closed": {"at": "2026-11-22T10:00:00Z", "actor": "person", "agent": "", "session": "", "reason": "they use tox now"},
}  # fmt: skip
EVENT: dict[str, Any] = {
    "at": "2026-11-20T10:00:00.000Z", "what": "learnt", "id": MEMORY["id"], "content": MEMORY["content"], "category": "decisions",
    "scope": MEMORY["scope"], "trust": "candidate", "state": "live", "actor": "agent", "agent": "claude-code", "corrects": [], "reason": "",
}  # fmt: skip
ANSWERS: dict[str, dict[str, Any]] = {
    "add": {"id": MEMORY["id"], "status": "candidate", "reason": "", "redacted": 1},
    "search": {"memories": [MEMORY], "coverage": {"considered": 1, "total": 12}, "next": None, "mode": "hybrid"},
    "show": {
        "memory": MEMORY,
        "history": [{"op": "add", "at": "2026-11-20T10:00:00Z", "actor": "agent", "reason": "asked"}],
    },
    "forget": {"hidden": [MEMORY], "tombstones": 1},
    "edit": {"id": "m_99887766554433", "replaced": MEMORY["id"], "status": "added", "reason": ""},
    "history": {"id": MEMORY["id"], "chain": [LINK], "elsewhere": 0, "withheld": 0},
    "timeline": {"events": [EVENT], "coverage": {"considered": 1, "total": 1}},
    "promote": {"id": MEMORY["id"], "status": "asked", "to": "user"},
    "maintenance": {"job": "verify", "result": {"sound": True, "checks": []}, "seconds": 0.1},
    "status": {
        "daemon": {"pid": 7, "version": "0.1.0", "state": "ready", "uptime_s": 1.0, "rss_mib": 90.0},
        "memories": {"live": 12, "here": 3, "pending_index": 0},
        "embedding": {"model": "bundled", "state": "ready", "reason": ""},
        "review": 2, "scope": {"project": "example.com/team/app", "readable": []}, "home": "/home/person/.cems",
    },
    "summary": {"scope": "project", "project": "example.com/team/app", "block": "<cems-profile>x</cems-profile>", "given": 1, "total": 1},
}  # fmt: skip
STEPS = 3
"""That `maintenance` reports as its progress."""


class McpDaemon:
    """A context manager. `answers` by operation: a document, or an exception to raise; `delay` holds every answer."""

    def __init__(self, home: Home, socket: Path) -> None:
        self.home = home
        self.socket = socket
        self.asked: list[tuple[str, dict[str, Any], Caller]] = []
        self.answers: dict[str, Any] = dict(ANSWERS)
        self.delay = 0.0
        self.cancelled = 0
        self._app: OpenMcpApp | None = None
        self._opening: asyncio.Lock | None = None
        routes = Starlette(routes=[Mount("/mcp", self._mcp)])
        config = uvicorn.Config(routes, uds=str(socket), log_config=None, lifespan="off", access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> McpDaemon:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        endpoint = Endpoint(UNIX, str(self.socket), token=TOKEN)
        self.home.endpoint.write_bytes(endpoint.encode())
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)

    async def _mcp(self, scope: Any, receive: Any, send: Any) -> None:
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._app is None:
                self._app = await open_mcp_app(self.call)
        await self._app(scope, receive, send)

    async def call(self, name: str, body: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        self.asked.append((name, dict(body), caller))
        for step in range(STEPS if name == "maintenance" else 0):
            await progress.report(step, STEPS, f"step {step}")
        try:
            await asyncio.sleep(self.delay)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        found: dict[str, Any] = answer
        return found


def refused(message: str) -> OperationFailed:
    """What the operations raise for a value that was forgotten."""
    return OperationFailed("refused", message, 4)
