"""The real Copilot CLI remembers: what its model is sent, with CEMS installed as a person installs it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.e2e.agent import Turn
from tests.e2e.copilot import Copilot
from tests.e2e.steps import DEPLOY, DEPLOY_PROMPT, UNRELATED_PROMPT, remember
from tests.fakes.model_api import Text, ToolUse

pytestmark = pytest.mark.e2e


def assert_given_once(turn: Turn, text: str) -> None:
    assert turn.text.count(text) == 1, f"not given once: {text}\n{turn.text[-3000:]}"
    where = [kind for kind, part in turn.request.texts if text in part]
    assert where == ["user"]


def test_canary_copilot_passes_on_what_a_hook_prints(bare_copilot: Copilot) -> None:
    """Without CEMS. Red here means that this version of Copilot takes hook output in another way."""
    answer = bare_copilot.file("answer.json")
    answer.write_text(json.dumps({"additionalContext": "canary é 漢"}))
    hook = {"type": "command", "command": f"cat {answer}", "timeout": 10}
    bare_copilot.write_json(".copilot/hooks/own.json", {"version": 1, "hooks": {"UserPromptSubmit": [hook]}})
    turn = bare_copilot.ask("hello", cwd=bare_copilot.sandbox.project("canary"))
    assert turn.text.count("canary é 漢") == 1, (
        f"THE CONTEXT OF A PLAIN HOOK DOES NOT ARRIVE: Copilot changed how it takes hook output.\n{turn.text[-3000:]}"
    )


def test_in_one_session_a_memory_is_given_once_and_stays_in_the_conversation(copilot: Copilot) -> None:
    project = copilot.sandbox.project("shop")
    remember(copilot.sandbox, DEPLOY, project)
    cold = copilot.ask(DEPLOY_PROMPT, cwd=project)
    assert_given_once(cold, DEPLOY)
    again = copilot.ask("and how do I deploy to production from a branch?", cwd=project, resume=cold.session)
    assert again.session == cold.session
    assert again.text.count(DEPLOY) == 1


def test_the_profile_arrives_at_the_sessions_start(copilot: Copilot) -> None:
    project = copilot.sandbox.project("shop")
    preference = "Answer in British English and keep commit messages in the imperative."
    remember(copilot.sandbox, preference, project, "--category", "preferences", "--scope", "user")
    assert_given_once(copilot.ask(UNRELATED_PROMPT, cwd=project), preference)


def test_a_project_that_has_claudes_hooks_too_gives_it_once(copilot: Copilot) -> None:
    """Copilot runs what stands in a trusted project's `.claude/settings.json`, and of several contexts takes the last."""
    sandbox, project = copilot.sandbox, copilot.sandbox.project("shop")
    remember(sandbox, DEPLOY, project)
    ran = sandbox.home / "ran"
    launcher = sandbox.cems_home / "bin" / "cems-hook"
    events = {"SessionStart": "cems_session_start", "UserPromptSubmit": "cems_user_prompts_submit"}
    ours: dict[str, list[Any]] = {
        event: [{"hooks": [{"type": "command", "command": f"{launcher} {script}", "timeout": 10}]}]
        for event, script in events.items()
    }
    witness = {"type": "command", "command": f"echo ran >> {ran}"}
    ours["UserPromptSubmit"].append({"hooks": [witness]})
    (project / ".claude").mkdir()
    (project / ".claude" / "settings.json").write_text(json.dumps({"hooks": ours}))
    preference = "Keep commit messages in the imperative."
    remember(sandbox, preference, project, "--category", "preferences", "--scope", "user")
    turn = copilot.ask(DEPLOY_PROMPT, cwd=project, options=["--trust-folder"])
    assert ran.exists(), "the project's hooks did not run: nothing is shown here"
    assert_given_once(turn, DEPLOY)
    assert_given_once(turn, preference)


def test_a_bare_yes_is_about_what_copilot_said_last(copilot: Copilot) -> None:
    project = copilot.sandbox.project("shop")
    remember(copilot.sandbox, DEPLOY, project)
    copilot.model.script(Text("Shall I look up how to deploy this to production?"))
    first = copilot.ask(UNRELATED_PROMPT, cwd=project)
    assert "make ship" not in first.text
    assert_given_once(copilot.ask("yes", cwd=project, resume=first.session), DEPLOY)


def test_a_rule_keeps_a_command_from_running(copilot: Copilot) -> None:
    project = copilot.sandbox.project("shop")
    copilot.sandbox.cems("rule", "add", "Bash: touch forbidden* — block", cwd=project).ok()
    touch = {"description": "make a file"}
    copilot.model.script(
        ToolUse("bash", {"command": "touch forbidden.txt", **touch}),
        ToolUse("bash", {"command": "touch allowed.txt", **touch}),
        Text("Done."),
    )
    turn = copilot.ask("make two files", cwd=project)
    assert not (project / "forbidden.txt").exists()
    assert (project / "allowed.txt").exists(), "the control did not run either"
    refused, *_ = turn.requests[1].tool_results
    assert "Denied by preToolUse hook" in refused
    assert "touch forbidden*" in refused
