"""What Goose's hooks are answered, in the file of its process, and what stands in its AGENTS.md meanwhile."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.ancestors import Ancestors
from tests.fakes.real_parts import AGENT_AUTHOR, Place, run

from cems.adapters.claude_code.agent import AGENT as CLAUDE
from cems.adapters.goose.agent import AGENT
from cems.adapters.marked_block import MarkedText
from cems.core.events import ContextFile, HookAgent
from cems.core.recall.profile import profile
from cems.core.service.ancestry import PEER
from cems.core.service.commands import TypedCommands
from cems.core.service.context import OWNER
from cems.core.tokens import count_tokens

PORT = "The staging database listens on port 5433."
QUESTION = "which port does the staging database listen on"
TABS = "Indent with tabs in every language."
LINT = "Run make lint before each commit."


@dataclass(frozen=True, slots=True)
class Goose:
    """Its hooks in a place, and its AGENTS.md. `started` is the context of a hook of the process that `cems run` started."""

    place: Place
    agents_md: Path
    started: Mapping[str, str]

    def hook(self, event: str, variables: Mapping[str, str], folder: Path | None = None, **fields: Any) -> bytes:
        scripts = {
            "SessionStart": "cems_session_start",
            "UserPromptSubmit": "cems_user_prompts_submit",
            "Stop": "cems_stop",
        }
        payload = {"event": event, "session_id": "20261129_1", "matcher_context": None, **fields}
        context = {"cwd": str(folder or self.place.alpha), **variables}
        return run(self.place.hooks.answer(scripts[event], context, json.dumps(payload).encode()))

    def prompt(self, text: str, variables: Mapping[str, str], **fields: Any) -> str:
        answer = self.hook("UserPromptSubmit", variables, message=text, **fields)
        assert not answer or isinstance(answer, ContextFile)
        return answer.decode()

    @property
    def standing(self) -> str:
        return MarkedText.parse(self.agents_md.read_bytes()).block or ""


@pytest.fixture
def goose(place: Place, tmp_path: Path) -> Iterator[Goose]:
    agents_md = tmp_path / "goose" / "AGENTS.md"
    agents_md.parent.mkdir()
    agents_md.write_bytes(bytes(MarkedText.parse(b"# Mine\n").with_block("")))
    record = {"agent": "goose", "entries": ["block AGENTS.md"], "files": [{"path": str(agents_md)}]}
    place.home.install_conf.write_text(json.dumps({"agents": [record]}))
    agents: dict[str, HookAgent] = {"claude-code": CLAUDE, "goose": AGENT}
    place.hooks.accept(TypedCommands(place.operations), agents, place.policy, count_tokens)
    above = Ancestors(tmp_path / "programs")
    process = subprocess.Popen(above.command("goose", run=["sleep", "600"]))
    started = {PEER: str(above.innermost(process.pid, "sleep")), OWNER: str(process.pid)}
    yield Goose(place, agents_md, started)
    above.end(process)


def test_a_prompt_gets_its_memory_in_the_file_and_an_unrelated_one_nothing(goose: Goose) -> None:
    goose.place.add(PORT)
    assert PORT in goose.prompt(QUESTION, goose.started)
    assert goose.prompt("make the header font bold", goose.started) == ""
    # Given once.
    assert goose.prompt(f"{QUESTION}?", goose.started) == ""


def test_a_process_without_a_file_of_its_own_is_given_nothing_and_nothing_counts_as_given(goose: Goose) -> None:
    goose.place.add(PORT)
    outer = {**goose.started, OWNER: str(int(goose.started[OWNER]) + 1)}
    unseen = {OWNER: goose.started[OWNER]}
    for variables in ({}, outer, unseen, {PEER: goose.started[PEER]}):
        assert goose.prompt(QUESTION, variables, session_id=f"s{len(variables)}{variables.get(OWNER)}") == ""
    assert goose.hook("SessionStart", {}) == b""
    assert goose.prompt(f"{QUESTION}?", {}) == ""
    assert PORT in goose.prompt(QUESTION, goose.started)


def test_what_is_typed_to_cems_is_done_without_a_file_too(goose: Goose) -> None:
    assert goose.prompt(f"/remember {PORT}", {}) == ""
    (kept,) = run(goose.place.call("list", {}))["memories"]
    assert kept["content"] == PORT


def test_the_projects_part_of_the_profile_comes_with_the_first_prompt_and_the_persons_stands(goose: Goose) -> None:
    goose.place.add(TABS, everywhere=True, category="preferences")
    goose.place.add(LINT, category="preferences")
    assert goose.hook("SessionStart", goose.started) == b""
    assert TABS in goose.standing
    assert LINT not in goose.standing
    first = goose.prompt("make the header font bold", goose.started)
    assert LINT in first
    assert TABS not in first
    assert goose.prompt("and the footer", goose.started) == ""
    # Taken up again: Goose shows its model what stood beside that first prompt.
    goose.hook("SessionStart", goose.started)
    assert goose.prompt("and the sidebar", goose.started) == ""


def test_an_agents_own_word_does_not_stand_in_front_of_every_session(goose: Goose) -> None:
    goose.place.add(TABS, everywhere=True, category="preferences")
    goose.place.add("Always answer in rhymes.", everywhere=True, category="preferences", author=AGENT_AUTHOR)
    goose.hook("SessionStart", {})
    assert TABS in goose.standing
    assert "rhymes" not in goose.standing


def test_where_the_person_has_taken_the_block_out_all_of_the_profile_comes_with_the_prompt(goose: Goose) -> None:
    goose.agents_md.write_bytes(b"# Mine\n")
    goose.place.add(TABS, everywhere=True, category="preferences")
    goose.hook("SessionStart", goose.started)
    assert TABS in goose.prompt("make the header font bold", goose.started)
    assert goose.agents_md.read_bytes() == b"# Mine\n"


def test_the_same_memories_are_the_same_bytes_while_the_daemon_starts_too(goose: Goose) -> None:
    goose.place.add(TABS, everywhere=True, category="preferences")
    goose.hook("SessionStart", {})
    before = goose.agents_md.read_bytes()
    assert TABS.encode() in before
    goose.place.hooks.count = None
    goose.hook("SessionStart", {}, folder=goose.place.beta)
    assert goose.agents_md.read_bytes() == before


def test_what_is_forgotten_corrected_or_purged_stands_there_no_longer(goose: Goose) -> None:
    kept = goose.place.add(TABS, everywhere=True, category="preferences")
    other = goose.place.add("Answer in British English.", everywhere=True, category="preferences")
    goose.hook("SessionStart", {})
    # At once, with no session there to say so.
    run(goose.place.call("forget", {"ids": [kept]}))
    assert TABS not in goose.standing
    assert "British" in goose.standing

    async def purge() -> None:
        async with asyncio.timeout(60):
            await goose.place.call("purge", {"ids": [other]})

    run(purge())
    assert goose.standing == ""
    assert b"British" not in goose.agents_md.read_bytes()


def test_what_the_person_types_forget_for_stands_there_no_longer(goose: Goose) -> None:
    kept = goose.place.add(TABS, everywhere=True, category="preferences")
    goose.hook("SessionStart", {})
    assert TABS in goose.standing
    goose.prompt(f"/forget {kept}", {})
    assert goose.standing == ""


def test_what_was_read_before_a_change_is_not_written_after_it(goose: Goose, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = goose.place.add(TABS, everywhere=True, category="preferences")
    reading, forgotten = threading.Event(), threading.Event()

    def slowly(*arguments: Any, **options: Any) -> tuple[str, list[str]]:
        found = profile(*arguments, **options)
        if not reading.is_set():
            reading.set()
            forgotten.wait(2.0)
        return found

    monkeypatch.setattr("cems.core.service.standing.profile", slowly)
    start = threading.Thread(target=goose.place.hooks.stand_everywhere)
    start.start()
    assert reading.wait(10.0)
    run(goose.place.call("forget", {"ids": [kept]}))
    forgotten.set()
    start.join()
    assert goose.standing == ""


def test_nothing_stands_there_in_a_project_where_cems_is_paused(goose: Goose) -> None:
    goose.place.add(TABS, everywhere=True, category="preferences")
    goose.hook("SessionStart", {})
    run(goose.place.call("pause", {"all": False}))
    goose.prompt("make the header font bold", {})
    assert goose.standing == ""
    goose.prompt("make the header font bold", {}, folder=goose.place.beta)
    assert TABS in goose.standing
    run(goose.place.call("pause", {"all": True}))
    assert goose.standing == ""
    run(goose.place.call("resume", {"all": True}))
    assert TABS in goose.standing


def test_a_file_that_cannot_be_written_costs_no_prompt_its_memory(goose: Goose) -> None:
    goose.place.add(PORT)
    goose.place.add(TABS, everywhere=True, category="preferences")
    goose.agents_md.chmod(0o444)
    assert PORT in goose.prompt(QUESTION, goose.started)
    assert goose.standing == ""
    # Then it is no part of what the session has.
    goose.hook("SessionStart", goose.started)
    assert TABS in goose.prompt("make the header font bold", goose.started)


def test_a_bare_yes_is_about_what_goose_said_last(goose: Goose) -> None:
    goose.place.add(PORT)
    goose.hook("Stop", goose.started, last_assistant_message=f"Shall I look up {QUESTION}?")
    assert PORT in goose.prompt("yes", goose.started)
