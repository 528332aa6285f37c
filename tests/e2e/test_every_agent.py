"""Every agent remembers: what its real program sends to its model, with CEMS installed as a person installs it."""

from __future__ import annotations

import re

import pytest
from tests.e2e.agent import Agent, Turn
from tests.e2e.fixtures import AGENTS, Starter, with_cems
from tests.e2e.goose import Goose
from tests.e2e.opencode import OpenCode
from tests.e2e.steps import DEPLOY, DEPLOY_PROMPT, UNRELATED_PROMPT, memories, remember, snapshot
from tests.fakes.model_api import Text, ToolUse

from cems.core.service.adapters import packaged_agents

WITH_ADAPTER = [kind for kind in AGENTS if kind.name in packaged_agents()]
pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("kind", WITH_ADAPTER, ids=lambda kind: kind.name)]

TOOLS = ("memory_add", "memory_forget", "memory_get", "memory_search", "memory_update")
BLOCK = re.compile("(?:<|&lt;)cems-memory ")
"""How what is given begins; Gemini CLI itself takes the bracket for what its own fence is made of."""


def set_up(agent: Agent) -> Agent:
    """The agent with CEMS, started as a person then starts it."""
    with_cems(agent)
    if isinstance(agent, Goose):
        agent.by_cems = True
    return agent


def everything(turn: Turn) -> str:
    """All the model read in this turn, in requests beside the conversation too."""
    return "\n".join(request.text for request in (*turn.requests, *turn.asides))


def test_canary_a_memory_arrives_once_and_only_with_a_prompt_that_needs_it(kind: type[Agent], start: Starter) -> None:
    agent = set_up(start(kind))
    project = agent.sandbox.project("shop")
    remember(agent.sandbox, DEPLOY, project)

    unrelated = agent.ask(UNRELATED_PROMPT, cwd=project)
    assert DEPLOY not in everything(unrelated)
    assert not BLOCK.search(everything(unrelated))
    assert {agent.tool(name) for name in TOOLS} <= set(unrelated.request.tools), [*unrelated.request.tools]

    turn = agent.ask(DEPLOY_PROMPT, cwd=project)
    assert turn.text.count(DEPLOY) == 1, (
        f"THE MEMORY DOES NOT ARRIVE ONCE IN THE REQUEST OF {kind.name}.\n{agent.sandbox.cems('doctor', cwd=project)}\n"
        f"{turn.text}"
    )
    assert len(BLOCK.findall(turn.text)) == 1
    # OpenCode asks for the session's title with all parts of the prompt's message, so with what stands beside it.
    assert kind is OpenCode or not any(DEPLOY in aside.text for aside in turn.asides)


def test_what_the_model_stores_is_there_for_the_next_session(kind: type[Agent], start: Starter) -> None:
    agent = set_up(start(kind))
    project = agent.sandbox.project("shop")
    add, search = agent.tool("memory_add"), agent.tool("memory_search")
    agent.model.script(ToolUse(add, {"content": DEPLOY}), Text("Stored."))
    turn = agent.ask("Note how we deploy.", cwd=project, allow=[add])
    assert turn.answer == "Stored."
    (memory,) = memories(agent.sandbox, project)
    assert (memory["content"], memory["trust"]) == (DEPLOY, "candidate")
    assert memory["source"]["agent"] == kind.name

    agent.model.script(ToolUse(search, {"query": "deploy to production"}), Text("Found."))
    later = agent.ask(UNRELATED_PROMPT, cwd=project, allow=[search])
    assert DEPLOY in "\n".join(later.requests[1].tool_results)


def test_after_uninstall_the_agent_is_as_it_was(kind: type[Agent], start: Starter) -> None:
    """It ran before CEMS came: its files have content of its own, and its requests are known."""
    agent = start(kind)
    sandbox, home = agent.sandbox, agent.sandbox.home
    project = sandbox.project("shop")
    before = agent.ask(DEPLOY_PROMPT, cwd=project)
    files, settings = snapshot(home), agent.settings()

    set_up(agent)
    remember(sandbox, DEPLOY, project)
    during = agent.ask(DEPLOY_PROMPT, cwd=project)
    assert DEPLOY in during.text
    assert set(during.request.tools) > set(before.request.tools)

    sandbox.cems("uninstall", "--yes").ok()
    assert sandbox.processes() == {}
    left = snapshot(home)
    changed = {path for path in files | left if files.get(path) != left.get(path)}
    # The program's own logs and histories change with each run; its settings do not, and elsewhere nothing does.
    assert {path for path in changed if not path.startswith(tuple(agent.own))} <= {".cache"}
    # Claude Code names a folder of its own logs after each tool server.
    assert [path for path in changed if "cems" in path.lower() and "/mcp-logs-" not in path] == []
    assert agent.settings() == settings

    if isinstance(agent, Goose):
        agent.by_cems = False
    after = agent.ask(DEPLOY_PROMPT, cwd=project)
    assert DEPLOY not in everything(after)
    assert "cems" not in everything(after).lower()
    assert set(after.request.tools) == set(before.request.tools)
