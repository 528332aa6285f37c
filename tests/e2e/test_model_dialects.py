"""The fake model services other than Anthropic's: what each answers, and that it refuses what the real one does."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fakes.model_api import Text, ToolUse
from tests.fakes.model_server import FakeModel

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
GEMINI = "/v1beta/models/gemini-2.5-flash:generateContent"
GEMINI_STREAM = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
USER = {"role": "user", "content": "hi"}
PART = {"role": "user", "parts": [{"text": "hi"}]}


@pytest.fixture
def service() -> Iterator[FakeModel]:
    with FakeModel() as running:
        yield running


def post(service: FakeModel, path: str, body: object, key: str = "dummy") -> tuple[int, str]:
    connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=10)
    headers = {"authorization": key, "x-goog-api-key": key, "content-type": "application/json"}
    connection.request("POST", path, json.dumps(body).encode(), headers)
    response = connection.getresponse()
    answer = response.read().decode()
    connection.close()
    return response.status, answer


def events(answer: str) -> list[Any]:
    data = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in data if line != "[DONE]"]


def function(name: str = "echo", **fields: object) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA, **fields}}


def chat(*messages: object, **fields: object) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages) or [USER], "tools": [function()], **fields}


def call(identity: str, arguments: object = "{}") -> dict[str, Any]:
    inner = {"id": identity, "type": "function", "function": {"name": "echo", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [inner]}


def responses(*items: object, **fields: object) -> dict[str, Any]:
    tool = {"type": "function", "name": "plain", "parameters": SCHEMA}
    space = {"type": "namespace", "name": "mcp__cems", "tools": [{**tool, "name": "memory_add"}]}
    return {"model": "m", "input": list(items) or [USER], "tools": [tool, space], **fields}


def generate(*contents: object, **fields: object) -> dict[str, Any]:
    declared = {"name": "echo", "parametersJsonSchema": SCHEMA}
    return {"contents": list(contents) or [PART], "tools": [{"functionDeclarations": [declared]}], **fields}


def test_chat_streams_text_and_usage(service: FakeModel) -> None:
    service.script(Text("hello é"))
    status, answer = post(service, CHAT, chat(stream=True, stream_options={"include_usage": True}))
    chunks = events(answer)
    assert status == 200
    assert answer.endswith("data: [DONE]\n\n")
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks[:-1]) == "hello é"
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["total_tokens"] > 8


def test_chat_calls_a_tool_and_takes_its_result(service: FakeModel) -> None:
    service.script(ToolUse("echo", {"text": "é"}))
    _, answer = post(service, CHAT, chat())
    choice = json.loads(answer)["choices"][0]
    made = choice["message"]["tool_calls"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(made["function"]["arguments"]) == {"text": "é"}
    result = {"role": "tool", "tool_call_id": made["id"], "content": [{"type": "text", "text": "in the result"}]}
    assert post(service, CHAT, chat(USER, choice["message"], result))[0] == 200
    assert service.requests[-1].tool_results == ["in the result"]
    assert [where for where, _ in service.requests[-1].texts] == ["user", "tool_use", "tool_result"]


def test_a_request_beside_the_conversation_takes_no_step_of_the_script(service: FakeModel) -> None:
    service.script(Text("for the prompt"))
    title = {"model": "m", "messages": [USER]}
    assert "Done." in post(service, CHAT, title)[1]
    assert "for the prompt" in post(service, CHAT, chat())[1]
    assert [request.aside for request in service.everything] == [True, False]
    assert len(service.requests) == 1


def test_responses_streams_text(service: FakeModel) -> None:
    service.script(Text("hello"))
    status, answer = post(service, RESPONSES, responses(stream=True, instructions="be kind"))
    stream = events(answer)
    assert status == 200
    assert [event["type"] for event in stream] == [
        "response.created",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event["sequence_number"] for event in stream] == [*range(8)]
    assert stream[-1]["response"]["output"][0]["content"][0]["text"] == "hello"
    assert service.requests[0].texts == [("system", "be kind"), ("user", "hi")]


def test_responses_calls_a_tool_of_a_namespace_and_takes_its_result(service: FakeModel) -> None:
    service.script(ToolUse("mcp__cems__memory_add", {"a": 1}))
    _, answer = post(service, RESPONSES, responses())
    (made,) = json.loads(answer)["output"]
    assert (made["namespace"], made["name"], made["arguments"]) == ("mcp__cems", "memory_add", '{"a": 1}')
    assert set(service.requests[0].tools) == {"plain", "mcp__cems__memory_add"}
    output = {"type": "function_call_output", "call_id": made["call_id"], "output": "in the result"}
    assert post(service, RESPONSES, responses(USER, made, output))[0] == 200
    assert service.requests[-1].tool_results == ["in the result"]


@pytest.mark.parametrize("path", [GEMINI, GEMINI_STREAM])
def test_gemini_calls_a_tool_and_takes_its_result(service: FakeModel, path: str) -> None:
    service.script(ToolUse("echo", {"text": "é"}))
    status, answer = post(service, path, generate(systemInstruction={"parts": [{"text": "be kind"}]}))
    (whole,) = [json.loads(answer)] if path == GEMINI else events(answer)
    content = whole["candidates"][0]["content"]
    assert status == 200
    assert content["parts"][0]["functionCall"]["args"] == {"text": "é"}
    response = {"name": "echo", "response": {"output": "in the\nresult"}}
    body = generate(PART, content, {"role": "user", "parts": [{"functionResponse": response}]})
    assert post(service, path, body)[0] == 200
    assert service.requests[0].texts == [("system", "be kind"), ("user", "hi")]
    assert service.requests[-1].tool_results == ["in the\nresult"]


ITEM = {"type": "function_call", "call_id": "c1", "name": "plain", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "x"}
MODEL = {"role": "model", "parts": [{"functionCall": {"name": "echo", "args": {}}}]}
ANSWER = {"role": "user", "parts": [{"functionResponse": {"name": "echo", "response": {}}}]}


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        (CHAT, {"messages": [USER]}, "model is missing"),
        (CHAT, {**chat(), "messages": []}, "not empty"),
        (CHAT, chat({"role": "robot", "content": "x"}), "no role"),
        (CHAT, chat({"role": "user", "content": None}), "neither text nor"),
        (CHAT, chat({"role": "user", "content": []}), "not empty"),
        (CHAT, chat({"role": "user", "content": [{"type": "text"}]}), "has no text"),
        (CHAT, chat({"role": "user", "content": [{"type": "input_text", "text": "x"}]}), "not a part"),
        (CHAT, chat(USER, {"role": "tool", "tool_call_id": "c9", "content": "x"}), "nobody made"),
        (CHAT, chat(USER, call("c1")), "without a result"),
        (CHAT, chat(USER, call("c1"), USER), "without a result"),
        (CHAT, chat(USER, call("c1", {})), "has no arguments"),
        (CHAT, chat({**call("c1"), "role": "user"}), "not the assistant's"),
        (CHAT, chat(tools=[]), "not empty"),
        (CHAT, chat(tools=[function(), function()]), "offered twice"),
        (CHAT, chat(tools=[function("a b")]), "refuses"),
        (CHAT, chat(tools=[function("x" * 65)]), "refuses"),
        (CHAT, chat(tools=[function(parameters={})]), "parameters of type object"),
        (CHAT, chat(tools=[function(f"t{number}") for number in range(129)]), "129 tools"),
        (CHAT, chat({"role": "user", "content": "\ud800"}), "lone surrogate"),
        (RESPONSES, {"input": "hi"}, "model is missing"),
        (RESPONSES, responses() | {"input": []}, "not empty"),
        (RESPONSES, responses() | {"input": ""}, "empty"),
        (RESPONSES, responses({"role": "tool", "content": "x"}), "no role"),
        (RESPONSES, responses({"role": "user", "content": [{"type": "text", "text": "x"}]}), "is none of"),
        (RESPONSES, responses({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}), "is none of"),
        (RESPONSES, responses(ITEM), "without a result"),
        (RESPONSES, responses(OUTPUT), "nobody made"),
        (RESPONSES, responses(ITEM, {**OUTPUT, "output": None}), "must be a list"),
        (RESPONSES, responses({**ITEM, "arguments": {}}, OUTPUT), "has no arguments"),
        (RESPONSES, responses(tools=[{"type": "function", "name": "x", "parameters": {}}]), "parameters of type"),
        (RESPONSES, responses(tools=[{"type": "function", "name": "a.b", "parameters": SCHEMA}]), "refuses"),
        (RESPONSES, responses(tools=[*responses()["tools"], responses()["tools"][1]]), "offered twice"),
        (GEMINI, generate() | {"contents": []}, "not empty"),
        (GEMINI, generate({"role": "assistant", "parts": [{"text": "x"}]}), "no role"),
        (GEMINI, generate({"role": "user", "parts": []}), "not empty"),
        (GEMINI, generate({"role": "user", "parts": [{}]}), "one kind of data"),
        (GEMINI, generate({"role": "user", "parts": [{"text": "x", "note": "y"}]}), "nobody knows"),
        (GEMINI, generate(systemInstruction={"parts": [{"text": 1}]}), "has no text"),
        (GEMINI, generate(MODEL), "after the user"),
        (GEMINI, generate(PART, MODEL), "without a result"),
        (GEMINI, generate(PART, MODEL, PART), "answers the calls of []"),
        (GEMINI, generate(PART, ANSWER), "made were those of []"),
        (GEMINI, generate(PART, MODEL, {"role": "user", "parts": [*ANSWER["parts"], *ANSWER["parts"]]}), "answers"),
        (GEMINI, generate(tools=[{"functionDeclarations": [{"name": "1x"}]}]), "refuses"),
        (GEMINI, generate(tools=[{"functionDeclarations": [{"name": "x"}, {"name": "x"}]}]), "offered twice"),
        (GEMINI, generate(tools=[{"functionDeclarations": [{"name": "x", "parametersJsonSchema": 1}]}]), "type object"),
    ],
)
def test_what_the_real_service_refuses_is_refused(service: FakeModel, path: str, body: object, why: str) -> None:
    status, answer = post(service, path, body)
    assert status == 400
    assert why in json.loads(answer)["error"]["message"]
    assert not service.everything
    assert why in service.problems[0]


@pytest.mark.parametrize(("path", "body"), [(CHAT, chat()), (RESPONSES, responses()), (GEMINI, generate())])
def test_without_a_key_there_is_no_answer(service: FakeModel, path: str, body: object) -> None:
    assert post(service, path, body, key="")[0] == 401
    assert not service.everything


def test_who_wants_to_go_outside_is_noted(service: FakeModel) -> None:
    connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=10)
    connection.set_tunnel("example.invalid", 443)
    with pytest.raises(OSError, match="403"):
        connection.request("GET", "/")
    connection.close()
    assert service.problems == ["CONNECT example.invalid:443: 403: the way outside is closed"]


def test_the_list_of_models(service: FakeModel) -> None:
    connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=10)
    connection.request("GET", "/v1/models")
    assert json.loads(connection.getresponse().read())["data"][0]["id"] == "fake-model"
    connection.close()
    assert not service.problems
