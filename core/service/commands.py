"""What a person types to CEMS inside an agent: `/remember`, `/recall`, `/forget`, `/share`, `/context`.

The prompt hook sees the line raw, before any model does, so it is the person's own act. The answer is a note for the
model, which the skill of the same name tells it to pass on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cems.core.events import HookEvent
from cems.core.memories import AmbiguousId, Author, NothingMatched, Refused, Statement, Unusable
from cems.core.recall import lookup
from cems.core.recall.engine import Within
from cems.core.recall.question import ask
from cems.core.recall.render import MEMORY_TAG, SHORT_ID, Block, note, utf16_units
from cems.core.rules.rule import CATEGORY as RULES
from cems.core.rules.rule import is_written_as_rule, parse
from cems.core.scope import SHARED, USER, Scope, SessionScope, project_name
from cems.core.service.caller import typist
from cems.core.service.shapes import is_related
from cems.core.trust import admitted

if TYPE_CHECKING:
    from cems.core.service.operations import Operations

_RECALLED = 8
_SHOWN_CHARS = 160
_ID = re.compile(r"m_[0-9a-f]+|[0-9a-f]{4,24}", re.IGNORECASE)
_CUT = "\n…"
# As with the operations of these names: what agents read in every session may hold what is no longer to be read there.
_TAKES_BACK = ("forget", "share")


class TypedCommands:
    """Carries the commands out; each gives one note, errors included."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def run(
        self, name: str, text: str, event: HookEvent, scope: SessionScope, variables: Mapping[str, str], limit: int
    ) -> str:
        """What the model is told of `/name text`, at most `limit` UTF-16 units. Empty where the skill has to find out
        more first."""
        # Only the interactive program has a person in front of it; `claude -p "/share …"` may be a script's, or a model's.
        other, present = typist(event.agent, variables)
        author = Author("agent" if other else "person", other or event.agent, event.session, present=present)
        try:
            match name:
                case "remember":
                    answer = await self._remember(text, scope, author)
                case "recall":
                    return await self._recall(text, scope, event, limit)
                case "forget":
                    answer = await self._forget(text, scope, author)
                case "share":
                    answer = await self._share(text, scope, author)
                case _:
                    answer = await self._context(text, scope, event)
        except (Unusable, AmbiguousId, NothingMatched, Refused) as error:
            answer = f"CEMS: {error}"
        if name in _TAKES_BACK:
            await asyncio.to_thread(self._operations.hooks.stand_everywhere)
        return _note(answer, limit)

    async def _remember(self, text: str, scope: SessionScope, author: Author) -> str:
        if not text:
            return ""
        operations = self._operations
        rule = is_written_as_rule(text)
        statement = Statement(text, category=RULES) if rule else Statement(text)
        outcome = await operations.change(operations.memories.remember, statement, scope, author)
        if outcome.status == "refused":
            return f"CEMS did not store this: {outcome.reason}."
        cut = f" {outcome.redacted} secret or private part(s) were cut." if outcome.redacted else ""
        if outcome.status == "duplicate":
            return f"CEMS has this already, as {_short(outcome.id)}. There is nothing to add.{cut}"
        where = f"project {project_name(scope.project)}" if scope.project else "every project"
        trust = "trusted" if author.is_person else "unverified, since another agent ran this one"
        what = f"this as a gate rule ({parse(text).severity})" if rule else "this"
        return f"CEMS stored {what} for {where} as {_short(outcome.id)}, {trust}. Do not add it again; just confirm it in a line.{cut}"

    async def _recall(self, text: str, scope: SessionScope, event: HookEvent, limit: int) -> str:
        question = ask(text)
        if question.empty:
            return ""
        hooks = self._operations.hooks
        within = Within(scope.readable, admitted(hooks.policy), for_prompt=True)
        found = await self._operations.searcher.search(question, within)
        block = Block(
            MEMORY_TAG,
            max_tokens=hooks.policy.token_budget / hooks.policy.token_safety,
            max_units=limit,
            count=hooks.count,
        )
        related = [candidate for candidate in found.candidates if is_related(candidate)]
        given = [candidate.id for candidate in related[:_RECALLED] if block.add(candidate.row)]
        hooks.sessions.give(hooks.sessions.get(event.session), given, "prompt")
        return block.text or _note("CEMS found no memory about that here.", limit)

    async def _forget(self, text: str, scope: SessionScope, author: Author) -> str:
        if not text:
            return ""
        operations = self._operations
        memories = operations.memories
        words = text.split()
        hidden: list[lookup.Row]
        if all(word.lower().startswith("m_") and _ID.fullmatch(word) for word in words):
            hidden = await operations.change(memories.forget, words, scope, author)
        else:
            try:
                hidden = await operations.change(memories.forget_text, text, scope, author)
            except NothingMatched:
                if not all(map(_ID.fullmatch, words)):
                    return (
                        "CEMS has no memory with exactly this text and forgot nothing. Search for what is meant, show the "
                        "person what you found with its id, and ask them to type /forget <id>."
                    )
                hidden = await operations.change(memories.forget, words, scope, author)
        names = ", ".join(_short(row["id"]) for row in hidden)
        return f"CEMS forgot {names}: hidden everywhere, and the same text will not be stored again until the person lifts it."

    async def _share(self, text: str, scope: SessionScope, author: Author) -> str:
        memory, _, target = text.partition(" ")
        if not memory:
            return ""
        target = target.strip() or USER
        if target not in (USER, SHARED):
            return "CEMS shares a memory to user or to shared: /share ID user."
        operations = self._operations
        done = await operations.change(operations.memories.widen, memory, Scope(target), scope, author)
        return f"CEMS moved {_short(done)} to the scope {target}."

    async def _context(self, text: str, scope: SessionScope, event: HookEvent) -> str:
        operations = self._operations
        word, _, memory = text.partition(" ")
        if word in ("useful", "noise") and memory:
            row = await operations.on_writer(operations.memories.find, memory.strip(), scope)
            operations.hooks.sessions.mark(row["id"], useful=word == "useful")
            return f"CEMS noted that {_short(row['id'])} was {'useful' if word == 'useful' else 'not needed'}."
        shown = operations.hooks.sessions.get(event.session).shown
        rows = lookup.rows_by_id(operations.reader, list(shown))
        # What was forgotten, or has left this scope since it was given, is not shown again.
        visible = [row for memory, row in rows.items() if row["state"] != "hidden" and row["scope"] in scope.readable]
        if not visible:
            return "CEMS has given this session nothing so far."
        lines = [
            f"{_short(row['id'])} ({shown[row['id']]}, {row['category']}): {row['content'][:_SHOWN_CHARS]}"
            for row in visible
        ]
        return "CEMS has given this session:\n" + "\n".join(lines)


def _note(answer: str, limit: int) -> str:
    """The answer as a note of at most `limit` UTF-16 units: whole lines, as many as fit."""
    made = note(answer)
    lines = answer.split("\n")
    while utf16_units(made) > limit and len(lines) > 1:
        lines.pop()
        made = note("\n".join(lines) + _CUT)
    return made if utf16_units(made) <= limit else ""


def _short(memory: Any) -> str:
    return str(memory)[:SHORT_ID]
