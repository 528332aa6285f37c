"""Editing YAML as text leaves every other byte alone."""

from __future__ import annotations

import io
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cems.adapters.config_text import NotReadable, minus, plus, replaced, same
from cems.adapters.yaml_edit import YamlText
from cems.adapters.yaml_spell import spell

# A busy machine is no reason to fail.
UNHURRIED = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])

EXTENSION: dict[str, Any] = {
    "enabled": True,
    "type": "stdio",
    "name": "cems",
    "description": "What was learned: kept, # and recalled",
    "cmd": "/home/me/.cems/bin/cems-mcp",
    "args": ["--agent", "goose", "a 'b' \"c\" \\"],
    "envs": {"CEMS_HOME": "/home/me/.cems", "x y": "yes", "é": "null"},
    "env_keys": [],
    "timeout": 300,
    "bundled": None,
    "available_tools": [],
}
UPGRADED = {**EXTENSION, "args": [], "envs": {}, "timeout": 1.5, "more": {"deep": {"er": [{"a": 1}, [2]]}}}
PLACE = ("extensions", "cems")

REAL = {
    "empty": "",
    "one empty line": "\n",
    "only a comment": "# mine",
    "only a comment and a line end": "# mine\n",
    "only a byte order mark": "\ufeff",
    "document start": "---\n",
    "document start, no line end": "---",
    "document start and end": "--- # c\n# d\n...\n",
    "settings, no line end": "GOOSE_MODE: auto # the good one\nGOOSE_PROVIDER: 'x'",
    "byte order mark": "\ufeffGOOSE_MODE: auto\n",
    "as the agent writes it": (
        "extensions:\n  developer:\n    enabled: true\n    type: builtin\n    name: developer\n    timeout: 300\n"
        "    bundled: true\n    available_tools: []\n  memory:\n    enabled: false\n    args:\n    - -y\n    - x\n"
        "GOOSE_PROVIDER: openai\nGOOSE_MODE: smart_approve\n"
    ),
    "CRLF": "# mine\r\nextensions:\r\n    developer:\r\n        enabled: true\r\nGOOSE_MODE: auto\r\n",
    "CRLF, no line end": "a: 1\r\nextensions:\r\n  x: {}",
    "an empty parent in the middle": "extensions:   # none yet\n# about the mode\nGOOSE_MODE: auto\n",
    "an empty parent, no line end": "extensions:",
    "in braces": "extensions: {}\nGOOSE_MODE: auto\n",
    "in braces with space": "extensions: { } # c\n",
    "in braces over lines": "extensions: {\n  a: {enabled: true}, # one\n  b: {enabled: false}, # two\n}\n",
    "all in braces": '{"GOOSE_MODE": "auto", "extensions": {"a": {"enabled": true}}}\n',
    "braces with an anchor": "extensions: &all !!map {a: 1}\nz: 1\n",
    "comments everywhere": (
        "# top\n\n---\n# first\nextensions: # all\n\n  # about a\n  a: # a\n    enabled: true\t# tab\there\n\n    # end of a\n"
        "  # end of extensions\n\n# about the mode\nGOOSE_MODE: auto # m\n...\n# after\n"
    ),
    "anchors": "base: &base\n  timeout: 3\nextensions:\n  a:\n    <<: *base\n    x: *base\nz: *base\n",
    "block text": (
        "a: |\n  extensions:\n    cems: 1\n  # no comment\n\nextensions:\n  b:\n    text: >-\n      folded\n      text\n\n"
        "  c: |+\n    kept\n\n\nz: |2\n   two\n"
    ),
    "block text at the end": "extensions:\n  c: |\n    kept",
    "quoted over lines": "extensions:\n  'a b': \"one\n    # two\n\n    three\" # c\n  c: plain\n    goes on\n",
    "indented root": "  a: 1\n  extensions:\n     b:\n       c: 1\n",
    "complex keys": "? [a, b]\n: 1\n? x\n: - y\n  - z\n2: one\n'2': two\ntrue: yes\nextensions:\n  ? q\n",
    "lists of mappings": "slash_commands:\n- command: a\n  path: b\n-\n  command: c\n- - d\n  - e\nextensions: \n",
}


@pytest.mark.parametrize("text", REAL.values(), ids=REAL.keys())
@pytest.mark.parametrize("value", [EXTENSION, UPGRADED, {}, "x: y", ["a", {"b": 1}]])
def test_an_entry_put_in_and_taken_out_leaves_the_same_bytes(text: str, value: Any) -> None:
    before = YamlText.parse(text.encode())
    made = not before.has(PLACE[:-1])
    after = before.with_member(PLACE[:-1], PLACE[-1], value)
    assert same(after.get(PLACE), value)
    start = before.get() if before.get(PLACE[:-1]) is not None else minus(before.get() | {"extensions": 0}, PLACE[:-1])
    assert same(loaded(bytes(after)), plus(start, PLACE[:-1], "cems", value))
    back = after.without(PLACE)
    assert back.is_empty(PLACE[:-1]) or not made
    assert bytes(back.without(PLACE[:-1]) if made else back) == text.encode()


def loaded(data: bytes) -> Any:
    return YAML(typ="safe", pure=True).load(data.decode().removeprefix("\ufeff").replace("\t#", " #"))


def test_an_entry_looks_as_the_agent_would_write_it() -> None:
    before = YamlText("extensions:\r\n    a:\r\n        enabled: true\r\n    # end\r\nz: 1\r\n")
    assert bytes(before.with_member(("extensions",), "cems", EXTENSION)).decode().split("\r\n") == [
        "extensions:",
        "    a:",
        "        enabled: true",
        "    cems:",
        "        enabled: true",
        "        type: stdio",
        "        name: cems",
        '        description: "What was learned: kept, # and recalled"',
        "        cmd: /home/me/.cems/bin/cems-mcp",
        "        args:",
        '            - "--agent"',
        "            - goose",
        '            - "a \'b\' \\"c\\" \\\\"',
        "        envs:",
        "            CEMS_HOME: /home/me/.cems",
        '            "x y": "yes"',
        '            "é": "null"',
        "        env_keys: []",
        "        timeout: 300",
        "        bundled: null",
        "        available_tools: []",
        "    # end",
        "z: 1",
        "",
    ]
    assert bytes(YamlText("a: {b: 1}").with_member(("a",), "c", {"d": [1, "e f"]})) == b'a: {b: 1, c: {d: [1, "e f"]}}'


def test_items_join_lists_in_any_style() -> None:
    data = b"a: [1, 2,]\nb:\n- x # one\n-\n- y\nc:\n  d: []\n  e:\n  f:\n    - - z\n# end"
    text = YamlText.parse(data)
    for path in (("a",), ("b",), ("c", "d"), ("c", "e"), ("c", "f"), ("c", "f", 0)):
        place = len(text.get(path) or [])
        after = text.with_item(path, {"g": [1]})
        assert after.get((*path, place)) == {"g": [1]}
        assert bytes(after.without((*path, place))) == data
    assert bytes(text.without(("b", 0))).startswith(b"a: [1, 2,]\nb:\n-\n- y\n")
    assert bytes(text.without(("b", 1))).startswith(b"a: [1, 2,]\nb:\n- x # one\n- y\n")
    assert bytes(text.without(("a", 0))).startswith(b"a: [2,]\n")


def test_a_value_is_replaced_where_it_stands() -> None:
    data = b"a: 1 # c\nextensions:\n  cems:\n    enabled: true\n    x: >\n      y\n  # after\n  z: {q: [1, 2]}\ne:\n"
    text = YamlText.parse(data)
    new = b"a: 1 # c\nextensions:\n  cems:\n    enabled: false\n  # after\n  z: {q: [1, 2]}\ne:\n"
    assert bytes(text.with_value(PLACE, {"enabled": False})) == new
    assert b"{q: [1, yes1]}" in bytes(text.with_value(("extensions", "z", "q", 1), "yes1"))
    assert b'{q: "no"}' in bytes(text.with_value(("extensions", "z", "q"), "no"))
    assert bytes(text.with_value(("e",), 3)).endswith(b"\ne: 3\n")
    assert text.with_value(("a",), {"b": []}).get(("a",)) == {"b": []}


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"a: 1\nb: [1,\n", 3, "not valid YAML"),
        (b"a: 1\n\tb: 2\n", 2, "not valid YAML"),
        (b"a: 1\nb: 2\na: 3\n", 3, "the same key twice"),
        (b"x:\n  a: 1\n\n  a: 3\n", 4, "the same key twice"),
        (b"a: 1\n---\nb: 2\n", 2, "a second document"),
        (b"a: *x\n", 1, "not valid YAML: found undefined alias"),
        (b"a: 1\nb: !weird c\n", 2, "not valid YAML"),
        (b"a: 1\nb: \x01\n", 2, "not valid YAML: special characters"),
        (b"a: 1\n\nb: \xff\n", 3, "not UTF-8"),
        ("a: 1".encode("utf-16"), 1, "UTF-16"),
        (b"a: 1\t# c\nb: 2\t# d\n\te: 2\n", 3, "not valid YAML"),
        (b"a: &x [*x]\n", 1, "nested too deeply"),
        (b"[" * 5_000, 1, "nested too deeply"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(data: bytes, line: int, reason: str) -> None:
    with pytest.raises(NotReadable) as refused:
        YamlText.parse(data)
    assert refused.value.line == line
    assert reason in refused.value.reason


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nextensions: 3\n", 2, "`extensions` should be a mapping, it is a number"),
        ("a: 1\nextensions:\n- b\n", 2, "`extensions` should be a mapping, it is a list"),
        ("a: 1\nextensions: null\n", 2, "`extensions` should be a mapping, it is null"),
        ("- a\n", 1, "`the file` should be a mapping, it is a list"),
        ("text\n", 1, "`the file` should be a mapping, it is text"),
        ("\nextensions:\n  cems: 1\n", 3, "`extensions/cems` cannot be put in"),
        ("a: &a {b: 1}\nextensions: *a\n", 2, "`extensions/cems` cannot be put in"),
        ("\nextensions: &a {b: 1}\nc: *a\n", 2, "`extensions/cems` cannot be put in"),
        ("\nextensions: &a\nc: *a\n", 2, "should be a mapping"),
    ],
)
def test_a_file_that_cannot_take_the_entry_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(NotReadable) as refused:
        YamlText(text).with_member(PLACE[:-1], PLACE[-1], EXTENSION)
    assert refused.value.line == line
    assert reason in refused.value.reason


class _Careless(YamlText):
    """Puts in something that is not asked for."""

    stray = ""

    def _insert(self, at: int, lines: list[str]) -> str:
        return super()._insert(at, lines) + self.stray


@pytest.mark.parametrize("stray", ["stray: 1\n", "\n", "}"])
def test_an_edit_that_would_change_anything_else_is_refused(stray: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _Careless("a: 1\n").with_member((), "cems", {"x": 1}).get(("cems",)) == {"x": 1}
    monkeypatch.setattr(_Careless, "stray", stray)
    with pytest.raises(NotReadable, match="cannot be put in"):
        _Careless("a: 1\n").with_member((), "cems", {"x": 1})


def test_each_value_says_its_line() -> None:
    text = YamlText("\ufeff# c\na:\n  b:\n  - c\n  -  d: 1\n\ne: {f: [\n 2]}\ng: *x\n".replace("g: *x\n", ""))
    lines = {("a",): 2, ("a", "b"): 3, ("a", "b", 0): 4, ("a", "b", 1, "d"): 5, ("e", "f"): 7, ("e", "f", 0): 8}
    assert {path: text.line(path) for path in lines} == lines


# -- any file

WORDS = st.sampled_from(
    ["null", "yes", "No", "~", "1", "0x1F", "1e3", ".5", "2026-01-01", "<<", "=", "-", "? a", "a: b", "a #b"]
)
KEYS = (
    st.text(string.ascii_letters, min_size=1, max_size=4)
    | WORDS
    | st.text("ab .\"'\\#:[]{}é日😀&*!|>%@`,", min_size=1, max_size=4)
)
STRINGS = st.text("ab \"'\\#:[]{}\n\té😀,-\x7f\u2028", max_size=8) | WORDS
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.sampled_from([1.5, -0.25]), STRINGS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
MAPPINGS = st.dictionaries(KEYS, VALUES, max_size=3)
COMMENTS = st.sampled_from(["", "", "", "# c", "# cems: {", "   # \"\"\" '''", "\t# tab", "  "])
TRAILING = st.sampled_from(["", "", "", "  # why", " # ]}\"'", " "])


def inline(draw: st.DrawFn, value: Any) -> str:
    if isinstance(value, dict):
        gap = draw(st.sampled_from(["", " "]))
        tail = draw(st.sampled_from(["", ","])) if value else ""
        return f"{{{gap}{', '.join(f'{spell(k)}: {inline(draw, v)}' for k, v in value.items())}{tail}{gap}}}"
    if isinstance(value, list):
        return f"[{', '.join(inline(draw, v) for v in value)}]"
    if isinstance(value, str) and draw(st.booleans()) and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return "~" if value is None and draw(st.booleans()) else spell(value)


def block(draw: st.DrawFn, value: Any, pad: str, unit: str) -> list[str]:
    """The lines of a container in block style, where it has a form that way."""
    rows: list[str] = []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        rows += [row for row in [draw(COMMENTS)] if row.strip()]
        name = f"{pad}{spell(key)}:" if isinstance(value, dict) else f"{pad}-"
        if isinstance(item, dict | list) and item and draw(st.booleans()):
            same_column = isinstance(value, dict) and isinstance(item, list) and draw(st.booleans())
            rows += [name + draw(TRAILING), *block(draw, item, pad if same_column else pad + unit, unit)]
        elif item is None and draw(st.booleans()):
            rows.append(name + draw(TRAILING))
        elif isinstance(item, str) and item.isalpha() and draw(st.booleans()):
            style = draw(st.sampled_from(["|", "|+", "|-", ">", ">-"]))
            rows += [
                f"{name} {style}{draw(TRAILING)}",
                f"{pad}{unit}{item}",
                *draw(st.sampled_from([[], [""], ["", ""]])),
            ]
        else:
            rows.append(f"{name} {inline(draw, item)}{draw(TRAILING)}")
    return rows


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    value = draw(MAPPINGS)
    if draw(st.booleans()):
        value["extensions"] = draw(st.none() | MAPPINGS)
        value = dict(draw(st.permutations(list(value.items()))))
    unit = draw(st.sampled_from(["  ", "    "]))
    in_blocks = value and draw(st.sampled_from([True, True, True, False]))
    rows = block(draw, value, "", unit) if in_blocks else [inline(draw, value)] if value else []
    start = draw(st.sampled_from([[], [], ["---"], ["# top", "", "--- # c"], ["# top"]]))
    end = draw(st.sampled_from([[], [], ["..."], ["# end"], ["", "# end", ""]]))
    text = "\n".join([*start, *rows, *end]) + draw(st.sampled_from(["", "\n", "\n\n"]))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    data = (draw(st.sampled_from(["", "\ufeff"])) + text).encode()
    try:
        before = YamlText.parse(data)
    except NotReadable:  # what was drawn is not YAML
        assume(False)
    there = before.get(("extensions",), {})
    assume(
        isinstance(before.get(), dict) and (there is None or isinstance(there, dict)) and "cems" not in (there or {})
    )
    return data


ENTRIES = st.sampled_from([EXTENSION, UPGRADED]) | MAPPINGS


def put(text: YamlText, value: Any) -> YamlText:
    """The text with our entry; where the file cannot take it (`extensions: null`), there is nothing to try."""
    try:
        text.require(("extensions",), dict)
    except NotReadable:
        assume(False)
    return text.with_member(("extensions",), "cems", value)


def out(text: YamlText, made: bool) -> YamlText:
    back = text.without(PLACE)
    return back.without(("extensions",)) if made and back.is_empty(("extensions",)) else back


def with_entry(data: Any, value: Any) -> Any:
    there = {**data, "extensions": {}} if data.get("extensions") is None else data
    return plus(there, ("extensions",), "cems", value)


@UNHURRIED
@given(documents(), ENTRIES)
def test_put_in_any_file_and_taken_out_leaves_the_same_bytes(data: bytes, value: dict[str, Any]) -> None:
    before = YamlText.parse(data)
    after = put(before, value)
    assert same(after.get(), with_entry(before.get(), value))
    assert bytes(out(after, not before.has(("extensions",)))) == data


@UNHURRIED
@given(documents(), ENTRIES, ENTRIES, st.booleans())
def test_the_agent_rewrites_its_file_then_upgrade_then_out(
    data: bytes, value: dict[str, Any], newer: dict[str, Any], in_place: bool
) -> None:
    before = YamlText.parse(data)
    dumper = YAML(typ="safe", pure=True)
    dumper.default_flow_style = False
    rewritten = io.BytesIO()
    dumper.dump(put(before, value).get(), rewritten)
    first = YamlText.parse(rewritten.getvalue())
    upgraded = first.with_value(PLACE, newer) if in_place else put(first.without(PLACE), newer)
    assert same(upgraded.get(), with_entry(before.get(), newer))
    back = out(upgraded, not before.has(("extensions",))).get()
    empty = {**before.get(), "extensions": None} if before.get(("extensions",)) in (None, {}) else before.get()
    assert same(back, before.get()) or same(back, empty)


@UNHURRIED
@given(documents(), st.data())
def test_removing_or_replacing_any_entry_leaves_the_others_equal(data: bytes, more: st.DataObject) -> None:
    before = YamlText.parse(data)
    assume(before.get())
    path = more.draw(st.sampled_from([path for path in entries(before.get()) if path]))
    left = minus(before.get(), path)
    assume(left or b"..." not in data)  # an end of nothing is no document
    after = before.without(path)
    emptied = path[:-1] and same(after.get(), replaced(left, path[:-1], None))
    assert same(after.get(), left) or emptied
    value = more.draw(VALUES)
    assert same(before.with_value(path, value).get(), replaced(before.get(), path, value))


def entries(value: Any, path: tuple[str | int, ...] = ()) -> Any:
    yield path
    inside: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from entries(item, (*path, key))
