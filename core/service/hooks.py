"""What the daemon answers to a hook: recall for a prompt, the profile for a new session, the person's own commands.

Light: it answers before pydantic and LanceDB are imported, from the words in SQLite, and is given the rest later.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import re
import sqlite3
from collections.abc import Mapping
from typing import Any, Protocol

from cems import __version__
from cems.core.events import HookAgent, HookEvent
from cems.core.paths import Home
from cems.core.policy import RecallPolicy, read_snapshot
from cems.core.recall.candidate import Explanation
from cems.core.recall.engine import KeywordSearcher, Searcher, recall
from cems.core.recall.profile import profile
from cems.core.recall.render import escape
from cems.core.scope import SessionScope, session_scope
from cems.core.service.sessions import Session, Sessions

logger = logging.getLogger("cems.hooks")

STARTING = "the daemon is still starting: words only"
_COMMAND = re.compile(r"\s*/(?:cems:)?(remember|recall|forget|share|context)\b[ \t]*(.*)\Z", re.DOTALL)
_SLASH_COMMAND = re.compile(r"\s*/[\w:.-]+(\s|$)")
_BARE_ASSENT = re.compile(
    r"\s*(yes|yep|yeah|y|ok|okay|sure|go|go ahead|do it|do that|please do|continue|proceed|sounds good|yes please)[\s.!]*",
    re.IGNORECASE,
)
_FRESH_CONTEXT = ("compact", "clear")
_COMMAND_SECONDS = 0.7
_LAST_MESSAGE = 600


class Commands(Protocol):
    """What the person typed to CEMS itself (`/remember …`): done in the second stage, where memory can be changed."""

    async def run(
        self, name: str, text: str, event: HookEvent, scope: SessionScope, variables: Mapping[str, str]
    ) -> str: ...


class HookService:
    """Answers hooks; `upgrade` gives it vectors, `connect` the records, `accept` the commands."""

    def __init__(self, home: Home, agents: Mapping[str, HookAgent], policy: RecallPolicy, sessions: Sessions) -> None:
        self.home = home
        self.sessions = sessions
        self.policy = policy
        self._agents = dict(agents)
        self._connection: sqlite3.Connection | None = None
        self._searcher: Searcher | None = None
        self._commands: asyncio.Future[Commands] | None = None
        self._waiting_commands: Commands | None = None

    def connect(self, connection: sqlite3.Connection, reason: str = STARTING) -> None:
        """Answer from these records, by words, from now on."""
        self._connection = connection
        self._searcher = KeywordSearcher(connection, reason)

    def upgrade(self, searcher: Searcher) -> None:
        """Answer with this searcher from now on."""
        self._searcher = searcher

    def accept(self, commands: Commands, agents: Mapping[str, HookAgent], policy: RecallPolicy) -> None:
        """The second stage is there: commands can be carried out, and the settings are read in full."""
        self._waiting_commands = commands
        self._agents = dict(agents)
        self.policy = policy
        if self._commands is not None and not self._commands.done():
            self._commands.set_result(commands)

    async def answer(self, script: str, context: Mapping[str, str], raw: bytes) -> bytes:
        """The bytes for the hook's standard output; empty when there is nothing to say or nobody we know asked."""
        try:
            payload: Any = json.loads(raw.decode("utf-8", "replace"))
        except ValueError:
            return b""
        if not isinstance(payload, dict):
            return b""
        agent = next((each for each in self._agents.values() if each.recognises(context, payload)), None)
        event = agent.parse(script, payload) if agent else None
        if agent is None or event is None:
            return b""
        text = await self._text(event, context, agent.context_limit(event))
        return agent.render(event, text) if text else b""

    async def explain(self, prompt: str, scope: SessionScope, session: str = "", max_units: int = 9_500) -> Explanation:
        """What a prompt would be given now, without giving it."""
        if self._searcher is None:
            return Explanation("skipped", "there are no memories yet")
        shown = set(self.sessions.get(session).shown) if session else set()
        return await recall(prompt, scope, self._searcher, self.policy, already_shown=shown, max_units=max_units)

    def close(self) -> None:
        self.sessions.close()

    async def _text(self, event: HookEvent, context: Mapping[str, str], limit: int) -> str:
        session = self.sessions.get(event.session)
        scope = session_scope(event.cwd or context.get("cwd", ""))
        self.sessions.touch(session, agent=event.agent, scope=scope.project or "", ended=event.kind == "session_end")
        match event.kind:
            case "session_start":
                return self._start(event, session, scope, limit)
            case "prompt":
                return await self._prompt(event, session, scope, context, limit)
            case "stop":
                session.last_message = event.last_message[-_LAST_MESSAGE:]
        return ""

    def _start(self, event: HookEvent, session: Session, scope: SessionScope, limit: int) -> str:
        if event.source in _FRESH_CONTEXT:
            self.sessions.take_back(session)
        if self._connection is None:
            return ""
        text, ids = profile(self._connection, scope, self.policy, max_units=limit)
        self.sessions.give(session, ids, "profile")
        return text

    async def _prompt(
        self, event: HookEvent, session: Session, scope: SessionScope, context: Mapping[str, str], limit: int
    ) -> str:
        if event.machine_turn:
            return ""
        if command := _COMMAND.match(event.prompt):
            return await self._command(command[1], command[2].strip(), event, scope, context)
        if _SLASH_COMMAND.match(event.prompt) or self._searcher is None:
            return ""
        if event.turn and event.turn == session.last_turn:
            # Another agent's program runs the same hook again for this turn: once is enough.
            return ""
        prompt = event.prompt
        if _BARE_ASSENT.fullmatch(prompt) and session.last_message:
            prompt = session.last_message
        explanation = await recall(
            prompt, scope, self._searcher, self.policy, already_shown=session.shown, max_units=limit
        )
        session.last_turn = event.turn
        if explanation.block:
            self.sessions.give(session, [candidate.id for candidate in explanation.injected], "prompt")
        logger.info(
            "prompt: %s, %d candidates, %d injected, %d tokens, %s ms",
            explanation.mode, len(explanation.candidates), len(explanation.injected), explanation.tokens,
            explanation.stages.get("search_ms", 0),
        )  # fmt: skip
        return explanation.block

    async def _command(
        self, name: str, text: str, event: HookEvent, scope: SessionScope, context: Mapping[str, str]
    ) -> str:
        if self._waiting_commands is None and self._commands is None:
            self._commands = asyncio.get_running_loop().create_future()
        work = asyncio.ensure_future(self._run_command(name, text, event, scope, context))
        try:
            # The hook leaves at its deadline; what was typed is carried out all the same.
            answer = await asyncio.wait_for(asyncio.shield(work), _COMMAND_SECONDS)
        except TimeoutError:
            answer = "CEMS has taken this and carries it out as soon as its daemon has started; do not do it again."
        return f"<cems-note>{escape(answer)}</cems-note>" if not answer.startswith("<cems-") else answer

    async def _run_command(
        self, name: str, text: str, event: HookEvent, scope: SessionScope, context: Mapping[str, str]
    ) -> str:
        commands = self._waiting_commands
        if commands is None and self._commands is not None:
            commands = await self._commands
        return await commands.run(name, text, event, scope, context) if commands else ""


def load_agents(targets: Mapping[str, str]) -> dict[str, HookAgent]:
    """Adapters by name from their `module:attribute`; one that does not import is left out and logged."""
    agents: dict[str, HookAgent] = {}
    for name, target in targets.items():
        module, _, attribute = target.partition(":")
        try:
            agents[name] = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            logger.error("the adapter %s does not load (%s)", name, type(error).__name__)
    return agents


def registered_agents() -> dict[str, str]:
    """Adapters that installed packages register (`cems.agents`), as `module:attribute` by name. Slow: 60 ms."""
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group="cems.agents")} or dict(_BUILT_IN)


# A checkout on the path without being installed has no entry points.
_BUILT_IN = {"claude-code": "cems.adapters.claude_code.agent:AGENT"}


def open_stage_one(home: Home) -> HookService:
    """The service as the first stage has it: agents and settings from the last start's snapshot, words from SQLite."""
    snapshot = read_snapshot(home, __version__)
    targets = snapshot.agents if snapshot else registered_agents()
    policy = snapshot.policy if snapshot else _policy_without_snapshot(home)
    service = HookService(home, load_agents(targets), policy, Sessions(home.state))
    connection = _records(home)
    if connection is not None:
        service.connect(connection)
    return service


def _policy_without_snapshot(home: Home) -> RecallPolicy:
    """A setting may have changed since the last start: read them all, which takes a third of a second more."""
    try:
        from cems.core.config import load, recall_policy

        return recall_policy(load(home))
    except Exception as error:  # noqa: BLE001 - the second stage reports it; hooks go on with the defaults
        logger.error("the settings cannot be read: %s", error)
        return RecallPolicy()


def _records(home: Home) -> sqlite3.Connection | None:
    """A reader of the records, when they are there and of this version."""
    from cems.core.recall.versions import records_are_current

    if not home.journal.exists():
        return None
    try:
        connection = sqlite3.connect(
            f"file:{home.journal}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )
        if records_are_current(connection):
            return connection
        connection.close()
    except sqlite3.Error as error:
        logger.error("the records cannot be read yet (%s)", type(error).__name__)
    return None
