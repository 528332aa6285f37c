"""A file of an agent's takes our entries and gives them back, in any of the formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from cems.adapters.base import AgentRecord, ConfigUnreadable, FileEdit, FileRecord, digest
from cems.adapters.document import JSON, TOML, YAML, Document, Form

FILES = {
    "JSON": (
        JSON,
        [b"{}\n", b'{"servers": {"a": {"x": 1}},\n "list": []}', b'{\n\t"list": [\n\t\t1\n\t]\n}\n', b"", b"\n"],
    ),
    "TOML": (
        TOML,
        [b"", b" \n", b"# mine", b"list = [1]\n[servers.a]\nx = 1\n", b"\xef\xbb\xbf[servers]\r\n[z]\r\ny = 2"],
    ),
    "YAML": (
        YAML,
        [b"", b" \n", b"# mine", b"list:\n- 1\nservers:\n  a:\n    x: 1\n", b"servers: # none\r\nz: {list: []}"],
    ),
}
CASES = [pytest.param(form, data, id=f"{name} {data!r}") for name, (form, texts) in FILES.items() for data in texts]
CASES += [pytest.param(form, None, id=f"{name} absent") for name, (form, _) in FILES.items()]


def put_in(path: Path, form: Form) -> FileEdit:
    document = Document(path, form)
    document.add_member("servers", "cems", value={"command": "x", "env": {"A": "b"}})
    document.add_item("deep", "er", "list", value="ours")
    document.add_item("list", value="ours too")
    edit = document.edit("put in")
    assert edit is not None
    return edit


def take_out(path: Path, form: Form, record: AgentRecord) -> FileEdit | None:
    document = Document(path, form)
    document.remove("servers", "cems")
    document.remove("deep", "er", "list", 0)
    document.remove("list", len(document.list_at("list")) - 1)
    document.remove_emptied(record, ())
    return document.removal(record)


@pytest.mark.parametrize(("form", "data"), CASES)
def test_entries_come_and_go_and_leave_the_same_bytes(form: Form, data: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "config"
    if data is not None:
        path.write_bytes(data)
    edit = put_in(path, form)
    assert edit.before == data
    assert edit.after is not None
    path.write_bytes(edit.after)
    document = Document(path, form)
    assert document.get("servers", "cems", "env") == {"A": "b"}
    assert document.get("deep", "er", "list") == ["ours"]
    assert document.list_at("list")[-1] == "ours too"
    original = "" if data is None else digest(data)
    files = (FileRecord(path, digest(edit.after), original, edit.containers),)
    back = take_out(path, form, AgentRecord("any", tmp_path, files=files))
    assert back is not None
    assert back.after == data


@pytest.mark.parametrize(
    ("form", "data", "line"),
    [
        (JSON, b'{\n"servers": 1}', 2),
        (TOML, b"a = 1\nservers = 1\n", 2),
        (YAML, b"a: 1\nb: 2\nservers: []\n", 3),
        (TOML, b"a = 1\n[servers\n", 2),
        (YAML, b"a: 1\n b: 2\n", 2),
        (YAML, b"x: &x {a: 1}\nservers: *x\n", 2),
    ],
)
def test_a_file_that_cannot_take_them_is_refused_with_its_line(
    form: Form, data: bytes, line: int, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_bytes(data)
    with pytest.raises(ConfigUnreadable) as refused:
        put_in(path, form)
    assert (refused.value.path, refused.value.line) == (path, line)


def test_a_file_we_made_stays_when_the_person_wrote_a_comment_into_it(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    edit = put_in(path, TOML)
    assert edit.after is not None
    path.write_bytes(edit.after + b"# mine\n")
    files = (FileRecord(path, digest(edit.after), "", edit.containers),)
    back = take_out(path, TOML, AgentRecord("any", tmp_path, files=files))
    assert back is not None
    assert back.after is not None
    assert b"# mine" in back.after
