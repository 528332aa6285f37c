"""What each agent's reader makes of a session that its real program recorded (Cursor's is written in its documented form)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.recorded_sessions import AGENTS, CLAUDE_COMPACTED, CLAUDE_SESSION, lay, reader

from cems.core.learn.transcript import Cursor, Event, SessionSource


def told(event: Event) -> str:
    """An event in a line: who, tool and subject, text, how it ended."""
    ended = "" if event.ok is None else " ok" if event.ok else " failed"
    ended += "" if event.exit is None else f" {event.exit}"
    ended += " declined" if event.declined else ""
    who = f"{event.kind}{' (machine)' if event.machine else ''}"
    tool = f" {event.tool} <{event.subject}>" if event.tool else ""
    return f"{who}{tool}{ended}: {event.text}"


def session(agent: str, home: Path, name: str = "") -> tuple[SessionSource, list[Event]]:
    found = [source for source in lay(agent, home) if not name or source.path.stem == name]
    assert len(found) == 1
    return found[0], list(reader(agent).read(found[0], Cursor()).events)


def test_claude_code(tmp_path: Path) -> None:
    source, events = session("claude_code", tmp_path, CLAUDE_SESSION)
    assert (source.session, source.cwd, source.machine) == (CLAUDE_SESSION, "/home/dev/code/t2/proj_a.b c", False)
    lines = [told(event) for event in events]
    launched = next(line for line in lines if "Async agent launched" in line)
    notice = next(line for line in lines if line.startswith("person (machine): <task-notification>"))
    assert lines == [
        "person: do many things",
        "assistant: run",
        'tool_call Bash <echo hi>: {"command":"echo hi","description":"x"}',
        'tool_call Bash <exit 3>: {"command":"exit 3","description":"x"}',
        "tool_result Bash <echo hi> ok 0: hi",
        "tool_result Bash <exit 3> failed 3: Exit code 3",
        'tool_call mcp__mem__recall <{"query":"q1"}>: {"query":"q1"}',
        'tool_result mcp__mem__recall <{"query":"q1"}> ok: MCP-RESULT-MARKER {"query": "q1"}',
        'tool_call Agent <{"description":"sub","prompt":"SUBAGENT-PROMPT do it","subagent_type":"general-purpose"}>: '
        '{"description":"sub","prompt":"SUBAGENT-PROMPT do it","subagent_type":"general-purpose"}',
        launched,
        notice,
        'tool_call Skill <{"skill":"recall","args":"alpha beta"}>: {"skill":"recall","args":"alpha beta"}',
        'tool_result Skill <{"skill":"recall","args":"alpha beta"}> ok: Launching skill: recall',
        'tool_call Bash <rm -rf /home/dev/code>: {"command":"rm -rf /home/dev/code","description":"x"}',
        "tool_result Bash <rm -rf /home/dev/code> failed declined: rm in '/home/dev/code' needs approval. The path is outside the "
        "working directories for this session ('/home/dev/code/t2/proj_a.b c'). Allowing runs the command as written.",
        "assistant: FINAL-ANSWER",
    ]
    assert (events[0].at, events[0].turn) == (1795992612.867, "5b04a4f1-2d96-4e7d-96af-78a17dbc7b65")
    assert {event.cwd for event in events} == {"/home/dev/code/t2/proj_a.b c"}


def test_a_compacted_session_of_claude_code_has_neither_its_summary_nor_what_hooks_gave(tmp_path: Path) -> None:
    _, events = session("claude_code", tmp_path, CLAUDE_COMPACTED)
    lines = [told(event) for event in events]
    assert [line.partition("\n")[0] for line in lines] == [
        "person: first prompt",
        "assistant: FAKE-OK",
        "person: second prompt",
        "assistant: FAKE-OK",
        "person: third prompt",
        "assistant: FAKE-OK",
        "person (machine): <command-name>/compact</command-name>",
        "person (machine): <local-command-stdout>Compacted (ctrl+o to see full summary)",
        "person: fifth prompt",
        "assistant: FAKE-OK",
    ]
    assert not [line for line in lines if "MARK-" in line]


def test_a_subagent_of_claude_code_is_no_person(tmp_path: Path) -> None:
    source, events = session("claude_code", tmp_path, "agent-a16f554cfbffac18f")
    assert (source.session, source.machine, source.parent) == (CLAUDE_SESSION, True, CLAUDE_SESSION)
    assert [told(event) for event in events] == [
        "person (machine): SUBAGENT-PROMPT do it",
        "assistant (machine): SUB-DONE",
    ]


def test_codex(tmp_path: Path) -> None:
    source, events = session("codex", tmp_path)
    assert (source.session, source.cwd) == ("01a22980-2d47-7b63-9a30-6a6d19412a9c", "/home/dev/code/proj")
    assert [told(event) for event in events] == [
        "person: say hi",
        'tool_call Bash <echo hello-from-tool>: {"command":["/bin/bash","-lc","echo hello-from-tool"]}',
        "tool_result Bash <echo hello-from-tool> ok 0: hello-from-tool",
        'tool_call mcp__mem__recall <{"query":"abc"}>: {"query":"abc"}',
        'tool_result mcp__mem__recall <{"query":"abc"}> ok: memory: MARK-MCP-99ee args={"query": "abc"}',
        "assistant: OK-FROM-FAKE",
    ]
    assert (events[0].at, events[0].turn) == (1795992595.922, "01a22980-2d64-7522-8388-8dac766e1170")
    assert events[1].cwd == "/home/dev/code/proj"


def test_cursor(tmp_path: Path) -> None:
    source, events = session("cursor", tmp_path)
    assert (source.session, source.cwd) == ("c0ffee", "")
    assert [told(event) for event in events] == [
        "person: run the tests",
        "assistant: I run them.",
        'tool_call Bash <pytest -q>: {"command":"pytest -q"}',
        "assistant: All 12 pass.",
        "person: thanks, always use pytest -q here",
    ]


def test_copilot(tmp_path: Path) -> None:
    source, events = session("copilot", tmp_path)
    assert (source.session, source.cwd) == (
        "71acc6af-0f4f-4b65-bf59-c1f878e94447",
        "/home/dev/code/c2_camel/proj_a.b c",
    )
    task = '{"description":"sub","prompt":"SUBAGENT-PROMPT do it","agent_type":"task","name":"sub1"}'
    assert [told(event) for event in events] == [
        "person: do many things",
        "assistant: run",
        'tool_call Bash <echo hi>: {"command":"echo hi","description":"x","mode":"sync"}',
        'tool_call Bash <exit 3>: {"command":"exit 3","description":"x","mode":"sync"}',
        "tool_result Bash <echo hi> ok 0: hi\n<shellId: 1 completed with exit code 0>",
        "tool_result Bash <exit 3> failed 3: <shellId: 0 completed with exit code 3>",
        'tool_call Read </nonexistent/zz>: {"path":"/nonexistent/zz"}',
        "tool_result Read </nonexistent/zz> failed declined: Permission denied because no interactive user response was "
        "available. Retry in an interactive session so the user can approve it, or try an alternative that does not require "
        "this permission.",
        'tool_call mcp__mem__recall <{"query":"q1"}>: {"query":"q1"}',
        'tool_result mcp__mem__recall <{"query":"q1"}> ok: MCP-RESULT-MARKER {"query": "q1"}',
        f"tool_call Agent <{task}>: {task}",
        "person (machine): SUBAGENT-PROMPT do it",
        "assistant (machine): SUB-DONE",
        f"tool_result Agent <{task}> ok: SUB-DONE",
        "assistant: FINAL-ANSWER",
    ]


def test_pi(tmp_path: Path) -> None:
    source, events = session("pi", tmp_path)
    assert (source.session, source.cwd) == ("01a22985-d658-71f9-94fa-f1bce803cca6", "/home/dev/code/proj")
    # The marks in the results are from an extension that adds them; the message of an extension is not there.
    assert [told(event) for event in events] == [
        "person: say hi",
        'tool_call Bash <echo hello-pi>: {"command":"echo hello-pi","description":"fake"}',
        "tool_result Bash <echo hello-pi> ok: hello-pi\n\nMARK-TOOLRESULT-66",
        'tool_call mcp__mem__recall <{"query":"abc"}>: {"query":"abc"}',
        'tool_result mcp__mem__recall <{"query":"abc"}> ok: memory: MARK-PIMCP-77 args={"query": "abc"}\nMARK-TOOLRESULT-66',
        "assistant: OK-FROM-FAKE",
    ]


def test_gemini(tmp_path: Path) -> None:
    source, events = session("gemini", tmp_path)
    assert (source.session, source.cwd) == ("26b653f7-17c3-4557-a154-944696b4cb2a", "/home/dev/code/proj")
    assert [told(event) for event in events] == [
        "person: say hi",
        'tool_call Bash <echo hello-gm>: {"command":"echo hello-gm","description":"fake"}',
        "tool_result Bash <echo hello-gm> ok 0: Output: hello-gm\nProcess Group PGID: 19159",
        'tool_call mcp__mem__recall <{"query":"abc"}>: {"query":"abc"}',
        'tool_result mcp__mem__recall <{"query":"abc"}> ok: memory: MARK-GMMCP-44 args={"query": "abc"}',
        "assistant: OK-FROM-FAKE",
    ]


def test_goose(tmp_path: Path) -> None:
    source, events = session("goose", tmp_path)
    assert (source.session, source.cwd) == ("goose:20261129_1", "/home/dev/code/proj")
    assert [told(event) for event in events] == [
        "person: say hi",
        'tool_call Bash <echo hello-goose>: {"command":["bash","-lc","echo hello-goose"]}',
        "tool_result Bash <echo hello-goose> failed: Error: Failed to parse arguments: invalid type: sequence, expected a string",
        'tool_call mcp__mem__recall <{"query":"abc"}>: {"query":"abc"}',
        'tool_result mcp__mem__recall <{"query":"abc"}> ok: memory: MARK-GOOSEMCP-55dd args={"query": "abc"}',
        "assistant: OK-FROM-FAKE",
    ]
    assert [event.offset for event in events] == [1, 3, 4, 5, 6, 7]


def test_opencode(tmp_path: Path) -> None:
    source, events = session("opencode", tmp_path)
    assert (source.session, source.cwd) == ("ses_dd6789545ffeN0NfFADhPnIsp7", "/home/dev/code/proj")
    assert [told(event) for event in events] == [
        "person: say hi",
        'tool_call Bash <echo hello-oc>: {"command":"echo hello-oc","description":"fake"}',
        "tool_result Bash <echo hello-oc> ok 0: hello-oc\n\nMARK-TOOLAFTER-33",
        'tool_call mem_recall <{"query":"abc"}>: {"query":"abc"}',
        'tool_result mem_recall <{"query":"abc"}> ok: memory: MARK-OCMCP-44 args={"query": "abc"}',
        "assistant: OK-FROM-FAKE",
    ]


@pytest.mark.parametrize("agent", AGENTS)
def test_what_every_event_says_of_itself(agent: str, tmp_path: Path) -> None:
    for source in lay(agent, tmp_path):
        events = reader(agent).read(source, Cursor()).events
        assert events
        assert len({event.key for event in events}) == len(events)
        assert all(event.session == source.session for event in events)
        assert all(event.key.startswith(source.agent) for event in events)
        assert agent == "cursor" or all(event.at and event.turn for event in events)
        offsets = [event.offset for event in events]
        assert offsets == sorted(offsets)


@pytest.mark.parametrize("agent", AGENTS)
def test_only_sessions_that_changed_are_listed(agent: str, tmp_path: Path) -> None:
    assert lay(agent, tmp_path)
    assert not list(reader(agent).sessions(tmp_path, {}, since=4e9))
    assert not list(reader(agent).sessions(tmp_path / "elsewhere", {}))
