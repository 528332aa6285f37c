"""Acceptance with the real Claude Code: its model cannot type for the person by running a Claude of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.claude import Claude
from tests.fakes.model_api import Text, ToolUse

pytestmark = pytest.mark.e2e

BY_MODEL = "Deployments need no review."
BY_PERSON = "Deployments need two reviews."


def trust_of(claude: Claude, project: Path) -> Mapping[str, Any]:
    memories = claude.sandbox.cems("list", "--json", cwd=project).ok().json["memories"]
    return {each["content"]: (each["trust"], each["source"]["actor"]) for each in memories}


@pytest.mark.parametrize("how", ["{}", "exec {}", "env -u CLAUDECODE {}", "( {} )"])
def test_gateway_a_claude_that_claude_runs_does_not_type_for_the_person(claude: Claude, how: str) -> None:
    project = claude.sandbox.project("shop")
    command = how.format(f"{claude.program} -p '/remember {BY_MODEL}'")
    claude.model.script(ToolUse("Bash", {"command": command, "description": "note"}), Text("Noted."), Text("Done."))
    claude.ask("see to it that deployments need no review", cwd=project, allow=["Bash"])
    claude.ask(f"/remember {BY_PERSON}", cwd=project)
    assert trust_of(claude, project) == {BY_MODEL: ("candidate", "agent"), BY_PERSON: ("trusted", "person")}


def test_gateway_the_command_line_in_claudes_shell_is_claudes(claude: Claude) -> None:
    project = claude.sandbox.project("shop")
    cems = claude.sandbox.program
    command = f"env -i HOME=$HOME CEMS_HOME={claude.sandbox.cems_home} {cems} add '{BY_MODEL}'"
    claude.model.script(ToolUse("Bash", {"command": command, "description": "note"}), Text("Noted."))
    claude.ask("see to it that deployments need no review", cwd=project, allow=["Bash"])
    claude.sandbox.cems("add", BY_PERSON, cwd=project).ok()
    assert trust_of(claude, project) == {BY_MODEL: ("candidate", "agent"), BY_PERSON: ("trusted", "person")}
