"""The agents' real programs as fixtures, each in a home of its own: `codex` with CEMS set up, `bare_codex` without."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from tests.e2e import programs
from tests.e2e.agent import Agent
from tests.e2e.claude import Claude
from tests.e2e.codex import Codex
from tests.e2e.copilot import Copilot
from tests.e2e.gemini import Gemini
from tests.e2e.goose import Goose
from tests.e2e.opencode import OpenCode
from tests.e2e.pi import Pi
from tests.fakes.model_server import FakeModel
from tests.fakes.sandbox import Sandbox

AGENTS: tuple[type[Agent], ...] = (Claude, Codex, Copilot, Gemini, Goose, OpenCode, Pi)

A = TypeVar("A", bound=Agent)


def agents_required() -> bool:
    """Whether a missing agent is a failure: in CI, and where `./test.sh --agents` asked for them."""
    return os.environ.get("CI") == "true" or os.environ.get("CEMS_REQUIRE_AGENTS") == "1"


def program_of(name: str) -> Path:
    """The agent's real program. Where it is not there the test is left out, or fails if it is required."""
    try:
        return programs.find(name)
    except programs.ProgramMissing as error:
        if agents_required():
            pytest.fail(f"the real program is required here: {error}", pytrace=False)
        pytest.skip(f"left out: {error}")


@pytest.fixture
def model() -> Iterator[FakeModel]:
    """The model service; a request it had to refuse fails the test."""
    with FakeModel() as service:
        yield service
    assert not service.problems, f"the model service complained: {service.problems}"


class Starter:
    """Makes an agent of any kind in a new home, without CEMS."""

    def __init__(self, make_sandbox: Callable[[], Sandbox], model: FakeModel) -> None:
        self._make_sandbox = make_sandbox
        self._model = model

    def __call__(self, kind: type[A]) -> A:
        # The program first: a test without one must not wait for the installation.
        program = program_of(kind.name)
        return kind(program, self._make_sandbox(), self._model)


@pytest.fixture
def start(request: pytest.FixtureRequest, model: FakeModel) -> Starter:
    return Starter(lambda: request.getfixturevalue("make_sandbox")(), model)


def with_cems(agent: A) -> A:
    """The same agent, after `cems setup` in its home and what a person then does in the agent."""
    agent.sandbox.cems("setup", "--yes", "--no-prove").ok()
    agent.approve()
    return agent


@pytest.fixture
def bare_claude(start: Starter) -> Claude:
    return start(Claude)


@pytest.fixture
def claude(bare_claude: Claude) -> Claude:
    return with_cems(bare_claude)


@pytest.fixture
def bare_codex(start: Starter) -> Codex:
    return start(Codex)


@pytest.fixture
def codex(bare_codex: Codex) -> Codex:
    """Nobody has trusted its hooks yet: `codex.approve()`, or `with_cems`."""
    bare_codex.sandbox.cems("setup", "--yes", "--no-prove").ok()
    return bare_codex


@pytest.fixture
def bare_copilot(start: Starter) -> Copilot:
    return start(Copilot)


@pytest.fixture
def copilot(bare_copilot: Copilot) -> Copilot:
    return with_cems(bare_copilot)


@pytest.fixture
def bare_gemini(start: Starter) -> Gemini:
    return start(Gemini)


@pytest.fixture
def gemini(bare_gemini: Gemini) -> Gemini:
    return with_cems(bare_gemini)


@pytest.fixture
def bare_goose(start: Starter) -> Goose:
    return start(Goose)


@pytest.fixture
def goose(bare_goose: Goose) -> Goose:
    return with_cems(bare_goose)


@pytest.fixture
def bare_opencode(start: Starter) -> OpenCode:
    return start(OpenCode)


@pytest.fixture
def opencode(bare_opencode: OpenCode) -> OpenCode:
    return with_cems(bare_opencode)


@pytest.fixture
def bare_pi(start: Starter) -> Pi:
    return start(Pi)


@pytest.fixture
def pi(bare_pi: Pi) -> Pi:
    return with_cems(bare_pi)
