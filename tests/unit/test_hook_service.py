"""What a hook is answered: memory for a prompt, the profile for a session, silence for everything else."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.real_parts import Place, run

from cems.adapters.claude_code.agent import AGENT, ClaudeCode
from cems.core.events import HookEvent
from cems.core.policy import RecallPolicy
from cems.core.recall.render import utf16_units
from cems.core.service import command_turns
from cems.core.service import hooks as hooks_module
from cems.core.service.commands import TypedCommands

PORT = "The staging database listens on port 5433."
QUESTION = "which port does the staging database listen on"
FIXTURES = Path(__file__).parents[1] / "fixtures" / "claude_code" / "hook_stdin"


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be busy; a test about haste sets its own time."""
    monkeypatch.setattr(command_turns, "SECONDS", 30.0)


# -- prompts


def test_a_prompt_gets_its_memory_and_an_unrelated_one_nothing(place: Place) -> None:
    place.add(PORT)
    assert PORT in run(place.prompt(QUESTION))
    assert run(place.prompt("make the header font bold", session="s2")) == ""


def test_a_memory_is_given_once_in_a_session(place: Place) -> None:
    place.add(PORT)
    assert run(place.prompt(QUESTION))
    assert run(place.prompt(QUESTION)) == ""
    assert run(place.prompt(QUESTION, session="s2"))


def test_what_was_given_is_known_after_a_restart_of_the_daemon(place: Place) -> None:
    place.add(PORT)
    assert run(place.prompt(QUESTION))
    place.restart()
    assert run(place.prompt(QUESTION)) == ""


@pytest.mark.parametrize("source", ["compact", "clear"])
def test_once_the_context_was_emptied_a_memory_is_given_again(place: Place, source: str) -> None:
    place.add(PORT)
    assert run(place.prompt(QUESTION))
    run(place.hook("SessionStart", source=source))
    assert run(place.prompt(QUESTION))


def test_a_resumed_session_still_has_what_it_was_given(place: Place) -> None:
    place.add(PORT)
    assert run(place.prompt(QUESTION))
    run(place.hook("SessionStart", source="resume"))
    assert run(place.prompt(QUESTION)) == ""


def test_one_turn_is_answered_once(place: Place) -> None:
    place.add(PORT)
    place.add("The staging database runs PostgreSQL 16 on its port.")
    assert run(place.prompt(QUESTION, prompt_id="t1"))
    assert run(place.prompt("what does the staging database run", prompt_id="t1")) == ""


def test_one_turn_is_answered_once_also_when_both_hooks_run_at_the_same_time(place: Place) -> None:
    async def both() -> list[str]:
        return await asyncio.gather(*(place.prompt(QUESTION, prompt_id="t1") for _ in range(2)))

    place.add(PORT)
    assert sorted(map(bool, run(both()))) == [False, True]


def test_a_prompt_told_twice_in_a_moment_is_answered_once_though_its_turn_has_no_name(place: Place) -> None:
    assert "stored this" in run(place.prompt(f"/remember {PORT}"))
    assert run(place.prompt(f"/remember {PORT}")) == ""
    place.hooks.sessions.get("s1").last_turn_at -= 3
    assert run(place.prompt(f"/remember {PORT}"))


def test_a_start_told_twice_in_a_moment_is_answered_once(place: Place) -> None:
    place.add(PORT, category="decisions")
    assert PORT in run(place.hook("SessionStart", source="startup"))
    assert run(place.hook("SessionStart", source="startup")) == ""
    assert PORT in run(place.hook("SessionStart", source="resume"))


def test_a_session_that_is_taken_up_at_once_is_no_repetition(place: Place) -> None:
    place.add(PORT, category="decisions")
    for _ in range(2):
        assert PORT in run(place.hook("SessionStart", source="startup"))
        assert PORT in run(place.prompt("/recall staging database"))
        run(place.hook("SessionEnd", reason="exit"))


class DropsPrompts(ClaudeCode):
    """An agent that passes on no context with a prompt or a start, only with a tool."""

    def parse(self, script: str, payload: Mapping[str, Any]) -> HookEvent | None:
        event = super().parse(script, payload)
        return replace(event, held=event.kind in ("prompt", "session_start")) if event else None

    def render(self, event: HookEvent, context: str) -> bytes:
        return context.encode()

    def context_limit(self, event: HookEvent) -> int:
        return 9_500


def test_what_an_agent_would_drop_is_given_with_the_next_tool_and_counts_from_then(place: Place) -> None:
    place.hooks.accept(TypedCommands(place.operations), {"claude-code": DropsPrompts()}, place.policy)
    place.add(PORT)

    def tell(script: str, event: str, **fields: str) -> str:
        payload = {"session_id": "s1", "cwd": str(place.alpha), "hook_event_name": event, **fields}
        return run(place.hooks.answer(script, {"CLAUDECODE": "1"}, json.dumps(payload).encode())).decode()

    def use_tool() -> str:
        return tell("cems_pre_tool_use", "PreToolUse", tool_name="Bash")

    assert tell("cems_user_prompts_submit", "UserPromptSubmit", prompt=QUESTION, prompt_id="t1") == ""
    # No tool came: the next prompt's block takes the place of the first one's, which was given to nobody.
    assert tell("cems_user_prompts_submit", "UserPromptSubmit", prompt=QUESTION, prompt_id="t2") == ""
    assert use_tool().count(PORT) == 1
    assert use_tool() == ""
    tell("cems_user_prompts_submit", "UserPromptSubmit", prompt=QUESTION, prompt_id="t3")
    assert use_tool() == "", "it was given in this session"


def test_a_command_whose_prompt_carries_words_for_the_model_keeps_only_what_was_typed(place: Place) -> None:
    assert "stored this" in run(place.prompt(f"/remember {PORT}\n\n[CEMS command] The person wants this remembered."))
    rows = run(place.call("list", {}))["memories"]
    assert [row["content"] for row in rows] == [PORT]


class TellsOfCompactionBefore(DropsPrompts):
    """An agent whose only word about compaction comes before it."""

    def parse(self, script: str, payload: Mapping[str, Any]) -> HookEvent | None:
        event = super().parse(script, payload)
        return replace(event, source="compact") if event and event.kind == "pre_compact" else event


def test_compaction_that_is_only_told_beforehand_takes_back_what_was_given_not_what_waits(place: Place) -> None:
    agent = TellsOfCompactionBefore()
    place.hooks.accept(TypedCommands(place.operations), {"claude-code": agent}, place.policy)
    place.add(PORT)

    def tell(script: str, event: str, **fields: str) -> str:
        payload = {"session_id": "s1", "cwd": str(place.alpha), "hook_event_name": event, **fields}
        return run(place.hooks.answer(script, {"CLAUDECODE": "1"}, json.dumps(payload).encode())).decode()

    def prompt(turn: str) -> None:
        assert tell("cems_user_prompts_submit", "UserPromptSubmit", prompt=QUESTION, prompt_id=turn) == ""

    def use_tool() -> str:
        return tell("cems_pre_tool_use", "PreToolUse", tool_name="Bash")

    prompt("t1")
    tell("cems_pre_compact", "PreCompact", trigger="auto")
    assert use_tool().count(PORT) == 1
    prompt("t1")
    assert use_tool() == "", "the turn is still the same"
    prompt("t2")
    assert use_tool() == "", "it was given after the compaction"
    tell("cems_pre_compact", "PreCompact", trigger="auto")
    prompt("t3")
    assert use_tool().count(PORT) == 1


def test_a_command_is_carried_out_once_a_turn(place: Place) -> None:
    assert "stored this" in run(place.prompt(f"/remember {PORT}", prompt_id="t1"))
    assert run(place.prompt(f"/remember {PORT}", prompt_id="t1")) == ""


@pytest.mark.parametrize(
    "prompt", ["yes", "Yes, do it.", "go ahead", "ok, please continue!", "y", "2", "let's do that"]
)
def test_a_bare_yes_is_about_what_the_assistant_said_last(place: Place, prompt: str) -> None:
    place.add(PORT)
    run(place.hook("Stop", last_assistant_message=f"Shall I look up {QUESTION}?"))
    assert PORT in run(place.prompt(prompt))


class TellsWithThePrompt(ClaudeCode):
    """An agent whose prompts say what the assistant said before."""

    def parse(self, script: str, payload: Mapping[str, Any]) -> HookEvent | None:
        event = super().parse(script, payload)
        return replace(event, last_message=f"Shall I look up {QUESTION}?") if event else None


def test_a_bare_yes_is_about_what_the_prompts_own_event_says_before_what_a_stop_said(place: Place) -> None:
    place.hooks.accept(TypedCommands(place.operations), {"claude-code": TellsWithThePrompt()}, place.policy)
    place.add(PORT)
    place.hooks.sessions.get("s1").last_message = "Shall I paint the fence green?"
    assert PORT in run(place.prompt("yes"))


def test_a_bare_yes_to_nothing_gets_nothing(place: Place) -> None:
    place.hooks.policy = RecallPolicy(gate_threshold=0.0)
    place.add("yes means yes, and we continue to go ahead")
    assert run(place.prompt("yes")) == ""
    assert run(place.prompt("yes means what")) != ""


@pytest.mark.parametrize(
    "prompt",
    [
        f"<task-notification>{QUESTION}</task-notification>",
        f"<local-command-stdout>{QUESTION}</local-command-stdout>",
        f"<bash-input>{QUESTION}</bash-input>",
        f"/review {QUESTION}",
        f"  /compact {QUESTION}",
        "",
        " \n ",
    ],
)
def test_machine_turns_slash_commands_and_nothing_are_skipped(place: Place, prompt: str) -> None:
    place.add(PORT)
    assert run(place.prompt(prompt)) == ""


def test_a_turn_the_program_says_it_made_itself_is_skipped(place: Place) -> None:
    place.add(PORT)
    assert run(place.prompt(QUESTION, source="queue")) == ""
    assert run(place.prompt(QUESTION, source="user"))


def test_a_path_at_the_beginning_is_no_command(place: Place) -> None:
    place.add(PORT)
    assert run(place.prompt(f"/etc/hosts aside, {QUESTION}"))


def test_another_projects_session_gets_its_own_memory_only(place: Place) -> None:
    place.add(PORT)
    other = "The staging database listens on port 6000 in beta."
    place.add(other, folder=place.beta)
    text = run(place.prompt(QUESTION, folder=place.beta))
    assert other in text
    assert PORT not in text


def test_a_model_that_changes_into_a_subfolder_stays_in_its_project(place: Place) -> None:
    place.add(PORT)
    below = place.alpha / "src" / "deep"
    below.mkdir(parents=True)
    assert run(place.prompt(QUESTION, folder=below)) == ""
    assert run(place.prompt(QUESTION, folder=below, session="s2", variables={"CLAUDE_PROJECT_DIR": str(place.alpha)}))
    assert run(place.prompt(QUESTION, folder=place.beta, variables={"CLAUDE_PROJECT_DIR": str(place.alpha)})) == ""


def test_the_callers_folder_counts_where_the_agent_names_none(place: Place) -> None:
    place.add(PORT)
    payload = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": QUESTION}
    raw = json.dumps(payload).encode()
    assert run(place.hooks.answer("cems_user_prompts_submit", {"cwd": str(place.alpha)}, raw))
    assert run(place.hooks.answer("cems_user_prompts_submit", {"cwd": str(place.beta)}, raw)) == b""


def test_the_block_keeps_to_the_agents_limit(place: Place) -> None:
    place.hooks.policy = RecallPolicy(token_safety=1.0, max_memories=50, gate_threshold=0.0)
    for i in range(40):
        place.add(f"staging database port {i}: " + "\U0001f389" * 900)
    text = run(place.prompt(QUESTION))
    assert text
    assert utf16_units(text) <= 9_500


# -- input that nobody sends


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"null", b"[]", b"1", b'"x"', b"{}", b"{", b"\xff\xfe\x00", b"[" * 100_000, b'{"a":' * 50_000,
        b'{"session_id": null}', b'{"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": ["x"]}',
        b'{"session_id": "s", "hook_event_name": "Stop", "prompt": "the staging database port"}',
        b'{"session_id": 7, "hook_event_name": "UserPromptSubmit", "prompt": "the staging database port"}',
    ],
)  # fmt: skip
def test_odd_input_is_answered_with_nothing(place: Place, raw: bytes) -> None:
    place.add(PORT)
    assert run(place.hooks.answer("cems_user_prompts_submit", {"cwd": str(place.alpha)}, raw)) == b""


def test_a_script_nobody_knows_is_answered_with_nothing(place: Place) -> None:
    raw = json.dumps({"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": QUESTION}).encode()
    assert run(place.hooks.answer("cems_from_the_future", {}, raw)) == b""


def test_a_byte_order_mark_half_characters_and_a_huge_prompt_do_no_harm(place: Place) -> None:
    place.add(PORT)
    payload = {
        "session_id": "s\ud800",
        "cwd": str(place.alpha),
        "hook_event_name": "UserPromptSubmit",
        "prompt_id": "\udfff",
    }
    payload["prompt"] = f"\ud83d {QUESTION} " + "```\n" + "x = foo(1)\n" * 300_000 + "```"
    answer = run(place.hooks.answer("cems_user_prompts_submit", {}, b"\xef\xbb\xbf" + json.dumps(payload).encode()))
    assert PORT in answer.decode()
    place.restart()


@given(raw=st.one_of(st.binary(max_size=200), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=()), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["session_id", "cwd", "hook_event_name", "prompt", "prompt_id", "source", "x"]), inner, max_size=6
    ),
).map(lambda value: json.dumps(value).encode())))  # fmt: skip
def test_no_input_makes_a_hook_fail(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    place = _shared(tmp_path_factory)
    for script in ("cems_user_prompts_submit", "cems_session_start", "cems_stop"):
        assert isinstance(run(place.hooks.answer(script, {}, raw)), bytes)


_places: list[Place] = []


def _shared(factory: pytest.TempPathFactory) -> Place:
    """One home for all examples: making one takes longer than an example."""
    if not _places:
        _places.append(Place(factory.mktemp("hooks")))
        _places[0].add(PORT)
    return _places[0]


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.json")), ids=lambda path: path.stem)
def test_every_recorded_input_is_answered_under_every_script_without_failing(place: Place, path: Path) -> None:
    scripts = [
        each.stem for each in (Path(hooks_module.__file__).parents[2] / "adapters/claude_code/hooks").glob("cems_*.py")
    ]
    assert len(scripts) > 5
    for script in scripts:
        run(place.hooks.answer(script, {"CLAUDECODE": "1"}, path.read_bytes()))


def test_one_adapters_fault_does_not_silence_the_others(place: Place) -> None:
    class Broken:
        name = "broken"

        def recognises(self, variables: Mapping[str, str], payload: Mapping[str, Any]) -> bool:
            raise ZeroDivisionError

    place.add(PORT)
    place.hooks._agents = {"broken": Broken(), "claude-code": AGENT}  # type: ignore[dict-item]
    assert run(place.prompt(QUESTION))


# -- sessions


def test_a_new_session_gets_the_profile_and_a_resumed_one_the_same_bytes(place: Place) -> None:
    place.add("I prefer short answers.", category="preferences", everywhere=True)
    place.add("We deploy from main.", category="decisions")
    first = run(place.hook("SessionStart", source="startup"))
    assert first.startswith("<cems-profile ")
    assert run(place.hook("SessionStart", source="resume")) == first
    place.restart()
    assert run(place.hook("SessionStart", source="resume")) == first


class Replays(ClaudeCode):
    """An agent that keeps what it was given at a session's start, and shows it to its model again."""

    def parse(self, script: str, payload: Mapping[str, Any]) -> HookEvent | None:
        event = super().parse(script, payload)
        return replace(event, replayed=event.source == "resume") if event else None


def test_an_agent_that_replays_a_session_is_given_its_profile_once(place: Place) -> None:
    place.hooks._agents = {"claude-code": Replays()}
    run(place.prompt("hello"))
    place.add("I prefer short answers.", category="preferences", everywhere=True)
    # It was given none before: there was nothing, or CEMS was not there yet.
    first = run(place.hook("SessionStart", source="resume"))
    assert "short answers" in first
    place.restart()
    place.hooks._agents = {"claude-code": Replays()}
    assert run(place.hook("SessionStart", source="resume")) == ""
    assert run(place.hook("SessionStart", source="compact")) == first


def test_what_the_profile_gave_no_prompt_gives_again(place: Place) -> None:
    place.add(PORT, category="decisions")
    assert PORT in run(place.hook("SessionStart", source="startup"))
    assert run(place.prompt(QUESTION)) == ""


def test_hooks_that_failed_are_told_of_once_at_a_sessions_start(place: Place) -> None:
    now = time.time()
    place.home.hook_failures.write_text(f"{now - 90_000:.3f} cems_stop deadline\n{now - 60:.3f} cems_stop deadline\n")
    told = run(place.hook("SessionStart", source="startup"))
    assert "no answer to 1 of the last day's hooks" in told
    assert "cems doctor" in told
    assert run(place.hook("SessionStart", source="startup", session="s2")) == ""


def test_what_does_not_work_is_told_of_at_a_start_and_not_at_a_resume(place: Place) -> None:
    place.hooks.upgrade(place.hooks._searcher, "the bundled model is damaged")  # type: ignore[arg-type]
    assert "the bundled model is damaged." in run(place.hook("SessionStart", source="startup"))
    assert run(place.hook("SessionStart", source="resume")) == ""


def test_an_ended_session_is_no_longer_alive(place: Place) -> None:
    run(place.hook("SessionStart", source="startup"))
    assert place.hooks.sessions.alive() == 1
    run(place.hook("SessionEnd", reason="other"))
    assert place.hooks.sessions.alive() == 0
