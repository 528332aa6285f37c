"""The gateway: the one place where memory is changed. Every way in (command line, hooks, MCP, import) goes through it.

It redacts, consults the forgotten values, decides trust by who speaks, keeps to the caller's scopes, and writes each
change, and each refusal, to the journal. Its methods run on the writer's thread.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from cems.core.composition import compose
from cems.core.derivation import comes_from_a_tool, descendants, unfit
from cems.core.doubt import Doubt, doubt, kept
from cems.core.fold import Operation
from cems.core.journal import Draft, Journal, operations_on
from cems.core.known_values import KnownValues
from cems.core.memory import Actor, Memory, MemoryId, format_time, parse_time
from cems.core.recall import lookup
from cems.core.rules.guard import in_force
from cems.core.scope import SHARED, USER, Scope, SessionScope
from cems.core.statement import Author, NotKept, Outcome, Statement, Unusable, tidy_reason, tidy_statement
from cems.core.timeline import is_over
from cems.core.tombstones import Tombstones
from cems.core.trust import WITHHELD

__all__ = [
    "AmbiguousId", "Author", "Memories", "NothingMatched", "Outcome", "Refused", "Statement", "Unusable",
]  # fmt: skip

_ID = re.compile(r"(?:m_)?[0-9a-f]{1,40}\Z")
_SHORT = 10
_PERSONS_ONLY = ("lift", "trust", "widen", "decline", "unforget", "purge")
_ENDS_A_RULE = ("close", "forget", "archive")


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
        self.known = KnownValues(lambda: journal.connection, key)
        self.tombstones = Tombstones(lambda: journal.connection, key)
        self._count_tokens = count_tokens

    @property
    def connection(self) -> sqlite3.Connection:
        """The writer's connection to the journal; for the writer's thread only."""
        return self._journal.connection

    # -- remembering ---------------------------------------------------------------------------------------------

    def remember(self, statement: Statement, scope: SessionScope, author: Author) -> Outcome:
        """Add one statement; durable on return. Raises Unusable, and Refused for a scope that is not the caller's;
        any other refusal is an outcome. Both are journaled.
        """
        try:
            cleaned, redacted = tidy_statement(statement)
        except NotKept as refusal:
            return self.refuse("remember", str(refusal), author, scope.default)
        target = self._target(cleaned, scope, author)
        rows = self.known.rows(cleaned.content, target)
        if reason := self._objection(cleaned, target, rows, scope, author):
            return self.refuse("remember", reason, author, target, cleaned.content, redacted)
        live = next((row for row in rows if row["state"] == "live"), None)
        if live is not None and not (author.is_person and is_over(live)):
            return self._confirm(live, cleaned, author, redacted)
        # The person takes an earlier correction back.
        restated = self.known.successors(rows, scope) if author.is_person else {}
        doubt = self._doubt(cleaned.content, target, scope, author, restated)
        memory, salt = self.compose(cleaned, target, author, doubted=bool(doubt))
        self.append(
            [
                self.draft("remember", memory.id, {"memory": _payload(memory)} | doubt.body, author, salt),
                *(
                    self._closing(
                        each, memory.id, "an earlier statement was made again", author, _end_of(row, cleaned.valid_from)
                    )
                    for each, row in restated.items()
                ),
            ]
        )
        return kept(memory, redacted, doubt)

    def derive(
        self, statement: Statement, sources: Sequence[str], kind: str, scope: SessionScope, author: Author
    ) -> Outcome:
        """Add what was made of other memories (`sources`, their ids) in a certain way (`kind`: a summary, a merge), in
        their scope. Where one of them is not in use, or a machine makes again what was forgotten or rejected, it is
        refused. Raises NothingMatched, AmbiguousId, Unusable, Refused.
        """
        rows = [self.find(each, scope) for each in sources]
        if reason := unfit(rows):
            return self.refuse("derive", reason, author, scope.default)
        target = Scope(rows[0]["scope"])
        if target != scope.default:
            self.demand_person(author, "derive", "deriving a memory in a wider scope", target)
        if not author.is_person and comes_from_a_tool(rows):
            author = replace(author, actor="tool")
        ids = tuple(sorted({row["id"] for row in rows}))
        recipe = self.tombstones.recipe(target, kind, ids)
        made = replace(statement, derived_from=ids, recipe=recipe, scope="" if target == scope.default else target)
        return self.remember(made, scope, author)

    def correct(
        self, prefix: str, changes: dict[str, Any], scope: SessionScope, author: Author, reason: str = ""
    ) -> tuple[Outcome, MemoryId]:
        """Close a memory and put a corrected one in its place (or one that says the same already); returns the outcome
        and the closed one's id. Where a new text comes with `valid_from`, the old one was right until then: only its
        validity is closed, at that instant.

        Raises NothingMatched, AmbiguousId, Unusable, Refused.
        """
        old = self.live(prefix, scope)
        old_id, target = MemoryId(old["id"]), Scope(old["scope"])
        if not author.is_person and target != scope.default:
            self.demand_person(author, "correct", "changing a memory of a wider scope", target)
        if not author.is_person and old["trust"] in WITHHELD:
            return self.refuse("correct", f"it is {old['trust']}: a person decides on it", author, target), old_id
        fields = {
            "content": old["content"], "category": old["category"], "title": old["title"], "kind": old["kind"],
            "tags": tuple(old["tags"]), "scope": old["scope"], "valid_from": old["valid_from"],
            "valid_to": old["valid_to"], "pinned": old["pinned"], "confidence": old["confidence"],
            # Edited or not, it follows from its sources.
            "derived_from": tuple(old["source"]["derived_from"]), "recipe": old["source"].get("recipe", ""),
            # What has a place in a session keeps it, and with it its neighbours.
            "session": "" if old["source"]["place"] is None else old["source"]["session"], "place": old["source"]["place"],
        }  # fmt: skip
        given: dict[str, Any] = {name: tuple(value) if name == "tags" else value for name, value in changes.items()}
        given = {name: value for name, value in given.items() if value is not None}
        content = str(given.get("content", old["content"]))
        ends = _end_of(old, given.get("valid_from"))
        if ends and self.known.key_of(target, content) == self.known.key_of(target, old["content"]):
            ends = ""
        statement = Statement(**(fields | ({"valid_to": None} if ends else {}) | given))
        try:
            cleaned, redacted = tidy_statement(statement)
        except NotKept as refusal:
            return self.refuse("correct", str(refusal), author, target), old_id
        if all(getattr(cleaned, name) == value for name, value in fields.items()):
            raise Unusable("that changes nothing")
        rows = self.known.rows(cleaned.content, target, without=(old_id,))
        if self.known.key_of(target, cleaned.content) == self.known.key_of(target, old["content"]):
            # Its own earlier forms say the same: no earlier value comes back by them.
            rows = [row for row in rows if row["state"] == "live"]
        if objection := self._objection(cleaned, target, rows, scope, author):
            return self.refuse("correct", objection, author, target, cleaned.content, redacted), old_id
        same = next((row for row in rows if row["state"] == "live" and not is_over(row)), None)
        if same is not None:
            closing = self._closing(old_id, same["id"], reason, author, ends)
            return replace(self._confirm(same, cleaned, author, redacted, closing), status="duplicate"), old_id
        doubt = self._doubt(cleaned.content, target, scope, author, (old_id,))
        memory, salt = self.compose(cleaned, target, author, doubted=bool(doubt))
        body = {"memory": _payload(memory), "corrects": old_id} | doubt.body
        self.append(
            [
                self.draft("remember", memory.id, body, author, salt),
                self._closing(old_id, memory.id, reason, author, ends),
            ]
        )
        return kept(memory, redacted, doubt), old_id

    # -- forgetting ----------------------------------------------------------------------------------------------

    def forget(
        self, prefixes: Sequence[str], scope: SessionScope, author: Author, reason: str = ""
    ) -> list[lookup.Row]:
        """Hide these memories and their values for ever; returns the rows hidden, other memories of the same value too.

        Raises NothingMatched (also for what is hidden already), AmbiguousId.
        """
        rows = [self.find(prefix, scope) for prefix in prefixes]
        if not any(row["state"] != "hidden" for row in rows):
            names = ", ".join(row["id"][:_SHORT] for row in rows) or "nothing"
            raise NothingMatched(f"{names} was forgotten before; nothing was hidden")
        return self._hide(rows, author, reason)

    def forget_text(self, text: str, scope: SessionScope, author: Author, reason: str = "") -> list[lookup.Row]:
        """The same for every memory in the scopes whose value is that of `text`."""
        rows = self.known.rows_in(text, scope)
        if not any(row["state"] != "hidden" for row in rows):
            raise NothingMatched("no memory here has exactly that text; `cems search` finds its id")
        return self._hide(rows, author, reason)

    def lift(self, text: str, scope: SessionScope, author: Author, reason: str = "") -> int:
        """Allow a forgotten value again; returns in how many scopes it was forgotten. Only a person may."""
        buried = self.tombstones.forgotten_in(text, scope)
        if not buried:
            raise NothingMatched("that text is not forgotten here")
        self.demand_person(author, "lift", "lifting what was forgotten")
        why = tidy_reason(reason)
        self.append([self.draft("lift", key, {"scope": each, "reason": why}, author) for key, each in buried.items()])
        return len(set(buried.values()))

    # -- the smaller changes -------------------------------------------------------------------------------------

    def pin(self, prefix: str, pinned: bool, scope: SessionScope, author: Author) -> MemoryId:
        """Pin a memory into every session's profile, or unpin it."""
        row = self.live(prefix, scope)
        if bool(row["pinned"]) != pinned:
            self.append([self.draft("pin", row["id"], {"pinned": pinned}, author)])
        return MemoryId(row["id"])

    def widen(self, prefix: str, target: Scope, scope: SessionScope, author: Author) -> MemoryId:
        """Move a memory to the person's or the team's scope. Only a person may. Where the wider scope has the same
        memory, this one is closed in favour of that, whose id is returned.
        """
        if target not in (USER, SHARED):
            raise Unusable("a memory is widened to user or to shared")
        row = self.live(prefix, scope)
        self.demand_person(author, "widen", "widening a memory's scope", target)
        if row["scope"] == target:
            return MemoryId(row["id"])
        memory, draft = self.widening(row, target, scope, author)
        self.append([draft])
        return memory

    def widening(self, row: lookup.Row, target: Scope, scope: SessionScope, author: Author) -> tuple[MemoryId, Draft]:
        """What `widen` comes to: the id that stands then, and the entry to write. Raises Refused."""
        if tombstone := self.tombstones.standing(row["content"], target, by_person=True):
            why = f"in the scope {target} this was {tombstone.told(scope.readable)}"
            self.refuse("widen", why, author, target, row["content"])
            raise Refused(f"{why}; `cems lift` allows it again")
        same = next((each for each in self.known.rows(row["content"], target) if each["state"] == "live"), None)
        if same is not None:
            return MemoryId(same["id"]), self._closing(row["id"], same["id"], f"{target} has it already", author)
        return MemoryId(row["id"]), self.draft("widen", row["id"], {"scope": target, "from": row["scope"]}, author)

    # -- finding -------------------------------------------------------------------------------------------------

    def find(self, prefix: str, scope: SessionScope) -> lookup.Row:
        """The one memory in the caller's scopes whose id begins so. Raises NothingMatched, AmbiguousId, Unusable."""
        wanted = prefix.strip().lower()
        if not wanted.removeprefix("m_"):
            raise Unusable("an id is needed, such as m_1a2b3c4d")
        connection = self._journal.connection
        ids = lookup.ids_with_prefix(connection, wanted, scope.readable) if _ID.match(wanted) else []
        if not ids:
            raise NothingMatched(f"no memory {tidy_reason(wanted)[:40]} here; `cems list` shows the ids")
        if len(ids) > 1:
            raise AmbiguousId(f"{wanted} could be {', '.join(i[:14] for i in ids)}; write more of the id")
        return lookup.rows_by_id(connection, ids)[ids[0]]

    def history(self, memory: str) -> list[Operation]:
        """Every operation on one memory."""
        return operations_on(self._journal.connection, memory)

    # -- inside --------------------------------------------------------------------------------------------------

    def _target(self, statement: Statement, scope: SessionScope, author: Author) -> Scope:
        named = statement.scope
        if not named or named == scope.default:
            return scope.default
        if named == "project":
            if scope.project is None:
                raise Unusable("this folder belongs to no project; use --scope user or go to the project's folder")
            return scope.project
        if named == USER:
            if not author.is_person:
                self.demand_person(author, "remember", "adding to the person's own scope", USER)
            return USER
        if named == SHARED:
            raise Unusable("add it to the project first, then `cems share ID`")
        self.refuse("remember", "the scope is not this session's", author, scope.default)
        raise Refused("that scope is not this session's; use project or user")

    def _objection(
        self, statement: Statement, target: Scope, rows: Sequence[lookup.Row], scope: SessionScope, author: Author
    ) -> str:
        """Why a value we have met before may not be written again by this author; empty where it may."""
        if tombstone := self.tombstones.standing(statement.content, target, by_person=author.is_person):
            how = (
                "`cems lift` with the same text allows it again" if author.is_person else "only a person can lift that"
            )
            return f"this was {tombstone.told(scope.readable)}; {how}"
        if author.is_person:
            return ""
        if statement.recipe and (tombstone := self.tombstones.on_key(statement.recipe)):
            return f"what was made of the same memories was {tombstone.told(scope.readable)}"
        if statement.recipe and self.known.rejected_recipe(statement.recipe):
            return "a person rejected what was made of the same memories"
        live = next((row for row in rows if row["state"] == "live" and not (row["closed_by"] and is_over(row))), None)
        if live is not None:
            return "a person rejected this" if live["trust"] == "rejected" else ""
        closed = next((row for row in rows if row["state"] in ("closed", "live")), None)
        if closed is not None:
            how = f"corrected before (by {closed['closed_by'][:_SHORT]})" if closed["closed_by"] else "retracted before"
            return f"this was {how}; only a person can restate it"
        return ""

    def _doubt(self, content: str, target: Scope, scope: SessionScope, author: Author, without: Iterable[str]) -> Doubt:
        return doubt(self.connection, self.tombstones, content, target, scope, author, without=set(without))

    def _confirm(self, row: lookup.Row, statement: Statement, author: Author, redacted: int, *more: Draft) -> Outcome:
        """What saying a live memory again comes to: a person's word makes it trusted, and pins it if asked."""
        drafts = [*more]
        newly_trusted = author.is_person and row["trust"] != "trusted"
        if newly_trusted:
            drafts.append(self.draft("trust", row["id"], {"trust": "trusted"}, author))
        if author.is_person and statement.pinned and not row["pinned"]:
            drafts.append(self.draft("pin", row["id"], {"pinned": True}, author))
        if drafts:
            self.append(drafts)
        if newly_trusted:
            return Outcome("added", MemoryId(row["id"]), "it was there, unverified; now it is trusted", redacted)
        return Outcome("duplicate", MemoryId(row["id"]), "it is remembered already", redacted)

    def compose(
        self, statement: Statement, target: Scope, author: Author, *, doubted: bool = False
    ) -> tuple[Memory, bytes]:
        """The memory that a statement makes, and the salt its id depends on; nothing is written. Raises Unusable."""
        return compose(statement, target, author, self._journal.now(), self._count_tokens, doubted=doubted)

    def _hide(self, rows: Iterable[lookup.Row], author: Author, reason: str) -> list[lookup.Row]:
        hidden: dict[str, lookup.Row] = {}
        for row in rows:
            same = self.known.rows(row["content"], row["scope"])
            hidden |= {each["id"]: each for each in (row, *same) if each["state"] != "hidden"}
        following = descendants(self.connection, hidden)
        found = lookup.rows_by_id(self.connection, following)
        hidden |= {each: found[each] for each in following if found[each]["state"] != "hidden"}
        why = tidy_reason(reason)
        drafts: list[Draft] = []
        texts: dict[str, str] = {}
        for memory, row in hidden.items():
            key = self.known.key_of(row["scope"], row["content"])
            texts[key] = row["content"]
            # A recipe is buried by an entry of its own, and lifted like any value.
            for entity, buried in ((memory, key), *((each, each) for each in (row["source"].get("recipe"),) if each)):
                body = {"value_key": buried, "scope": row["scope"], "reason": why}
                drafts.append(self.draft("forget", entity, body, author))
        self.append(drafts)
        self.tombstones.note_meaning(texts)
        return list(hidden.values())

    def live(self, prefix: str, scope: SessionScope) -> lookup.Row:
        row = self.find(prefix, scope)
        if row["state"] != "live":
            raise NothingMatched(f"{row['id'][:_SHORT]} is {row['state']}, not live; only a live memory can be changed")
        return row

    def demand_person(self, author: Author, operation: str, what: str, scope: str = "") -> None:
        if not author.is_person or not author.present:
            self.refuse(operation, f"{what} is a person's act", author, scope)
            raise Refused(f"{what} is a person's act: do it in a terminal, outside any agent")

    def refuse(
        self, operation: str, reason: str, author: Author, scope: str = "", text: str = "", redacted: int = 0
    ) -> Outcome:
        key = self.known.key_of(scope, text) if text else ""
        body = {"operation": operation, "reason": reason, "scope": scope, "value_key": key}
        self.append([self.draft("refuse", "", body, author)])
        return Outcome("refused", None, reason, redacted)

    def append(self, drafts: Sequence[Draft]) -> list[Operation]:
        """Write the drafts as one change, all or none; what every change of memory comes to in the end.

        Several drafts get one `group` in their bodies: `cems undo` takes them back together. Raises Refused for a change
        that only a person can make, whoever built it: an agent ends no gate rule that holds.
        """
        ending = {each.entity: each for each in drafts if each.actor != "person" and each.kind in _ENDS_A_RULE}
        for row in in_force(self.connection, list(ending)):
            draft = ending[row["id"]]
            author = Author(cast(Actor, draft.actor), draft.agent, draft.session)
            self.refuse(draft.kind, "it is a gate rule: only a person changes those", author, row["scope"])
            raise Refused(f"{row['id'][:_SHORT]} is a gate rule: only a person changes those, with `cems rule`")
        for draft in drafts:
            if draft.kind in _PERSONS_ONLY and draft.actor != "person":
                author = Author(cast(Actor, draft.actor), draft.agent, draft.session)
                self.demand_person(
                    author, draft.kind, f"an entry of the kind {draft.kind}", draft.body.get("scope", "")
                )
        group = {"group": secrets.token_hex(8)} if len(drafts) > 1 else {}
        return self._journal.append([replace(draft, body=group | draft.body) for draft in drafts])

    def _closing(self, memory: str, by: str, reason: str, author: Author, ends: str = "") -> Draft:
        """Closes what was believed; where it `ends` at an instant, what holds."""
        body = {"by": by, "reason": tidy_reason(reason)} | ({"valid_to": ends} if ends else {})
        return self.draft("close", memory, body, author)

    def draft(self, kind: str, entity: str, body: dict[str, Any], author: Author, salt: bytes | None = None) -> Draft:
        draft = Draft(kind, entity, body, actor=author.actor, agent=author.agent, session=author.session)
        return draft if salt is None else replace(draft, salt=salt)


def _end_of(row: lookup.Row, valid_from: str | None) -> str:
    """When this memory ceases to hold if another holds from then on; empty where that one holds from its beginning."""
    try:
        since = format_time(parse_time(valid_from)) if valid_from else ""
    except ValueError as error:
        raise Unusable(f"valid_from: {error}") from None
    return min(since, row["valid_to"] or since) if since and since > (row["valid_from"] or "") else ""


def _payload(memory: Memory) -> dict[str, Any]:
    return memory.model_dump(mode="json")
