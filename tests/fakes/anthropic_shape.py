"""The rules of the Anthropic Messages API that a client can break, checked as the real service checks them.

Only what a memory could damage is here: the text we inject, the tools we offer, what our tools give back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.fakes.model_api import BadRequest, check_model, check_schema, check_tool_names, objects

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


def check_request(body: Mapping[str, Any]) -> None:
    """Raise BadRequest for a model request of a shape the service does not take."""
    check_model(body)
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        raise BadRequest("max_tokens must be a positive number")
    if "system" in body:
        _blocks(body["system"], "system")
    _check_messages(body.get("messages"))
    _check_tools(body.get("tools", []))


def _check_messages(messages: object) -> None:
    open_calls: set[str] = set()
    for index, message in enumerate(objects(messages, "messages")):
        place = f"messages[{index}]"
        if message.get("role") not in _ROLES:
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
    offered = objects(tools, "tools", empty=True)
    check_tool_names([tool.get("name") for tool in offered], _TOOL_NAME)
    for tool in offered:
        # The service's own tools (web search and the like) have a type and no schema.
        if tool.get("type", "custom") == "custom":
            check_schema(tool.get("input_schema"), tool["name"], "input_schema")
