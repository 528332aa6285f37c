"""What a person types to CEMS inside an agent: `/remember`, `/recall`, `/forget`, `/share`, `/context`.

The prompt hook sees the line raw, before any model does, so it is the person's own act. The answer is a note for the
model, which the skill of the same name tells it to pass on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cems.core.events import HookEvent
from cems.core.memories import AmbiguousId, Author, NothingMatched, Refused, Statement, Unusable
from cems.core.recall import lookup
from cems.core.recall.render import MEMORY_TAG, SHORT_ID, block
from cems.core.scope import SHARED, USER, Scope, SessionScope, project_name

if TYPE_CHECKING:
    from cems.core.service.operations import Operations

_RECALLED = 8


class TypedCommands:
    """Carries the commands out; each gives one note, errors included."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def run(
        self, name: str, text: str, event: HookEvent, scope: SessionScope, variables: Mapping[str, str]
    ) -> str:
        """The note for `/name text`. Empty where the skill has to find out more first."""
        # Only the interactive program has a person in front of it; `claude -p "/share …"` may be a script's, or a model's.
        author = Author("person", event.agent, event.session, present=variables.get("CLAUDE_CODE_ENTRYPOINT") == "cli")
        try:
            match name:
                case "remember":
                    return await self._remember(text, scope, author)
                case "recall":
                    return await self._recall(text, scope, event)
                case "forget":
                    return await self._forget(text, scope, author)
                case "share":
                    return await self._share(text, scope, author)
            return await self._context(text, scope, event)
        except (Unusable, AmbiguousId, NothingMatched, Refused) as error:
            return f"CEMS: {error}"

    async def _remember(self, text: str, scope: SessionScope, author: Author) -> str:
        if not text:
            return ""
        operations = self._operations
        outcome = await operations._change(operations.memories.remember, Statement(text), scope, author)
        if outcome.status == "refused":
            return f"CEMS did not store this: {outcome.reason}."
        cut = f" {outcome.redacted} secret or private part(s) were cut." if outcome.redacted else ""
        if outcome.status == "duplicate":
            return f"CEMS has this already, as {_short(outcome.id)}. There is nothing to add.{cut}"
        where = f"project {project_name(scope.project)}" if scope.project else "every project"
        return f"CEMS stored this for {where} as {_short(outcome.id)}, trusted. Do not add it again; just confirm it in a line.{cut}"

    async def _recall(self, text: str, scope: SessionScope, event: HookEvent) -> str:
        from cems.core.recall.question import ask

        question = ask(text)
        if question.empty:
            return ""
        found = await self._operations._searcher.search(question, scope.readable, ("trusted", "candidate", "disputed"))
        rows = [candidate.row for candidate in found.candidates[:_RECALLED]]
        session = self._operations.hooks.sessions.get(event.session)
        self._operations.hooks.sessions.give(session, [row["id"] for row in rows], "prompt")
        return block(MEMORY_TAG, rows) if rows else "CEMS found no memory about that here."

    async def _forget(self, text: str, scope: SessionScope, author: Author) -> str:
        if not text:
            return ""
        operations = self._operations
        memories = operations.memories
        hidden: list[lookup.Row]
        if _is_id(text):
            hidden = await operations._change(memories.forget, text.split(), scope, author)
        else:
            try:
                hidden = await operations._change(memories.forget_text, text, scope, author)
            except NothingMatched:
                return (
                    "CEMS has no memory with exactly this text and forgot nothing. Search for what is meant, show the "
                    "person what you found with its id, and ask them to type /forget <id>."
                )
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
        done = await operations._change(operations.memories.widen, memory, Scope(target), scope, author)
        return f"CEMS moved {_short(done)} to the scope {target}."

    async def _context(self, text: str, scope: SessionScope, event: HookEvent) -> str:
        operations = self._operations
        word, _, memory = text.partition(" ")
        if word in ("useful", "noise") and memory:
            row = await operations._write(operations.memories.find, memory.strip(), scope)
            operations.hooks.sessions.mark(row["id"], useful=word == "useful")
            return f"CEMS noted that {_short(row['id'])} was {'useful' if word == 'useful' else 'not needed'}."
        shown = operations.hooks.sessions.get(event.session).shown
        rows = lookup.rows_by_id(operations.reader, list(shown))
        if not rows:
            return "CEMS has given this session nothing so far."
        lines = [
            f"{_short(row['id'])} ({shown[row['id']]}, {row['category']}): {row['content'][:160]}"
            for row in rows.values()
        ]
        return "CEMS has given this session:\n" + "\n".join(lines)


def _is_id(text: str) -> bool:
    return all(part.startswith("m_") and len(part) > 2 for part in text.split())


def _short(memory: Any) -> str:
    return str(memory)[:SHORT_ID]
