"""The real Pi and OpenCode, which run a plugin of ours inside them, and the real Gemini CLI, which runs our hooks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.e2e.agent import Agent, Turn
from tests.e2e.fixtures import Starter, with_cems
from tests.e2e.gemini import Gemini
from tests.e2e.opencode import OpenCode
from tests.e2e.pi import Pi
from tests.e2e.steps import DEPLOY, DEPLOY_PROMPT, UNRELATED_PROMPT, remember
from tests.fakes.model_api import Text, ToolUse

pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("kind", [Gemini, OpenCode, Pi], ids=lambda kind: kind.name)]

PREFERENCE = "Answer in British English and keep commit messages in the imperative."

SHELL = {Gemini: "run_shell_command", OpenCode: "bash", Pi: "bash"}
MORE = {Gemini: {}, OpenCode: {"description": "push"}, Pi: {}}


@pytest.fixture
def agent(kind: type[Agent], start: Starter) -> Agent:
    return with_cems(start(kind))


def test_the_profile_comes_at_the_start_and_once_in_a_conversation(agent: Agent) -> None:
    project = agent.sandbox.project("shop")
    remember(agent.sandbox, PREFERENCE, project, "--category", "preferences", "--scope", "user")
    turn = agent.ask(UNRELATED_PROMPT, cwd=project)
    assert turn.text.count(PREFERENCE) == 1
    resumed = agent.ask("And of New Zealand?", cwd=project, resume=turn.session)
    assert resumed.text.count(PREFERENCE) == 1


def test_a_memory_is_given_once_in_a_session(agent: Agent) -> None:
    project = agent.sandbox.project("shop")
    remember(agent.sandbox, DEPLOY, project)
    turn = agent.ask(DEPLOY_PROMPT, cwd=project)
    assert turn.text.count(DEPLOY) == 1
    again = agent.ask("and how do I deploy to production from a branch?", cwd=project, resume=turn.session)
    assert again.text.count(DEPLOY) == 1


def test_what_the_person_types_to_cems_is_theirs(agent: Agent) -> None:
    project = agent.sandbox.project("shop")
    # Until the daemon is up a command is taken and answered later.
    agent.sandbox.cems("list", cwd=project)
    turn = agent.ask(f'/remember {DEPLOY} It is the "ship" target.', cwd=project)
    (memory,) = agent.sandbox.cems("list", "--json", cwd=project).ok().json["memories"]
    assert memory["content"] == f'{DEPLOY} It is the "ship" target.'
    assert memory["trust"] == "trusted"
    assert "CEMS stored this" in turn.text


def test_a_rule_of_the_persons_stops_a_command_and_a_harmless_one_runs(agent: Agent, kind: type[Agent]) -> None:
    project = agent.sandbox.project("shop")
    agent.sandbox.cems("rule", "add", "Bash: git push --force* — ask first", "--severity", "block", cwd=project).ok()
    call: Callable[[str], ToolUse] = lambda line: ToolUse(SHELL[kind], {"command": line, **MORE[kind]})  # noqa: E731
    agent.model.script(call("git push --force origin"), call("echo harmless > made"), Text("done"))
    turn = agent.ask(UNRELATED_PROMPT, cwd=project)
    results = _results(turn)
    assert "ask first" in results[0]
    assert (project / "made").read_text() == "harmless\n"


def _results(turn: Turn) -> list[str]:
    return [request.tool_results[-1] for request in turn.requests[1:]]
