"""What a hook before a tool is answered: the verdict of the person's gate rules, in the agent's shape. Light."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping, Sequence

from cems.core.events import HookAgent, HookEvent
from cems.core.rules.agreement import agrees
from cems.core.rules.guard import Guard, Judgement, folders_of, judgement
from cems.core.rules.patterns import Call
from cems.core.scope import SessionScope
from cems.core.service.ancestry import with_agents
from cems.core.service.caller import typist
from cems.core.service.sessions import Session

logger = logging.getLogger("cems.hooks")


class ToolGate:
    """The rules, and what each session's person agreed to."""

    def __init__(self) -> None:
        self._guard = Guard()

    def answer(
        self,
        connection: sqlite3.Connection,
        agent: HookAgent,
        event: HookEvent,
        session: Session,
        scope: SessionScope,
        folders: Sequence[str],
    ) -> tuple[bytes, list[str]]:
        """The bytes for the hook's output, and the rules they come from; empty where the tool may run unremarked.

        `folders` are the working folder and those the agent names as the project's.
        """
        call = Call(event.tool, event.subject, folders_of(folders[0] if folders else "", folders[1:]))
        judged = self._guard.judge(connection, scope.readable, call)
        if judged is not None and getattr(agent, "cannot_ask", False):
            judged = _unless_agreed(judged, call, session)
        answer = agent.render_verdict(event, judged.verdict) if judged else b""
        if judged is None or not answer:
            return b"", []
        logger.info("%s: %s by %d rules", event.tool[:40], judged.verdict.severity, len(judged.rules))
        return answer, [rule.memory for rule in judged.rules]

    def hear(self, event: HookEvent, session: Session, context: Mapping[str, str]) -> None:
        """A prompt may be the person's yes to what a rule wanted asked; no other agent's is."""
        if event.kind != "prompt" or event.machine_turn:
            return
        yes = agrees(event.prompt)
        # To look at the processes takes time: only for an answer that counts.
        if yes and session.agreement.open:
            yes = not typist(event.agent, with_agents(context)).agent
        session.agreement.hear(yes=yes)


def _unless_agreed(judged: Judgement, call: Call, session: Session) -> Judgement | None:
    """The judgement without what the person has agreed to; else the session waits for their yes."""
    if judged.verdict.severity != "confirm":
        return judged
    asking = [rule.memory for rule in judged.rules if rule.severity == "confirm"]
    asked = f"{call.tool}\n{call.subject.strip()}"
    if session.agreement.covers(asking, asked):
        return judgement([rule for rule in judged.rules if rule.severity != "confirm"])
    session.agreement.ask(asking, asked)
    return judged
