"""What an operation says to arguments it cannot use, and how answers and errors look over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.fakes.real_parts import Place, run

from cems.core.service.caller import Caller
from cems.core.service.context import HEADER, encode
from cems.core.service.operations import _OPERATIONS, OperationFailed
from cems.core.service.routes import build_app

PORT = "The staging database listens on port 5433."
QUESTION = "which port does the staging database listen on"


def call(
    place: Place, name: str, body: Mapping[str, Any] | None = None, caller: Caller | None = None
) -> dict[str, Any]:
    return run(place.call(name, body or {}, caller))


def failure(place: Place, name: str, body: Mapping[str, Any], caller: Caller | None = None) -> OperationFailed:
    with pytest.raises(OperationFailed) as caught:
        call(place, name, body, caller)
    return caught.value


# -- what nobody should send


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("nonsense", {}, "no operation"),
        ("add", {}, "content is missing"),
        ("add", {"content": 7}, "content must be text"),
        ("add", {"content": " "}, "empty"),
        ("add", {"content": "x", "tags": "a"}, "tags must be"),
        ("add", {"content": "x", "confidence": True}, "confidence must be"),
        ("add", {"content": "x", "confidence": 7}, "confidence"),
        ("add", {"content": "x", "valid_from": "soon"}, "date"),
        ("add", {"content": "x", "pin": "yes"}, "pin must be"),
        ("add_many", {"items": "x"}, "items must be"),
        ("add_many", {}, "items must be"),
        ("search", {}, "query is missing"),
        ("search", {"query": "the"}, "nothing to search for"),
        ("search", {"query": "x", "limit": 0}, "limit must be"),
        ("search", {"query": "x", "limit": "1"}, "limit must be"),
        ("search", {"query": "x", "category": []}, "category must be text"),
        ("search", {"query": "x", "include_closed": "no"}, "include_closed must be"),
        ("list", {"cursor": "abc"}, "cursor must be"),
        ("list", {"cursor": -1}, "cursor must be"),
        ("list", {"cursor": "9" * 40}, "cursor must be"),
        ("show", {}, "id is missing"),
        ("show", {"id": ""}, "id"),
        ("edit", {"id": "m_1", "content": 7}, "content must be text"),
        ("forget", {}, "id is missing"),
        ("forget", {"ids": "m_1"}, "ids must be"),
        ("pin", {"id": "m_1", "pinned": "false"}, "pinned must be"),
        ("share", {"id": "m_1", "to": "world"}, "user or to shared"),
        ("why", {}, "prompt is missing"),
        ("settle", {"seconds": "nan"}, "seconds must be"),
        ("settle", {"seconds": float("nan")}, "seconds must be"),
    ],
)
def test_wrong_arguments_are_usage_errors_that_name_them(
    place: Place, name: str, body: dict[str, Any], said: str
) -> None:
    wrong = failure(place, name, body)
    assert (wrong.code, wrong.exit_status) == ("usage", 2)
    assert said in str(wrong)


def test_a_forget_that_matches_nothing_says_so(place: Place) -> None:
    place.add(PORT)
    for body in ({"text": "something else"}, {"id": "m_ffffff"}):
        assert failure(place, "forget", body).exit_status == 3


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = ("content", "id", "ids", "text", "query", "prompt", "limit", "cursor", "category", "scope", "tags", "confidence", "pinned",
             "session", "reason", "to", "items", "valid_to", "include_closed", "title", "kind")  # fmt: skip
QUICK = sorted(set(_OPERATIONS) - {"rebuild", "settle", "check"})


@given(name=st.sampled_from(QUICK), body=st.dictionaries(st.sampled_from(ARGUMENTS), ANY, max_size=6))
def test_any_arguments_give_an_answer_or_an_error_a_caller_can_act_on(
    tmp_path_factory: pytest.TempPathFactory, name: str, body: dict[str, Any]
) -> None:
    place = _shared(tmp_path_factory)
    assert run(_outcome(place, name, body)) in ("done", "usage", "ambiguous", "not_found", "refused")


async def _outcome(place: Place, name: str, body: dict[str, Any]) -> str:
    try:
        await place.call(name, body)
    except OperationFailed as error:
        return error.code
    return "done"


_places: list[Place] = []


def _shared(factory: pytest.TempPathFactory) -> Place:
    """One home for all examples: making one takes longer than an example."""
    if not _places:
        _places.append(Place(factory.mktemp("operations")))
    return _places[0]


# -- over HTTP


def post(place: Place, name: str, content: bytes, header: str | None = None) -> Any:
    context = encode({"client": "cli", "cwd": str(place.alpha), "tty": "1"}) if header is None else header
    with TestClient(build_app(place.operations)) as client:
        return client.post(f"/v1/{name}", content=content, headers={HEADER: context})


def test_an_answer_is_json(place: Place) -> None:
    answer = post(place, "add", json.dumps({"content": PORT}).encode())
    assert answer.status_code == 200
    assert answer.json()["status"] == "added"


@pytest.mark.parametrize(
    ("name", "content", "status", "code", "exit_status"),
    [
        ("add", b"{", 400, "usage", 2),
        ("add", b"[]", 400, "usage", 2),
        ("add", b"[" * 100_000, 400, "usage", 2),
        ("add", b"\xff", 400, "usage", 2),
        ("add", b"", 400, "usage", 2),
        ("nonsense", b"{}", 400, "usage", 2),
        ("show", b'{"id": "m_ffff"}', 404, "not_found", 3),
        ("search", b'{"query": "port", "scope": "project:beta"}', 403, "refused", 4),
        ("rebuild", b"{}", 500, "no_store", 1),
        ("show", b'{"id": "\\ud800"}', 404, "not_found", 3),
    ],
)  # fmt: skip
def test_an_error_has_a_status_a_code_a_sentence_and_an_exit_status(
    place: Place, name: str, content: bytes, status: int, code: str, exit_status: int
) -> None:
    answer = post(place, name, content)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["exit"]) == (status, code, exit_status)
    assert error["message"]


def test_a_header_that_is_not_hex_is_a_usage_error(place: Place) -> None:
    assert post(place, "status", b"{}", header="zz").json()["error"]["code"] == "usage"


def test_a_fault_of_ours_is_no_usage_error_and_quotes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError(PORT)

    monkeypatch.setattr(place.memories, "find", broken)
    answer = post(place, "show", b'{"id": "m_1"}')
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert "port 5433" not in answer.text
