"""A model service on 127.0.0.1 that speaks enough of the Anthropic Messages API for the real Claude Code.

It records every request, answers from a script (text, or a call of a tool the client offers), and refuses
with 400 what the real service would refuse, so that a test notices damage that a lenient fake would let pass.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from tests.fakes.anthropic_shape import BadRequest, check_request, parse_request

DEFAULT_TEXT = "Done."


@dataclass(frozen=True, slots=True)
class Text:
    """The model says this and ends its turn."""

    text: str = DEFAULT_TEXT


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The model calls this tool; the next step of the script follows when its result comes."""

    name: str
    input: Mapping[str, Any] = field(default_factory=dict)


Step = Text | ToolUse


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request for an answer, as it arrived, and when (`time.monotonic`)."""

    body: Mapping[str, Any]
    arrived: float

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Every text the model would read, as (where, text): `system`, a message's role, or `tool_result`."""
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
    def text(self) -> str:
        """All of `texts` in one string: what the model would read, whatever message it stands in."""
        return "\n".join(text for _, text in self.texts)

    @property
    def tools(self) -> dict[str, Mapping[str, Any]]:
        """The tools offered at once, by name. Tools that are only named to the model are not here."""
        return {tool["name"]: tool for tool in self.body.get("tools", [])}

    @property
    def tool_results(self) -> list[str]:
        return [text for where, text in self.texts if where == "tool_result"]


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if block.get("type") == "text":
                yield block["text"]


class FakeAnthropic:
    """The service: `with FakeAnthropic() as service:`, then its `url`, `script(...)` and `requests`.

    `problems` lists what no test should let pass: refused requests, scripted calls of tools nobody offered.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[ModelRequest] = []
        self._script: list[Step] = []
        self._calls = 0
        self.problems: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> FakeAnthropic:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[ModelRequest]:
        with self._lock:
            return list(self._requests)

    def script(self, *steps: Step) -> None:
        """Replace the answers to come, one a request. After the last one every answer is `DEFAULT_TEXT`."""
        with self._lock:
            self._script = list(steps)

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Record a checked request and return the message (the API's `Message` object) to send back."""
        request = ModelRequest(body, time.monotonic())
        with self._lock:
            self._requests.append(request)
            step: Step = self._script.pop(0) if self._script else Text()
            self._calls += 1
            number = self._calls
        if isinstance(step, ToolUse) and step.name not in request.tools and step.name not in request.text:
            self.problems.append(f"the script calls {step.name}, which request {number} does not offer")
            step = Text(f"There is no tool {step.name}.")
        block: dict[str, Any]
        if isinstance(step, Text):
            block, reason = {"type": "text", "text": step.text}, "end_turn"
        else:
            block = {"type": "tool_use", "id": f"toolu_{number:024d}", "name": step.name, "input": step.input}
            reason = "tool_use"
        return {
            "id": f"msg_{number:024d}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [block],
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": _size(body), "output_tokens": 8},
        }


def _size(body: Mapping[str, Any]) -> int:
    return max(1, len(json.dumps(body)) // 4)


def stream_events(message: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The server-sent events, as (event, data), that carry this one-block message."""
    block = message["content"][0]
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


def _handler_of(service: FakeAnthropic) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A client that never sends the body it announced must not hold a thread for ever.
        timeout = 30

        def do_HEAD(self) -> None:
            self._send(200, b"")

        def do_GET(self) -> None:
            self._refuse(404, "not_found_error", self.path)

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = urlsplit(self.path).path
            try:
                if path not in ("/v1/messages", "/v1/messages/count_tokens"):
                    self._refuse(404, "not_found_error", path)
                    return
                if not (self.headers.get("x-api-key") or self.headers.get("authorization")):
                    self._refuse(401, "authentication_error", "no key")
                    return
                body = parse_request(raw)
                if path.endswith("/count_tokens"):
                    self._json(200, {"input_tokens": _size(body)})
                    return
                check_request(body)
                message = service.answer(body)
            except BadRequest as error:
                self._refuse(400, "invalid_request_error", str(error))
                return
            if body.get("stream"):
                events = "".join(
                    f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n"
                    for name, data in stream_events(message)
                )
                self._send(200, events.encode(), "text/event-stream; charset=utf-8")
            else:
                self._json(200, message)

        def _refuse(self, status: int, kind: str, why: str) -> None:
            service.problems.append(f"{self.command} {self.path}: {status}: {why}")
            self._json(status, {"type": "error", "error": {"type": kind, "message": why}})

        def _json(self, status: int, value: object) -> None:
            self._send(status, json.dumps(value).encode(), "application/json")

        def _send(self, status: int, body: bytes, kind: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("request-id", "req_fake")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    return Handler
