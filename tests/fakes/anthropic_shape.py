"""The rules of the Anthropic Messages API that a client can break, checked as the real service checks them.

Only what a memory could damage is here: the text we inject, the tools we offer, what our tools give back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ROLES = {"user", "assistant", "system"}
# Fields a block of each type cannot do without. Types that are not here are passed as they are.
_BLOCK_FIELDS = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
    "thinking": ("thinking", "signature"),
}


class BadRequest(ValueError):
    """The request would be refused by the real service; the message says where and why."""


def parse_request(raw: bytes) -> dict[str, Any]:
    """The JSON object of a request's body. Raises BadRequest where it is none, or is not UTF-8."""
    try:
        body = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not UTF-8: {error}") from None
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body is not an object")
    for place, text in strings_of(body):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise BadRequest(f"{place} holds a lone surrogate") from None
    return body


def check_request(body: Mapping[str, Any]) -> None:
    """Raise BadRequest for a model request of a shape the service does not take."""
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise BadRequest("model is missing")
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        raise BadRequest("max_tokens must be a positive number")
    if "system" in body:
        _blocks(body["system"], "system")
    _check_messages(body.get("messages"))
    _check_tools(body.get("tools", []))


def strings_of(value: object, place: str = "body") -> Iterator[tuple[str, str]]:
    """Every string in a JSON value, keys too, with the place it stands at."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield f"a key of {place}", key
            yield from strings_of(inner, f"{place}.{key}")
    elif isinstance(value, Sequence):
        for index, inner in enumerate(value):
            yield from strings_of(inner, f"{place}[{index}]")


def _check_messages(messages: object) -> None:
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a list that is not empty")
    open_calls: set[str] = set()
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise BadRequest(f"{place} has no role of {sorted(_ROLES)}")
        blocks = _blocks(message.get("content"), place)
        if index == 0 and message["role"] == "assistant":
            raise BadRequest("the first message is the assistant's")
        answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if message["role"] == "user":
            if answered - open_calls:
                raise BadRequest(f"{place} answers calls nobody made: {sorted(answered - open_calls)}")
            if open_calls - answered:
                raise BadRequest(f"{place} leaves calls without a result: {sorted(open_calls - answered)}")
            open_calls = set()
        elif answered:
            raise BadRequest(f"{place} is not the user's but holds a tool_result")
        if message["role"] == "assistant":
            open_calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
    if open_calls:
        raise BadRequest(f"the last message leaves calls without a result: {sorted(open_calls)}")


def _blocks(content: object, place: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        if not content:
            raise BadRequest(f"{place} has empty text")
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise BadRequest(f"{place} is neither text nor a list of blocks")
    for index, block in enumerate(content):
        where = f"{place}.content[{index}]"
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise BadRequest(f"{where} is not a block with a type")
        for field in _BLOCK_FIELDS.get(block["type"], ()):
            if field not in block:
                raise BadRequest(f"{where} ({block['type']}) has no {field}")
        if block["type"] == "text" and not block["text"]:
            raise BadRequest(f"{where} is an empty text block")
        if block["type"] == "tool_use" and not isinstance(block["input"], dict):
            raise BadRequest(f"{where} has an input that is no object")
        if block["type"] == "tool_result" and "content" in block and block["content"] != "":
            _blocks(block["content"], where)
    return content


def _check_tools(tools: object) -> None:
    if not isinstance(tools, list):
        raise BadRequest("tools is not a list")
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            raise BadRequest(f"tools[{index}] has a name the service refuses: {name!r}")
        if name in seen:
            raise BadRequest(f"the tool {name} is offered twice")
        seen.add(name)
        # The service's own tools (web search and the like) have a type and no schema.
        if tool.get("type", "custom") != "custom":
            continue
        schema = tool.get("input_schema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise BadRequest(f"the tool {name} has no input_schema of type object")
