"""OpenAI's Responses API, as Codex uses it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.chat_dialect import ChatCompletions
from tests.fakes.model_api import (
    BadRequest,
    ModelRequest,
    Reply,
    Step,
    Text,
    check_model,
    check_schema,
    check_tool_names,
    objects,
    size,
    string,
)

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_INPUT = {"input_text", "input_image", "input_file", "input_audio"}
_PARTS = {"user": _INPUT, "system": _INPUT, "developer": _INPUT, "assistant": {"output_text", "refusal"}}
"""The roles of a message, and the kinds of parts each may have."""

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = {"function_call_output", "custom_tool_call_output"}


@dataclass(frozen=True, slots=True)
class ResponsesRequest(ModelRequest):
    @property
    def texts(self) -> list[tuple[str, str]]:
        found = [("system", self.body["instructions"])] if self.body.get("instructions") else []
        for item in _items(self.body["input"]):
            kind = item.get("type", "message")
            if kind == "message":
                found += [(item["role"], text) for text in _texts(item["content"])]
            elif kind in _CALLS:
                found.append(("tool_use", item[_CALLS[kind]]))
            elif kind in _OUTPUTS:
                found += [("tool_result", text) for text in _texts(item["output"])]
        return found

    @property
    def tools(self) -> dict[str, Mapping[str, Any]]:
        """A tool of a namespace (Codex: of one MCP server) is `<namespace>__<tool>`, as its hooks name it."""
        return {f"{space}__{name}" if space else name: tool for space, name, tool in _offered(self.body)}


def _items(given: object) -> list[dict[str, Any]]:
    return [{"role": "user", "content": given}] if isinstance(given, str) else objects(given, "input")


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if part.get("type") in ("input_text", "output_text"):
                yield part["text"]


def _offered(body: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Each tool as (its namespace or nothing, its name, itself). The service's own tools go by their type."""
    for tool in body.get("tools", []):
        if tool["type"] == "namespace":
            for inner in tool["tools"]:
                yield tool["name"], inner["name"], inner
        else:
            yield "", tool.get("name", tool["type"]), tool


class Responses(ChatCompletions):
    def serves(self, path: str) -> bool:
        return path == "/v1/responses"

    def read(self, body: Mapping[str, Any], arrived: float) -> ModelRequest:
        check_model(body)
        _check_input(body)
        _check_tools(body)
        return ResponsesRequest(body, arrived)

    def answer(self, request: ModelRequest, path: str, step: Step, number: int) -> Reply:
        item: dict[str, Any]
        if isinstance(step, Text):
            part = {"type": "output_text", "text": step.text, "annotations": []}
            item = {"type": "message", "id": f"msg_{number:024d}", "role": "assistant", "content": [part]}
        else:
            item = {"type": "function_call", "id": f"fc_{number:024d}", "call_id": f"call_{number:024d}"}
            item |= {"name": step.name, "arguments": json.dumps(step.input)}
            for space, name, _ in _offered(request.body):
                if space and f"{space}__{name}" == step.name:
                    item |= {"namespace": space, "name": name}
        item["status"] = "completed"
        tokens = size(request.body)
        response = {
            "id": f"resp_{number:024d}",
            "object": "response",
            "created_at": 1_700_000_000,
            "status": "completed",
            "model": request.body["model"],
            "output": [item],
            "usage": {
                "input_tokens": tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 8,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": tokens + 8,
            },
        }
        if not request.body.get("stream"):
            return Reply.json(response)
        events = enumerate(_stream(response, item))
        return Reply.events((name, {"type": name, "sequence_number": count, **data}) for count, (name, data) in events)

    def other(self, method: str, path: str, body: Mapping[str, Any]) -> Reply | None:
        return None


def _stream(response: Mapping[str, Any], item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events that carry this response of one item, without the type each names itself with."""
    opening = {**response, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": opening}
    place = {"item_id": item["id"], "output_index": 0}
    if item["type"] == "message":
        (part,) = item["content"]
        yield (
            "response.output_item.added",
            {"output_index": 0, "item": {**item, "status": "in_progress", "content": []}},
        )
        yield "response.content_part.added", {**place, "content_index": 0, "part": {**part, "text": ""}}
        yield "response.output_text.delta", {**place, "content_index": 0, "delta": part["text"]}
        yield "response.output_text.done", {**place, "content_index": 0, "text": part["text"]}
        yield "response.content_part.done", {**place, "content_index": 0, "part": part}
    else:
        yield (
            "response.output_item.added",
            {"output_index": 0, "item": {**item, "status": "in_progress", "arguments": ""}},
        )
        yield "response.function_call_arguments.delta", {**place, "delta": item["arguments"]}
        yield "response.function_call_arguments.done", {**place, "arguments": item["arguments"]}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": response}


def _check_input(body: Mapping[str, Any]) -> None:
    given = body.get("input")
    if given == "":
        raise BadRequest("input is empty")
    open_calls: set[str] = set()
    for index, item in enumerate(_items(given)):
        place = f"input[{index}]"
        kind = item.get("type", "message")
        if kind == "message":
            _check_message(item, place)
        elif kind in _CALLS:
            string(item, _CALLS[kind], place)
            string(item, "name", place)
            open_calls.add(string(item, "call_id", place))
        elif kind in _OUTPUTS:
            call = string(item, "call_id", place)
            if call not in open_calls:
                raise BadRequest(f"{place} answers a call nobody made: {call}")
            open_calls.remove(call)
            output = item.get("output")
            if not isinstance(output, str):
                _check_parts(output, _INPUT, f"{place}.output")
        elif not isinstance(kind, str):
            raise BadRequest(f"{place} has no type")
    if open_calls:
        raise BadRequest(f"calls are left without a result: {sorted(open_calls)}")


def _check_message(item: Mapping[str, Any], place: str) -> None:
    if item.get("role") not in _PARTS:
        raise BadRequest(f"{place} has no role of {sorted(_PARTS)}")
    if not isinstance(item.get("content"), str):
        _check_parts(item.get("content"), _PARTS[item["role"]], f"{place}.content")


def _check_parts(parts: object, allowed: set[str], place: str) -> None:
    for index, part in enumerate(objects(parts, place)):
        if part.get("type") not in allowed:
            raise BadRequest(f"{place}[{index}] is none of {sorted(allowed)}: {part.get('type')!r}")
        if part["type"].endswith("_text"):
            string(part, "text", f"{place}[{index}]")


def _check_tools(body: Mapping[str, Any]) -> None:
    for index, tool in enumerate(objects(body.get("tools", []), "tools", empty=True)):
        place = f"tools[{index}]"
        kind = string(tool, "type", place)
        inner = objects(tool.get("tools"), f"{place}.tools") if kind == "namespace" else [tool]
        if kind in ("namespace", "function", "custom"):
            string(tool, "name", place)
        for each in inner:
            if each.get("type") == "function":
                check_schema(each.get("parameters"), string(each, "name", place), "parameters")
    spaces = [tool["name"] for tool in body.get("tools", []) if tool["type"] == "namespace"]
    check_tool_names(spaces, _TOOL_NAME)
    check_tool_names([f"{space}__{name}" if space else name for space, name, _ in _offered(body)], _TOOL_NAME)
