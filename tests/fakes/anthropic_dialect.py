"""Anthropic's Messages API, as Claude Code and Copilot CLI use it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.anthropic_shape import check_request
from tests.fakes.model_api import Dialect, ModelRequest, Reply, Step, Text, size

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
}


@dataclass(frozen=True, slots=True)
class MessagesRequest(ModelRequest):
    @property
    def texts(self) -> list[tuple[str, str]]:
        found = [("system", text) for text in _texts(self.body.get("system", ""))]
        for message in self.body["messages"]:
            if isinstance(message["content"], str):
                found.append((message["role"], message["content"]))
                continue
            for block in message["content"]:
                if block["type"] == "tool_result":
                    found += [("tool_result", text) for text in _texts(block.get("content", ""))]
                elif block["type"] == "tool_use":
                    found.append(("tool_use", json.dumps(block["input"], ensure_ascii=False)))
                elif block["type"] == "text":
                    found.append((message["role"], block["text"]))
        return found

    @property
    def tools(self) -> dict[str, Mapping[str, Any]]:
        return {tool["name"]: tool for tool in self.body.get("tools", [])}


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if block.get("type") == "text":
                yield block["text"]


class Anthropic(Dialect):
    key_headers = ("x-api-key", "authorization")

    def serves(self, path: str) -> bool:
        return path == "/v1/messages"

    def read(self, body: Mapping[str, Any], arrived: float) -> ModelRequest:
        check_request(body)
        return MessagesRequest(body, arrived)

    def answer(self, request: ModelRequest, path: str, step: Step, number: int) -> Reply:
        block: dict[str, Any]
        if isinstance(step, Text):
            block, reason = {"type": "text", "text": step.text}, "end_turn"
        else:
            block = {"type": "tool_use", "id": f"toolu_{number:024d}", "name": step.name, "input": step.input}
            reason = "tool_use"
        message = {
            "id": f"msg_{number:024d}",
            "type": "message",
            "role": "assistant",
            "model": request.body["model"],
            "content": [block],
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": size(request.body), "output_tokens": 8},
        }
        if not request.body.get("stream"):
            return Reply.json(message)
        return Reply.events((name, {"type": name, **data}) for name, data in _stream(message, block))

    def refusal(self, status: int, why: str) -> object:
        return {"type": "error", "error": {"type": _ERRORS[status], "message": why}}

    def other(self, method: str, path: str, body: Mapping[str, Any]) -> Reply | None:
        if path != "/v1/messages/count_tokens":
            return None
        return Reply.json({"input_tokens": size(body)})


def _stream(message: Mapping[str, Any], block: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events that carry this one-block message, without the type each names itself with."""
    opening = {
        **message,
        "content": [],
        "stop_reason": None,
        "usage": {**message["usage"], "output_tokens": 1},
    }
    yield "message_start", {"message": opening}
    if block["type"] == "text":
        yield "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
        yield "ping", {}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        yield "content_block_start", {"index": 0, "content_block": {**block, "input": {}}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"delta": ending, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield "message_stop", {}
