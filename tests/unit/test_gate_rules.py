"""Gate rules in force: whose word they are, where they hold, and what a hook answers before a tool runs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.real_parts import AGENT_AUTHOR, INTERACTIVE, PERSON, TOOL, Place, run

from cems.adapters.claude_code.agent import AGENT
from cems.core import pauses, review
from cems.core.journal import operations_where
from cems.core.memories import Author, Refused, Statement
from cems.core.recall import lookup
from cems.core.rules.guard import Guard
from cems.core.rules.patterns import Call
from cems.core.scope import USER
from cems.core.service.hooks import open_stage_one
from cems.core.service.operations import OperationFailed
from cems.core.timeline import retract

FORCE = "Bash: git push --force* — never, it loses work"
PUSH = "git push --force origin main"
RULES = "gate-rules"


def before(place: Place, tool: str, subject: str, folder: Path | None = None, hooks: Any = None) -> dict[str, Any]:
    """What the hook before a tool answers, without its wrapping; empty for nothing."""
    given = {"command": subject} if tool == "Bash" else {"file_path": subject}
    payload = {
        "session_id": "s1", "cwd": str(folder or place.alpha), "hook_event_name": "PreToolUse", "tool_name": tool,
        "tool_input": given,
    }  # fmt: skip
    answer = run((hooks or place.hooks).answer("cems_pre_tool_use", {}, json.dumps(payload).encode()))
    if not answer:
        return {}
    inner: dict[str, Any] = json.loads(answer)["hookSpecificOutput"]
    assert inner.pop("hookEventName") == "PreToolUse"
    return inner


def test_a_rule_that_forbids_refuses_the_call_and_says_why(place: Place) -> None:
    memory = place.add(FORCE, category=RULES)
    answer = before(place, "Bash", f"cd x && {PUSH}")
    assert answer["permissionDecision"] == "deny"
    assert "never, it loses work" in answer["permissionDecisionReason"]
    assert memory[:10] in answer["permissionDecisionReason"]
    assert before(place, "Bash", "git push") == {}
    assert before(place, "Write", PUSH) == {}


def test_a_rule_that_asks_has_the_person_asked_and_one_that_warns_lets_it_run(place: Place) -> None:
    place.add("Bash: npm publish* — ask first", category=RULES)
    place.add("[warn] Edit: *.lock — generated, run `make lock`", category=RULES)
    assert before(place, "Bash", "npm publish")["permissionDecision"] == "ask"
    answer = before(place, "Write", str(place.alpha / "poetry.lock"))
    assert list(answer) == ["additionalContext"]
    assert "generated, run `make lock`" in answer["additionalContext"]


def test_of_several_rules_the_strongest_decides_and_each_is_told(place: Place) -> None:
    place.add("[warn] Bash: git push* — CI runs for an hour", category=RULES)
    place.add(FORCE, category=RULES)
    place.add("Bash: git * origin main* — ask first", category=RULES)
    answer = before(place, "Bash", PUSH)
    assert answer["permissionDecision"] == "deny"
    first, second, third, _ = answer["permissionDecisionReason"].split("\n")
    assert "forbids" in first
    assert "asked" in second
    assert "CI runs for an hour" in third


def test_rules_hold_in_their_project_and_the_persons_own_everywhere(place: Place) -> None:
    place.add(FORCE, category=RULES)
    assert before(place, "Bash", PUSH, place.beta) == {}
    place.add("Bash: rm -rf /*", category=RULES, everywhere=True)
    assert before(place, "Bash", "rm -rf /", place.beta)["permissionDecision"] == "deny"


def test_only_the_category_makes_a_rule(place: Place) -> None:
    place.add(FORCE, category="guidelines")
    assert before(place, "Bash", PUSH) == {}


@pytest.mark.parametrize(
    ("since", "until", "holds"),
    [
        ("2020-01-01", None, True), (None, "2020-01-01", False), ("2999-01-01", None, False),
        ("2020-01-01", "2999-01-01", True),
    ],
)  # fmt: skip
def test_a_rule_holds_while_it_is_valid(place: Place, since: str | None, until: str | None, holds: bool) -> None:
    place.add(FORCE, category=RULES, valid_from=since, valid_to=until)
    assert bool(before(place, "Bash", PUSH)) is holds


def test_what_changes_counts_at_the_next_call(place: Place) -> None:
    assert before(place, "Bash", PUSH) == {}
    memory = place.add(FORCE, category=RULES)
    assert before(place, "Bash", PUSH)
    place.memories.correct(memory, {"content": f"[warn] {FORCE}"}, place.scope(), PERSON)
    assert "additionalContext" in before(place, "Bash", PUSH)
    place.memories.forget_text(f"[warn] {FORCE}", place.scope(), PERSON)
    assert before(place, "Bash", PUSH) == {}


def test_what_cannot_be_read_as_a_rule_stops_nothing_and_hides_no_other(place: Place) -> None:
    place.add("Bash git push: dangerous", category=RULES)
    place.add(FORCE, category=RULES)
    place.add("[maybe] Bash: git push*", category=RULES)
    assert before(place, "Bash", PUSH)["permissionDecision"] == "deny"
    assert before(place, "Bash", "git push") == {}


# -- whose word


@pytest.mark.parametrize("author", [AGENT_AUTHOR, TOOL, Author("import"), Author("derived")])
def test_what_no_person_said_or_approved_stops_nothing(place: Place, author: Author) -> None:
    memory = place.add(FORCE, category=RULES, author=author)
    assert before(place, "Bash", PUSH) == {}
    review.approve(place.memories, memory, place.scope(), PERSON, "")
    assert before(place, "Bash", PUSH)["permissionDecision"] == "deny"


@pytest.mark.parametrize("author", [AGENT_AUTHOR, TOOL, Author("import"), Author("derived")])
def test_no_agent_ends_or_relaxes_a_rule(place: Place, author: Author) -> None:
    memory, scope, memories = place.add(FORCE, category=RULES), place.scope(), place.memories
    ways: list[Callable[[], object]] = [
        lambda: memories.forget([memory], scope, author),
        lambda: memories.forget_text(FORCE.upper(), scope, author),
        lambda: memories.correct(memory, {"content": f"[warn] {FORCE}"}, scope, author),
        lambda: memories.correct(memory, {"valid_to": "2021-01-01"}, scope, author),
        lambda: memories.correct(memory, {"category": "general"}, scope, author),
        lambda: retract(memories, memory, scope, author),
        lambda: retract(memories, memory, scope, author, at=lookup.now_text()),
    ]
    for way in ways:
        with pytest.raises(Refused, match="only a person"):
            way()
        assert before(place, "Bash", PUSH)["permissionDecision"] == "deny"
    refusals = list(operations_where(place.journal.connection, "kind = 'refuse'"))
    assert len(refusals) == len(ways)
    assert all(each.actor == author.actor for _, each in refusals)
    # A person can, and an agent's own candidate is the agent's to take back.
    retract(memories, memory, scope, PERSON)
    assert before(place, "Bash", PUSH) == {}
    own = place.add("Bash: make ship*", category=RULES, author=author)
    memories.forget([own], scope, author)


def test_forgetting_what_a_rule_was_derived_from_does_not_end_it_either(place: Place) -> None:
    source = place.add("Somebody lost work by a forced push.", author=AGENT_AUTHOR)
    made = place.memories.derive(Statement(FORCE, category=RULES), [source], "rule", place.scope(), AGENT_AUTHOR)
    assert made.id is not None
    review.approve(place.memories, made.id, place.scope(), PERSON, "")
    with pytest.raises(Refused):
        place.memories.forget([source], place.scope(), AGENT_AUTHOR)
    assert before(place, "Bash", PUSH)


def test_what_an_agent_says_against_a_rule_does_not_relax_it(place: Place) -> None:
    place.add(FORCE, category=RULES)
    for text in ("[warn] " + FORCE, "Bash: git push --force* — always allowed", "Git push --force is fine here."):
        place.add(text, category=RULES, author=AGENT_AUTHOR)
    assert before(place, "Bash", PUSH)["permissionDecision"] == "deny"


# -- when things go wrong, and how fast


def test_a_fault_of_ours_lets_the_tool_run_and_is_logged(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.add(FORCE, category=RULES)
    broken = sqlite3.connect(":memory:")
    place.hooks.connect(broken)
    assert before(place, "Bash", PUSH) == {}
    assert "gate rules could not be asked (OperationalError)" in caplog.text
    place.hooks.connect(place.reader)
    assert before(place, "Bash", PUSH)
    monkeypatch.setattr("cems.core.rules.shell._Reader.read", lambda _: 1 / 0)
    assert before(place, "Bash", PUSH) == {}
    assert "ZeroDivisionError" in caplog.text
    broken.close()


def test_rules_that_take_too_long_are_let_go(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.add(FORCE, category=RULES)
    monkeypatch.setattr("cems.core.rules.guard._SECONDS", -1.0)
    assert before(place, "Bash", PUSH) == {}
    assert "took too long: 1 of 1" in caplog.text


def test_the_first_stage_of_a_cold_daemon_has_the_rules(place: Place) -> None:
    place.add(FORCE, category=RULES)
    hooks = open_stage_one(place.home)
    assert before(place, "Bash", PUSH, hooks=hooks)["permissionDecision"] == "deny"
    hooks.close()


def test_rules_are_read_again_only_when_something_changed_and_by_their_own_index(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.add(FORCE, category=RULES)
    asked: list[str] = []
    place.reader.set_trace_callback(asked.append)
    guard = Guard()
    for _ in range(3):
        assert guard.judge(place.reader, place.scope().readable, Call("Bash", PUSH))
    reads = [query for query in asked if "FROM records" in query]
    assert len(reads) == 1
    place.add("Anything else.", everywhere=True)
    assert guard.judge(place.reader, place.scope().readable, Call("Bash", PUSH))
    assert len([query for query in asked if "FROM records" in query]) == 2
    place.reader.set_trace_callback(None)
    plan = " ".join(row[3] for row in place.reader.execute(f"EXPLAIN QUERY PLAN {reads[0]}"))
    assert "records_rules" in plan


def test_rules_hold_during_a_pause_in_which_nothing_is_kept(place: Place) -> None:
    memory = place.add(FORCE, category=RULES)
    pauses.pause(place.home, place.scope().project or USER)
    assert before(place, "Bash", PUSH)["permissionDecision"] == "deny"
    assert memory not in place.hooks.sessions.get("s1").shown


def test_a_session_knows_which_rules_spoke(place: Place) -> None:
    memory = place.add(FORCE, category=RULES)
    before(place, "Bash", "git push")
    assert place.hooks.sessions.get("s1").shown == {}
    before(place, "Bash", PUSH)
    assert place.hooks.sessions.get("s1").shown == {memory: "rule"}


# -- the daemon's operations


def test_a_persons_rule_holds_at_once_and_is_listed(place: Place) -> None:
    answer = run(place.call("rule_add", {"rules": [FORCE]}))
    [result] = answer["results"]
    assert result["status"] == "added"
    assert result["severity"] == "block"
    assert (result["tools"], result["pattern"]) == (["Bash"], "git push --force*")
    assert result["in_force"] is True
    assert before(place, "Bash", PUSH)
    [listed] = run(place.call("rule_list", {}))["rules"]
    assert listed["id"] == result["id"]
    assert run(place.call("rule_list", {}, place.caller(place.beta)))["rules"] == []


def test_an_agents_rule_is_a_candidate(place: Place) -> None:
    agent = place.caller(agent="claude-code")
    [result] = run(place.call("rule_add", {"rules": [FORCE]}, agent))["results"]
    assert result["status"] == "candidate"
    assert result["in_force"] is False
    assert before(place, "Bash", PUSH) == {}
    with pytest.raises(OperationFailed, match="person"):
        run(place.call("rule_add", {"rules": [FORCE], "scope": "user"}, agent))


def test_several_rules_are_added_together_or_not_at_all(place: Place) -> None:
    place.memories.forget([place.add("Bash: ls")], place.scope(), PERSON)
    for bad, said in (("ls -l", "begins with the tool"), ("Bash: ls", "forgotten on")):
        with pytest.raises(OperationFailed, match=said):
            run(place.call("rule_add", {"rules": [FORCE, "Bash: rm*", bad]}))
        assert run(place.call("rule_list", {}))["rules"] == []
    added = run(place.call("rule_add", {"rules": [FORCE, "Bash: rm*"], "severity": "warn", "scope": "user"}))["results"]
    assert [each["severity"] for each in added] == ["warn", "warn"]
    assert {each["scope"] for each in added} == {"user"}
    for bad_list in ([], [FORCE] * 501, "text", [1]):
        with pytest.raises(OperationFailed):
            run(place.call("rule_add", {"rules": bad_list}))


@pytest.mark.parametrize("author", [PERSON, AGENT_AUTHOR])
def test_what_was_remembered_as_something_else_becomes_the_rule(place: Place, author: Author) -> None:
    place.add(FORCE, category="general", author=author)
    [result] = run(place.call("rule_add", {"rules": [FORCE]}))["results"]
    assert result["in_force"] is True
    assert before(place, "Bash", PUSH)["permissionDecision"] == "deny"


def test_a_rule_that_is_there_is_a_duplicate(place: Place) -> None:
    [first] = run(place.call("rule_add", {"rules": [FORCE]}))["results"]
    [second] = run(place.call("rule_add", {"rules": [FORCE]}))["results"]
    assert (second["status"], second["id"]) == ("duplicate", first["id"])


def test_a_removed_rule_may_come_back_by_the_person_only(place: Place) -> None:
    [result] = run(place.call("rule_add", {"rules": [FORCE]}))["results"]
    agent = place.caller(agent="claude-code")
    with pytest.raises(OperationFailed, match="only a person") as refused:
        run(place.call("rule_remove", {"id": result["id"]}, agent))
    assert refused.value.exit_status == 4
    run(place.call("rule_remove", {"id": result["id"][:10]}))
    assert before(place, "Bash", PUSH) == {}
    assert run(place.call("rule_add", {"rules": [FORCE]}, agent))["results"][0]["status"] == "refused"
    run(place.call("rule_add", {"rules": [FORCE]}))
    assert before(place, "Bash", PUSH)
    other = place.add("Something else.")
    with pytest.raises(OperationFailed, match="is no gate rule"):
        run(place.call("rule_remove", {"id": other}))


def test_a_call_can_be_tried(place: Place) -> None:
    place.add(FORCE, category=RULES)
    place.add("Bash: git push* — ask first", category=RULES)
    place.add("Bash: git* — never", category=RULES, author=AGENT_AUTHOR)
    answer = run(place.call("rule_test", {"subject": f"cd x; {PUSH}"}))
    assert [each["severity"] for each in answer["rules"]] == ["block", "confirm"]
    assert answer["severity"] == "block"
    assert answer["told"] == before(place, "Bash", PUSH)["permissionDecisionReason"]
    assert run(place.call("rule_test", {"subject": "ls"})) == {"rules": [], "severity": None, "told": ""}
    place.add("Edit: docs/*", category=RULES)
    assert run(place.call("rule_test", {"subject": "docs/a.md", "tool": "Write"}))["severity"] == "block"


def test_what_is_no_rule_and_what_waits_is_listed_with_the_reason(place: Place) -> None:
    place.add("Never push by force.", category=RULES)
    place.add(FORCE, category=RULES, author=AGENT_AUTHOR)
    candidate, broken = run(place.call("rule_list", {}))["rules"]
    assert (candidate["in_force"], candidate["trust"], candidate["problem"]) == (False, "candidate", "")
    assert broken["in_force"] is False
    assert "begins with the tool" in broken["problem"]


# -- typed


def test_a_typed_rule_is_one(place: Place) -> None:
    told = run(place.prompt(f"/remember {FORCE}", variables=INTERACTIVE))
    assert "as a gate rule (block)" in told
    assert before(place, "Bash", PUSH)["permissionDecision"] == "deny"
    told = run(place.prompt("/remember Ports: 80 is taken — ask Bob", variables=INTERACTIVE, session="s2"))
    assert "gate rule" not in told
    [row] = lookup.listed_rows(place.reader, [place.scope().default], categories=(RULES,))
    assert row["content"] == FORCE


# -- asking where the agent cannot


@pytest.fixture
def cannot_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AGENT, "cannot_ask", True, raising=False)


def asked(place: Place, command: str = "make deploy") -> bool:
    """Whether a rule that asks stands in the way of the command."""
    answer = before(place, "Bash", command)
    assert answer.get("permissionDecision") in (None, "ask")
    return bool(answer)


def say(place: Place, prompt: str, **fields: Any) -> None:
    run(place.prompt(prompt, **({"variables": INTERACTIVE} | fields)))


@pytest.mark.usefixtures("cannot_ask")
def test_a_yes_to_the_question_lets_the_call_through_until_the_next_prompt(place: Place) -> None:
    place.add("Bash: make deploy* — ask first", category=RULES)
    place.add("Bash: make drop* — ask first", category=RULES)
    place.add("[warn] Bash: make* — slow", category=RULES)
    say(place, "deploy it")
    assert asked(place)
    say(place, "Yes, go ahead.")
    answer = before(place, "Bash", "make deploy")
    assert "slow" in answer.pop("additionalContext")
    assert answer == {}
    assert asked(place, "make drop"), "the person said yes to another rule"
    assert asked(place, "make deploy-everything"), "the person said yes to another call"
    say(place, "and now the tests")
    assert asked(place)


@pytest.mark.usefixtures("cannot_ask")
@pytest.mark.parametrize(
    "prompt",
    [
        "no",
        "deploy it",
        "yes?",
        "ok, but not now",
        "yes, after you ran the tests first",
        "don't",
        "sure, wait",
        "ok, cancel that",
        "ok leave it",
        "okay, I will do it myself later",
        "ok show me the log",
        "go back to the last commit",
        "Sure thing is, the build is slow",
        "y" * 200,
    ],
)
def test_nothing_else_is_a_yes(place: Place, prompt: str) -> None:
    place.add("Bash: make deploy* — ask first", category=RULES)
    assert asked(place)
    say(place, prompt)
    assert asked(place)


@pytest.mark.usefixtures("cannot_ask")
@pytest.mark.parametrize(
    "prompt", ["yes", "Y", "ok", "OK!", "okay, go ahead", "ok do it", "go", "sure, thanks", "yes push it", "I agree."]
)
def test_a_plain_yes_is_one(place: Place, prompt: str) -> None:
    place.add("Bash: make deploy* — ask first", category=RULES)
    assert asked(place)
    say(place, prompt)
    assert not asked(place)


@pytest.mark.usefixtures("cannot_ask")
def test_a_yes_that_no_rule_asked_for_is_none(place: Place) -> None:
    place.add("Bash: make deploy* — ask first", category=RULES)
    say(place, "yes")
    assert asked(place)
    # Another session's person has said nothing.
    say(place, "yes", session="s2")
    assert asked(place)


@pytest.mark.usefixtures("cannot_ask")
def test_a_yes_told_twice_is_one_and_a_machines_is_none(place: Place) -> None:
    place.add("Bash: make deploy* — ask first", category=RULES)
    assert asked(place)
    say(place, "<task-notification>yes</task-notification>")
    # A model that runs this agent in another one's shell types no person's yes.
    say(place, "yes", variables={**INTERACTIVE, "CODEX_SANDBOX": "1", "CLAUDE_CODE_SESSION_ID": "s1"})
    assert asked(place)
    say(place, "yes")
    say(place, "yes")
    assert not asked(place)


@pytest.mark.usefixtures("cannot_ask")
def test_what_is_forbidden_is_no_question(place: Place) -> None:
    place.add(FORCE, category=RULES)
    place.add("Bash: git push* — ask first", category=RULES)
    assert before(place, "Bash", PUSH)["permissionDecision"] == "deny"
    say(place, "yes")
    assert before(place, "Bash", PUSH)["permissionDecision"] == "deny"


def test_an_agent_that_asks_itself_does_not_take_a_prompt_for_the_answer(place: Place) -> None:
    place.add("Bash: make deploy* — ask first", category=RULES)
    assert asked(place)
    say(place, "yes")
    assert asked(place)
