"""A person's own MCP server, over stdin and stdout: one tool, `echo`. Run as a program, with nothing imported of ours."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = {
    "name": "echo",
    "description": "says it again",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "annotations": {"readOnlyHint": True},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a call, or None for a method that is not known here."""
    if method == "initialize":
        server = {"name": "echo", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"echo: {params['arguments']['text']}"}]}
    return {} if method == "ping" else None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        result = answer(message["method"], message.get("params", {}))
        reply |= {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
