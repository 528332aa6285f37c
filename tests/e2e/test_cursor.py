"""Cursor's own hook engine runs the hooks that setup wrote, takes their answers, and gives them out once.

What the editor then does with an answer is not seen here: that needs an account. `adapters/cursor/versions.py` says what is
known of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.cursor import Engine, engine
from tests.e2e.fixtures import program_of
from tests.e2e.steps import DEPLOY, DEPLOY_PROMPT, UNRELATED_PROMPT, remember, snapshot
from tests.fakes.sandbox import Sandbox

from cems.adapters.cursor.config import HOOKS

pytestmark = pytest.mark.e2e

NEWEST, OLD = "3.24.18", "3.12.17"
LANGUAGE = "Answer in British English and keep commit messages in the imperative."
MINE = '{\n  // my own\n  "version": 1,\n  "hooks": {"stop": [{"command": "true"}]}\n}\n'

Window = Callable[..., AbstractContextManager[Engine]]


@pytest.fixture
def home(make_sandbox: Callable[[], Sandbox]) -> Sandbox:
    """A person with hooks of their own for Cursor, and without CEMS."""
    made = make_sandbox()
    (made.home / ".cursor").mkdir()
    (made.home / ".cursor" / "hooks.json").write_text(MINE)
    return made


@pytest.fixture
def window(home: Sandbox) -> Window:
    node, package = program_of("node"), program_of("cursor-sdk")

    def opened(project: Path, version: str = NEWEST) -> AbstractContextManager[Engine]:
        return engine(node, package, home, project, version)

    return opened


def test_setup_proves_itself_the_way_of_each_agent(home: Sandbox) -> None:
    (home.home / ".copilot").mkdir()
    done = home.cems("setup", "--yes", "--json").ok().json
    assert {name for name, agent in done["agents"].items() if agent["found"]} == {"cursor", "copilot"}
    assert done["proof"]["ok"], done["proof"]


def test_cursors_engine_takes_our_files_and_answers(home: Sandbox, window: Window) -> None:
    home.cems("setup", "--yes", "--no-prove").ok()
    project = home.project("shop")
    remember(home, DEPLOY, project)
    remember(home, LANGUAGE, project, "--category", "preferences", "--scope", "user")
    home.cems("rule", "add", "Bash: git push --force* — block", cwd=project).ok()
    with window(project) as cursor:
        assert cursor.files["errors"] == []
        ours = {
            name: [entry["command"] for entry in entries]
            for name, entries in cursor.files["hooks"]["userHooks"].items()
        }
        assert ours["stop"] == ["true", f"{home.cems_home}/bin/cems-hook cems_stop"]
        assert set(ours) == {hook.event for hook in HOOKS}
        assert cursor.start().count(LANGUAGE) == 1
        assert cursor.prompt(UNRELATED_PROMPT) == ""
        assert cursor.prompt(DEPLOY_PROMPT).count(DEPLOY) == 1
        refused = cursor.before_tool("git push --force origin main")
        assert refused["permission"] == "deny"
        assert "git push --force*" in refused["agent_message"]
        assert cursor.before_tool("ls") == {}
        assert cursor.after_tool("ls") == ""
        for step, fields in (
            ("afterAgentResponse", {"text": "Shall I look up the ports?"}),
            ("preCompact", {"trigger": "auto"}),
            ("sessionEnd", {"reason": "user_close", "duration_ms": 1, "final_status": "completed"}),
        ):
            assert cursor.tell(step, **fields) == {}
        # A follow-up would start the agent's loop again.
        assert cursor.tell("stop", status="completed", loop_count=0) == {}


def test_what_an_older_version_drops_goes_with_the_next_tool(home: Sandbox, window: Window) -> None:
    home.cems("setup", "--yes", "--no-prove").ok()
    project = home.project("shop")
    remember(home, DEPLOY, project)
    with window(project, OLD) as cursor:
        assert cursor.prompt(DEPLOY_PROMPT) == ""
        assert cursor.before_tool("ls") == {}
        assert cursor.after_tool("ls").count(DEPLOY) == 1
        assert cursor.after_tool("ls") == ""


def test_claudes_hooks_that_cursor_runs_too_give_nothing_twice(home: Sandbox, window: Window) -> None:
    """Cursor reads Claude's files once a group in them has a matcher, and drops what has the command of one of its own."""
    settings = home.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    theirs = [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]
    settings.write_text(json.dumps({"hooks": {"PostToolUse": theirs}}))
    home.cems("setup", "--yes", "--no-prove").ok()
    project = home.project("shop")
    remember(home, DEPLOY, project)
    launcher = home.cems_home / "bin" / "cems-hook"
    # In the project's file, in other bytes: Cursor takes it for another hook, and runs both at the same time.
    other: dict[str, Any] = {"hooks": [{"type": "command", "command": f"'{launcher}' cems_user_prompts_submit"}]}
    (project / ".claude").mkdir()
    (project / ".claude" / "settings.json").write_text(
        json.dumps({"hooks": {"UserPromptSubmit": [{"matcher": "", **other}]}})
    )
    with window(project) as cursor:
        seen = cursor.files["hooks"]
        assert [entry["command"] for entry in seen["claudeUserHooks"]["postToolUse"]] == ["true"]
        assert not any(entries for event, entries in seen["claudeUserHooks"].items() if event != "postToolUse")
        assert len(seen["claudeProjectHooks"]["beforeSubmitPrompt"]) == 1, "only one hook ran: nothing is shown here"
        assert cursor.prompt(DEPLOY_PROMPT).count(DEPLOY) == 1


def test_after_uninstall_cursors_files_are_as_they_were(home: Sandbox, window: Window) -> None:
    project = home.project("shop")
    before = snapshot(home.home)
    home.cems("setup", "--yes", "--no-prove").ok()
    home.cems("setup", "--agent", "cursor", "--project-rule", "--yes", "--no-prove", cwd=project).ok()
    assert (project / ".cursor" / "rules" / "cems.mdc").exists()
    home.cems("uninstall", "--yes").ok()
    assert snapshot(home.home) == before
    with window(project) as cursor:
        assert cursor.files["errors"] == []
        assert cursor.prompt(DEPLOY_PROMPT) == ""
