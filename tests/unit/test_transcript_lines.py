"""A file of JSON lines that an agent is writing, or has left broken."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cems.core.learn import lines as module
from cems.core.learn.lines import Lines, first_records
from cems.core.learn.transcript import LONGEST_RECORD, Cursor, OpenCall, TranscriptUnreadable


def read(
    path: Path, cursor: Cursor | None = None, limit: int = 1 << 20, longest: int = 1000
) -> tuple[list[Any], Lines]:
    reading = Lines(path, cursor or Cursor(), limit, longest)
    return [record.get("n", record) for _, record in reading.records()], reading


def line(number: int, **also: Any) -> bytes:
    return json.dumps({"n": number, **also}).encode() + b"\n"


ODD = {
    "a byte order mark": (b"\xef\xbb\xbf" + line(1) + line(2), [1, 2], 0),
    "CRLF": (line(1).replace(b"\n", b"\r\n") + line(2).replace(b"\n", b"\r\n"), [1, 2], 0),
    "empty lines": (b"\n\n" + line(1) + b"  \n\r\n" + line(2), [1, 2], 0),
    "no JSON": (line(1) + b"hello {world}\n[1, 2]\n3\n" + line(2), [1, 2], 3),
    "invalid UTF-8": (line(1) + b'{"n": "\xff\xfe"}\n' + line(2), [1, "\ufffd\ufffd", 2], 0),
    "half a surrogate pair": (line(1) + b'{"n": "\\ud83d"}\n' + line(2), [1, "\ud83d", 2], 0),
    "zeros after a loss of power": (line(1) + b"\0" * 50 + line(2) + b"\0\0\n" + line(3), [1, 2, 3], 0),
    "a line glued to a torn one": (line(1) + b'{"type": "user", "message": {"te' + line(2) + line(3), [1, 2, 3], 0),
    "a torn line with an end": (line(1) + b'{"type": "us\n' + line(2), [1, 2], 1),
    "too deep": (line(1) + b'{"a":' * 150 + b"[" * 200 + b"\n" + line(2), [1, 2], 1),
    "a number too long": (line(1) + b'{"n": 1' + b"1" * 900 + b"}\n" + line(2), None, 0),
    "too long": (line(1) + b'{"n": "' + b"x" * 5000 + b'"}\n' + line(2), [1, 2], 1),
}


@pytest.mark.parametrize(("data", "expected", "skipped"), ODD.values(), ids=ODD)
@pytest.mark.parametrize("limit", [1, 40, 1 << 20])
def test_what_is_odd_costs_only_itself(
    data: bytes, expected: list[Any] | None, skipped: int, limit: int, tmp_path: Path
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(data)
    found, said, cursor = [], 0, Cursor()
    for _ in range(1000):
        part, reading = read(path, cursor, limit)
        found += part
        said += len(reading.skipped)
        cursor = Cursor.load(reading.cursor.dump())
        if not reading.more:
            break
    assert cursor.offset == len(data)
    assert said == skipped
    assert expected is None or found == expected


def test_a_line_that_is_too_long_is_said_and_its_rest_passed_over_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1) + b'{"n": "' + b"x" * 2000)
    found, reading = read(path)
    assert (found, [each.reason for each in reading.skipped], reading.cursor.skipping) == ([1], ["too long"], True)
    assert reading.skipped[0].offset == len(line(1))
    with path.open("ab") as file:
        file.write(b"y" * 3000)
    found, reading = read(path, reading.cursor)
    assert (found, reading.skipped, reading.cursor.skipping) == ([], [], True)
    with path.open("ab") as file:
        file.write(b'"}\n' + line(2))
    found, reading = read(path, reading.cursor)
    assert (found, reading.skipped, reading.cursor.skipping) == ([2], [], False)


@pytest.mark.parametrize("torn", range(1, len(line(2, deep={"a": {"b": [1]}}))))
def test_a_line_that_is_being_written_is_read_once_it_is_whole(torn: int, tmp_path: Path) -> None:
    path, second = tmp_path / "session.jsonl", line(2, deep={"a": {"b": [1]}})
    path.write_bytes(line(1) + second[:torn])
    found, reading = read(path)
    whole = torn == len(second) - 1
    assert found == ([1, 2] if whole else [1])
    assert not reading.skipped
    with path.open("ab") as file:
        file.write(second[torn:] + line(3))
    after, reading = read(path, reading.cursor)
    assert found + after == [1, 2, 3]
    assert not reading.again


def test_a_file_cut_short_or_written_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1) + line(2) + line(3))
    cursor = read(path)[1].cursor
    path.write_bytes(line(1) + line(2))
    found, reading = read(path, cursor)
    assert (found, reading.again) == ([1, 2], True)
    # As long as before, with other lines: nothing but the bytes says so.
    path.write_bytes(line(4) + line(5) + line(6) + line(7))
    found, reading = read(path, cursor)
    assert (found, reading.again) == ([4, 5, 6, 7], True)
    path.write_bytes(line(1) + line(2) + line(8))
    found, reading = read(path, cursor)
    assert (found, reading.again) == ([1, 2, 8], True)


def test_a_file_written_anew_with_the_old_lines_in_front_is_read_on(tmp_path: Path) -> None:
    path, other = tmp_path / "session.jsonl", tmp_path / "new"
    path.write_bytes(line(1) + line(2))
    cursor = read(path)[1].cursor
    other.write_bytes(line(1) + line(2) + line(3))
    other.replace(path)
    found, reading = read(path, cursor)
    assert (found, reading.again) == ([3], False)


def test_a_change_far_from_both_ends_of_what_was_read_is_still_seen_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(map(line, range(2000))))
    cursor = read(path)[1].cursor
    path.write_bytes(b"".join(map(line, range(1500))) + b"".join(map(line, range(3000, 4000))))
    assert read(path, cursor)[1].again


def test_what_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.jsonl", tmp_path):
        with pytest.raises(TranscriptUnreadable, match=path.name):
            read(path)
    assert first_records(tmp_path / "gone.jsonl") == []


def test_the_first_records_are_those_that_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + line(1) + b"no\n" + line(2) + line(3))
    assert [record["n"] for record in first_records(path)] == [1, 2, 3]
    assert [record["n"] for record in first_records(path, most=len(path.read_bytes()) - 2)] == [1, 2]


def test_a_cursor_is_kept_as_text_and_a_broken_one_is_the_beginning() -> None:
    cursor = Cursor(7, "a", "b", True, (OpenCall("c", "Bash", "ls \u00e9\ud83d"),))
    assert cursor.dump().isascii()
    assert Cursor.load(cursor.dump()) == cursor
    for text in (
        "",
        "null",
        "[]",
        "[-1, 1, 1, 1, []]",
        '["x", "", "", false, []]',
        "[1, 2, 3, 4, 5]",
        '[1,"","",0,[["a"]]]',
        "[" * 9999,
    ):
        assert Cursor.load(text) == Cursor()


MEASURE = """
import resource, sys
from pathlib import Path

def peak():
    # On Linux what getrusage says of a new process begins with its parent's.
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

from cems.core.learn.transcript import Cursor, SessionSource
from cems.adapters.claude_code.transcript import READER
source = SessionSource("claude-code", Path(sys.argv[1]), "s")
cursor, count, skipped = Cursor(), 0, 0
while True:
    reading = READER.read(source, cursor)
    cursor, count, skipped = reading.cursor, count + len(reading.events), skipped + len(reading.skipped)
    if not reading.more:
        break
print(count, skipped, cursor.offset, peak())
"""


@pytest.mark.slow
def test_two_gigabytes_are_read_in_a_hundred_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    said = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "x" * 900}}
    many = b"".join(json.dumps({**said, "uuid": f"u{n}"}).encode() + b"\n" for n in range(20_000))
    # The longest line there may be, in characters that take four bytes each in memory.
    wide = json.dumps({**said, "message": {"role": "user", "content": "\U0001f600" + "x" * (LONGEST_RECORD - 2000)}})
    with path.open("wb") as file:
        for hole in (1 << 30, 1 << 30):
            file.write(many + wide.encode() + b"\n" + b'{"hole": "')
            file.seek(hole, 1)
            file.write(b'"}\n')
        file.write(many)
    size = path.stat().st_size
    assert size > 2 << 30
    source = Path(module.__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)],
        env={"PYTHONPATH": str(source), "HOME": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    count, skipped, offset, peak = map(int, done.stdout.split())
    assert (count, skipped, offset) == (60_002, 2, size)
    assert peak < 100 * 1024 * 1024
