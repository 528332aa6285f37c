"""The daemon's operations on gate rules. No MCP tool calls them: what agents may do is the person's to say."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from cems.core.memories import AmbiguousId, Memories, NothingMatched, Refused, Statement, Unusable
from cems.core.recall import lookup
from cems.core.recall.engine import is_valid
from cems.core.rules.guard import MOST_RULES, firing, folders_of, judgement, rule_of, standing
from cems.core.rules.patterns import Call
from cems.core.rules.rule import CATEGORY, BadRule, Rule, parse, with_severity
from cems.core.scope import USER, Scope, SessionScope
from cems.core.statement import Author, Outcome
from cems.core.timeline import retract
from cems.core.trust import SEARCHED

if TYPE_CHECKING:
    from cems.core.service.operations import Operations
    from cems.core.service.request import Request

_MOST_AT_ONCE = 500


async def rule_add(operations: Operations, request: Request) -> dict[str, Any]:
    """Add rules (`rules`, a list of texts; `severity` in front of each), all or none. Raises Unusable for a bad one.

    A person's rule holds at once; an agent's is a candidate and stops nothing until a person approves it.
    """
    texts, severity, scope = request.texts("rules"), request.text("severity", ""), request.text("scope", "")
    if not 1 <= len(texts) <= _MOST_AT_ONCE:
        raise Unusable(f"rules must be a list of 1 to {_MOST_AT_ONCE} texts")
    made = [_made(text, severity) for text in texts]
    statements = [Statement(text, category=CATEGORY, scope=scope) for text, _ in made]
    author, session_scope, memories = request.author, request.scope, operations.memories

    def add() -> list[Outcome]:
        for statement in statements:
            _demand_kept(memories, statement, session_scope, author)
        return [_remembered(memories, statement, session_scope, author) for statement in statements]

    outcomes = await operations.change(add)
    rows = lookup.rows_by_id(operations.reader, [each.id for each in outcomes if each.id])
    results = []
    for outcome in outcomes:
        row = rows.get(outcome.id or "")
        told = {"status": outcome.status, "reason": outcome.reason, "redacted": outcome.redacted}
        results.append((_rule_json(row) if row else {"id": None}) | told)
    return {"results": results}


async def rule_list(operations: Operations, request: Request) -> dict[str, Any]:
    """The live memories of the category in the caller's scopes, newest first; `problem` says why one is no rule."""
    seen = (*SEARCHED, "disputed") if request.author.is_person else SEARCHED
    condition = lookup.trusted_as(lookup.LIVE, seen)
    rows = lookup.listed_rows(
        operations.reader, request.scopes(), condition=condition, categories=(CATEGORY,), limit=MOST_RULES
    )
    return {"rules": [_rule_json(row) for row in rows]}


async def rule_test(operations: Operations, request: Request) -> dict[str, Any]:
    """What the rules would say of a call: `tool` (Bash), its `subject` (a command line, a path, or JSON)."""
    folders = folders_of(request.caller.cwd)
    call = Call(request.text("tool", "Bash"), request.text("subject"), folders)
    found = firing(standing(operations.reader, request.scope.readable), call)
    judged = judgement(found)
    rows = lookup.rows_by_id(operations.reader, [rule.memory for rule in found])
    return {
        "rules": [_rule_json(rows[rule.memory]) for rule in found],
        "severity": judged.verdict.severity if judged else None,
        "told": judged.verdict.text if judged else "",
    }


async def rule_remove(operations: Operations, request: Request) -> dict[str, Any]:
    """Retract a rule: no tombstone, the same rule may be added again."""
    prefix, reason, author = request.text("id"), request.text("reason", ""), request.author

    def remove() -> lookup.Row:
        row = operations.memories.live(prefix, request.scope)
        if row["category"] != CATEGORY:
            raise Unusable(f"{row['id'][:10]} is no gate rule; `cems forget` and `cems retract` are for other memories")
        return retract(operations.memories, row["id"], request.scope, author, reason=reason)[0]

    return {"rule": _rule_json(await operations.change(remove))}


OPERATIONS: dict[str, Callable[[Operations, Request], Coroutine[Any, Any, dict[str, Any]]]] = {
    "rule_add": rule_add, "rule_list": rule_list, "rule_test": rule_test, "rule_remove": rule_remove,
}  # fmt: skip


def _made(text: str, severity: str) -> tuple[str, Rule]:
    """The text to keep and the rule it is. Raises Unusable."""
    try:
        whole = with_severity(text, severity) if severity else text.strip()
        return whole, parse(whole)
    except BadRule as problem:
        raise Unusable(f"no gate rule: {problem}") from None


def _demand_kept(memories: Memories, statement: Statement, scope: SessionScope, author: Author) -> None:
    """Raise Refused where the text was forgotten, before anything is written: of several rules all are added or none."""
    target = Scope(USER) if statement.scope == USER else scope.default
    tombstone = memories.tombstones.standing(statement.content, target, by_person=author.is_person)
    if tombstone is not None:
        told = tombstone.told(scope.readable)
        raise Refused(
            f"no rule was added: `{statement.content[:80]}` was {told}; `cems lift` with the same text allows it"
        )


def _remembered(memories: Memories, statement: Statement, scope: SessionScope, author: Author) -> Outcome:
    """Remember the rule; where a person makes one of what was remembered as something else, that becomes the rule."""
    outcome = memories.remember(statement, scope, author)
    if outcome.id is None or not author.is_person:
        return outcome
    row = lookup.rows_by_id(memories.connection, [outcome.id])[outcome.id]
    if row["category"] == CATEGORY:
        return outcome
    try:
        return memories.correct(row["id"], {"category": CATEGORY}, scope, author, "it is a gate rule")[0]
    except (AmbiguousId, NothingMatched):
        return outcome


def _rule_json(row: lookup.Row) -> dict[str, Any]:
    """A rule as every interface shows it. `in_force`: whether it is asked before a tool runs."""
    try:
        rule, problem = rule_of(row), ""
    except BadRule as found:
        rule, problem = None, str(found)
    holds = rule is not None and row["trust"] == "trusted" and row["state"] == "live" and is_valid(row)
    return {
        "id": row["id"],
        "content": row["content"],
        "tools": list(rule.tools) if rule else [],
        "pattern": rule.pattern if rule else "",
        "reason": rule.reason if rule else "",
        "severity": rule.severity if rule else None,
        "scope": row["scope"],
        "trust": row["trust"],
        "valid_from": row["valid_from"],
        "valid_to": row["valid_to"],
        "in_force": holds,
        "problem": problem,
    }
