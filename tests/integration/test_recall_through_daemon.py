"""Recall through a real daemon in a home of its own: hook input in, the agent's JSON out, over the real socket."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.daemon_home import REPOSITORY, DaemonHome, wait_for

from cems.core.service.client import Client

PORT = "The staging database listens on port 5433, not 5432."
QUESTION = "connect the report job to the staging database"


class Machine(DaemonHome):
    """A person's home with a daemon of this checkout, and a project to work in."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, REPOSITORY / "src")
        self.alpha, self.beta = root / "alpha", root / "beta"
        for folder in (self.alpha, self.beta):
            folder.mkdir()

    def start(self) -> int:
        """Start a daemon and wait until it has its store; returns its pid."""
        pid = self.daemon().pid
        self.call("settle", {"seconds": 60})
        return pid

    def call(self, op: str, body: dict[str, Any], folder: Path | None = None) -> dict[str, Any]:
        """One operation, as the person's command line in the project's folder asks for it."""
        before = Path.cwd()
        os.chdir(folder or self.alpha)
        try:
            return Client(self.home).call(op, body, start=False, timeout=90)
        finally:
            os.chdir(before)

    def ask(self, prompt: str, *, session: str = "s1", folder: Path | None = None, **fields: str) -> str:
        """What Claude Code's prompt hook puts in front of the model."""
        return self.event("cems_user_prompts_submit", "UserPromptSubmit", session, folder, prompt=prompt, **fields)

    def begin(self, source: str, *, session: str = "s1") -> str:
        return self.event("cems_session_start", "SessionStart", session, None, source=source)

    def event(self, script: str, name: str, session: str, folder: Path | None, **fields: str) -> str:
        payload = {"session_id": session, "cwd": str(folder or self.alpha), "hook_event_name": name, **fields}
        done = self.hook(script, json.dumps(payload).encode(), env={"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli"})
        assert (done.returncode, done.stderr) == (0, b""), done
        return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""


@pytest.fixture(scope="module")
def machine(session_root: Path) -> Iterator[Machine]:
    made = Machine(Path(tempfile.mkdtemp(prefix="d", dir=session_root)).resolve())
    made.start()
    yield made
    made.end()


@pytest.fixture(autouse=True)
def clean(machine: Machine) -> None:
    """Nothing is remembered when a test begins."""
    for folder in (machine.alpha, machine.beta):
        listed = machine.call("list", {"limit": 500}, folder)["memories"]
        if listed:
            machine.call("forget", {"ids": [each["id"] for each in listed]}, folder)


_sessions = iter(range(10_000))


@pytest.fixture
def session() -> str:
    return f"session-{next(_sessions)}"


def add(machine: Machine, content: str, folder: Path | None = None, **fields: Any) -> str:
    answer = machine.call("add", {"content": content, **fields}, folder)
    assert answer["id"], answer
    return str(answer["id"])


def test_what_was_added_stands_beside_the_next_prompt_and_an_unrelated_one_gets_nothing(
    machine: Machine, session: str
) -> None:
    memory = add(machine, f"{PORT} (1)")
    text = machine.ask(QUESTION, session=session)
    assert text.startswith("<cems-memory ")
    assert f"{PORT} (1)" in text
    assert memory[:10] in text
    assert machine.ask("make the header font bold", session=session) == ""
    assert machine.ask(QUESTION, session=session) == ""


def test_it_is_found_by_meaning_too(machine: Machine) -> None:
    memory = add(machine, "Deployments to production happen on Tuesdays only. (2)")
    machine.call("settle", {})
    answer = machine.call("why", {"prompt": "when may I ship a release"})
    assert answer["mode"] == "hybrid"
    assert answer["candidates"][0]["id"] == memory
    assert answer["candidates"][0]["cosine"] > 0.2


def test_another_project_gets_its_own_memory_and_not_this_ones(machine: Machine, session: str) -> None:
    add(machine, f"{PORT} (3)")
    add(machine, "The staging database of beta listens on port 6000. (3)", machine.beta)
    text = machine.ask(QUESTION, session=session, folder=machine.beta)
    assert "port 6000" in text
    assert "port 5433" not in text


def test_a_forget_counts_for_the_very_next_prompt(machine: Machine, session: str) -> None:
    memory = add(machine, f"{PORT} (4)")
    add(machine, "The staging database runs PostgreSQL 16 for the report job. (4)")
    machine.call("settle", {})
    machine.call("forget", {"id": memory})
    text = machine.ask(QUESTION, session=session)
    assert "PostgreSQL 16" in text
    assert "port 5433" not in text


def test_what_a_person_types_is_stored_and_recalled_in_a_new_session(machine: Machine, session: str) -> None:
    assert "stored this" in machine.ask(f"/remember {PORT} (5)", session=session)
    assert "(5)" in machine.ask(QUESTION, session=f"{session}-next")


def test_a_sessions_profile_is_the_same_on_resume_and_after_a_crash_nothing_is_given_twice(
    machine: Machine, session: str
) -> None:
    add(machine, "We deploy from main. (6)", category="decisions")
    add(machine, f"{PORT} (6)")
    profile = machine.begin("startup", session=session)
    assert "We deploy from main. (6)" in profile
    assert machine.ask(QUESTION, session=session)
    time.sleep(1.5)
    pid = machine.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: machine.pid() is None)
    machine.start()
    assert machine.begin("resume", session=session).split("\n<cems-note>")[0] == profile
    assert machine.ask(QUESTION, session=session) == ""
    machine.begin("compact", session=session)
    assert machine.ask(QUESTION, session=session)


def test_a_cold_daemon_answers_the_first_prompt_by_words(machine: Machine, session: str) -> None:
    add(machine, f"{PORT} (7)")
    pid = machine.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: machine.pid() is None)
    # The hook itself starts the daemon; the memory comes before the model is loaded.
    assert "(7)" in machine.ask("which port does the staging database listen on", session=session)
    machine.call("settle", {"seconds": 60})


def test_errors_carry_their_exit_status(machine: Machine) -> None:
    from cems.core.service.client import OperationError

    for op, body, code, status in (
        ("show", {"id": "m_ffff"}, "not_found", 3),
        ("add", {"content": ""}, "usage", 2),
        ("search", {"query": "port", "scope": "project:elsewhere"}, "refused", 4),
    ):
        with pytest.raises(OperationError) as caught:
            machine.call(op, body)
        assert (caught.value.code, caught.value.exit_code) == (code, status)
