"""The fake model service refuses what the real one refuses, or tests against it would prove nothing."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fakes.model_api import Text, ToolUse
from tests.fakes.model_server import FakeModel

ASK = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
TOOL = {"name": "mcp__cems__memory_add", "description": "", "input_schema": {"type": "object"}}


@pytest.fixture
def service() -> Iterator[FakeModel]:
    with FakeModel() as running:
        yield running


def post(service: FakeModel, body: bytes, path: str = "/v1/messages?beta=true") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=10)
    connection.request("POST", path, body, {"x-api-key": "dummy", "content-type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    return response.status, answer


def with_messages(*messages: tuple[str, Any]) -> bytes:
    return json.dumps({**ASK, "messages": [{"role": role, "content": content} for role, content in messages]}).encode()


def test_an_answer_as_one_message(service: FakeModel) -> None:
    service.script(Text("hello"))
    status, answer = post(service, json.dumps(ASK).encode())
    assert status == 200
    assert json.loads(answer)["content"] == [{"type": "text", "text": "hello"}]
    assert service.requests[0].text.endswith("hi")


def test_a_call_of_an_offered_tool_is_streamed(service: FakeModel) -> None:
    service.script(ToolUse(TOOL["name"], {"content": "é"}))  # type: ignore[arg-type]
    status, answer = post(service, json.dumps({**ASK, "tools": [TOOL], "stream": True}).encode())
    events = [json.loads(line[6:]) for line in answer.decode().splitlines() if line.startswith("data: ")]
    assert status == 200
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert json.loads(events[2]["delta"]["partial_json"]) == {"content": "é"}
    assert events[4]["delta"]["stop_reason"] == "tool_use"


def test_a_scripted_call_of_a_tool_nobody_offers_is_a_problem(service: FakeModel) -> None:
    service.script(ToolUse("mcp__cems__memory_add"))
    post(service, json.dumps(ASK).encode())
    assert "does not offer" in service.problems[0]


def test_all_text_of_a_request_is_seen_wherever_it_stands(service: FakeModel) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "x", "input": {"a": "in the call"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "in the result"}],
    }
    body = with_messages(
        ("user", "first"),
        ("assistant", [call]),
        ("user", [result]),
        ("system", "from a hook"),
        ("user", "last"),
    )
    assert post(service, body)[0] == 200
    request = service.requests[0]
    for text in ("first", "in the call", "in the result", "from a hook", "last"):
        assert text in request.text
    assert request.tool_results == ["in the result"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"model": "\xff"}', "not UTF-8"),
        (b"{", "not JSON"),
        (b"[]", "not an object"),
        (json.dumps({**ASK, "system": "\ud800"}).encode(), "lone surrogate"),
        (json.dumps({**ASK, "messages": []}).encode(), "not empty"),
        (json.dumps({**ASK, "tools": [TOOL, TOOL]}).encode(), "offered twice"),
        (json.dumps({**ASK, "tools": [{**TOOL, "name": "a b"}]}).encode(), "refuses"),
        (json.dumps({**ASK, "tools": [{**TOOL, "input_schema": {}}]}).encode(), "input_schema"),
        (with_messages(("user", [{"type": "text", "text": ""}])), "empty text block"),
        (with_messages(("tool", "x")), "has no role"),
        (with_messages(("user", [{"type": "tool_result", "tool_use_id": "t9"}])), "calls nobody made"),
    ],
)
def test_what_the_real_service_refuses_is_refused(service: FakeModel, body: bytes, why: str) -> None:
    status, answer = post(service, body)
    assert status == 400
    assert why in json.loads(answer)["error"]["message"]
    assert not service.requests
    assert why in service.problems[0]


def test_tokens_can_be_counted(service: FakeModel) -> None:
    status, answer = post(service, json.dumps(ASK).encode(), "/v1/messages/count_tokens?beta=true")
    assert status == 200
    assert json.loads(answer)["input_tokens"] > 0
    assert not service.requests
