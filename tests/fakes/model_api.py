"""What every model service's interface has in common: a request as a test reads it, and the steps of a script."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

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


class BadRequest(ValueError):
    """The request would be refused by the real service; the message says where and why."""


@dataclass(frozen=True, slots=True)
class ModelRequest(ABC):
    """One request for an answer, as it arrived, and when (`time.monotonic`)."""

    body: Mapping[str, Any]
    arrived: float

    @property
    @abstractmethod
    def texts(self) -> list[tuple[str, str]]:
        """Every text the model would read, as (where, text), in its order.

        Where: `system`, `developer`, `user`, `assistant`, `tool_use` (the call's input) or `tool_result`.
        """

    @property
    @abstractmethod
    def tools(self) -> dict[str, Mapping[str, Any]]:
        """The tools offered at once, by name. Tools that are only named to the model are not here."""

    @property
    def aside(self) -> bool:
        """Whether the agent asks its model for something beside the conversation, such as a title for it."""
        return False

    @property
    def text(self) -> str:
        """All of `texts` in one string: what the model would read, whatever message it stands in."""
        return "\n".join(text for _, text in self.texts)

    @property
    def tool_results(self) -> list[str]:
        return [text for where, text in self.texts if where == "tool_result"]


@dataclass(frozen=True, slots=True)
class Reply:
    """The body of an answer, and its content type."""

    body: bytes
    kind: str = "application/json"

    @classmethod
    def json(cls, value: object) -> Reply:
        return cls(json.dumps(value).encode())

    @classmethod
    def events(cls, events: Iterator[tuple[str, object]]) -> Reply:
        """Server-sent events, each (its name or nothing, its data: JSON, or a string as it is)."""
        lines = [
            (f"event: {name}\n" if name else "") + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
            for name, data in events
        ]
        return cls("".join(lines).encode(), "text/event-stream; charset=utf-8")


class Dialect(ABC):
    """One service's interface: which paths are its, what it refuses, how its answers look."""

    key_headers: ClassVar[Sequence[str]]
    """A request needs one of these headers; the service answers 401 to one that has none."""

    @abstractmethod
    def serves(self, path: str) -> bool:
        """Whether a request for an answer comes to this path, which has no query."""

    @abstractmethod
    def read(self, body: Mapping[str, Any], arrived: float) -> ModelRequest:
        """The request, checked. Raises BadRequest for what the service would refuse."""

    @abstractmethod
    def answer(self, request: ModelRequest, path: str, step: Step, number: int) -> Reply:
        """The service's `number`th answer: this step, streamed when the request wants that."""

    @abstractmethod
    def refusal(self, status: int, why: str) -> object:
        """The JSON that comes with an error's status."""

    def other(self, method: str, path: str, body: Mapping[str, Any]) -> Reply | None:
        """The answer to a request that wants none of the model; None where the path is not known."""
        return None


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


def check_model(body: Mapping[str, Any]) -> None:
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise BadRequest("model is missing")


def objects(value: object, place: str, *, empty: bool = False) -> list[dict[str, Any]]:
    """A list of objects, with something in it unless `empty`. Raises BadRequest."""
    if not isinstance(value, list) or not (value or empty):
        raise BadRequest(f"{place} must be a list{'' if empty else ' that is not empty'}")
    for index, each in enumerate(value):
        if not isinstance(each, dict):
            raise BadRequest(f"{place}[{index}] is not an object")
    return value


def string(value: Mapping[str, Any], name: str, place: str) -> str:
    """A field that has to be there, as text. Raises BadRequest."""
    found = value.get(name)
    if not isinstance(found, str):
        raise BadRequest(f"{place} has no {name}")
    return found


def check_tool_names(names: Sequence[object], allowed: re.Pattern[str]) -> None:
    """Raise BadRequest for a name the service refuses, or one that is offered twice."""
    seen = set()
    for index, name in enumerate(names):
        if not isinstance(name, str) or not allowed.fullmatch(name):
            raise BadRequest(f"tools[{index}] has a name the service refuses: {name!r}")
        if name in seen:
            raise BadRequest(f"the tool {name} is offered twice")
        seen.add(name)


def check_schema(schema: object, tool: str, name: str) -> None:
    """Raise BadRequest when a tool's parameters are not described as an object's."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise BadRequest(f"the tool {tool} has no {name} of type object")


def size(body: Mapping[str, Any]) -> int:
    """About how many tokens a request has."""
    return max(1, len(json.dumps(body)) // 4)
