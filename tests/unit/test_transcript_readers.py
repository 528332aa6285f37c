"""What the recorded sessions do not have: other speakers, refusals, our own memory's answers, secrets between tags."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.recorded_sessions import PLACES, add, lay, reader

from cems.adapters.telling import MAX_TOOL_TEXT
from cems.core.learn.transcript import Cursor, Event, Skipped

PRIVATE = "<private>SECRET</private>"


def told(agent: str, path: Path, *records: dict[str, Any], home: Path) -> list[Event]:
    """The events of these lines, in a file of the agent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    (source,) = [each for each in reader(agent).sessions(home, {}) if each.path == path]
    return list(reader(agent).read(source, Cursor()).events)


def shown(events: list[Event]) -> list[tuple[str, str, bool]]:
    return [(event.kind, event.text, event.machine) for event in events]


# -- Claude Code


def claude(home: Path, *records: dict[str, Any]) -> list[Event]:
    head = {"sessionId": "s", "cwd": "/w", "timestamp": "2026-11-29T22:54:37.200Z"}
    lines = [{**head, "uuid": f"u{number}", **record} for number, record in enumerate(records)]
    return told("claude_code", home / ".claude/projects/-w/s.jsonl", *lines, home=home)


def user(content: Any, **also: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}, **also}


def assistant(*content: dict[str, Any], **also: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": list(content), **also}}


def test_who_speaks_in_a_session_of_claude_code(tmp_path: Path) -> None:
    queued = {"type": "queued_command", "commandMode": "prompt", "prompt": "use tabs too"}
    events = claude(
        tmp_path,
        user([{"type": "text", "text": "see this"}, {"type": "image", "source": {}}]),
        {"type": "attachment", "attachment": queued},
        {"type": "attachment", "attachment": {**queued, "commandMode": "task-notification", "prompt": "it ended"}},
        user([{"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>"}]),
        user("<system-reminder>x</system-reminder>\nreally me"),
        user([{"type": "text", "text": "[Request interrupted by user]"}]),
        user("<bash-input>ls</bash-input>"),
        user("a skill's body", isMeta=True),
        user("the story so far", isCompactSummary=True),
        user("a reminder I set", origin={"kind": "scheduled"}),
        user("in a subagent", isSidechain=True),
        assistant({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes."}),
        assistant({"type": "text", "text": "No response requested."}, model="<synthetic>"),
        {**assistant({"type": "text", "text": "API Error: 500"}), "isApiErrorMessage": True},
    )
    assert shown(events) == [
        ("person", "see this", False),
        ("person", "use tabs too", False),
        ("person", "it ended", True),
        ("person", "really me", False),
        ("person", "[Request interrupted by user]", True),
        ("person", "<bash-input>ls</bash-input>", True),
        ("person", "a reminder I set", True),
        ("person", "in a subagent", True),
        ("assistant", "Yes.", False),
    ]


def test_how_a_tool_ended_in_claude_code(tmp_path: Path) -> None:
    def run(number: int, command: str) -> dict[str, Any]:
        return assistant({"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}})

    def end(number: int, text: str, *, failed: bool = False, **also: Any) -> dict[str, Any]:
        return user([{"type": "tool_result", "tool_use_id": f"t{number}", "content": text, "is_error": failed}], **also)

    events = claude(
        tmp_path,
        run(1, "make"), end(1, "done"),
        run(2, "make"), end(2, "Exit code 2\nno rule", failed=True),
        run(3, "make"), end(3, "", toolUseResult={"interrupted": True}),
        run(4, "serve"), end(4, "running", toolUseResult={"backgroundTaskId": "b"}),
        run(5, "rm -rf /"), end(5, "no", failed=True, toolDenialKind="user-rejected"),
    )  # fmt: skip
    ended = [(event.ok, event.exit, event.declined) for event in events if event.kind == "tool_result"]
    assert ended == [
        (True, 0, False),
        (False, 2, False),
        (None, None, False),
        (None, None, False),
        (False, None, True),
    ]


@pytest.mark.parametrize(
    ("tool", "given"),
    [("mcp__cems__memory_search", {"query": "x"}), ("Bash", {"command": "cems search tabs"}),
     ("Bash", {"command": "/home/p/.local/bin/cems list"})],
)  # fmt: skip
def test_what_comes_out_of_our_own_memory_is_not_told_again(tool: str, given: dict[str, Any], tmp_path: Path) -> None:
    call = assistant({"type": "tool_use", "id": "t", "name": tool, "input": given})
    result = user([{"type": "tool_result", "tool_use_id": "t", "content": "REMEMBERED"}])
    events = claude(tmp_path, call, result)
    assert [(event.kind, event.tool) for event in events] == [("tool_call", tool), ("tool_result", tool)]
    assert events[1].text == ""
    # Read in two goes, with nothing but the cursor between them.
    (source,) = reader("claude_code").sessions(tmp_path, {})
    first = reader("claude_code").read(source, Cursor(), 1)
    assert first.more
    second = reader("claude_code").read(source, Cursor.load(first.cursor.dump()))
    assert [*first.events, *second.events] == events
    assert second.cursor.calls == ()


def test_a_call_of_a_record_that_was_replaced_is_forgotten(tmp_path: Path) -> None:
    call = assistant({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "make"}})
    claude(tmp_path, call)
    (source,) = reader("claude_code").sessions(tmp_path, {})
    before = reader("claude_code").read(source, Cursor()).cursor
    assert [each.call for each in before.calls] == ["t"]
    claude(tmp_path, user([{"type": "tool_result", "tool_use_id": "t", "content": "done"}]))
    reading = reader("claude_code").read(source, before)
    assert reading.again
    assert [(event.text, event.tool, event.subject) for event in reading.events] == [("done", "", "")]
    source.path.write_text("")
    assert reader("claude_code").read(source, before).cursor == Cursor()


def test_private_spans_are_cut_wherever_they_stand(tmp_path: Path) -> None:
    command = f"echo {'x' * (MAX_TOOL_TEXT - 100)} {'<private>'}SECRET{' SECRET' * 8000}{'</private>'} end"
    events = claude(
        tmp_path,
        user(f"mine {PRIVATE} yours"),
        assistant({"type": "text", "text": f"You said {PRIVATE}."}),
        assistant({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": command, "note": [PRIVATE]}}),
        user([{"type": "tool_result", "tool_use_id": "t", "content": command}]),
    )
    assert len(events) == 4
    for event in events:
        assert "SECRET" not in event.text + event.subject
        assert len(event.text) <= MAX_TOOL_TEXT + 100
    assert events[3].text.endswith("end")


# -- the others


def test_no_person_is_at_codex_when_its_first_line_says_so(tmp_path: Path) -> None:
    for number, (source, machine) in enumerate(
        [("cli", False), ({"subagent": "memory_consolidation"}, True), ({"subagent": {"thread_spawn": {}}}, True)]
    ):
        item = {"type": "UserMessage", "id": "i", "content": [{"type": "text", "text": "hello"}]}
        about = {"id": "t", "session_id": "s", "cwd": "/w", "source": source}
        events = told(
            "codex", tmp_path / f".codex/sessions/2026/11/29/rollout-{number}.jsonl",
            {"type": "session_meta", "payload": about},
            {"type": "event_msg", "payload": {"type": "item_completed", "started_at_ms": 1, "item": item}},
            {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"text": "hello"}]}},
            home=tmp_path,
        )  # fmt: skip
        assert shown(events) == [("person", "hello", machine)]


def test_a_patch_and_a_refused_command_of_codex(tmp_path: Path) -> None:
    patch = {
        "type": "FileChange",
        "id": "a",
        "changes": {"/w/a.py": {"type": "add"}},
        "status": "completed",
        "stdout": "A a.py",
    }
    refused = {"type": "CommandExecution", "id": "b", "command": ["bash", "-lc", "rm x"], "status": "declined"}
    events = told(
        "codex", tmp_path / ".codex/sessions/2026/11/29/rollout-1.jsonl",
        {"type": "session_meta", "payload": {"id": "s", "source": "cli"}},
        *({"type": "event_msg", "payload": {"type": "item_completed", "item": item}} for item in (patch, refused)),
        home=tmp_path,
    )  # fmt: skip
    assert [(e.kind, e.tool, e.subject, e.ok, e.declined) for e in events] == [
        ("tool_call", "Edit", "/w/a.py", None, False),
        ("tool_result", "Edit", "/w/a.py", True, False),
        ("tool_call", "Bash", "rm x", None, False),
        ("tool_result", "Bash", "rm x", False, True),
    ]


def test_a_subagent_of_cursor_and_the_older_place_of_its_files(tmp_path: Path) -> None:
    folder = tmp_path / ".cursor/projects/w/agent-transcripts"
    line = {"role": "user", "message": {"content": [{"type": "text", "text": "hello"}]}}
    assert shown(told("cursor", folder / "old.jsonl", line, home=tmp_path)) == [("person", "hello", False)]
    below = told("cursor", folder / "parent/subagents/child.jsonl", line, home=tmp_path)
    assert shown(below) == [("person", "hello", True)]
    assert below[0].session == "child"


def test_gemini_writes_a_resumed_session_again_and_each_thing_has_its_key(tmp_path: Path) -> None:
    (source,) = lay("gemini", tmp_path)
    lines = [json.loads(line) for line in source.path.read_text("utf-8").splitlines()]
    messages = [line for line in lines if "type" in line]
    with source.path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(lines[0]) + "\n" + json.dumps({"$set": {"messages": messages}}) + "\n")
    events = reader("gemini").read(source, Cursor()).events
    assert len({event.key for event in events}) == len(events) / 2


def test_what_gemini_shows_the_model_is_not_what_was_typed(tmp_path: Path) -> None:
    said = {"content": [{"text": "read @a.txt"}, {"text": "content of the file"}], "displayContent": "read @a.txt"}
    events = told(
        "gemini", tmp_path / ".gemini/tmp/p/chats/session-1.jsonl",
        {"sessionId": "s", "projectHash": "h", "kind": "subagent"},
        {"id": "1", "type": "user", **said},
        {"id": "2", "type": "user", "content": [{"text": "<hook_context>&lt;cems-memory&gt;- x&lt;/cems-memory&gt;</hook_context>"}]},
        {"id": "3", "type": "info", "content": "Request cancelled."},
        home=tmp_path,
    )  # fmt: skip
    assert shown(events) == [("person", "read @a.txt", True)]


def test_what_extensions_of_pi_put_in_is_not_said_and_a_typed_command_is_a_tool_s(tmp_path: Path) -> None:
    ran = {"role": "bashExecution", "command": "make", "output": "no rule", "exitCode": 2}
    events = told(
        "pi", tmp_path / ".pi/agent/sessions/--w--/1.jsonl",
        {"type": "session", "id": "s", "cwd": "/w"},
        {"type": "custom_message", "customType": "cems", "content": "- x", "id": "1"},
        {"type": "message", "id": "2", "message": {"role": "custom", "content": "- x"}},
        {"type": "compaction", "id": "3", "summary": "the story so far"},
        {"type": "message", "id": "4", "message": ran},
        {"type": "message", "id": "5", "message": {"role": "user", "content": "hello"}},
        home=tmp_path,
    )  # fmt: skip
    assert [(e.kind, e.subject, e.ok, e.exit) for e in events] == [
        ("tool_call", "make", None, None),
        ("tool_result", "make", False, 2),
        ("person", "", None, None),
    ]


def test_what_goose_hides_from_the_person_is_not_said(tmp_path: Path) -> None:
    (source,) = lay("goose", tmp_path)
    with closing(sqlite3.connect(source.path, isolation_level=None)) as connection:
        add(
            connection,
            "sessions",
            {"id": "sub", "working_dir": "/w", "session_type": "sub_agent", "parent_session_id": "20261129_1"},
        )
        for number, (session, about) in enumerate(
            [
                ("20261129_1", {"userVisible": False}),
                ("20261129_1", {"userVisible": True, "agentVisible": False}),
                ("sub", {}),
            ]
        ):
            add(connection, "messages", {
                "message_id": f"m{number}", "session_id": session, "role": "user", "created_timestamp": 1795992800 + number,
                "content_json": json.dumps([{"type": "text", "text": f"said {number}"}]), "metadata_json": json.dumps(about),
            })  # fmt: skip
    found = {each.session: each for each in reader("goose").sessions(tmp_path, {}, since=1795992801)}
    assert list(found) == ["goose:20261129_1", "goose:sub"]
    texts = [event.text for event in reader("goose").read(source, Cursor()).events if event.kind == "person"]
    assert texts == ["say hi", "said 1"]
    assert (found["goose:sub"].machine, found["goose:sub"].parent) == (True, "goose:20261129_1")
    assert shown(list(reader("goose").read(found["goose:sub"], Cursor()).events)) == [("person", "said 2", True)]


@pytest.mark.parametrize("agent", ["goose", "opencode"])
def test_a_row_that_is_too_long_or_broken_is_passed_over_and_said(agent: str, tmp_path: Path) -> None:
    (source,) = lay(agent, tmp_path)
    table, column = ("messages", "content_json") if agent == "goose" else ("part", "data")
    with closing(sqlite3.connect(tmp_path / next(iter(PLACES[agent].values())), isolation_level=None)) as connection:
        connection.execute(f"UPDATE {table} SET {column} = hex(zeroblob(4000000)) WHERE rowid = 3")  # noqa: S608
        connection.execute(f"UPDATE {table} SET {column} = '{{torn' WHERE rowid = 4")  # noqa: S608
    reading = reader(agent).read(source, Cursor())
    assert reading.skipped == (Skipped(3, 8_000_000, "too long"), Skipped(4, 5, "unreadable"))
    assert (reading.events[-1].text, reading.more) == ("OK-FROM-FAKE", False)


def test_a_subagent_of_opencode_and_a_summary(tmp_path: Path) -> None:
    (source,) = lay("opencode", tmp_path)
    with closing(sqlite3.connect(source.path, isolation_level=None)) as connection:
        about = {
            "id": "sub",
            "project_id": "p",
            "parent_id": source.session,
            "slug": "s",
            "directory": "/w",
            "title": "t",
        }
        connection.execute("PRAGMA foreign_keys = OFF")
        add(connection, "session", {**about, "version": "1", "time_created": 1, "time_updated": 1})
        for number, message in enumerate(
            ({"role": "user"}, {"role": "assistant", "summary": True, "time": {"completed": 2}})
        ):
            row = {"id": f"m{number}", "session_id": "sub", "time_created": 1, "time_updated": 1}
            add(connection, "message", {**row, "data": json.dumps(message)})
            text = json.dumps({"type": "text", "text": f"said {number}"})
            add(connection, "part", {**row, "id": f"p{number}", "message_id": f"m{number}", "data": text})
    (below,) = [each for each in reader("opencode").sessions(tmp_path, {}) if each.session == "sub"]
    assert (below.machine, below.parent) == (True, source.session)
    assert shown(list(reader("opencode").read(below, Cursor()).events)) == [("person", "said 0", True)]
