"""The gateway: the one place where memory is changed. Every way in (command line, hooks, MCP, import) goes through it.

It redacts, consults the forgotten values, decides trust by who speaks, keeps to the caller's scopes, and writes each
change, and each refusal, to the journal. Its methods run on the writer's thread.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import ValidationError

from cems.core.fold import Operation
from cems.core.journal import Draft, Journal, operations_on
from cems.core.memory import MAX_CONTENT, Actor, Memory, MemoryId, Source, category_name, memory_id
from cems.core.recall import lookup
from cems.core.records import is_tombstoned
from cems.core.redact import clean
from cems.core.scope import SHARED, USER, Scope, SessionScope
from cems.core.value import ValueKey, value_key

_CONTROL = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), " ")
_SHORT = 10


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes a memory. `present` is true for a person at a terminal outside any agent."""

    actor: Actor
    agent: str = ""
    session: str = ""
    present: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """What is to be remembered, as given. `scope` empty means the session's own."""

    content: str
    category: str = "general"
    title: str = ""
    kind: str = ""
    tags: tuple[str, ...] = ()
    scope: str = ""
    confidence: float | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    recorded_at: str | None = None
    quote: str = ""
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a statement. `redacted` counts secrets and private spans cut from it."""

    status: Literal["added", "duplicate", "candidate", "refused"]
    id: MemoryId | None
    reason: str = ""
    redacted: int = 0
    memory: Memory | None = field(default=None, compare=False)


class Unusable(Exception):
    """Input that no caller may give (a bad date, an empty text): a usage error."""


class NothingMatched(Exception):
    """No memory in the caller's scopes is meant by that id or text."""


class AmbiguousId(Exception):
    """Several memories have ids that begin so."""


class Refused(Exception):
    """The change is not the caller's to make; it is in the journal as refused."""


class Memories:
    """The gateway over one journal."""

    def __init__(self, journal: Journal, key: bytes, count_tokens: Callable[[str], int]) -> None:
        self._journal = journal
        self._key = key
        self._count_tokens = count_tokens

    # -- remembering ---------------------------------------------------------------------------------------------

    def remember(self, statement: Statement, scope: SessionScope, author: Author) -> Outcome:
        """Add one statement; durable on return. Raises Unusable; a refusal is an outcome, and journaled."""
        draft = self._prepare(statement, scope, author)
        if isinstance(draft, Outcome):
            return draft
        cleaned, redacted = draft
        target = self._target(cleaned, scope, author)
        settled = self._known_value(cleaned, target, scope, author, redacted)
        if settled is not None:
            return settled
        memory, salt = self._compose(cleaned, target, author)
        self._journal.append([self._draft("remember", memory.id, {"memory": _payload(memory)}, author, salt)])
        status: Literal["added", "candidate"] = "added" if memory.trust == "trusted" else "candidate"
        reason = "" if status == "added" else "noted by an agent; shown as unverified until a person approves it"
        return Outcome(status, memory.id, reason, redacted, memory)

    def correct(
        self, prefix: str, changes: dict[str, Any], scope: SessionScope, author: Author, reason: str = ""
    ) -> tuple[Outcome, MemoryId]:
        """Close a memory and put a corrected one in its place; returns the outcome and the closed one's id.

        Raises NothingMatched, AmbiguousId, Unusable.
        """
        old = self.find(prefix, scope)
        if old["state"] != "live":
            raise NothingMatched(f"{old['id'][:_SHORT]} is {old['state']}, only a live memory can be corrected")
        fields = {
            "content": old["content"], "category": old["category"], "title": old["title"], "kind": old["kind"],
            "tags": tuple(old["tags"]), "scope": old["scope"], "valid_from": old["valid_from"],
            "valid_to": old["valid_to"], "pinned": old["pinned"], "confidence": old["confidence"],
        }  # fmt: skip
        statement = Statement(
            **(fields | {k: tuple(v) if k == "tags" else v for k, v in changes.items() if v is not None})
        )
        prepared = self._prepare(statement, scope, author)
        if isinstance(prepared, Outcome):
            return prepared, MemoryId(old["id"])
        cleaned, redacted = prepared
        if all(getattr(cleaned, name) == value for name, value in fields.items()):
            raise Unusable("that changes nothing")
        settled = self._known_value(cleaned, Scope(old["scope"]), scope, author, redacted, except_id=old["id"])
        if settled is not None:
            return settled, MemoryId(old["id"])
        memory, salt = self._compose(cleaned, Scope(old["scope"]), author)
        self._journal.append(
            [
                self._draft("remember", memory.id, {"memory": _payload(memory), "corrects": old["id"]}, author, salt),
                self._draft("close", old["id"], {"by": memory.id, "reason": reason}, author),
            ]
        )
        status: Literal["added", "candidate"] = "added" if memory.trust == "trusted" else "candidate"
        return Outcome(status, memory.id, "", redacted, memory), MemoryId(old["id"])

    # -- forgetting ----------------------------------------------------------------------------------------------

    def forget(
        self, prefixes: Sequence[str], scope: SessionScope, author: Author, reason: str = ""
    ) -> list[lookup.Row]:
        """Hide these memories and their values for ever; returns the rows hidden, other memories of the same value too.

        Raises NothingMatched (also for what is hidden already), AmbiguousId.
        """
        rows = [self.find(prefix, scope) for prefix in prefixes]
        visible = [row for row in rows if row["state"] != "hidden"]
        if not visible:
            names = ", ".join(row["id"][:_SHORT] for row in rows)
            raise NothingMatched(f"{names} was forgotten before; nothing was hidden")
        return self._hide(visible, author, reason)

    def forget_text(self, text: str, scope: SessionScope, author: Author, reason: str = "") -> list[lookup.Row]:
        """The same for every memory in the scopes whose value is that of `text`."""
        keys = [self._value(each, text) for each in scope.readable]
        rows = [row for row in lookup.rows_with_value(self._connection, keys) if row["state"] != "hidden"]
        if not rows:
            raise NothingMatched("no memory here has exactly that text; `cems search` finds its id")
        return self._hide(rows, author, reason)

    def lift(self, text: str, scope: SessionScope, author: Author, reason: str = "") -> int:
        """Allow a forgotten value again; returns in how many scopes it was forgotten. Only a person may."""
        keys = {self._value(each, text): each for each in scope.readable}
        buried = [key for key in keys if is_tombstoned(self._connection, key)]
        if not buried:
            raise NothingMatched("that text is not forgotten here")
        self._demand_person(author, "lift", "lifting what was forgotten")
        self._journal.append(
            [self._draft("lift", key, {"scope": keys[key], "reason": reason}, author) for key in buried]
        )
        return len(buried)

    # -- the smaller changes -------------------------------------------------------------------------------------

    def pin(self, prefix: str, pinned: bool, scope: SessionScope, author: Author) -> MemoryId:
        """Pin a memory into every session's profile, or unpin it."""
        row = self._live(prefix, scope)
        if bool(row["pinned"]) != pinned:
            self._journal.append([self._draft("pin", row["id"], {"pinned": pinned}, author)])
        return MemoryId(row["id"])

    def widen(self, prefix: str, target: Scope, scope: SessionScope, author: Author) -> MemoryId:
        """Move a memory to the person's or the team's scope. Only a person may."""
        row = self._live(prefix, scope)
        self._demand_person(author, "widen", "widening a memory's scope")
        if row["scope"] == target:
            return MemoryId(row["id"])
        if is_tombstoned(self._connection, self._value(target, row["content"])):
            self._refuse("widen", f"this was forgotten in the scope {target}", author, target, row["content"])
            raise Refused(f"this was forgotten in the scope {target}; `cems lift` allows it again")
        self._journal.append([self._draft("widen", row["id"], {"scope": target, "from": row["scope"]}, author)])
        return MemoryId(row["id"])

    # -- finding -------------------------------------------------------------------------------------------------

    def find(self, prefix: str, scope: SessionScope) -> lookup.Row:
        """The one memory in the caller's scopes whose id begins so. Raises NothingMatched, AmbiguousId."""
        cleaned = prefix.strip()
        if not cleaned.removeprefix("m_"):
            raise Unusable("an id is needed, such as m_1a2b3c4d")
        ids = lookup.ids_with_prefix(self._connection, cleaned, scope.readable)
        if not ids:
            raise NothingMatched(f"no memory {cleaned} here; `cems list` shows the ids")
        if len(ids) > 1:
            raise AmbiguousId(f"{cleaned} could be {', '.join(i[:14] for i in ids)}; write more of the id")
        return lookup.rows_by_id(self._connection, ids)[ids[0]]

    def history(self, memory: str) -> list[Operation]:
        """Every operation on one memory."""
        return operations_on(self._connection, memory)

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _connection(self) -> Any:
        return self._journal.connection

    def _prepare(self, statement: Statement, scope: SessionScope, author: Author) -> tuple[Statement, int] | Outcome:
        """The statement redacted and tidied, with the number of cuts; or the refusal of what cannot be kept."""
        if len(statement.content) > MAX_CONTENT:
            return self._refuse(
                "remember", f"a memory has at most {MAX_CONTENT:,} characters, this has {len(statement.content):,}; "
                "keep what matters of it", author,
            )  # fmt: skip
        cuts = 0
        tidied: dict[str, Any] = {}
        for name in ("content", "title", "quote", "kind", "category"):
            redacted = clean(
                str(getattr(statement, name)).encode("utf-8", "replace").decode("utf-8").translate(_CONTROL)
            )
            cuts += len(redacted.secrets) + redacted.private_spans
            tidied[name] = redacted.text.strip()
        tags = [clean(str(tag).translate(_CONTROL)) for tag in statement.tags]
        cuts += sum(len(tag.secrets) + tag.private_spans for tag in tags)
        tidied["tags"] = tuple(dict.fromkeys(text for tag in tags if (text := tag.text.strip()[:60])))
        tidied["category"] = category_name(tidied["category"])
        if not tidied["content"]:
            if not statement.content.strip():
                raise Unusable("there is nothing to remember: the text is empty")
            return self._refuse("remember", "nothing is left once private text is cut", author)
        return replace(statement, **tidied), cuts

    def _target(self, statement: Statement, scope: SessionScope, author: Author) -> Scope:
        named = statement.scope
        if not named or named == scope.default:
            return scope.default
        if named == "project":
            if scope.project is None:
                raise Unusable("this folder belongs to no project; use --scope user or go to the project's folder")
            return scope.project
        if named == USER:
            if author.actor != "person":
                self._demand_person(author, "remember", "adding to the person's own scope")
            return USER
        if named == SHARED:
            raise Unusable("add it to the project first, then `cems share ID`")
        raise Unusable(f"there is no scope {named!r} here; use project or user")

    def _known_value(
        self,
        statement: Statement,
        target: Scope,
        scope: SessionScope,
        author: Author,
        redacted: int,
        except_id: str = "",
    ) -> Outcome | None:
        """What a value we have met before comes to: refused, a duplicate, a confirmation; None for a new one."""
        person = author.actor == "person"
        # What the person forgot everywhere does not come back through a project's door.
        guarded = (target,) if person else tuple(dict.fromkeys((target, USER, SHARED)))
        if any(is_tombstoned(self._connection, self._value(each, statement.content)) for each in guarded):
            how = "`cems lift` with the same text allows it again" if person else "only a person can lift that"
            return self._refuse("remember", f"this was forgotten; {how}", author, target, statement.content, redacted)
        rows = lookup.rows_with_value(self._connection, [self._value(target, statement.content)])
        rows = [row for row in rows if row["id"] != except_id]
        live = next((row for row in rows if row["state"] == "live"), None)
        if live is not None:
            if live["trust"] == "rejected" and not person:
                return self._refuse("remember", "a person rejected this", author, target, statement.content, redacted)
            if person and live["trust"] != "trusted":
                self._journal.append([self._draft("trust", live["id"], {"trust": "trusted"}, author)])
                return Outcome("added", MemoryId(live["id"]), "it was there, unverified; now it is trusted", redacted)
            return Outcome("duplicate", MemoryId(live["id"]), "it is remembered already", redacted)
        closed = next((row for row in rows if row["state"] == "closed"), None)
        if closed is not None and not person:
            reason = f"this was corrected before (by {closed['closed_by'][:_SHORT]}); only a person can restate it"
            return self._refuse("remember", reason, author, target, statement.content, redacted)
        return None

    def _compose(self, statement: Statement, target: Scope, author: Author) -> tuple[Memory, bytes]:
        salt = secrets.token_bytes(16)
        trusted = author.actor == "person"
        confidence = statement.confidence if statement.confidence is not None else (1.0 if trusted else 0.7)
        event = f"{author.session}|{datetime.now(UTC).isoformat()}"
        identity = memory_id(salt, content=statement.content, scope=target, category=statement.category, event=event)
        try:
            memory = Memory(
                id=identity, content=statement.content, title=statement.title, category=statement.category,
                kind=statement.kind, tags=statement.tags, scope=target, trust="trusted" if trusted else "candidate",
                confidence=confidence, valid_from=statement.valid_from, valid_to=statement.valid_to,
                recorded_at=statement.recorded_at or datetime.now(UTC), pinned=statement.pinned,
                source=Source(actor=author.actor, agent=author.agent, session=author.session, quote=statement.quote),
                tokens=self._count_tokens(f"{statement.title} {statement.content}"),
            )  # fmt: skip
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"])) or "memory"
            raise Unusable(f"{name}: {first['msg'].removeprefix('Value error, ')}") from None
        return memory, salt

    def _hide(self, rows: Sequence[lookup.Row], author: Author, reason: str) -> list[lookup.Row]:
        keys = {row["id"]: self._value(Scope(row["scope"]), row["content"]) for row in rows}
        same = lookup.rows_with_value(self._connection, list(set(keys.values())))
        hidden = {row["id"]: row for row in (*rows, *same) if row["state"] != "hidden"}
        self._journal.append(
            [
                self._draft(
                    "forget",
                    memory,
                    {
                        "value_key": self._value(Scope(row["scope"]), row["content"]),
                        "scope": row["scope"],
                        "reason": reason,
                    },
                    author,
                )  # fmt: skip
                for memory, row in hidden.items()
            ]
        )
        return list(hidden.values())

    def _live(self, prefix: str, scope: SessionScope) -> lookup.Row:
        row = self.find(prefix, scope)
        if row["state"] != "live":
            raise NothingMatched(f"{row['id'][:_SHORT]} is {row['state']}, not live")
        return row

    def _demand_person(self, author: Author, operation: str, what: str) -> None:
        if author.actor != "person" or not author.present:
            self._refuse(operation, f"{what} is a person's act", author)
            raise Refused(f"{what} is a person's act: do it in a terminal, outside any agent")

    def _refuse(
        self, operation: str, reason: str, author: Author, scope: str = "", text: str = "", redacted: int = 0
    ) -> Outcome:
        key = self._value(Scope(scope), text) if text else ""
        body = {"operation": operation, "reason": reason, "scope": scope, "value_key": key}
        self._journal.append([self._draft("refuse", "", body, author)])
        return Outcome("refused", None, reason, redacted)

    def _value(self, scope: Scope, text: str) -> ValueKey:
        return value_key(self._key, scope, text)

    def _draft(self, kind: str, entity: str, body: dict[str, Any], author: Author, salt: bytes | None = None) -> Draft:
        draft = Draft(kind, entity, body, actor=author.actor, agent=author.agent, session=author.session)
        return draft if salt is None else replace(draft, salt=salt)


def _payload(memory: Memory) -> dict[str, Any]:
    return memory.model_dump(mode="json")
