"""Editing JSON as text leaves every other byte alone."""

from __future__ import annotations

import json
import random
import re
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cems.adapters.json_edit import JsoncText, JsonText, JsonWithComments, NotJson

# A busy machine is no reason to fail.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

SPACE = st.text(" \t", max_size=3)
ENDS = st.sampled_from(["\n", "\r\n"])
KEYS = st.text(string.ascii_letters + 'é日😀"\\/{}[],: ', min_size=1, max_size=6)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.sampled_from([1.5, -0.0, 1e300]),
    KEYS,
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)


@st.composite
def texts(draw: st.DrawFn, value: Any, newline: str, depth: int = 0) -> str:
    """`value` spelled in any of the ways JSON allows: on lines or in a row, escaped or not, spaced at random."""
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if not value:
        return opening + draw(st.sampled_from(["", "", " ", newline, f"{newline}{'  ' * depth}"])) + closing
    gap = draw(st.sampled_from(["", " ", f"{newline}{'  ' * (depth + 1)}", f"{newline}{chr(9) * (depth + 1)}"]))
    end = draw(st.sampled_from(["", " ", f"{newline}{'  ' * depth}"]))
    rows = []
    for item in value.items() if isinstance(value, dict) else value:
        if isinstance(value, dict):
            key = json.dumps(item[0], ensure_ascii=draw(st.booleans()))
            rest = draw(texts(item[1], newline, depth + 1))
            rows.append(f"{key}{draw(SPACE)}:{draw(SPACE)}{rest}")
        else:
            rows.append(draw(texts(item, newline, depth + 1)))
    return opening + gap + f"{draw(SPACE)},{gap}".join(rows) + end + closing


@st.composite
def documents(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> bytes:
    newline = draw(ENDS)
    text = draw(texts(draw(values), newline))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return (mark + draw(SPACE) + text + draw(st.sampled_from(["", newline, newline * 2]))).encode()


OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@UNHURRIED
@given(documents(OBJECTS), VALUES)
def test_a_member_put_in_and_taken_out_leaves_the_same_bytes(data: bytes, value: Any) -> None:
    before = JsonText.parse(data)
    after = before.with_member((), "ours", value)
    assert after.get(("ours",)) == value
    assert {k: v for k, v in after.get().items() if k != "ours"} == before.get()
    assert bytes(after.without(("ours",))) == data


@UNHURRIED
@given(documents(st.fixed_dictionaries({"list": st.lists(VALUES, max_size=4), "z": VALUES})), VALUES)
def test_an_item_put_in_and_taken_out_leaves_the_same_bytes(data: bytes, value: Any) -> None:
    before = JsonText.parse(data)
    place = len(before.get(("list",)))
    after = before.with_item(("list",), value)
    assert after.get(("list",)) == [*before.get(("list",)), value]
    assert bytes(after.without(("list", place))) == data


@UNHURRIED
@given(documents(OBJECTS), st.lists(KEYS, min_size=1, max_size=3, unique=True))
def test_containers_made_on_the_way_go_as_they_came(data: bytes, steps: list[str]) -> None:
    before = JsonText.parse(data)
    path = ("ours", *steps)
    after = before
    for depth in range(len(path)):
        after = after.with_member(path[:depth], path[depth], {} if depth < len(path) - 1 else [])
    after = after.with_item(path, {"a": [1, "two"]})
    assert after.get(path) == [{"a": [1, "two"]}]
    back = after.without((*path, 0))
    for depth in reversed(range(len(path))):
        back = back.without(path[: depth + 1])
    assert bytes(back) == data


@UNHURRIED
@given(documents(OBJECTS), VALUES)
def test_removing_any_member_leaves_the_others_equal(data: bytes, value: Any) -> None:
    document = JsonText.parse(data).with_member((), "last", value)
    for key in document.get():
        left = document.without((key,))
        assert left.get() == {k: v for k, v in document.get().items() if k != key}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "a": [\n    1\n  ]\n}'),
        ('{"x":1}', '{"x":1,"a":[1]}'),
        ('{"x": 1}', '{"x": 1, "a": [1]}'),
        ('{\n\t"x": 1\n}\n', '{\n\t"x": 1,\n\t"a": [\n\t\t1\n\t]\n}\n'),
        ('{\r\n    "x": {}\r\n}', '{\r\n    "x": {},\r\n    "a": [\r\n        1\r\n    ]\r\n}'),
        ('{\n  "x" : 1\n}', '{\n  "x" : 1,\n  "a" : [\n    1\n  ]\n}'),
    ],
)
def test_what_is_put_in_looks_like_what_is_there(before: str, after: str) -> None:
    assert bytes(JsonText(before).with_member((), "a", [1])).decode() == after


def test_of_duplicate_keys_the_last_is_meant_and_the_first_is_kept() -> None:
    document = JsonText('{"hooks": {"old": 1}, "hooks": {"new": []}}')
    assert document.get(("hooks",)) == {"new": []}
    assert bytes(document.with_item(("hooks", "new"), 1)) == b'{"hooks": {"old": 1}, "hooks": {"new": [1]}}'


def test_bytes_that_are_not_utf8_and_long_numbers_survive() -> None:
    data = b'{"name": "caf\xe9", "n": ' + b"9" * 5000 + b', "\\ud83d": 1.50}'
    document = JsonText.parse(data).with_member((), "a", 1)
    assert bytes(document) == data[:-1] + b', "a": 1}'
    assert bytes(document.without(("a",))) == data


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('{\n  "a": 1,\n}', 3, "comma before the closing bracket"),
        ("[1,\n2,]", 2, "comma before the closing bracket"),
        ('{\n// hello\n"a": 1}', 2, "comments"),
        ('{"a": 1} {"b": 2}', 1, "extra data"),
        ('{\n"a": NaN}', 2, "NaN"),
        ('{\n\n"a" 1}', 3, "delimiter"),
        ('{"a": "\x01"}', 1, "control character"),
        ("[" * 100_000, 1, "too deeply"),
        ("", 1, "expecting value"),
    ],
)
def test_what_an_agent_would_ignore_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(NotJson) as refused:
        JsonText(text)
    # The parsers of newer Pythons point at the comma, those of older ones at the bracket after it.
    assert refused.value.line in (line, line - 1)
    assert reason in refused.value.reason


def test_utf16_is_refused() -> None:
    with pytest.raises(NotJson, match="UTF-16"):
        JsonText.parse('{"a": 1}'.encode("utf-16"))


def test_an_unexpected_shape_is_refused_with_its_line() -> None:
    document = JsonText('{\n  "x": 1,\n  "hooks": [\n  ]\n}')
    with pytest.raises(NotJson, match="should be an object, it is a list") as refused:
        document.require(("hooks",), dict)
    assert refused.value.line == 3
    document.require(("absent",), dict)


@pytest.mark.parametrize(
    ("text", "path", "value", "expected"),
    [
        ('{"a": 1, "b": 2}', ("a",), {"x": [1]}, '{"a": {"x": [1]}, "b": 2}'),
        ('{\n\t"a": {\n\t\t"b": 1\n\t},\n\t"c": 2\n}\n', ("a", "b"), [1], '{\n\t"a": {\n\t\t"b": [\n\t\t\t1\n\t\t]\n\t},\n\t"c": 2\n}\n'),
        ('{\r\n  "a": [\r\n    1,\r\n    2\r\n  ]\r\n}', ("a", 0), "x", '{\r\n  "a": [\r\n    "x",\r\n    2\r\n  ]\r\n}'),
        ('{"a":1,"a":2}', ("a",), 3, '{"a":1,"a":3}'),
    ],
)  # fmt: skip
def test_a_value_is_replaced_in_its_place(text: str, path: tuple[str | int, ...], value: Any, expected: str) -> None:
    assert bytes(JsonText(text).with_value(path, value)).decode() == expected


# -- comments

JSONC_TEXTS = [
    '{\n  // mine\n  "model": "m", /* x */\n}\n',
    "{ // one line comment\n}\n",
    "{ /* block */ }",
    '{\r\n\t"a": [1, 2,], // trailing\r\n\t"servers": { /* none yet */ },\r\n}',
    '{"url": "https://x//y", "s": "/* no */, ]", "servers": {"other": 1, // it\n}}',
    '{\n  "servers": {\n    // before\n    "other": {"a": 1} // after\n    // last\n  }\n}',
    '// head\n{\n  "servers": {}\n}\n// tail\n',
]


@pytest.mark.parametrize("text", JSONC_TEXTS)
def test_an_entry_goes_into_a_file_with_comments_and_out_to_the_identical_bytes(text: str) -> None:
    before = JsoncText(text)
    value = {"command": "x", "args": ["//", ","]}
    with_ours = before if "servers" in text else before.with_member((), "servers", {})
    with_ours = with_ours.with_member(("servers",), "cems", value)
    assert with_ours.get(("servers", "cems")) == value
    for comment in ("// mine", "/* x */", "// one line comment", "/* block */", "// trailing", "/* none yet */", "// it",
                    "// before", "// after", "// last", "// head", "// tail"):  # fmt: skip
        assert (comment in text) == (comment in bytes(with_ours).decode())
    changed = with_ours.with_value(("servers", "cems"), {"command": "y"})
    assert changed.get(("servers", "cems")) == {"command": "y"}
    after = changed.without(("servers", "cems"))
    if "servers" not in text:
        after = after.without(("servers",))
    assert bytes(after).decode() == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1, /* ours: */ "cems": 2, /* theirs: */ "b": 3}', '{"a": 1, /* ours: */ /* theirs: */ "b": 3}'),
        ('{\n "a": 1, // of a\n "cems": 2\n}', '{\n "a": 1 // of a\n}'),
        ('{\n "a": 1, // of a\n "cems": 2,\n}', '{\n "a": 1, // of a\n}'),
        ('{\n // of ours\n "cems": 2\n}', "{\n // of ours\n}"),
        ('{\n "cems": 2, // beside\n // of b\n "b": 3\n}', '{\n // beside\n // of b\n "b": 3\n}'),
    ],
)
def test_a_comment_that_stands_beside_our_entry_stays(text: str, expected: str) -> None:
    after = JsoncText(text).without(("cems",))
    assert bytes(after).decode() == expected
    assert "cems" not in after.get()


def test_what_is_no_comment_or_not_allowed_is_refused() -> None:
    with pytest.raises(NotJson, match="does not end"):
        JsoncText('{\n"a": 1 /* open\n}')
    with pytest.raises(NotJson, match="comma before the closing bracket"):
        JsonWithComments('{"a": 1, /* x */ }')
    with pytest.raises(NotJson):
        JsoncText('{"a": 1,, "b": 2}')
    assert JsonWithComments('{"a": "// no", /* x */ "b": 1}').get() == {"a": "// no", "b": 1}


@given(OBJECTS, st.randoms(use_true_random=False))
def test_comments_anywhere_change_nothing_of_what_is_read(document: Any, chance: random.Random) -> None:
    text = json.dumps(document, indent=2, ensure_ascii=False)
    noisy = re.sub(
        r'("(?:[^"\\]|\\.)*")|\n', lambda found: found[1] or chance.choice(["\n", " // c, ]\n", "/* } */\n"]), text
    )
    assert JsoncText(noisy).get() == JsonText(text).get()
