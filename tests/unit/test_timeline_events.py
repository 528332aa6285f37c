"""What was learnt and changed in a scope over time: which changes are told, of what, and to whom."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.real_parts import AGENT_AUTHOR, PERSON, Place, run

from cems.core import review
from cems.core.scope import USER
from cems.core.service.caller import Caller
from cems.core.service.operations import OperationFailed
from cems.core.timeline import retract
from cems.core.undo import undo

PORT = "Staging listens on port 8080."


def told(place: Place, caller: Caller | None = None, **body: Any) -> list[tuple[str, str]]:
    """The newest last, as they happened."""
    answer = run(place.call("timeline", body, caller))
    return [(each["what"], each["content"]) for each in reversed(answer["events"])]


def agent(place: Place) -> Caller:
    return place.caller(client="mcp", agent="codex", tty=False)


def test_each_change_is_told_once_in_words(place: Place) -> None:
    scope, memories = place.scope(), place.memories
    old = place.add(PORT)
    new, _ = memories.correct(old, {"content": "Staging listens on port 8081."}, scope, PERSON, "moved in May")
    noted = place.add("Logs go to Loki.", author=AGENT_AUTHOR)
    review.approve(memories, noted, scope, PERSON, "right")
    memories.widen(noted, USER, scope, PERSON)
    retract(memories, noted, scope, PERSON, reason="gone")
    memories.pin(str(new.id), True, scope, PERSON)
    assert told(place) == [
        ("learnt", PORT),
        ("corrected", "Staging listens on port 8081."),
        ("learnt", "Logs go to Loki."),
        ("approved", "Logs go to Loki."),
        ("widened", "Logs go to Loki."),
        ("retracted", "Logs go to Loki."),
    ]
    events = run(place.call("timeline", {}))["events"]
    corrected = next(each for each in events if each["what"] == "corrected")
    assert (corrected["corrects"], corrected["reason"]) == ([old], "moved in May")
    assert (events[0]["actor"], events[0]["reason"], events[0]["state"]) == ("person", "gone", "closed")


def test_what_was_forgotten_is_told_without_its_words(place: Place) -> None:
    place.memories.forget([place.add(PORT)], place.scope(), PERSON, "the port is 8080")
    assert told(place) == [("learnt", ""), ("forgotten", "")]
    assert "8080" not in str(run(place.call("timeline", {})))


def test_an_undone_change_and_a_merge_have_words_of_their_own(place: Place) -> None:
    one, other = place.add("Tabs.", author=AGENT_AUTHOR), place.add("Two spaces.", author=AGENT_AUTHOR)
    merged = review.merge(place.memories, one, other, place.scope(), PERSON, "Tabs, never spaces.").id
    assert told(place)[-1] == ("merged", "Tabs, never spaces.")
    undo(place.memories, merged, place.scope(), PERSON)
    assert [what for what, _ in told(place)[-3:]] == ["restored", "restored", "undone"]


def test_another_projects_changes_and_another_scopes_are_not_told(place: Place) -> None:
    place.add("Beta uses Ruby.", folder=place.beta)
    place.add("I like tabs.", everywhere=True)
    place.add(PORT)
    assert told(place) == [("learnt", "I like tabs."), ("learnt", PORT)]
    assert told(place, scope="user") == [("learnt", "I like tabs.")]
    with pytest.raises(OperationFailed) as failure:
        told(place, scope=place.scope(place.beta).project)
    assert failure.value.exit_status == 4


def test_an_agent_is_not_told_of_what_a_person_withholds(place: Place) -> None:
    doubted = place.add(PORT)
    review.dispute(place.memories, doubted, place.scope(), PERSON)
    assert told(place, agent(place)) == []
    assert [what for what, _ in told(place)] == ["learnt", "doubted"]


def test_an_interval_begins_with_its_first_instant_and_ends_before_its_last(place: Place) -> None:
    for day in ("2026-01-01", "2026-02-01", "2026-03-01"):
        place.add(f"Noted on {day}.", recorded_at=f"{day}T00:00:00Z")
    assert told(place, since="2026-02-01", until="2026-03-01") == [("learnt", "Noted on 2026-02-01.")]
    answer = run(place.call("timeline", {"limit": 1}))
    assert answer["coverage"] == {"considered": 1, "total": 3}
    assert answer["events"][0]["content"] == "Noted on 2026-03-01."
    with pytest.raises(OperationFailed):
        told(place, since="yesterday")


def test_a_history_shows_an_agent_only_the_memory_it_names_of_what_is_withheld(place: Place) -> None:
    old = place.add(PORT)
    new, _ = place.memories.correct(old, {"content": "Staging listens on port 8081."}, place.scope(), PERSON)
    review.dispute(place.memories, str(new.id), place.scope(), PERSON)
    seen = run(place.call("history", {"id": old}, agent(place)))
    assert ([each["id"] for each in seen["chain"]], seen["withheld"]) == ([old], 1)
    assert len(run(place.call("history", {"id": new.id}, agent(place)))["chain"]) == 2
    assert run(place.call("history", {"id": old}))["withheld"] == 0
