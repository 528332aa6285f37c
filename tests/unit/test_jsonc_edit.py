"""Editing JSON with comments as text leaves every other byte alone, comments and last commas too."""

from __future__ import annotations

import json
import re
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cems.adapters.json_edit import JsoncText, JsonText, JsonWithComments

# A busy machine is no reason to fail.
UNHURRIED = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])

KEYS = st.text(string.ascii_letters + 'é😀"\\/{}[],:*/ ', min_size=1, max_size=6) | st.sampled_from(
    ["// no", "/* no */", ",]"]
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-9, 99), st.sampled_from([1.5, "http://x/*", ", }"]), KEYS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=10
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=3)
FILLERS = [
    "",
    "",
    " ",
    "\n  ",
    "\n\t",
    " // one, {\n",
    '\n // "two"\n  ',
    " /* three, ] */ ",
    "/* on\n * lines */",
    "\n\n",
    "//\n",
]


def filler(draw: st.DrawFn) -> str:
    return "".join(draw(st.lists(st.sampled_from(FILLERS), max_size=2)))


def spelled(draw: st.DrawFn, value: Any, last_commas: bool) -> str:
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    rows = []
    for item in value.items() if isinstance(value, dict) else value:
        name = f"{json.dumps(item[0])}{filler(draw)}:{filler(draw)}" if isinstance(value, dict) else ""
        inside = item[1] if isinstance(value, dict) else item
        rows.append(f"{filler(draw)}{name}{spelled(draw, inside, last_commas)}{filler(draw)}")
    tail = draw(st.sampled_from(["", ","])) if rows and last_commas else ""
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + ",".join(rows) + tail + filler(draw) + closing


@st.composite
def documents(draw: st.DrawFn, values: st.SearchStrategy[Any], last_commas: bool = True) -> bytes:
    text = filler(draw) + spelled(draw, draw(values), last_commas) + filler(draw)
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return (draw(st.sampled_from(["", "\ufeff"])) + text).encode()


@UNHURRIED
@given(documents(OBJECTS), VALUES)
def test_a_member_put_in_and_taken_out_leaves_the_same_bytes(data: bytes, value: Any) -> None:
    before = JsoncText.parse(data)
    after = before.with_member((), "ours", value)
    assert after.get(("ours",)) == value
    assert {k: v for k, v in after.get().items() if k != "ours"} == before.get()
    assert bytes(after.without(("ours",))) == data


@UNHURRIED
@given(documents(OBJECTS, last_commas=False), VALUES)
def test_where_no_last_comma_is_allowed_none_is_made(data: bytes, value: Any) -> None:
    after = JsonWithComments.parse(data).with_member((), "ours", {}).with_member(("ours",), "a", value)
    assert after.get(("ours", "a")) == value
    assert bytes(after.without(("ours", "a")).without(("ours",))) == data


@UNHURRIED
@given(documents(st.fixed_dictionaries({"list": st.lists(VALUES, max_size=3), "z": VALUES})), VALUES)
def test_an_item_put_in_and_taken_out_leaves_the_same_bytes(data: bytes, value: Any) -> None:
    before = JsoncText.parse(data)
    place = len(before.get(("list",)))
    after = before.with_item(("list",), value)
    assert after.get(("list",)) == [*before.get(("list",)), value]
    assert bytes(after.without(("list", place))) == data


@UNHURRIED
@given(documents(OBJECTS), VALUES)
def test_taking_any_member_out_leaves_the_others_and_all_comments(data: bytes, value: Any) -> None:
    document = JsoncText.parse(data).with_member((), "last", value)
    for key in document.get():
        left = document.without((key,))
        assert left.get() == {k: v for k, v in document.get().items() if k != key}
        replaced = document.with_value((key,), [1])
        assert replaced.get() == {**document.get(), key: [1]}


@UNHURRIED
@given(documents(OBJECTS), OBJECTS, VALUES)
def test_the_agent_rewrites_its_file_then_upgrade_then_out(data: bytes, value: Any, newer: Any) -> None:
    before = JsoncText.parse(data)
    rewritten = json.dumps(before.with_member((), "ours", value).get(), indent=2)
    upgraded = JsoncText.parse(rewritten.encode()).with_value(("ours",), newer)
    assert upgraded.get() == {**before.get(), "ours": newer}
    assert json.loads(bytes(upgraded.without(("ours",)))) == before.get()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{\n  "a": 1, // one\n  // end\n}', '{\n  "a": 1, // one\n  "k": [],\n  // end\n}'),
        ('{\n  "a": 1 // one\n}\n', '{\n  "a": 1, // one\n  "k": []\n}\n'),
        (
            '{\n  "a": 1 /* one */, /* two */ // three\n}\n',
            '{\n  "a": 1 /* one */, /* two */ // three\n  "k": [],\n}\n',
        ),
        ('{"a": 1 /* one */}', '{"a": 1, /* one */ "k": []}'),
        ('{"a": 1 // one\n}', '{"a": 1, // one\n  "k": []\n}'),
        ('{"a": 1,}', '{"a": 1, "k": [],}'),
        ("{\n  // none yet\n}\n", '{\n  // none yet\n  "k": []\n}\n'),
        ("{\r\n}\r\n", '{\r\n\r\n  "k": []\r\n}\r\n'),
    ],
)
def test_a_comment_stays_with_the_member_it_stands_beside(before: str, after: str) -> None:
    put_in = JsoncText(before).with_member((), "k", [])
    assert bytes(put_in).decode() == after
    assert bytes(put_in.without(("k",))).decode() == before


@UNHURRIED
@given(
    st.sampled_from(["", " ", "\n", "\r\n\t", "\n\n  "]), st.sampled_from(["{%s}", '{"a": {%s}}', '{\n  "a": {%s}\n}'])
)
def test_space_in_empty_brackets_is_there_again_in_strict_json_too(inside: str, form: str) -> None:
    text = form % inside
    path = ("a",) if "a" in form else ()
    after = JsonText(text).with_member(path, "ours", {"x": 1})
    assert json.loads(bytes(after))
    assert bytes(after.without((*path, "ours"))).decode() == text
    assert not re.search(r"\S[ \t]*\n\n\n", bytes(after).decode()) or "\n\n" in inside


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{ // one\n"k": 1, "a": 2}', '{ // one\n "a": 2}'),
        ('{"a": 1, // one\n "k": 1}', '{"a": 1 // one\n }'),
        ('{ // one */\r\n "k": 1}', "{ // one */\r\n }"),
        ('{ /* one // */ "k": 1, "a": 2}', '{ /* one // */ "a": 2}'),
    ],
)
def test_a_line_comment_does_not_swallow_what_comes_after_ours(before: str, after: str) -> None:
    assert bytes(JsoncText(before).without(("k",))).decode() == after
