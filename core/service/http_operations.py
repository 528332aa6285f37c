"""The operations on tokens of MCP clients over HTTP. To give one out and to end one is a person's act."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cems.core.memories import Unusable
from cems.core.scope import project_name
from cems.core.service.http_tokens import Token, TokensDamaged, public

if TYPE_CHECKING:
    from cems.core.service.mcp_http import McpHttp
    from cems.core.service.operations import Operations
    from cems.core.service.request import Request


async def token_add(operations: Operations, request: Request) -> dict[str, Any]:
    """A token for the caller's project; `token` is its text, told this once."""
    http, name = _http(operations), request.text("name", "http")
    author, project = request.author, request.scope.project
    await operations.on_writer(operations.memories.demand_person, author, "token", "giving a program access")
    if project is None:
        raise Unusable("this folder belongs to no project, and a token is for one; go to the project's folder")
    try:
        token, text = http.tokens.add(name, project_name(project), request.caller.cwd)
    except TokensDamaged as error:
        raise Unusable(str(error)) from None
    await http.apply()
    return _token_json(http, token) | {"token": text, "url": http.url, "problem": http.failure}


async def tokens(operations: Operations, request: Request) -> dict[str, Any]:
    """The tokens in force and where their bearers are answered. An agent is told of its own project's."""
    http = _http(operations)
    return {
        "url": http.url,
        "problem": http.failure,
        "tokens": [_token_json(http, each) for each in _seen(http, request)],
    }


async def token_revoke(operations: Operations, request: Request) -> dict[str, Any]:
    """End a token: from now on its bearer is refused."""
    http = _http(operations)
    await operations.on_writer(operations.memories.demand_person, request.author, "token", "ending a program's access")
    try:
        token = http.tokens.revoke(request.text("id"), _seen(http, request))
    except TokensDamaged as error:
        raise Unusable(str(error)) from None
    await http.apply()
    return _token_json(http, token)


def _http(operations: Operations) -> McpHttp:
    if operations.http is None:
        raise Unusable("this daemon serves no HTTP clients")
    return operations.http


def _seen(http: McpHttp, request: Request) -> list[Token]:
    project = project_name(request.scope.project or "")
    return [each for each in http.tokens.all if request.author.is_person or each.project == project]


def _token_json(http: McpHttp, token: Token) -> dict[str, Any]:
    used = http.last_used.get(token.id)
    shown = datetime.fromtimestamp(used, UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if used else None
    return {**public(token), "last_used": shown}


OPERATIONS = {"token_add": token_add, "tokens": tokens, "token_revoke": token_revoke}
