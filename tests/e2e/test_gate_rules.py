"""A person's gate rules in the real Claude Code: what is refused, what is asked, what is said, and what runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.e2e.claude import Claude, ClaudeTurn
from tests.fakes.model_api import Text, ToolUse

pytestmark = pytest.mark.e2e

FORCE = "Bash: git push --force* — never, it loses work"
SAID = "the person's rule"


def rule(claude: Claude, text: str, project: Path) -> str:
    answer = claude.sandbox.cems("rule", "add", text, "--json", cwd=project).ok().json
    assert answer["status"] == "added", answer
    return str(answer["id"])


def run(claude: Claude, command: str, project: Path) -> ClaudeTurn:
    """A turn in which the model runs one command, which Claude may do unasked."""
    claude.model.script(ToolUse("Bash", {"command": command, "description": "x"}), Text("Done."))
    turn = claude.ask("go on", cwd=project, allow=["Bash"])
    assert isinstance(turn, ClaudeTurn)
    assert turn.answer == "Done."
    return turn


def test_what_a_rule_forbids_is_not_run_and_the_model_is_told_why(claude: Claude) -> None:
    project = claude.sandbox.project("shop")
    identity = rule(claude, FORCE, project)
    turn = run(claude, "touch reached; cd . && git push --force origin main", project)
    [result] = turn.requests[-1].tool_results
    assert "never, it loses work" in result
    assert identity[:10] in result
    assert not (project / "reached").exists()
    # The control: another command runs, and nothing is said of it.
    turn = run(claude, "touch reached; echo harmless", project)
    [result] = turn.requests[-1].tool_results
    assert "harmless" in result
    assert SAID not in turn.requests[-1].text
    assert (project / "reached").exists()


def test_what_a_rule_asks_for_is_not_run_where_nobody_can_be_asked(claude: Claude) -> None:
    project = claude.sandbox.project("shop")
    rule(claude, "Bash: touch asked* — ask first", project)
    turn = run(claude, "touch asked", project)
    assert "ask first" in turn.requests[-1].text
    assert not (project / "asked").exists()


def test_a_warning_reaches_the_model_and_the_command_runs(claude: Claude) -> None:
    project = claude.sandbox.project("shop")
    rule(claude, "Bash: touch warned* — careful, the disk is slow", project)
    turn = run(claude, "touch warned", project)
    assert "careful, the disk is slow" in turn.requests[-1].text
    assert "careful, the disk is slow" not in turn.request.text
    assert (project / "warned").exists()


def test_a_rule_on_a_file_holds_for_the_tool_that_writes_it(claude: Claude) -> None:
    project = claude.sandbox.project("shop")
    rule(claude, "Edit: *.env — keys live in the vault", project)
    claude.model.script(ToolUse("Write", {"file_path": str(project / "prod.env"), "content": "K=1"}), Text("Done."))
    turn = claude.ask("go on", cwd=project, allow=["Write"])
    assert "keys live in the vault" in turn.requests[-1].tool_results[0]
    assert not (project / "prod.env").exists()


def test_a_rule_holds_with_the_daemon_killed_and_a_stopped_daemon_lets_the_tool_run(claude: Claude) -> None:
    project = claude.sandbox.project("shop")
    rule(claude, FORCE, project)
    os.kill(claude.sandbox.daemon(), signal.SIGKILL)
    turn = run(claude, "touch reached; git push --force", project)
    assert "never, it loses work" in turn.requests[-1].tool_results[0]
    assert not (project / "reached").exists()
    daemon = claude.sandbox.daemon()
    os.kill(daemon, signal.SIGSTOP)
    try:
        turn = run(claude, "touch reached; git push --force", project)
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert (project / "reached").exists(), "a daemon that does not answer kept a tool from running"
    assert SAID not in turn.requests[-1].text


def test_the_model_cannot_take_a_rule_away(claude: Claude) -> None:
    project = claude.sandbox.project("shop")
    identity = rule(claude, FORCE, project)
    program = claude.sandbox.home / ".local" / "bin" / "cems"
    turn = run(claude, f"{program} rule remove {identity}; {program} forget {identity}; true", project)
    assert "only a person changes those" in turn.requests[-1].tool_results[0]
    turn = run(claude, "touch reached; git push --force", project)
    assert not (project / "reached").exists()
