"""Google's generateContent and streamGenerateContent, as Gemini CLI uses them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.model_api import (
    BadRequest,
    Dialect,
    ModelRequest,
    Reply,
    Step,
    Text,
    check_schema,
    check_tool_names,
    objects,
    size,
    string,
    strings_of,
)

_PATH = re.compile(r"/v1(?:beta)?/models/([^/:]+):(generateContent|streamGenerateContent)")
_COUNT = re.compile(r"/v1(?:beta)?/models/[^/:]+:countTokens")
_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_DATA = {"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"}
"""A part has exactly one of these."""

_BESIDE = {"thought", "thoughtSignature", "videoMetadata", "mediaResolution"}
_ROLES = {"user": "user", "model": "assistant", "function": "user"}
_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND"}


@dataclass(frozen=True, slots=True)
class GenerateRequest(ModelRequest):
    @property
    def texts(self) -> list[tuple[str, str]]:
        instruction = self.body.get("systemInstruction") or {"parts": []}
        found = [("system", part["text"]) for part in instruction["parts"]]
        for content in self.body["contents"]:
            for part in content["parts"]:
                if "text" in part:
                    found.append((_ROLES[content.get("role", "user")], part["text"]))
                elif "functionCall" in part:
                    found.append(("tool_use", json.dumps(part["functionCall"].get("args", {}), ensure_ascii=False)))
                elif "functionResponse" in part:
                    response = part["functionResponse"]["response"]
                    # Without its keys, and not as JSON: a test looks for lines as the tool gave them.
                    said = [text for place, text in strings_of(response) if not place.startswith("a key of")]
                    found.append(("tool_result", "\n".join(said)))
        return found

    @property
    def tools(self) -> dict[str, Mapping[str, Any]]:
        return {declared["name"]: declared for declared in _declared(self.body)}

    @property
    def aside(self) -> bool:
        return not self.tools


def _declared(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    tools = objects(body.get("tools", []), "tools", empty=True)
    return [
        declared
        for tool in tools
        for declared in objects(tool.get("functionDeclarations", []), "functionDeclarations", empty=True)
    ]


class GenerateContent(Dialect):
    key_headers = ("x-goog-api-key", "authorization")

    def serves(self, path: str) -> bool:
        return _PATH.fullmatch(path) is not None

    def read(self, body: Mapping[str, Any], arrived: float) -> ModelRequest:
        _check(body)
        return GenerateRequest(body, arrived)

    def answer(self, request: ModelRequest, path: str, step: Step, number: int) -> Reply:
        part: dict[str, Any]
        if isinstance(step, Text):
            part = {"text": step.text}
        else:
            part = {"functionCall": {"id": f"call{number}", "name": step.name, "args": step.input}}
        prompt = size(request.body)
        matched = _PATH.fullmatch(path)
        assert matched is not None
        answer = {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": prompt,
                "candidatesTokenCount": 8,
                "totalTokenCount": prompt + 8,
            },
            "modelVersion": matched[1],
            "responseId": f"response{number}",
        }
        return Reply.json(answer) if matched[2] == "generateContent" else Reply.events(iter([("", answer)]))

    def refusal(self, status: int, why: str) -> object:
        return {"error": {"code": status, "message": why, "status": _STATUS[status]}}

    def other(self, method: str, path: str, body: Mapping[str, Any]) -> Reply | None:
        return Reply.json({"totalTokens": size(body)}) if method == "POST" and _COUNT.fullmatch(path) else None


def _check(body: Mapping[str, Any]) -> None:
    if "systemInstruction" in body:
        instruction = objects([body["systemInstruction"]], "systemInstruction")[0]
        for part in objects(instruction.get("parts"), "systemInstruction.parts"):
            string(part, "text", "systemInstruction.parts")
    open_calls: list[str] = []
    for index, content in enumerate(objects(body.get("contents"), "contents")):
        place = f"contents[{index}]"
        if content.get("role", "user") not in _ROLES:
            raise BadRequest(f"{place} has no role of {sorted(_ROLES)}")
        parts = objects(content.get("parts"), f"{place}.parts")
        for count, part in enumerate(parts):
            _check_part(part, f"{place}.parts[{count}]")
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        # Gemini CLI itself has each result twice in a session it resumes.
        answered = [
            name
            for _, name in {(response.get("id", count), response["name"]) for count, response in enumerate(responses)}
        ]
        if sorted(answered) != sorted(open_calls):
            raise BadRequest(f"{place} answers the calls of {answered}, made were those of {open_calls}")
        open_calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        if open_calls and (index == 0 or content.get("role") != "model"):
            raise BadRequest(f"{place} calls a function, which is the model's to do, after the user")
    if open_calls:
        raise BadRequest(f"the last content leaves calls without a result: {open_calls}")
    declared = _declared(body)
    check_tool_names([each.get("name") for each in declared], _TOOL_NAME)
    for each in declared:
        if "parameters" in each and "parametersJsonSchema" in each:
            raise BadRequest(f"the tool {each['name']} has two descriptions of its parameters")
        if "parametersJsonSchema" in each:
            check_schema(each["parametersJsonSchema"], each["name"], "parametersJsonSchema")


def _check_part(part: Mapping[str, Any], place: str) -> None:
    unknown = set(part) - _DATA - _BESIDE
    if unknown:
        raise BadRequest(f"{place} has fields nobody knows: {sorted(unknown)}")
    data = set(part) & _DATA
    if len(data) != 1:
        raise BadRequest(f"{place} needs one kind of data and has {sorted(data)}")
    if "text" in part:
        string(part, "text", place)
    for kind in ("functionCall", "functionResponse"):
        if kind in part:
            string(objects([part[kind]], place)[0], "name", f"{place}.{kind}")
    if "functionResponse" in part and not isinstance(part["functionResponse"].get("response"), dict):
        raise BadRequest(f"{place}.functionResponse has no response")
