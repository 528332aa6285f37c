"""Hooks while the daemon starts, when a part of it hangs or never comes, and what explaining a prompt leaves alone."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.fakes.real_parts import INTERACTIVE, PERSON, Place, run

from cems.adapters.claude_code.agent import AGENT
from cems.core.events import HookEvent
from cems.core.policy import RecallPolicy
from cems.core.recall.engine import Found, Within
from cems.core.recall.question import Question
from cems.core.scope import SessionScope
from cems.core.service import command_turns
from cems.core.service import hooks as hooks_module
from cems.core.service.hooks import HookService, open_stage_one
from cems.core.service.sessions import Sessions
from cems.core.tokens import count_tokens

PORT = "The staging database listens on port 5433."
QUESTION = "which port does the staging database listen on"


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be busy; a test about haste sets its own time."""
    monkeypatch.setattr(command_turns, "SECONDS", 30.0)


# -- the two stages


def test_the_first_stage_answers_from_the_words_of_the_last_run(place: Place) -> None:
    place.add(PORT)
    service = open_stage_one(place.home)
    payload = {"session_id": "s1", "cwd": str(place.alpha), "hook_event_name": "UserPromptSubmit", "prompt": QUESTION}
    assert PORT in run(service.answer("cems_user_prompts_submit", {}, json.dumps(payload).encode())).decode()
    found = run(service.explain(QUESTION, place.scope()))
    assert (found.mode, found.reason) == ("keyword", hooks_module.STARTING)
    service.close()


def test_a_home_without_memories_is_answered_with_nothing(tmp_path: Path) -> None:
    from cems.core.paths import Home

    home = Home(tmp_path / ".cems")
    home.create()
    service = open_stage_one(home)
    for event, script in (("UserPromptSubmit", "cems_user_prompts_submit"), ("SessionStart", "cems_session_start")):
        payload = {"session_id": "s1", "hook_event_name": event, "prompt": QUESTION, "source": "startup"}
        assert run(service.answer(script, {}, json.dumps(payload).encode())) == b""
    assert run(service.explain(QUESTION, SessionScope(None))).mode == "skipped"
    service.close()


class Waiting:
    """Commands that come up late, fail, or take their time."""

    def __init__(self, seconds: float = 0.0, failure: Exception | None = None) -> None:
        self.seconds = seconds
        self.failure = failure
        self.done: list[str] = []

    async def run(
        self, name: str, text: str, event: HookEvent, scope: SessionScope, variables: Mapping[str, str], limit: int
    ) -> str:
        await asyncio.sleep(self.seconds)
        if self.failure:
            raise self.failure
        self.done.append(text)
        return f"<cems-note>{name} done</cems-note>"


def cold(place: Place) -> HookService:
    """The hooks of a daemon whose second stage is not there yet."""
    service = HookService(place.home, {"claude-code": AGENT}, RecallPolicy(), Sessions(place.home.root / "cold.db"))
    place.hooks.close()
    place.hooks = service
    return service


def test_a_command_typed_to_a_cold_daemon_is_carried_out_when_it_has_started(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_turns, "SECONDS", 0.05)

    async def work() -> None:
        service, commands = cold(place), Waiting()
        assert "has taken this" in await place.prompt("/remember the port is 5433")
        assert service.busy
        # The second stage is loaded in a thread.
        await asyncio.to_thread(service.accept, commands, {}, RecallPolicy(), count_tokens)
        for _ in range(100):
            if not service.busy:
                break
            await asyncio.sleep(0.01)
        assert commands.done == ["the port is 5433"]

    run(work())


def test_a_command_typed_while_it_starts_is_answered_when_that_does_not_take_long(place: Place) -> None:
    async def work() -> str:
        service = cold(place)
        asked = asyncio.create_task(place.prompt("/remember x"))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(service.accept, Waiting(), {"claude-code": AGENT}, RecallPolicy())
        return await asked

    assert run(work()) == "<cems-note>remember done</cems-note>"


def test_a_command_is_answered_with_the_reason_when_the_second_stage_will_not_come(place: Place) -> None:
    async def work() -> str:
        service = cold(place)
        asked = asyncio.create_task(place.prompt("/remember x"))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(service.give_up, "the key is missing")
        return await asked

    assert "CEMS did not do this: the key is missing" in run(work())


def test_a_command_that_fails_says_so(place: Place) -> None:
    place.hooks.accept(Waiting(failure=OSError("disk full")), {"claude-code": AGENT}, RecallPolicy())
    answer = run(place.prompt("/remember x"))
    assert "could not do this (OSError)" in answer
    assert "disk full" not in answer


@pytest.mark.parametrize(
    "prompt",
    ["/context-menu is broken", "/share.md is missing", "/recall/foo", "/remembered it", "tell me about /remember x"],
)
def test_what_only_begins_like_a_command_is_none(place: Place, prompt: str) -> None:
    commands = Waiting()
    place.hooks.accept(commands, {"claude-code": AGENT}, RecallPolicy())
    run(place.prompt(prompt))
    assert commands.done == []


@pytest.mark.parametrize("prompt", ["/remember a b", "  /cems:remember a b ", "/remember: a b", "/remember\na b"])
def test_a_commands_text_is_what_follows_its_name(place: Place, prompt: str) -> None:
    commands = Waiting()
    place.hooks.accept(commands, {"claude-code": AGENT}, RecallPolicy())
    run(place.prompt(prompt))
    assert commands.done == ["a b"]


def test_a_prompt_does_not_wait_for_a_store_that_hangs(place: Place) -> None:
    class Hanging:
        async def search(self, question: Question, within: Within) -> Found:
            await asyncio.sleep(60)
            raise AssertionError

    place.add(PORT)
    place.hooks.upgrade(Hanging(), patience=0.05)
    began = time.monotonic()
    assert PORT in run(place.prompt(QUESTION))
    assert time.monotonic() - began < 1


def test_explaining_gives_nothing_away(place: Place) -> None:
    memory = place.add(PORT)
    assert run(place.hooks.explain(QUESTION, place.scope(), "s1")).block
    assert run(place.prompt(QUESTION))
    explained = run(place.hooks.explain(QUESTION, place.scope(), "s1"))
    assert explained.block == ""
    assert [(each.id, each.decision) for each in explained.candidates] == [(memory, "already shown")]


def test_a_forgotten_memory_is_gone_from_the_next_prompt(place: Place) -> None:
    memory = place.add(PORT)
    place.memories.forget([memory], place.scope(), PERSON)
    assert run(place.prompt(QUESTION, variables=INTERACTIVE)) == ""
