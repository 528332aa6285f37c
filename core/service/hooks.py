"""What the daemon answers to a hook: recall for a prompt, the profile for a new session, the person's own commands.

Light: it answers before pydantic and LanceDB are imported, from the words in SQLite, and is given the rest later.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from cems import __version__
from cems.core.agent_env import AGENT_VARIABLES
from cems.core.events import HookAgent, HookEvent
from cems.core.paths import Home
from cems.core.pauses import Pause, PauseFile, how_to_resume, where
from cems.core.policy import RecallPolicy, is_plain, read_snapshot
from cems.core.recall import lookup
from cems.core.recall.candidate import Explanation
from cems.core.recall.engine import KeywordSearcher, Patient, Searcher, recall
from cems.core.recall.profile import profile
from cems.core.recall.render import Count, note, utf16_units
from cems.core.scope import Scope, SessionScope, project_scope, session_scope
from cems.core.service import standing
from cems.core.service.adapters import load_agents, recognised, registered_agents, takes_context
from cems.core.service.ancestry import with_agents
from cems.core.service.command_turns import COMMAND, Commands, CommandTurns
from cems.core.service.heard import TRIAL
from cems.core.service.hook_failures import hook_failures
from cems.core.service.sessions import Session, Sessions, Waiting
from cems.core.service.standing import has_standing, stand
from cems.core.service.tool_gate import ToolGate

logger = logging.getLogger("cems.hooks")

STARTING = "the daemon is still starting: words only"
_SLASH_COMMAND = re.compile(r"\s*/[\w:.-]+(\s|$)")
_ASSENT = (
    "yes|yep|yeah|yup|y|ok|okay|sure|go|go ahead|go for it|do it|do that|do so|please|please do|continue|proceed|sounds good|"
    "looks good|lgtm|perfect|great|let['’]?s go|let['’]?s do it|let['’]?s do that|agreed|approved|right|correct|the (?:first|second) one|[1-9]"
)
_BARE_ASSENT = re.compile(rf"\s*(?:(?:{_ASSENT})\b[\s.,!]*){{1,4}}", re.IGNORECASE)
_FRESH_CONTEXT = ("compact", "clear")
VECTOR_SECONDS = 0.5
"""How long a prompt waits for the search by meaning before it is answered by words."""
_LAST_MESSAGE = 600
_DAY = 86_400.0
_NOTE_UNITS = 400
"""Kept free beside the profile for our own notes, so that it is the same text with them and without."""


class HookService:
    """Answers hooks; `upgrade` gives it vectors, `connect` the records, `accept` the commands. One event loop's, but
    these three and `give_up` may be called from any thread."""

    def __init__(self, home: Home, agents: Mapping[str, HookAgent], policy: RecallPolicy, sessions: Sessions) -> None:
        self.home = home
        self.sessions = sessions
        self.pauses = PauseFile(home)
        self.policy = policy
        self.count: Count | None = None
        self._trouble = ""
        self._agents = dict(agents)
        self._gate = ToolGate()
        self._standing = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._searcher: Searcher | None = None
        self._commands = CommandTurns()
        self._told_failures = time.time() - _DAY

    def connect(self, connection: sqlite3.Connection, reason: str = STARTING) -> None:
        """Answer from these records, by words, from now on."""
        self._connection = connection
        self._searcher = KeywordSearcher(connection, reason)

    def upgrade(self, searcher: Searcher, trouble: str = "", *, patience: float = VECTOR_SECONDS) -> None:
        """Answer with this searcher from now on, by words where it takes longer than `patience` seconds. `trouble`: what
        each new session is told does not work."""
        if self._connection is not None and not isinstance(searcher, KeywordSearcher):
            searcher = Patient(searcher, self._connection, patience)
        self._searcher = searcher
        self._trouble = trouble

    def accept(
        self, commands: Commands, agents: Mapping[str, HookAgent], policy: RecallPolicy, count: Count | None = None
    ) -> None:
        """The second stage is there: commands are carried out, settings are read in full, tokens are counted."""
        self._agents = dict(agents)
        self.policy = policy
        self.count = count
        self._commands.accept(commands)

    def give_up(self, reason: str) -> None:
        """The second stage will not come: commands are answered with the reason."""
        self._trouble = reason
        self._commands.give_up(reason)

    @property
    def busy(self) -> bool:
        """Whether something a person typed is still being carried out."""
        return self._commands.busy

    async def answer(self, script: str, context: Mapping[str, str], raw: bytes) -> bytes:
        """The bytes for the hook's standard output; empty when there is nothing to say or nobody we know asked."""
        try:
            payload: Any = json.loads(raw.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            return b""
        if not isinstance(payload, dict):
            return b""
        known = recognised(self._agents, script, context, payload)
        if known is None:
            return b""
        agent, event = known[0], _storable(known[1])
        scope = _scope_of(event, context)
        self._hear(event, scope, event.cwd or context.get("cwd", ""))
        self._gate.hear(event, self.sessions.get(event.session), context)
        if event.kind == "pre_tool" and (answer := self._gated(agent, event, scope, context)):
            return answer
        limit = agent.context_limit(event) if takes_context(agent, context) else 0
        if event.kind in ("session_start", "prompt") and has_standing(agent):
            everywhere = self.stand(agent, scope.project)
            self.sessions.give(self.sessions.get(event.session), everywhere, standing.HOW)
        text = await self._text(event, scope, context, limit)
        return agent.render(event, text) if text else b""

    async def explain(self, prompt: str, scope: SessionScope, session: str = "", max_units: int = 9_500) -> Explanation:
        """What a prompt would be given now, without giving it."""
        if self._searcher is None:
            return Explanation("skipped", "there are no memories yet")
        if pause := self.pauses.read().now(scope.project):
            return Explanation("skipped", f"CEMS is paused {where(pause)}; `{how_to_resume(pause)}` ends that")
        shown = set(self.sessions.get(session).shown) if session else set()
        return await self._recalled(self._searcher, prompt, scope, shown, max_units)

    def close(self) -> None:
        self.sessions.close()

    def _hear(self, event: HookEvent, scope: SessionScope, folder: str) -> None:
        session = self.sessions.get(event.session)
        self.sessions.touch(session, agent=event.agent, scope=scope.project or "", ended=event.kind == "session_end")
        # That setup tries the hook out is not the agent's doing.
        if not os.path.basename(folder.rstrip("/")).startswith(TRIAL):  # noqa: PTH119 - of any system's path, as text
            self.sessions.hear(event.agent, "hook")

    async def _text(self, event: HookEvent, scope: SessionScope, context: Mapping[str, str], limit: int) -> str:
        session = self.sessions.get(event.session)
        if pause := self.pauses.read().now(scope.project):
            return self._while_paused(event, session, pause, limit)
        match event.kind:
            case "session_start":
                return self._start(event, session, scope, limit)
            case "prompt":
                return await self._prompt(event, session, scope, context, limit)
            case "pre_tool" | "post_tool":
                return self._what_waits(session, limit)
            case "pre_compact" if event.source in _FRESH_CONTEXT:
                # Nothing else tells of it: what was given is about to be gone, what waits is not.
                self.sessions.take_back(session, given_only=True, but="profile" if event.replayed else "")
            case "session_end":
                session.start_over()
            case "stop" if event.last_message:
                session.last_message = event.last_message[-_LAST_MESSAGE:]
        return ""

    def _gated(self, agent: HookAgent, event: HookEvent, scope: SessionScope, context: Mapping[str, str]) -> bytes:
        """What the person's gate rules say of a tool call, in the agent's shape; empty where it may run unremarked."""
        if self._connection is None:
            return b""
        session, folders = self.sessions.get(event.session), [event.cwd or context.get("cwd", "")]
        folders += _project_folders(context)
        answer, rules = self._gate.answer(self._connection, agent, event, session, scope, folders)
        # Rules hold during a pause, in which nothing is kept.
        if rules and not self.pauses.read().now(scope.project):
            self.sessions.give(session, rules, "rule")
        return answer

    def stand(self, agent: HookAgent, project: Scope | None = None) -> list[str]:
        """Bring the file up to date that the agent reads in every session; the memories in it. None are in it where CEMS is
        paused."""
        if self._connection is None or not has_standing(agent):
            return []
        # Of two at once, the one that read first must not be the one that writes last.
        with self._standing:
            policy = None if self.pauses.read().now(project) else self.policy
            return stand(self.home, agent, self._connection, policy)

    def stand_everywhere(self) -> None:
        """After a change that must be seen at once, in no session's time. From any thread."""
        for agent in self._agents.values():
            self.stand(agent)

    def _give(self, event: HookEvent, session: Session, text: str, memories: Sequence[str], how: str) -> str:
        """`text`, noted as given; or, where the agent would drop it, nothing yet."""
        if event.held:
            # A block that nothing came for is not given: the next one takes its place.
            session.waiting = [each for each in session.waiting if each.how != how]
            session.waiting += [Waiting(text, tuple(memories), how)] if text else []
            return ""
        self.sessions.give(session, memories, how)
        return text

    def _what_waits(self, session: Session, limit: int) -> str:
        """What waits for an event that the agent takes context from, as much of it as goes with this one."""
        given: list[str] = []
        while session.waiting and utf16_units("\n".join([*given, session.waiting[0].text])) <= limit:
            next_one = session.waiting.pop(0)
            self.sessions.give(session, next_one.memories, next_one.how)
            given.append(next_one.text)
        return "\n".join(given)

    def _while_paused(self, event: HookEvent, session: Session, pause: Pause, limit: int) -> str:
        """Nothing is given and nothing kept; only who types a command to CEMS is told why it is not done."""
        session.last_message = ""
        session.waiting = [each for each in session.waiting if each.how == "paused"]
        if event.kind in ("session_start", "pre_compact") and event.source in _FRESH_CONTEXT:
            self.sessions.take_back(session)
        if event.kind in ("pre_tool", "post_tool"):
            return self._what_waits(session, limit)
        if event.kind != "prompt" or event.machine_turn or not COMMAND.match(event.prompt):
            return ""
        if session.repeats_prompt(event.turn, f"{event.cwd} {event.prompt}"):
            return ""
        told = note(
            f"CEMS is paused {where(pause)}: nothing was looked up, and nothing was stored or changed. Tell the person that "
            f"`{how_to_resume(pause)}`, typed in a terminal, ends the pause; only they can."
        )
        return self._give(event, session, told, (), "paused")

    def _start(self, event: HookEvent, session: Session, scope: SessionScope, limit: int) -> str:
        if event.source in _FRESH_CONTEXT:
            self.sessions.take_back(session)
        if session.repeats_start(event.source, event.cwd):
            return ""
        if not limit:
            return ""
        # A resumed or compacted session was told before; its profile must be the same text.
        health = self._health() if event.source in ("", "startup", "clear") else ""
        if self._connection is None:
            return health
        room = limit - max(utf16_units(health), _NOTE_UNITS) - 1
        told = {each for each, how in session.shown.items() if event.replayed or how == standing.HOW}
        told |= session.spoken_for("profile")
        text, ids = profile(self._connection, scope, self.policy, max_units=room, count=self.count, without=told)
        waits = "" if health or event.source != "startup" else self._waiting_for_review(self._connection, scope)
        return self._give(event, session, "\n".join(part for part in (text, health or waits) if part), ids, "profile")

    def _waiting_for_review(self, connection: sqlite3.Connection, scope: SessionScope) -> str:
        """How much waits for the person's verdict, told at the first start of a day."""
        waiting = lookup.count_where(connection, scope.readable, lookup.WAITING)
        try:
            told = not waiting or not self.sessions.first_today("review")
        except sqlite3.Error as error:
            logger.error("what was told today cannot be noted (%s)", type(error).__name__)
            return ""
        what = "1 memory waits" if waiting == 1 else f"{waiting:,} memories wait"
        return (
            ""
            if told
            else note(
                f"{what} for this person's review. Tell them once: `cems review` in a terminal shows each; only they can decide."
            )
        )

    def _health(self) -> str:
        """What does not work, in a line, for the model to pass on; each failed hook is told of once."""
        since, self._told_failures = self._told_failures, time.time()
        failed = len(hook_failures(self.home, self._told_failures - since))
        told = [f"It gave no answer to {failed} of the last day's hooks."] if failed else []
        if self._trouble:
            told.append(f"{self._trouble.rstrip('.')}.")
        if not told:
            return ""
        return note(
            f"CEMS does not work as it should. {' '.join(told)} Tell the person that `cems doctor` says what to do."
        )

    async def _prompt(
        self, event: HookEvent, session: Session, scope: SessionScope, context: Mapping[str, str], limit: int
    ) -> str:
        if event.machine_turn:
            return ""
        if session.repeats_prompt(event.turn, f"{event.cwd} {event.prompt}"):
            return ""
        if command := COMMAND.match(event.prompt):
            # Looked at now: the hook may be gone when its command is carried out.
            answer = await self._commands.run(command[1], command[2].strip(), event, scope, with_agents(context), limit)
            return self._give(event, session, answer, (), "command")
        if not limit:
            return ""
        # What was held at the session's start comes first, where this is an event that the agent takes context from.
        early = "" if event.held else self._what_waits(session, limit)
        found = await self._recall(event, session, scope, limit - utf16_units(early) - 1)
        return "\n".join(part for part in (early, found) if part)

    async def _recall(self, event: HookEvent, session: Session, scope: SessionScope, limit: int) -> str:
        prompt = event.prompt
        if _BARE_ASSENT.fullmatch(prompt):
            prompt = event.last_message or session.last_message
        if limit <= 0 or not prompt.strip() or _SLASH_COMMAND.match(prompt) or self._searcher is None:
            return ""
        shown = session.shown.keys() | session.spoken_for("prompt")
        explanation = await self._recalled(self._searcher, prompt, scope, shown, limit)
        logger.info(
            "prompt: %s, %d candidates, %d injected, %d tokens, %s ms",
            explanation.mode, len(explanation.candidates), len(explanation.injected), explanation.tokens,
            explanation.stages.get("search_ms", 0),
        )  # fmt: skip
        return self._give(event, session, explanation.block, [each.id for each in explanation.injected], "prompt")

    async def _recalled(
        self, searcher: Searcher, prompt: str, scope: SessionScope, shown: Collection[str], limit: int
    ) -> Explanation:
        return await recall(
            prompt, scope, searcher, self.policy, already_shown=shown, max_units=limit, count=self.count,
            feedback=self.sessions.feedback,
        )  # fmt: skip


def _scope_of(event: HookEvent, context: Mapping[str, str]) -> SessionScope:
    """The session's scope. A folder that only its path identifies belongs to the project folder the agent names above it:
    a model that changes into a subfolder does not leave the project."""
    cwd = event.cwd or context.get("cwd", "")
    scope = session_scope(cwd)
    if scope.project and scope.project.startswith(project_scope("path:")):
        for root in _project_folders(context):
            if f"{cwd}/".startswith(f"{root}/") and (named := session_scope(root)).project:
                return named
    return scope


def _project_folders(context: Mapping[str, str]) -> list[str]:
    """The project folders that an agent's variables name."""
    named = (context.get(name, "").rstrip("/") for name in AGENT_VARIABLES if name.endswith("_PROJECT_DIR"))
    return [folder for folder in named if folder]


def _storable(event: HookEvent) -> HookEvent:
    """The event without half characters, which JSON can carry and neither SQLite nor a model's API takes."""
    texts = {each.name: getattr(event, each.name) for each in fields(event)}
    whole: dict[str, Any] = {
        name: text.encode("utf-8", "replace").decode("utf-8")
        for name, text in texts.items()
        if isinstance(text, str) and not text.isascii()
    }
    return replace(event, **whole) if whole else event


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
    if is_plain(home):
        return RecallPolicy()
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
            f"{home.journal.as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )
        if records_are_current(connection):
            return connection
        connection.close()
    except sqlite3.Error as error:
        logger.error("the records cannot be read yet (%s)", type(error).__name__)
    return None
