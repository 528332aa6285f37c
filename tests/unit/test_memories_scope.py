"""Whose memory may be seen and changed by whom, and how one is named."""

from __future__ import annotations

import pytest
from tests.unit.conftest import AGENT, KEY, NOWHERE, PERSON, SHOP, SHOP_2
from tests.unit.gateway import ABSENT, TABS, TOOL, added, live, refusals, row

from cems.core.journal import Journal
from cems.core.memories import (
    AmbiguousId,
    Author,
    Memories,
    NothingMatched,
    Refused,
    Statement,
    Unusable,
)
from cems.core.scope import SHARED, USER, Scope, SessionScope

# -- scope -----------------------------------------------------------------------------------------------------------


def test_another_projects_memory_is_not_found_by_its_id(memories: Memories) -> None:
    theirs = added(memories, TABS, SHOP_2)
    mine = added(memories, "Mine.", SHOP)
    assert memories.find(mine, SHOP)["content"] == "Mine."
    for scope in (
        SHOP,
        NOWHERE,
        SessionScope(Scope("project:github.com/org/shop-20")),
        SessionScope(Scope("project:github.com/org")),
    ):
        for change in (
            lambda scope=scope: memories.find(theirs, scope),
            lambda scope=scope: memories.forget([theirs], scope, PERSON),
            lambda scope=scope: memories.correct(theirs, {"content": "x"}, scope, PERSON),
            lambda scope=scope: memories.pin(theirs, True, scope, PERSON),
            lambda scope=scope: memories.widen(theirs, USER, scope, PERSON),
            lambda scope=scope: memories.forget_text(TABS, scope, PERSON),
        ):
            with pytest.raises(NothingMatched):
                change()
    assert memories.find(theirs, SHOP_2)["state"] == "live"


@pytest.mark.parametrize(
    "named", ["project:github.com/org/shop-2", "project:", "Project", "project:github.com/org/shop/", "users"]
)
def test_a_scope_that_is_not_the_sessions_is_refused_and_written_down(
    memories: Memories, journal: Journal, named: str
) -> None:
    with pytest.raises(Refused, match="not this session's"):
        memories.remember(Statement(TABS, scope=named), SHOP, AGENT)
    assert refusals(journal) == ["the scope is not this session's"]
    assert live(journal, SHOP_2) == []


def test_an_agent_cannot_add_to_the_persons_scope(memories: Memories, journal: Journal) -> None:
    with pytest.raises(Refused):
        memories.remember(Statement(TABS, scope="user"), SHOP, AGENT)
    assert len(refusals(journal)) == 1
    person = memories.remember(Statement(TABS, scope="user"), SHOP, PERSON)
    assert person.id
    assert row(memories, person.id)["scope"] == USER


def test_outside_a_project_there_is_no_project_to_add_to(memories: Memories) -> None:
    with pytest.raises(Unusable, match="belongs to no project"):
        memories.remember(Statement(TABS, scope="project"), NOWHERE, PERSON)
    assert row(memories, added(memories, TABS, NOWHERE), NOWHERE)["scope"] == USER


@pytest.mark.parametrize("author", [AGENT, ABSENT, TOOL])
def test_only_a_person_who_is_present_widens(memories: Memories, journal: Journal, author: Author) -> None:
    memory = added(memories, TABS)
    with pytest.raises(Refused):
        memories.widen(memory, USER, SHOP, author)
    assert len(refusals(journal)) == 1
    assert row(memories, memory)["scope"] == SHOP.project


def test_a_person_widens_a_memory_to_everywhere(memories: Memories, journal: Journal) -> None:
    memory = added(memories, TABS)
    assert memories.widen(memory, USER, SHOP, PERSON) == memory
    assert live(journal, SHOP_2) == [TABS]
    assert memories.widen(memory, USER, SHOP, PERSON) == memory
    with pytest.raises(Unusable):
        memories.widen(memory, Scope("project:x"), SHOP, PERSON)


def test_widening_what_is_there_already_makes_no_second_one(memories: Memories, journal: Journal) -> None:
    wide = added(memories, TABS, NOWHERE)
    narrow = added(memories, TABS)
    assert memories.widen(narrow, USER, SHOP, PERSON) == wide
    assert live(journal) == [TABS]
    assert row(memories, narrow)["closed_by"] == wide


def test_what_was_forgotten_everywhere_cannot_be_widened(memories: Memories, journal: Journal) -> None:
    memories.forget([added(memories, TABS, NOWHERE)], NOWHERE, PERSON)
    memories_here = Memories(journal, KEY, len)
    memory = memories_here.remember(Statement(TABS), SHOP, PERSON).id
    assert memory
    with pytest.raises(Refused, match="cems lift"):
        memories.widen(memory, USER, SHOP, PERSON)
    assert live(journal, SHOP_2) == []


def test_the_team_is_named_by_its_own_scope(memories: Memories) -> None:
    memory = added(memories, TABS)
    memories.widen(memory, SHARED, SHOP, PERSON)
    assert row(memories, memory, SHOP_2)["scope"] == SHARED


# -- ids -------------------------------------------------------------------------------------------------------------


def test_an_id_is_known_by_any_unambiguous_beginning(memories: Memories) -> None:
    memory = added(memories, TABS)
    for written in (memory, memory[2:], memory[:6], f" {memory[:10]} ", memory.upper()):
        assert memories.find(written, SHOP)["id"] == memory


def test_an_ambiguous_id_names_the_candidates(memories: Memories) -> None:
    made = [added(memories, f"fact number {n}") for n in range(17)]
    first = next(a for a in made if sum(b[:3] == a[:3] for b in made) > 1)
    with pytest.raises(AmbiguousId, match=first[:14]):
        memories.find(first[:3], SHOP)
    with pytest.raises(AmbiguousId):
        memories.forget([first[:3]], SHOP, PERSON)


@pytest.mark.parametrize("written", ["m_ffff0000", "zzz", "%", "m_%", "' OR 1=1 --", "\ud800", "\x00", "m_\uff41"])
def test_an_unknown_id_is_said_to_be_unknown(memories: Memories, written: str) -> None:
    added(memories, TABS)
    with pytest.raises(NothingMatched, match="no memory"):
        memories.find(written, SHOP)


@pytest.mark.parametrize("written", ["", " ", "m_"])
def test_no_id_is_unusable(memories: Memories, written: str) -> None:
    with pytest.raises(Unusable, match="an id is needed"):
        memories.find(written, SHOP)
