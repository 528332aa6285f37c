"""OpenAI's Chat Completions API, as Goose, OpenCode and Pi use it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.model_api import (
    BadRequest,
    Dialect,
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

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_TOOLS = 128
_PARTS = {
    "system": {"text"},
    "developer": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}
"""The roles of a message, and the kinds of parts each may have."""


@dataclass(frozen=True, slots=True)
class ChatRequest(ModelRequest):
    @property
    def texts(self) -> list[tuple[str, str]]:
        found = []
        for message in self.body["messages"]:
            where = "tool_result" if message["role"] == "tool" else message["role"]
            content = message.get("content") or ""
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            found += [(where, part["text"]) for part in parts if part["type"] == "text" and part["text"]]
            found += [("tool_use", call["function"]["arguments"]) for call in message.get("tool_calls") or []]
        return found

    @property
    def tools(self) -> dict[str, Mapping[str, Any]]:
        return {tool["function"]["name"]: tool["function"] for tool in self.body.get("tools", [])}

    @property
    def aside(self) -> bool:
        return not self.tools


class ChatCompletions(Dialect):
    key_headers = ("authorization",)

    def serves(self, path: str) -> bool:
        return path == "/v1/chat/completions"

    def read(self, body: Mapping[str, Any], arrived: float) -> ModelRequest:
        check_model(body)
        _check_messages(body)
        _check_tools(body)
        return ChatRequest(body, arrived)

    def answer(self, request: ModelRequest, path: str, step: Step, number: int) -> Reply:
        common = {"id": f"chatcmpl-{number:024d}", "created": 1_700_000_000, "model": request.body["model"]}
        prompt = size(request.body)
        usage = {"prompt_tokens": prompt, "completion_tokens": 8, "total_tokens": prompt + 8}
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if isinstance(step, Text):
            message["content"], reason = step.text, "stop"
        else:
            function = {"name": step.name, "arguments": json.dumps(step.input)}
            message["tool_calls"] = [{"id": f"call_{number:024d}", "type": "function", "function": function}]
            reason = "tool_calls"
        if not request.body.get("stream"):
            choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
            return Reply.json({**common, "object": "chat.completion", "choices": [choice], "usage": usage})
        wants_usage = (request.body.get("stream_options") or {}).get("include_usage")
        return Reply.events(
            ("", data if isinstance(data, str) else {**common, "object": "chat.completion.chunk", **data})
            for data in _stream(message, reason, usage if wants_usage else None)
        )

    def refusal(self, status: int, why: str) -> object:
        return {"error": {"message": why, "type": "invalid_request_error", "param": None, "code": None}}

    def other(self, method: str, path: str, body: Mapping[str, Any]) -> Reply | None:
        if (method, path) != ("GET", "/v1/models"):
            return None
        model = {"id": "fake-model", "object": "model", "created": 1_700_000_000, "owned_by": "tests"}
        return Reply.json({"object": "list", "data": [model]})


def _stream(message: Mapping[str, Any], reason: str, usage: Mapping[str, int] | None) -> Iterator[dict[str, Any] | str]:
    """The chunks that carry this message: what each adds to their common fields, or the last line."""
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    if message["content"] is not None:
        deltas.append(({"content": message["content"]}, None))
    for index, call in enumerate(message.get("tool_calls", [])):
        opening = {**call, "function": {**call["function"], "arguments": ""}}
        deltas.append(({"tool_calls": [{"index": index, **opening}]}, None))
        rest = {"arguments": call["function"]["arguments"]}
        deltas.append(({"tool_calls": [{"index": index, "function": rest}]}, None))
    deltas.append(({}, reason))
    for delta, finished in deltas:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finished}
        yield {"choices": [choice], **({"usage": None} if usage else {})}
    if usage:
        yield {"choices": [], "usage": usage}
    yield "[DONE]"


def _check_messages(body: Mapping[str, Any]) -> None:
    open_calls: set[str] = set()
    for index, message in enumerate(objects(body.get("messages"), "messages")):
        place = f"messages[{index}]"
        role = message.get("role")
        if role not in _PARTS:
            raise BadRequest(f"{place} has no role of {sorted(_PARTS)}")
        if role == "tool":
            call = string(message, "tool_call_id", place)
            if call not in open_calls:
                raise BadRequest(f"{place} answers a call nobody made: {call}")
            open_calls.remove(call)
        elif open_calls:
            raise BadRequest(f"{place} leaves calls without a result: {sorted(open_calls)}")
        calls = message.get("tool_calls")
        if calls is not None:
            if role != "assistant":
                raise BadRequest(f"{place} has tool_calls but is not the assistant's")
            open_calls = {_call(call, place) for call in objects(calls, f"{place}.tool_calls")}
        _check_content(message, place, optional=role == "assistant" and bool(calls))
    if open_calls:
        raise BadRequest(f"the last message leaves calls without a result: {sorted(open_calls)}")


def _call(call: Mapping[str, Any], place: str) -> str:
    function = call.get("function")
    if call.get("type") != "function" or not isinstance(function, dict):
        raise BadRequest(f"{place} has a call that is no function's")
    string(function, "name", f"{place}.tool_calls.function")
    string(function, "arguments", f"{place}.tool_calls.function")
    return string(call, "id", f"{place}.tool_calls")


def _check_content(message: Mapping[str, Any], place: str, *, optional: bool) -> None:
    content = message.get("content")
    if isinstance(content, str) or (content is None and optional):
        return
    if not isinstance(content, list):
        raise BadRequest(f"{place} has content that is neither text nor a list of parts")
    for index, part in enumerate(objects(content, f"{place}.content")):
        where = f"{place}.content[{index}]"
        if part.get("type") not in _PARTS[message["role"]]:
            raise BadRequest(f"{where} is not a part the {message['role']} can have: {part.get('type')!r}")
        if part["type"] == "text":
            string(part, "text", where)


def _check_tools(body: Mapping[str, Any]) -> None:
    if "tools" not in body:
        return
    # An empty list is refused too.
    tools = objects(body["tools"], "tools")
    if len(tools) > _MOST_TOOLS:
        raise BadRequest(f"there are {len(tools)} tools, and the most the service takes is {_MOST_TOOLS}")
    functions = [tool.get("function") if tool.get("type") == "function" else None for tool in tools]
    named = objects(functions, "the functions of tools")
    check_tool_names([function.get("name") for function in named], _TOOL_NAME)
    for function in named:
        if "parameters" in function:
            check_schema(function["parameters"], function["name"], "parameters")
