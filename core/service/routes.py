"""The second stage's HTTP app: operations, and the MCP server, which is imported when somebody first speaks MCP."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from cems.core.service.caller import Caller, caller_from
from cems.core.service.context import HEADER, decode
from cems.core.service.logs import where
from cems.core.service.operations import OperationFailed, Operations

logger = logging.getLogger("cems.daemon")

_HTTP_STATUS = {1: 500, 2: 400, 3: 404, 4: 403}


def build_app(operations: Operations) -> Starlette:
    """The app over these operations."""

    async def operation(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            caller = caller_from(_context(request))
            return _answer(await operations.run(name, _body(await request.body()), caller), 200)
        except OperationFailed as failure:
            return _failure(failure.code, str(failure), failure.exit_status)
        except Exception as error:  # noqa: BLE001 - the log has the place; the message could quote a memory
            logger.error("operation %s failed: %s", name, where(error))
            return _failure("internal", f"{name} failed ({type(error).__name__}); `cems daemon logs` shows where", 1)

    mcp = LazyMcp(operations)
    return Starlette(routes=[Route("/v1/{name}", operation, methods=["POST"]), Mount("/mcp", mcp)])


class LazyMcp:
    """The MCP app, built at the first request: its library takes over a second to import."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._app: Any = None
        self._building = asyncio.Lock()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async with self._building:
            if self._app is None:
                from cems.core.service.mcp_server import open_mcp_app

                self._app = await open_mcp_app(self._call)
        await self._app(scope, receive, send)

    async def _call(self, name: str, body: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        return await self._operations.run(name, body, caller)


def _context(request: Request) -> dict[str, str]:
    try:
        return decode(request.headers.get(HEADER, ""))
    except ValueError:
        raise OperationFailed("usage", f"the header {HEADER} is not hex", 2) from None


def _body(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        raise OperationFailed("usage", "the request is not valid JSON", 2) from None
    if not isinstance(body, dict):
        raise OperationFailed("usage", "the request must be a JSON object", 2)
    return body


def _failure(code: str, message: str, exit_status: int) -> Response:
    error = {"code": code, "message": message, "exit": exit_status}
    return _answer({"error": error}, _HTTP_STATUS.get(exit_status, 500))


def _answer(document: dict[str, Any], status: int) -> Response:
    # Escaped: a half character in a path or a message must not break the answer.
    return Response(json.dumps(document, ensure_ascii=True), status, media_type="application/json")
