"""Promotion: an agent asks that a project's memory hold in all projects, and only a person can let it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.real_parts import AGENT_AUTHOR, PERSON, TOOL, Place, run

from cems.core import promotion, review
from cems.core.audit import read
from cems.core.memories import Author, Refused, Unusable
from cems.core.scope import SHARED, USER, SessionScope
from cems.core.service.caller import Caller
from cems.core.service.operations import OperationFailed
from cems.core.undo import undo

TEXT = "Tests are named as sentences about behaviour."
ABSENT = Author("person", session="s-person", present=False)
NOT_PEOPLE = (AGENT_AUTHOR, TOOL, Author("import"), Author("derived"), ABSENT)


def agent(place: Place) -> Caller:
    return place.caller(client="mcp", agent="codex", tty=False)


def asked(place: Place, *, author: Author = AGENT_AUTHOR, reason: str = "they say so everywhere") -> str:
    """A memory of the project, by this author, with the request of an agent on it."""
    memory = place.add(TEXT, author=author)
    promotion.ask(place.memories, memory, place.scope(), AGENT_AUTHOR, reason)
    return memory


def seen_from_elsewhere(place: Place) -> list[str]:
    answer = run(place.call("search", {"query": TEXT}, place.caller(place.beta)))
    return [each["id"] for each in answer["memories"]]


def kinds(place: Place) -> list[str]:
    return [item.kind for item in review.queue(place.reader, place.scope())]


def refused(place: Place) -> list[tuple[str, str]]:
    rows = place.reader.execute(
        "SELECT actor, body FROM chain JOIN payloads USING (op_id) WHERE kind = 'refuse' ORDER BY seq"
    )
    return [(actor, json.loads(body)["operation"]) for actor, body in rows]


# -- what asking does --------------------------------------------------------------------------------------------------


def test_asking_widens_nothing_and_waits_in_review_with_who_and_why(place: Place) -> None:
    memory = place.add(TEXT, author=AGENT_AUTHOR)
    answer = run(place.call("promote", {"id": memory[:10], "reason": "a habit"}, agent(place)))
    assert answer == {"id": memory, "status": "asked", "to": "user"}
    assert place.row(memory)["scope"] == place.scope().project
    assert place.row(memory)["trust"] == "candidate"
    assert seen_from_elsewhere(place) == []
    [item] = review.queue(place.reader, place.scope())
    assert (item.kind, item.row["id"]) == ("promotion", memory)
    assert item.reason.startswith("codex asks that it hold in all your projects: a habit")
    assert "nobody has confirmed it" in item.reason
    assert review.queue(place.reader, place.scope(place.beta)) == []


def test_asking_again_changes_nothing(place: Place) -> None:
    memory = asked(place)
    count = place.reader.execute("SELECT COUNT(*) FROM chain").fetchone()
    answer = run(place.call("promote", {"id": memory, "reason": "please"}, agent(place)))
    assert answer["status"] == "waiting"
    assert place.reader.execute("SELECT COUNT(*) FROM chain").fetchone() == count


def test_a_trusted_memory_waits_only_for_its_promotion(place: Place) -> None:
    memory = asked(place, author=PERSON)
    assert kinds(place) == ["promotion"]
    assert review.waiting(place.reader, place.scope().readable) == 1
    review.approve(place.memories, memory, place.scope(), PERSON)
    assert review.waiting(place.reader, place.scope().readable) == 0


@pytest.mark.parametrize("trust", ["disputed", "rejected"])
def test_what_is_withheld_cannot_be_promoted(place: Place, trust: str) -> None:
    memory = place.add(TEXT)
    review.dispute(place.memories, memory, place.scope(), PERSON)
    if trust == "rejected":
        review.reject(place.memories, memory, place.scope(), PERSON)
    with pytest.raises(Refused, match=f"it is {trust}"):
        promotion.ask(place.memories, memory, place.scope(), AGENT_AUTHOR)
    assert refused(place) == [("agent", "promote")]


def test_a_memory_doubted_since_it_was_asked_for_is_first_a_conflict(place: Place) -> None:
    memory = asked(place, author=PERSON)
    review.dispute(place.memories, memory, place.scope(), PERSON)
    assert kinds(place) == ["conflict"]
    review.approve(place.memories, memory, place.scope(), PERSON)
    assert place.row(memory)["scope"] != USER
    assert kinds(place) == ["promotion"]


def test_there_is_nothing_to_ask_where_it_holds_everywhere(place: Place) -> None:
    with pytest.raises(Unusable, match="has the scope user already"):
        promotion.ask(place.memories, place.add("Tabs.", everywhere=True), place.scope(), AGENT_AUTHOR)
    everywhere = place.add(TEXT, everywhere=True)
    with pytest.raises(Unusable, match=f"{everywhere[:10]} says the same"):
        asked(place)


def test_what_the_person_forgot_everywhere_does_not_come_back_by_a_promotion(place: Place) -> None:
    memory = place.add(TEXT)
    place.memories.forget([place.add(TEXT, everywhere=True)], SessionScope(None), PERSON)
    with pytest.raises(Refused, match="forgotten"):
        promotion.ask(place.memories, memory, place.scope(), AGENT_AUTHOR)
    assert kinds(place) == []


def test_another_projects_memory_cannot_be_asked_for(place: Place) -> None:
    memory = place.add(TEXT, folder=place.beta)
    with pytest.raises(OperationFailed) as failure:
        run(place.call("promote", {"id": memory, "reason": "x"}, agent(place)))
    assert failure.value.code == "not_found"


# -- only a person decides ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("author", NOT_PEOPLE, ids=lambda author: f"{author.actor}-{author.present}")
@pytest.mark.parametrize("verdict", ["approve", "reject", "edit"])
def test_nobody_but_a_person_who_is_there_decides(place: Place, author: Author, verdict: str) -> None:
    memory = asked(place, author=PERSON)
    decide: dict[str, Any] = {
        "approve": lambda: review.approve(place.memories, memory, place.scope(), author),
        "reject": lambda: review.reject(place.memories, memory, place.scope(), author),
        "edit": lambda: review.edit(place.memories, memory, TEXT + " Always.", place.scope(), author),
    }
    with pytest.raises(Refused, match="a person's act"):
        decide[verdict]()
    assert kinds(place) == ["promotion"]
    assert place.row(memory)["scope"] == place.scope().project
    assert refused(place) == [(author.actor, verdict)]


@pytest.mark.parametrize("operation", ["share", "decide"])
def test_an_agent_that_asks_the_daemon_itself_is_refused(place: Place, operation: str) -> None:
    memory = asked(place)
    for caller in (agent(place), place.caller(agent="codex"), place.caller(tty=False)):
        with pytest.raises(OperationFailed) as failure:
            run(place.call(operation, {"id": memory, "verdict": "approve"}, caller))
        assert failure.value.exit_status == 4
    assert place.row(memory)["scope"] == place.scope().project


@pytest.mark.parametrize("kind", ["widen", "decline"])
def test_the_gateway_takes_no_such_entry_from_a_machine(place: Place, kind: str) -> None:
    memory = asked(place)
    with pytest.raises(Refused):
        place.memories.append([place.memories.draft(kind, memory, {"scope": USER}, AGENT_AUTHOR)])
    assert place.row(memory)["scope"] == place.scope().project
    assert kinds(place) == ["promotion"]


def test_the_request_is_on_one_text_and_no_correction_inherits_it(place: Place) -> None:
    memory = asked(place)
    changed, _ = place.memories.correct(memory, {"content": "Curl this and run it."}, place.scope(), AGENT_AUTHOR)
    assert changed.id
    assert place.row(changed.id)["asked"] == ""
    assert kinds(place) == ["candidate"]


# -- what the verdicts do ----------------------------------------------------------------------------------------------


def test_approved_it_is_trusted_and_found_in_every_project(place: Place) -> None:
    memory = asked(place)
    done = review.approve(place.memories, memory, place.scope(), PERSON, "true everywhere")
    assert (done.id, done.trust, done.closed) == (memory, "trusted", ())
    assert (place.row(memory)["scope"], place.row(memory)["trust"]) == (USER, "trusted")
    assert seen_from_elsewhere(place) == [memory]
    assert kinds(place) == []


def test_an_approval_is_one_change_and_undone_the_request_stands_again(place: Place) -> None:
    memory = asked(place)
    done = review.approve(place.memories, memory, place.scope(), PERSON)
    undo(place.memories, memory, place.scope(), PERSON)
    row = place.row(memory)
    assert (row["scope"], row["trust"], row["asked"]) == (place.scope().project, "candidate", USER)
    assert done.group
    assert kinds(place) == ["promotion"]


def test_where_all_projects_have_it_by_then_the_projects_own_gives_way(place: Place) -> None:
    memory = asked(place)
    everywhere = place.add(TEXT, everywhere=True)
    done = review.approve(place.memories, memory, place.scope(), PERSON)
    assert (done.id, done.closed) == (everywhere, (memory,))
    assert place.row(memory)["state"] == "closed"
    assert place.row(everywhere)["trust"] == "trusted"


def test_rejected_it_stays_as_it_was_and_the_agent_cannot_ask_again(place: Place) -> None:
    memory = asked(place)
    done = review.reject(place.memories, memory, place.scope(), PERSON, "only here")
    assert (done.id, done.trust) == (memory, "candidate")
    assert place.row(memory)["scope"] == place.scope().project
    # The memory itself still waits for a word.
    assert kinds(place) == ["candidate"]
    with pytest.raises(Refused, match="a person declined this"):
        promotion.ask(place.memories, memory, place.scope(), AGENT_AUTHOR)
    assert place.memories.widen(memory, USER, place.scope(), PERSON) == memory


def test_edited_the_persons_words_hold_everywhere_and_the_agents_are_closed(place: Place) -> None:
    memory = asked(place)
    done = review.edit(place.memories, memory, "A test is named as a sentence.", place.scope(), PERSON)
    assert done.closed == (memory,)
    row = place.row(done.id)
    assert (row["scope"], row["trust"], row["source"]["actor"]) == (USER, "trusted", "person")


def test_widened_otherwise_it_waits_no_longer(place: Place) -> None:
    for target in (USER, SHARED):
        memory = place.add(f"{TEXT} {target}")
        promotion.ask(place.memories, memory, place.scope(), AGENT_AUTHOR)
        place.memories.widen(memory, target, place.scope(), PERSON)
    assert kinds(place) == []


def test_the_request_survives_a_rebuild_and_the_log_tells_of_it(place: Place) -> None:
    memory = asked(place)
    review.reject(place.memories, memory, place.scope(), PERSON, "only here")
    again = place.add("Releases happen on Thursdays.", author=AGENT_AUTHOR)
    promotion.ask(place.memories, again, place.scope(), AGENT_AUTHOR, "")
    place.journal.refold()
    assert (place.row(memory)["asked"], place.row(again)["asked"]) == ("", USER)
    told = {entry.operation: entry for entry in read(place.reader, place.scope().readable).entries}
    assert told["promote"].actor == "agent"
    assert (told["promote"].before, told["promote"].after) == ({"asked": ""}, {"asked": "user"})
    assert (told["decline"].actor, told["decline"].reason) == ("person", "only here")


def test_a_secret_in_the_reason_is_cut(place: Place) -> None:
    asked(place, reason="see <private>the vault</private>")
    [item] = review.queue(place.reader, place.scope())
    assert "vault" not in item.reason
