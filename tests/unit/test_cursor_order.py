"""Whatever order Cursor's events come in: what the model should know is given, and given once.

Cursor does not wait for its start hook, runs hooks of one event at the same time, repeats generations, and some versions
drop what a prompt is given. What counts as given is what the version that answers would have passed on to its model.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.real_parts import Place, run

from cems.adapters.claude_code.agent import AGENT as CLAUDE
from cems.adapters.copilot.agent import AGENT as COPILOT
from cems.adapters.cursor.agent import AGENT as CURSOR
from cems.core.events import HookAgent
from cems.core.service.commands import TypedCommands

PORT = "The staging database listens on port 5433."
QUESTION = "which port does the staging database listen on"
ENGINE = "The staging database runs PostgreSQL 16."
ENGINE_QUESTION = "what does the staging database run"
LANGUAGE = "Answer in British English."
NEWEST, OLD, AGENT_CLI = "3.24.18", "3.12.17", "2026.09.02-4057e58"
VERSIONS = (NEWEST, OLD, AGENT_CLI)
UNHURRIED = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


class Chat:
    """One conversation, as one version of Cursor tells of it. `seen` is what reached its model."""

    _numbers = itertools.count(2)

    def __init__(self, place: Place, version: str, name: str = "") -> None:
        self.place, self.version, self.name = place, version, name or f"c-{next(self._numbers)}"
        self.seen: list[str] = []

    async def tell(self, script: str, event: str, *, variables: bool = False, **fields: Any) -> str:
        payload = {
            "conversation_id": self.name,
            "session_id": self.name,
            "hook_event_name": event,
            "cursor_version": self.version,
            "workspace_roots": [str(self.place.alpha)],
            **fields,
        }
        answer = await self.place.hooks.answer(
            script, {"CURSOR_VERSION": self.version} if variables else {}, json.dumps(payload).encode()
        )
        said = str(json.loads(answer)["additional_context"]) if answer else ""
        if said and self._passed_on(event):
            self.seen.append(said)
        return said

    def _passed_on(self, event: str) -> bool:
        if event in ("beforeSubmitPrompt", "UserPromptSubmit"):
            return self.version == NEWEST
        return event != "sessionStart" or self.version != OLD

    async def start(self) -> str:
        return await self.tell("cems_session_start", "sessionStart", is_background_agent=False)

    async def prompt(self, text: str = QUESTION, generation: str = "g-1") -> str:
        return await self.tell("cems_user_prompts_submit", "beforeSubmitPrompt", prompt=text, generation_id=generation)

    async def before_tool(self, **fields: Any) -> str:
        return await self.tell("cems_pre_tool_use", "preToolUse", tool_name="Shell", tool_input={}, **fields)

    async def after_tool(self, **fields: Any) -> str:
        return await self.tell("cems_post_tool_use", "postToolUse", tool_name="Shell", tool_input={}, **fields)

    async def respond(self) -> str:
        return await self.tell("cems_agent_response", "afterAgentResponse", text="Done.")

    async def compact(self) -> str:
        return await self.tell("cems_pre_compact", "preCompact", trigger="auto")

    def count(self, text: str) -> int:
        return "\n".join(self.seen).count(text)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    agents: dict[str, HookAgent] = {"claude-code": CLAUDE, "copilot": COPILOT, "cursor": CURSOR}
    made.hooks.accept(TypedCommands(made.operations), agents, made.policy)
    # A decision belongs to the profile too: it can be given with the start and with the prompt.
    made.add(PORT, category="decisions")
    made.add(LANGUAGE, category="preferences")
    yield made
    made.close()


STEPS = ("start", "prompt", "before_tool", "after_tool", "respond")


@pytest.mark.parametrize("version", VERSIONS)
def test_never_twice_and_never_lost_when_a_tool_comes(place: Place, version: str) -> None:
    async def tell(order: Sequence[str]) -> Chat:
        chat = Chat(place, version)
        for step in order:
            await getattr(chat, step)()
        # The turn goes on: at the latest now everything that waits has somewhere to go.
        await chat.after_tool()
        await chat.after_tool()
        return chat

    for order in itertools.permutations(STEPS):
        chat = run(tell(order))
        assert (chat.count(PORT), chat.count(LANGUAGE)) == (1, 1), (order, chat.seen)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_at_the_same_time(place: Place, version: str) -> None:
    async def tell() -> Chat:
        chat = Chat(place, version)
        await asyncio.gather(
            *(step() for step in (chat.start, chat.prompt, chat.prompt, chat.before_tool, chat.start, chat.after_tool))
        )
        await chat.after_tool()
        await chat.after_tool()
        return chat

    chat = run(tell())
    assert chat.count(PORT) == chat.count(LANGUAGE) == 1


def test_a_generation_that_is_repeated_for_another_prompt_takes_nothing_from_it(place: Place) -> None:
    async def tell() -> Chat:
        chat = Chat(place, NEWEST)
        await chat.prompt("make the header bold")
        await chat.prompt()
        await chat.prompt()
        return chat

    assert run(tell()).count(PORT) == 1


@pytest.mark.parametrize("generation", ["", "c-1"])
def test_without_a_generation_each_prompt_is_its_own(place: Place, generation: str) -> None:
    place.add(ENGINE)

    async def tell() -> Chat:
        chat = Chat(place, NEWEST, "c-1")
        await chat.prompt(generation=generation)
        await chat.prompt(ENGINE_QUESTION, generation=generation)
        return chat

    chat = run(tell())
    assert chat.count(PORT) == chat.count(ENGINE) == 1


def test_a_command_that_cursors_and_claudes_file_both_run_is_carried_out_once(place: Place) -> None:
    """Claude's file in Claude's form, with no generation; Cursor's beside it, at the same time."""
    typed = "/remember The header is blue."

    async def tell() -> tuple[str, str, str]:
        chat = Chat(place, NEWEST)
        claudes = {"conversation_id": "", "generation_id": "", "cursor_version": "", "cwd": str(place.alpha)}
        own, other = await asyncio.gather(
            chat.prompt(typed),
            chat.tell("cems_user_prompts_submit", "UserPromptSubmit", prompt=typed, variables=True, **claudes),
        )
        # A second answer in Claude's form, whose version is unknown, would wait for the tool.
        return own, other, await chat.after_tool()

    own, other, later = run(tell())
    assert "stored this" in own
    assert other == later == ""


def test_what_waits_is_not_for_a_subagents_tool(place: Place) -> None:
    async def tell() -> Chat:
        chat = Chat(place, OLD)
        await chat.prompt()
        assert await chat.after_tool(parent_tool_call_id="t-0") == ""
        assert await chat.before_tool() == ""
        await chat.after_tool()
        return chat

    assert run(tell()).count(PORT) == 1


def test_a_later_start_of_a_conversation_adds_only_what_is_new(place: Place) -> None:
    async def tell(text: str = "") -> str:
        place.hooks.sessions.get("c-1").last_start_at -= 3
        return await Chat(place, NEWEST, "c-1").start()

    assert LANGUAGE in run(tell())
    assert run(tell()) == ""
    place.restart()
    place.hooks.accept(TypedCommands(place.operations), {"cursor": CURSOR}, place.policy)
    assert run(tell()) == "", "Cursor keeps it with the conversation, also over a restart"


@pytest.mark.parametrize(("version", "again"), [(NEWEST, 1), (OLD, 2)])
def test_after_compaction_a_prompts_memory_is_given_again_and_what_cursor_keeps_is_not(
    place: Place, version: str, again: int
) -> None:
    place.add(ENGINE)

    async def tell() -> Chat:
        chat = Chat(place, version, "c-1")
        await chat.start()
        await chat.prompt(ENGINE_QUESTION)
        await chat.after_tool()
        await chat.after_tool()
        await chat.compact()
        place.hooks.sessions.get("c-1").last_start_at -= 3
        await chat.start()
        await chat.prompt(ENGINE_QUESTION, "g-2")
        await chat.after_tool()
        await chat.after_tool()
        return chat

    chat = run(tell())
    assert chat.count(ENGINE) == 2
    # A version that drops what a start is given had it with a tool, which the compaction took.
    assert chat.count(LANGUAGE) == again
    assert chat.count(PORT) == again


@UNHURRIED
@given(
    order=st.lists(st.sampled_from([*STEPS, "before_tool", "after_tool", "prompt"]), min_size=1, max_size=12),
    version=st.sampled_from(VERSIONS),
)
def test_no_order_gives_anything_twice(place: Place, order: list[str], version: str) -> None:
    async def tell() -> Chat:
        chat = Chat(place, version)
        for step in order:
            await getattr(chat, step)()
        return chat

    chat = run(tell())
    assert chat.count(PORT) <= 1
    assert chat.count(LANGUAGE) <= 1
    if "prompt" in order and (version == NEWEST or "after_tool" in order[order.index("prompt") :]):
        asked = order[order.index("prompt") :].count("after_tool")
        # With a start waiting before it, the prompt's block may have to take the second tool.
        assert chat.count(PORT) == 1 or (version == OLD and "start" in order and asked < 2)
