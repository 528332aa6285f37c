"""Who is asking: only our own command line outside any agent is a person."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cems.core.agent_env import AGENT_VARIABLES
from cems.core.service.caller import caller_from
from cems.core.service.context import decode, encode

SILENT = {"CURSOR_TRACE_ID", "CURSOR_EXTENSION_HOST_ROLE", "CLAUDE_PROJECT_DIR"}
CLI = {"client": "cli", "cwd": "/x", "tty": "1", "version": "0.1.0"}


def test_the_command_line_in_a_terminal_is_a_person() -> None:
    caller = caller_from(CLI)
    assert (caller.person, caller.tty, caller.agent, caller.cwd, caller.version) == (True, True, "", "/x", "0.1.0")


@pytest.mark.parametrize("client", ["mcp", "hook", "", "CLI"])
def test_no_other_client_is_one(client: str) -> None:
    assert not caller_from(CLI | {"client": client}).person


def test_a_request_that_says_nothing_is_no_person() -> None:
    assert not caller_from({}).person


@pytest.mark.parametrize(
    ("variables", "agent"),
    [
        ({"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli"}, "claude-code"),
        ({"CURSOR_AGENT": "1", "CURSOR_TRACE_ID": "x"}, "cursor"),
        ({"COPILOT_CLI": "1", "CLAUDE_PROJECT_DIR": "/x"}, "copilot"),
        ({"CODEX_SANDBOX": "seatbelt"}, "codex"),
        ({"GEMINI_CLI": "1"}, "gemini"),
        ({"GOOSE_TERMINAL": "1"}, "goose"),
        ({"OPENCODE": "1"}, "opencode"),
        ({"PI_CODING_AGENT": "true"}, "pi"),
        ({"CURSOR_TRACE_ID": "x", "CLAUDECODE": "1"}, "claude-code"),
        ({"CURSOR_EXTENSION_HOST_ROLE": "agent-exec"}, "cursor"),
        ({"CODEX_MANAGED_BY_NPM": "1"}, "codex"),
        ({"AI_AGENT": "claude-code_2-1-332_agent"}, "claude-code"),
        ({"AI_AGENT": "pi"}, "pi"),
        ({"AI_AGENT": "somebody-new"}, "unknown"),
        ({"ancestor_agent": "codex"}, "codex"),
    ],
)
def test_the_command_line_an_agent_runs_is_that_agents(variables: dict[str, str], agent: str) -> None:
    caller = caller_from(CLI | variables)
    assert (caller.agent, caller.person) == (agent, False)


@pytest.mark.parametrize("name", sorted(SILENT))
def test_what_a_persons_own_terminal_may_have_proves_no_agent(name: str) -> None:
    assert caller_from(CLI | {name: "x"}).person


@pytest.mark.parametrize("name", sorted(set(AGENT_VARIABLES) - SILENT))
def test_every_other_variable_names_an_agent(name: str) -> None:
    value = "agent-exec" if name == "CURSOR_EXTENSION_HOST_ROLE" else "1"
    assert caller_from(CLI | {name: value}).agent


def test_the_session_is_the_one_named_or_claudes() -> None:
    assert caller_from({"CLAUDE_CODE_SESSION_ID": "s1"}).session == "s1"
    assert caller_from({"session": "s2", "CLAUDE_CODE_SESSION_ID": "s1"}).session == "s2"


def test_roots_are_lines() -> None:
    assert caller_from({"roots": "file:///a\n\nfile:///b c"}).roots == ("file:///a", "file:///b c")


NAMES = st.sampled_from(["client", "cwd", "tty", "roots", "session", "version", *AGENT_VARIABLES])
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(NAMES, VALUES))
def test_any_context_survives_its_way_and_makes_a_caller(context: dict[str, str]) -> None:
    assert decode(encode(context)) == context
    caller_from(context)


@given(st.text(max_size=40))
def test_any_header_is_read_or_is_a_value_error(header: str) -> None:
    with contextlib.suppress(ValueError):
        caller_from(decode(header))
