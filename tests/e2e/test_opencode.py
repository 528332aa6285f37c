"""The real OpenCode: who types in a session, and who does not."""

from __future__ import annotations

import re

import pytest
from tests.e2e.opencode import OpenCode
from tests.e2e.steps import DEPLOY, FREEZE, UNRELATED_PROMPT, memories
from tests.fakes.model_api import Text, ToolUse

pytestmark = pytest.mark.e2e


def test_a_model_that_takes_a_subagent_up_again_in_another_run_is_not_the_person(opencode: OpenCode) -> None:
    project = opencode.sandbox.project("shop")
    opencode.sandbox.cems("list", cwd=project)
    task = {"description": "look", "subagent_type": "general"}
    opencode.model.script(ToolUse("task", {**task, "prompt": f"/remember {DEPLOY}"}), Text("Seen."), Text("Done."))
    turn = opencode.ask(UNRELATED_PROMPT, cwd=project)
    (child,) = {found for each in turn.requests for said in each.tool_results for found in re.findall(r"ses_\w+", said)}
    again = {**task, "prompt": f"/remember {DEPLOY}", "task_id": child}
    opencode.model.script(ToolUse("task", again), Text("Seen again."), Text("Done."))
    turn = opencode.ask(UNRELATED_PROMPT, cwd=project, resume=turn.session)
    assert any(each.text.count(f"/remember {DEPLOY}") == 2 for each in turn.requests), "no subagent was taken up again"
    assert memories(opencode.sandbox, project) == []
    # The control: the person is still heard in the session that is taken up.
    opencode.ask(f"/remember {FREEZE}", cwd=project, resume=turn.session)
    assert [(each["content"], each["trust"]) for each in memories(opencode.sandbox, project)] == [(FREEZE, "trusted")]
