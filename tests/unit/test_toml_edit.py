"""Editing TOML as text leaves every other byte alone."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cems.adapters.config_text import NotReadable, minus, plus, same
from cems.adapters.toml_edit import TomlText
from cems.adapters.toml_spell import dotted, spell

# A busy machine is no reason to fail.
UNHURRIED = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])

SERVER: dict[str, Any] = {
    "command": "/home/me/.cems/bin/cems-mcp",
    "args": ["--agent", 'a "b" \\ c'],
    "startup_timeout_sec": 10,
    "enabled": True,
    "ratio": 0.5,
    "env": {"CEMS_HOME": "/home/me/.cems", "x.y": "é\t\x7f"},
    "tools": {"memory_forget": {"approval_mode": "prompt"}},
}
UPGRADED = {**SERVER, "args": [], "env": {}, "tools": {"memory_forget": {"approval_mode": "approve"}, "b": {"c": {}}}}
PLACE = ("mcp_servers", "cems")

REAL = {
    "empty": "",
    "one empty line": "\n",
    "spaces, no line end": "  ",
    "a comment, no line end": "# mine",
    "settings, no line end": 'model = "gpt-5"  # the good one\nmodel_provider = "x"',
    "byte order mark": '\ufeffmodel = "gpt-5"\n',
    "only a byte order mark": "\ufeff",
    "CRLF": '# mine\r\nmodel = "gpt-5"\r\n\r\n[mcp_servers.mem]\r\ncommand = "python3"\r\n',
    "CRLF, no line end": 'a = 1\r\n[b]\r\nc = """x\r\ny"""',
    "other servers, comments between": (
        'model = "o"\n\n# docs\n[mcp_servers.docs]\ncommand = "npx"  # why\nargs = [\n  "-y",  # yes\n  "docs",\n]\n'
        '# about the next\n\n[mcp_servers.docs.env]\nK = "V"\n\n\n# end\n'
    ),
    "an empty parent": "[mcp_servers]\n\n[tui]\nnotifications = true\n",
    "inline servers": 'mcp_servers = { mem = { command = "python3", args = ["-m", "mem"] } } # all\n[tui]\nx = 1\n',
    "inline and empty": "mcp_servers = {}",
    "inline and empty, spaced": "mcp_servers = { }\n",
    "dotted keys": 'mcp_servers.mem.command = "python3"\nmcp_servers."mem".args = []\n[tui]\n',
    "dotted below a header": '[mcp_servers]\nmem.command = "python3"\nmem.env = {A = "b"}\n[tui]\n',
    "tables out of order": '[mcp_servers.a]\ncommand = "a"\n[tui]\nx = 1\n[mcp_servers.b]\ncommand = "b"\n[mcp_servers]\n',
    "arrays of tables": (
        '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = "x"\n\n[[hooks.Stop]]\nmatcher = ""\n'
        '[projects."/home/me/a.b"]\ntrust_level = "trusted"\n[hooks.state."/h.json:stop:0:0"]\ntrusted_hash = "sha256:0"\n'
    ),
    "text that looks like TOML": (
        'a = \'\'\'\n[mcp_servers.cems]\ncommand = 1 # """\n\'\'\'\'\nb = """\\\n  x \\""" ]\n[z]"""""\n'
        'c = [ ["]", \'#\'], # ]\n  { d = "}" } ]\nd = 1979-05-27 07:32:00 # date\n[e.\'f.g\'."h\\u0022]"]\ni = inf\n'
    ),
    "blank lines with spaces": "a = 1\n  \n\t\n[b]\n  c = 2\n \n   ",
}


@pytest.mark.parametrize("text", REAL.values(), ids=REAL.keys())
@pytest.mark.parametrize("value", [SERVER, UPGRADED, {}, {"only": {"below": {"x": 1}}}])
def test_a_table_put_in_and_taken_out_leaves_the_same_bytes(text: str, value: dict[str, Any]) -> None:
    before = TomlText.parse(text.encode())
    after = before.with_member(PLACE[:-1], PLACE[-1], value)
    assert after.get(PLACE) == value
    assert same(
        tomllib.loads(bytes(after).decode().removeprefix("\ufeff")), plus(before.get(), PLACE[:-1], "cems", value)
    )
    assert bytes(after.without(PLACE)) == text.encode()


@pytest.mark.parametrize("text", REAL.values(), ids=REAL.keys())
@pytest.mark.parametrize("path", [(), ("mcp_servers",), ("tui",), ("projects", "/home/me/a.b"), ("new", "one")])
@pytest.mark.parametrize("value", ["x", ["a", {"b": [1]}], 7])
def test_a_value_put_in_and_taken_out_leaves_the_same_bytes(text: str, path: tuple[str, ...], value: Any) -> None:
    before = TomlText.parse(text.encode())
    after = before.with_member(path, "ours", value)
    assert after.get((*path, "ours")) == value
    assert bytes(after.without((*path, "ours"))) == text.encode()


@pytest.mark.parametrize("text", REAL.values(), ids=REAL.keys())
def test_what_was_put_in_one_after_the_other_goes_in_any_order(text: str) -> None:
    full = TomlText.parse(text.encode()).with_member((), "mcp_servers_made", {})
    full = full.with_member(("mcp_servers_made",), "cems", SERVER)
    full = full.with_member(("profiles",), "b", {"c": 1}).with_member(("mcp_servers_made", "cems", "tools"), "d", {})
    first = full.without(("mcp_servers_made", "cems")).without(("mcp_servers_made",)).without(("profiles", "b"))
    assert bytes(first) == text.encode()
    second = full.without(("profiles", "b")).without(("mcp_servers_made", "cems")).without(("mcp_servers_made",))
    assert bytes(second) == text.encode()


def test_the_table_looks_as_the_agent_would_write_it() -> None:
    after = TomlText('model = "x"\r\n').with_member(("mcp_servers",), "cems", SERVER)
    assert bytes(after).decode().split("\r\n") == [
        'model = "x"',
        "",
        "[mcp_servers.cems]",
        'command = "/home/me/.cems/bin/cems-mcp"',
        'args = ["--agent", "a \\"b\\" \\\\ c"]',
        "startup_timeout_sec = 10",
        "enabled = true",
        "ratio = 0.5",
        "",
        "[mcp_servers.cems.env]",
        'CEMS_HOME = "/home/me/.cems"',
        '"x.y" = "é\\t\\u007f"',
        "",
        "[mcp_servers.cems.tools.memory_forget]",
        'approval_mode = "prompt"',
        "",
    ]


def test_a_line_goes_into_the_table_it_belongs_to() -> None:
    text = TomlText("# top\na = 1 # x\n\n[t]\nb.c = 2\n# end of t\n\n[u]\n")
    assert bytes(text.with_member((), "n", 1)) == b"# top\na = 1 # x\nn = 1\n\n[t]\nb.c = 2\n# end of t\n\n[u]\n"
    assert bytes(text.with_member(("t",), "n", 1)) == b"# top\na = 1 # x\n\n[t]\nb.c = 2\nn = 1\n# end of t\n\n[u]\n"
    assert (
        bytes(text.with_member(("t", "b"), "n", 1)) == b"# top\na = 1 # x\n\n[t]\nb.c = 2\nb.n = 1\n# end of t\n\n[u]\n"
    )
    assert bytes(text.with_member(("u",), "n", [])) == b"# top\na = 1 # x\n\n[t]\nb.c = 2\n# end of t\n\n[u]\nn = []\n"


def test_items_join_lists_and_arrays_of_tables() -> None:
    data = b'notify = [\n  "a", # one\n  "b" # two\n]\nempty = []\n[[h.Stop]]\nx = 1\n# end'
    text = TomlText.parse(data)
    for path, item in ((("notify",), "c"), (("empty",), {"a": [1]}), (("h", "Stop"), {"y": 2, "hooks": {"z": "w"}})):
        after = text.with_item(path, item)
        assert after.get(path) == [*text.get(path), item]
        assert bytes(after.without((*path, len(text.get(path))))) == data
    gone = text.without(("notify", 0))
    assert gone.get(("notify",)) == ["b"]
    assert b"# one" in bytes(gone)
    assert bytes(text.without(("h", "Stop", 0))) == b'notify = [\n  "a", # one\n  "b" # two\n]\nempty = []\n# end'


def test_a_value_is_replaced_where_it_stands_and_a_table_at_the_end() -> None:
    data = b'a = {b = [1, 2], c.d = 3} # x\n[[t]]\n[mcp_servers.cems]\ncommand = "x" # ours\n[mcp_servers.cems.env]\n\n[z]\n'
    text = TomlText.parse(data)
    assert bytes(text.with_value(("a", "b", 0), "n")) == data.replace(b"[1", b'["n"')
    assert bytes(text.with_value(("a", "c", "d"), [])) == data.replace(b"= 3", b"= []")
    assert bytes(text.with_value(("mcp_servers", "cems", "command"), "y")) == data.replace(b'"x"', b'"y"')
    assert bytes(text.with_value(PLACE, {"command": "y"})) == (
        b'a = {b = [1, 2], c.d = 3} # x\n[[t]]\n\n[z]\n\n[mcp_servers.cems]\ncommand = "y"\n'
    )
    assert text.with_value(("t", 0), {"u": 1}).get(("t",)) == [{"u": 1}]


class _Careless(TomlText):
    """Puts in something that is not asked for."""

    stray = ""

    def _at_the_end(self, lines: list[str]) -> str:
        return super()._at_the_end(lines) + self.stray


@pytest.mark.parametrize("stray", ["[stray]\n", "\n", "= 1"])
def test_an_edit_that_would_change_anything_else_is_refused(stray: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _Careless("a = 1\n").with_member((), "cems", {"x": 1}).get(("cems",)) == {"x": 1}
    monkeypatch.setattr(_Careless, "stray", stray)
    with pytest.raises(NotReadable, match="cannot be put in"):
        _Careless("a = 1\n").with_member((), "cems", {"x": 1})


def test_our_table_goes_from_the_middle_with_its_parts_from_everywhere() -> None:
    data = (
        b'a = 1\n\n# about ours\n[mcp_servers.cems]\ncommand = "x"\n# not ours any more?\n\n[tui]\nb = 2\n'
        b'[mcp_servers.cems.env]\nA = "b" # c\n# about z\n[z]\nd = 3'
    )
    after = TomlText.parse(data).without(PLACE)
    assert bytes(after) == b"a = 1\n\n# about ours\n# not ours any more?\n\n[tui]\nb = 2\n# about z\n[z]\nd = 3"


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"a = 1\n[b\n", 2, "not valid TOML"),
        (b"a = 1\na = 2\n", 2, "not valid TOML: cannot overwrite a value"),
        (b"[a]\n\n[b]\n[a]\n", 4, "not valid TOML: cannot declare"),
        (b"a = 1\nb = \n", 2, "not valid TOML"),
        (b"a = 1\nb = [1,\n\n", 2, "not valid TOML"),
        (b"a = 1\n\nb = \xff\n", 3, "not UTF-8"),
        ("a = 1".encode("utf-16"), 1, "UTF-16"),
        (b"a = " + b"[" * 50_000, 1, "too deeply"),
        (b"a = " + b"9" * 5000, 1, "not readable"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(data: bytes, line: int, reason: str) -> None:
    with pytest.raises(NotReadable) as refused:
        TomlText.parse(data)
    assert refused.value.line == line
    assert reason in refused.value.reason


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a = 1\nmcp_servers = 3\n", 2, "`mcp_servers` should be a table, it is a number"),
        ("a = 1\n\n[[mcp_servers]]\n", 3, "`mcp_servers` should be a table, it is a list"),
        ("\nmcp_servers.x = 1\nmcp_servers.cems = 2\n", 3, "`mcp_servers/cems` cannot be put in"),
        ('[a]\n[mcp_servers.cems]\ncommand = ""\n', 2, "`mcp_servers/cems` cannot be put in"),
    ],
)
def test_a_file_that_cannot_take_the_table_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(NotReadable) as refused:
        TomlText(text).with_member(PLACE[:-1], PLACE[-1], SERVER)
    assert refused.value.line == line
    assert reason in refused.value.reason


def test_each_value_says_its_line() -> None:
    text = TomlText("\n[a]\nb.c = 1\n\n[d.e]\nf = { g = 2 }\n[[h]]\n[[h]]\ni = 3\n")
    lines = {
        ("a",): 2,
        ("a", "b"): 3,
        ("a", "b", "c"): 3,
        ("d",): 5,
        ("d", "e", "f", "g"): 6,
        ("h", 1): 8,
        ("h", 1, "i"): 9,
    }
    assert {path: text.line(path) for path in lines} == lines


# -- any file

KEYS = st.text("abcXYZ019-_", min_size=1, max_size=4) | st.text("ab .\"'\\#=[]{}é日😀", min_size=1, max_size=4)
STRINGS = st.text("ab \"'\\#=[]{}\n\té😀,", max_size=8)
SCALARS = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.sampled_from([1.5, -0.0, 1e300]), STRINGS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=3)
COMMENTS = st.sampled_from(["", "", "# c", "# [mcp_servers.cems]", "  # \"\"\" '''", "\t", "# x = { [", ""])
TRAILING = st.sampled_from(["", "", "  # why", " # ]}\"'", "\t"])


def literal(draw: st.DrawFn, value: str) -> str:
    """`value` in one of TOML's four kinds of quotes."""
    kind = draw(st.sampled_from(["basic", "literal", "many", "many literal"]))
    if kind == "literal" and not set(value) & set("'\n"):
        return f"'{value}'"
    if kind == "many literal" and "'" not in value:
        return f"'''\n{value}'''"
    if kind == "many":
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"""{chr(10) if escaped.startswith(chr(10)) else ""}{escaped}"""'
    return spell(value)


def inline(draw: st.DrawFn, value: Any) -> str:
    if isinstance(value, str):
        return literal(draw, value)
    if isinstance(value, list):
        gap = draw(st.sampled_from(["", " ", "\n  ", " # c ]\n\t"]))
        rows = [inline(draw, item) for item in value]
        tail = draw(st.sampled_from(["", "," if rows else "", "\n", "# ]\n"]))
        return f"[{gap}{f'{gap},{gap}'.join(rows)}{tail}]"
    if isinstance(value, dict):
        gap = draw(st.sampled_from(["", " "]))
        return f"{{{gap}{f'{gap},{gap}'.join(f'{dotted([k])}{gap}={gap}{inline(draw, v)}' for k, v in value.items())}{gap}}}"
    return spell(value)


def rows(draw: st.DrawFn, table: dict[str, Any], names: tuple[str, ...], wanted: list[str]) -> list[str]:
    """The lines of a table in any of TOML's spellings; tables that have a header of their own go to `wanted`."""
    lines = []
    for key, value in table.items():
        lines += [line for line in [draw(COMMENTS)] if line]
        how = draw(st.sampled_from(["inline", "dotted", "header"])) if isinstance(value, dict) and value else "inline"
        if how == "header":
            header = f"[{dotted((*names, key))}]{draw(TRAILING)}"
            wanted.append("\n".join([header, *rows(draw, value, (*names, key), wanted), draw(COMMENTS)]))
        elif how == "dotted":
            lines += [f"{dotted((key, inner))} = {inline(draw, item)}{draw(TRAILING)}" for inner, item in value.items()]
        elif (
            isinstance(value, list) and value and all(isinstance(item, dict) for item in value) and draw(st.booleans())
        ):
            blocks = ["\n".join([f"[[{dotted((*names, key))}]]", *rows(draw, v, (), [])]) for v in value if flat(v)]
            wanted.append("\n".join(blocks))
        else:
            lines.append(f"{draw(st.sampled_from(['', '  ']))}{dotted([key])} = {inline(draw, value)}{draw(TRAILING)}")
    return lines


def flat(table: dict[str, Any]) -> bool:
    return not any(isinstance(value, dict) and value for value in table.values())


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    servers = st.dictionaries(KEYS, TABLES, max_size=2)
    table = draw(TABLES)
    if draw(st.booleans()):
        table["mcp_servers"] = draw(servers)
    table.pop("ours", None)
    blocks: list[str] = []
    lines = rows(draw, table, (), blocks)
    text = "\n".join([*lines, *draw(st.permutations(blocks))])
    text += draw(st.sampled_from(["", "\n", "\n\n", "\n# end", "\n  "]))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    data = (draw(st.sampled_from(["", "\ufeff"])) + text).encode()
    try:
        before = TomlText.parse(data)
    except NotReadable:  # the spelling drawn is not TOML, such as a table defined twice
        assume(False)
    servers_now = before.get(("mcp_servers",), {})
    assume(isinstance(servers_now, dict) and "cems" not in servers_now)
    return data


ENTRIES = st.sampled_from([SERVER, UPGRADED]) | TABLES


@UNHURRIED
@given(documents(), ENTRIES, st.booleans())
def test_put_in_any_file_and_taken_out_leaves_the_same_bytes(data: bytes, value: dict[str, Any], hold: bool) -> None:
    before = TomlText.parse(data)
    made = hold and not before.has(("mcp_servers",))
    after = before.with_member((), "mcp_servers", {}) if made else before
    after = after.with_member(("mcp_servers",), "cems", value)
    assert same(after.get(), plus(before.get(), ("mcp_servers",), "cems", value))
    back = after.without(PLACE)
    assert bytes(back.without(("mcp_servers",)) if made else back) == data


@UNHURRIED
@given(documents(), VALUES, st.data())
def test_a_value_put_in_any_table_and_taken_out_leaves_the_same_bytes(
    data: bytes, value: Any, more: st.DataObject
) -> None:
    before = TomlText.parse(data)
    path = more.draw(st.sampled_from(list(tables(before.get()))))
    assume(not before.has((*path, "ours")))
    after = before.with_member(path, "ours", value)
    assert same(after.get(), plus(before.get(), path, "ours", value))
    assert bytes(after.without((*path, "ours"))) == data


def tables(value: Any, path: tuple[str, ...] = ()) -> Any:
    yield path
    for key, inside in value.items():
        if isinstance(inside, dict):
            yield from tables(inside, (*path, key))


@UNHURRIED
@given(documents(), ENTRIES, ENTRIES)
def test_the_agent_rewrites_its_file_then_upgrade_then_out(
    data: bytes, value: dict[str, Any], newer: dict[str, Any]
) -> None:
    before = TomlText.parse(data)
    first = before.with_member(("mcp_servers",), "cems", value)
    rewritten = TomlText.parse(tomlkit.dumps(first.get()).encode())
    assume(same(rewritten.get(), first.get()))  # tomlkit does not spell every table so that it reads it back
    upgraded = rewritten.without(PLACE).with_member(("mcp_servers",), "cems", newer)
    assert same(upgraded.get(), plus(before.get(), ("mcp_servers",), "cems", newer))
    back = upgraded.without(PLACE)
    # A parent without a header of its own goes with its last table, and the agent may have taken the header away.
    empty = ("mcp_servers",)
    left, right = (text.without(empty) if text.is_empty(empty) else text for text in (back, before))
    assert same(left.get(), right.get())


@UNHURRIED
@given(documents(), st.data())
def test_removing_any_entry_leaves_the_others_equal(data: bytes, more: st.DataObject) -> None:
    before = TomlText.parse(data)
    assume(before.get())
    path = more.draw(st.sampled_from([path for path in entries(before.get()) if path]))
    after = before.without(path)
    left = minus(before.get(), path)
    while not same(after.get(), left):
        path = path[:-1]
        assert path
        left = minus(left, path)


def entries(value: Any, path: tuple[str | int, ...] = ()) -> Any:
    yield path
    inside: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from entries(item, (*path, key))
