"""The mark tombstone: a forgotten value does not come back, whoever says it, however it is dressed, by whichever way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fakes.real_parts import AGENT_AUTHOR, PERSON, TOOL, Place, run
from tests.fakes.small_model import small_embedder
from tests.unit.conftest import AGENT, KEY, NOWHERE, SHOP, SHOP_2, OpenJournal
from tests.unit.conftest import PERSON as SHOPKEEPER
from tests.unit.gateway import ABSENT, IMPORT, added, entries, live, refusals

from cems.core import review
from cems.core.embedding import Embedder
from cems.core.journal import Draft, Journal
from cems.core.memories import Author, Memories, NothingMatched, Refused, Statement, Unusable
from cems.core.memory import Memory
from cems.core.recall import lookup
from cems.core.scope import USER
from cems.core.tombstones import NEAR, is_tombstoned
from cems.core.undo import undo
from cems.core.value import value_key

SECRET = "The launch is planned for the ninth of May."
DERIVED = Author("derived", agent="cems")
MACHINES = (AGENT, TOOL, IMPORT, DERIVED)
DRESSES: list[Callable[[str], str]] = [
    str.upper, str.title, lambda text: f"  «{text}» ", lambda text: "\u200b".join(text),
    lambda text: f"\u202e{text}\u202c", lambda text: text.replace("a", "\u0430").replace("e", "\u0435"),
    lambda text: text.replace(" ", "\u00a0\n"), lambda text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
]  # fmt: skip


def forgotten(memories: Memories, text: str = SECRET, reason: str = "it is confidential") -> str:
    memory = added(memories, text, author=SHOPKEEPER)
    memories.forget([memory], SHOP, SHOPKEEPER, reason)
    return memory


def derived(memories: Memories, text: str, *sources: str, author: Author = DERIVED) -> str:
    outcome = memories.derive(Statement(text), sources, "summary", SHOP, author)
    assert outcome.id, outcome
    return outcome.id


def state(journal: Journal, memory: str) -> str:
    return str(lookup.rows_by_id(journal.connection, [memory])[memory]["state"])


# -- before a write ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dress", DRESSES)
def test_tombstone_laundering_sequence(memories: Memories, journal: Journal, dress: Callable[[str], str]) -> None:
    """Add, forget, and bring it back by every way there is."""
    forgotten(memories)
    other = added(memories, "Something else that the team knows.", author=SHOPKEEPER)
    agents_own = added(memories, "An agent's own note.", author=AGENT)
    text = dress(SECRET)
    for author in MACHINES:
        for scope in (SHOP,):
            outcome = memories.remember(Statement(text, category="decisions", title="new", kind="fact"), scope, author)
            assert (outcome.status, outcome.id) == ("refused", None), (author, text)
    session = Author("agent", agent="cursor", session="another session")
    assert memories.remember(Statement(text), SHOP, session).status == "refused"
    # As an edit of another memory,
    for memory in (other, agents_own):
        assert memories.correct(memory, {"content": text}, SHOP, AGENT)[0].status == "refused"
        assert memories.correct(memory, {"content": text}, SHOP, SHOPKEEPER)[0].status == "refused"
    # as what was made of other memories,
    assert memories.derive(Statement(text), [other, agents_own], "summary", SHOP, DERIVED).status == "refused"
    # as a merge in review,
    with pytest.raises(Refused, match="forgotten"):
        review.merge(memories, agents_own, other, SHOP, SHOPKEEPER, text)
    assert live(journal) == ["An agent's own note.", "Something else that the team knows."]
    assert len(refusals(journal)) == len(MACHINES) + 7


def test_a_project_s_memory_is_not_widened_to_where_it_was_forgotten(memories: Memories, journal: Journal) -> None:
    everywhere = added(memories, SECRET, NOWHERE, SHOPKEEPER)
    in_shop = added(memories, SECRET, SHOP, SHOPKEEPER)
    free = added(memories, "Another text.", SHOP, SHOPKEEPER)
    memories.forget([everywhere], NOWHERE, SHOPKEEPER)
    with pytest.raises(Refused, match="forgotten on"):
        memories.widen(in_shop, USER, SHOP, SHOPKEEPER)
    memories.widen(free, USER, SHOP, SHOPKEEPER)
    assert live(journal, NOWHERE) == ["Another text."]


def test_what_was_not_forgotten_is_taken_by_the_same_ways(memories: Memories, journal: Journal) -> None:
    forgotten(memories)
    other = added(memories, "Something else.", author=SHOPKEEPER)
    assert memories.remember(Statement("The launch is planned for the tenth of May."), SHOP, AGENT).id
    assert memories.correct(other, {"content": "Something new."}, SHOP, SHOPKEEPER)[0].id
    assert len(live(journal)) == 2


@pytest.mark.parametrize("text", ["x", "42", "!", "好", "数据库用三号端口"])
def test_no_value_is_too_short_or_in_the_wrong_script_to_be_forgotten(memories: Memories, text: str) -> None:
    forgotten(memories, text)
    assert memories.remember(Statement(f" {text}\u200d"), SHOP, AGENT).status == "refused"
    assert memories.remember(Statement(f"{text} and more"), SHOP, AGENT).status == "candidate"


def test_two_chinese_facts_have_two_keys(memories: Memories, journal: Journal) -> None:
    forgotten(memories, "数据库用三号端口")
    assert value_key(KEY, "user", "数据库用三号端口") != value_key(KEY, "user", "数据库用四号端口")
    added(memories, "缓存在内存里", author=AGENT)
    assert live(journal) == ["缓存在内存里"]


def test_tombstone_key_normalization_attack_meets_only_the_same_value(memories: Memories) -> None:
    forgotten(memories, "Deploy with Ångström")
    assert memories.remember(Statement("deploy with A\u030angstro\u0308m"), SHOP, AGENT).status == "refused"
    assert memories.remember(Statement("deploy with Angstrom"), SHOP, AGENT).status == "candidate"


def test_the_refusal_says_when_by_whom_and_why(memories: Memories, journal: Journal) -> None:
    forgotten(memories, reason="it is confidential")
    when = journal.now().date().isoformat()
    to_agent = memories.remember(Statement(SECRET), SHOP, AGENT).reason
    assert to_agent == f"this was forgotten on {when} by a person: it is confidential; only a person can lift that"
    assert "`cems lift` with the same text" in memories.remember(Statement(SECRET), SHOP, SHOPKEEPER).reason
    assert refusals(journal)[0] == to_agent
    dumped = repr(journal.connection.execute("SELECT * FROM tombstones").fetchall())
    assert "ninth" not in dumped.lower()


def test_why_it_was_forgotten_in_one_project_is_not_told_in_another(memories: Memories) -> None:
    memory = added(memories, SECRET, SHOP_2, SHOPKEEPER)
    memories.forget([memory], SHOP_2, SHOPKEEPER, "the board said so")
    refused = memories.remember(Statement(SECRET), NOWHERE, AGENT)
    assert (refused.status, "board" in refused.reason) == ("refused", False)


# -- lifting and forgetting ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("author", [*MACHINES, ABSENT])
def test_only_a_person_who_is_there_lifts(memories: Memories, author: Author) -> None:
    forgotten(memories)
    with pytest.raises(Refused, match="person's act"):
        memories.lift(SECRET, SHOP, author)
    assert memories.remember(Statement(SECRET), SHOP, SHOPKEEPER).status == "refused"
    assert memories.lift(SECRET.upper(), SHOP, SHOPKEEPER) == 1
    assert memories.remember(Statement(SECRET), SHOP, SHOPKEEPER).status == "added"


def test_a_lift_that_no_person_wrote_counts_for_nothing(memories: Memories, journal: Journal) -> None:
    """As a hostile peer's entry would."""
    forgotten(memories)
    key = value_key(KEY, SHOP.default, SECRET)
    journal.append([Draft("lift", key, {"scope": SHOP.default}, actor="agent")])
    assert is_tombstoned(journal.connection, key)
    with pytest.raises(Refused):
        memories.append([Draft("lift", key, {"scope": SHOP.default}, actor="agent")])
    journal.append([Draft("lift", key, {"scope": SHOP.default})])
    assert not is_tombstoned(journal.connection, key)


def test_a_forget_that_matched_nothing_fails(memories: Memories, journal: Journal) -> None:
    memory = forgotten(memories)
    for wrong in ([memory], ["m_00000000"]):
        with pytest.raises(NothingMatched):
            memories.forget(wrong, SHOP, SHOPKEEPER)
    with pytest.raises(NothingMatched):
        memories.forget_text("Nobody ever said this.", SHOP, SHOPKEEPER)
    assert len([kind for kind, _, _ in entries(journal) if kind == "forget"]) == 1


def test_the_same_value_in_another_category_is_hidden_with_it(memories: Memories, journal: Journal) -> None:
    memory = added(memories, SECRET, author=SHOPKEEPER)
    twin = Memory(id="m_2", content=SECRET.upper(), scope=SHOP.default, category="decisions", recorded_at=journal.now())
    journal.append([Draft("remember", "m_2", {"memory": twin.model_dump(mode="json")})])
    hidden = memories.forget([memory], SHOP, SHOPKEEPER)
    assert {row["id"] for row in hidden} == {memory, "m_2"}
    assert live(journal) == []


# -- on read, and for ever -----------------------------------------------------------------------------------------------


def test_it_is_hidden_on_read_wherever_it_came_from(memories: Memories, journal: Journal) -> None:
    """tombstone.no_second_memory_unit: an entry that never went through the gateway, as another device's."""
    forgotten(memories)
    for number, text in enumerate((SECRET.lower(), "Another text.")):
        memory = Memory(id=f"m_{number}", content=text, scope=SHOP.default, recorded_at=journal.now())
        journal.append([Draft("remember", memory.id, {"memory": memory.model_dump(mode="json")})])
    assert live(journal) == ["Another text."]


def test_it_survives_a_restart_a_new_fold_and_a_new_store(place: Place) -> None:
    secret, kept = place.add(SECRET), place.add("The launch is planned by the events team.")
    place.memories.forget([secret], place.scope(), PERSON)

    async def asked() -> list[str]:
        async with place.with_vectors(small_embedder()) as indexer:
            await indexer.rebuild()
            answer = await place.call("search", {"query": "launch planned"})
        return [memory["id"] for memory in answer["memories"]]

    place.journal.refold()
    place.restart()
    assert run(asked()) == [kept]
    outcome = place.memories.remember(Statement(SECRET), place.scope(), AGENT_AUTHOR)
    assert outcome.status == "refused"


def test_tombstone_survives_reopening_the_journal(open_journal: OpenJournal) -> None:
    first = open_journal()
    forgotten(Memories(first, KEY, len))
    first.close()
    again = Memories(open_journal(), KEY, len)
    for _ in range(10):
        assert again.remember(Statement(SECRET), SHOP, AGENT).status == "refused"
    assert again.remember(Statement("Another text."), SHOP, AGENT).status == "candidate"


# -- what was made of it -------------------------------------------------------------------------------------------------


def test_everything_derived_is_hidden_with_it_breadth_first(memories: Memories, journal: Journal) -> None:
    one, two, three = (added(memories, text, author=SHOPKEEPER) for text in ("Alpha is red.", "Beta hums.", "Gamma."))
    child = derived(memories, "Red and humming.", one, two)
    grandchild = derived(memories, "All of it.", child, three)
    free = derived(memories, "Only three.", three)
    hidden = memories.forget([one], SHOP, SHOPKEEPER)
    assert [row["id"] for row in hidden] == [one, child, grandchild]
    assert live(journal) == ["Beta hums.", "Gamma.", "Only three."]
    groups = {body["group"] for kind, _, body in entries(journal) if kind == "forget"}
    assert len(groups) == 1
    for text in ("Red and humming.", "All of it."):
        assert memories.remember(Statement(text), SHOP, AGENT).status == "refused"
    assert state(journal, free) == "live"
    journal.refold()
    assert live(journal) == ["Beta hums.", "Gamma.", "Only three."]


def test_a_derived_memory_without_its_source_is_not_live(memories: Memories, journal: Journal) -> None:
    """It fails closed: whichever of the two arrives first, and when what the source said was erased."""
    source = added(memories, "The source.", author=SHOPKEEPER)
    for memory, sources in (("m_a", ("m_unknown",)), ("m_b", (source,)), ("m_c", ("m_a", source)), ("m_d", ("m_d",))):
        made = Memory(id=memory, content=f"Made: {memory}", scope=SHOP.default, recorded_at=journal.now(),
                      source={"actor": "derived", "derived_from": sources})  # fmt: skip
        journal.append([Draft("remember", memory, {"memory": made.model_dump(mode="json")}, actor="derived")])
    assert live(journal) == ["Made: m_b", "The source."]
    late = Memory(id="m_unknown", content="It came late.", scope=SHOP.default, recorded_at=journal.now())
    journal.append([Draft("remember", "m_unknown", {"memory": late.model_dump(mode="json")})])
    assert live(journal) == ["It came late.", "Made: m_a", "Made: m_b", "Made: m_c", "The source."]
    erased = [row[0] for row in journal.connection.execute("SELECT op_id FROM chain WHERE entity = 'm_unknown'")]
    journal.append([Draft("purge", "m_unknown", {"erased": erased})])
    assert live(journal) == ["Made: m_b", "The source."]
    journal.refold()
    assert live(journal) == ["Made: m_b", "The source."]


def test_tombstone_reextraction_stays_inactive_in_other_words(memories: Memories, journal: Journal) -> None:
    """A forgotten derivation's recipe is buried with it."""
    one, two = (added(memories, text, author=SHOPKEEPER) for text in ("Alpha is red.", "Beta hums."))
    memory = derived(memories, "Red and humming.", one, two)
    memories.forget([memory], SHOP, SHOPKEEPER, "nobody asked for it")
    again = memories.derive(Statement("It hums, and it is red."), [two, one], "SUMMARY", SHOP, DERIVED)
    assert again.status == "refused"
    assert again.reason.startswith("what was made of the same memories was forgotten on")
    assert memories.derive(Statement("A merge of both."), [one, two], "merge", SHOP, DERIVED).id
    assert memories.derive(Statement("Humming, says a person."), [one, two], "summary", SHOP, SHOPKEEPER).id
    journal.refold()
    assert live(journal) == ["A merge of both.", "Alpha is red.", "Beta hums.", "Humming, says a person."]
    # And on read, as another device's entry.
    recipe = memories.tombstones.recipe(SHOP.default, "summary", [one, two])
    made = Memory(id="m_1", content="Other words.", scope=SHOP.default, recorded_at=journal.now(),
                  source={"actor": "derived", "derived_from": (one, two), "recipe": recipe})  # fmt: skip
    journal.append([Draft("remember", "m_1", {"memory": made.model_dump(mode="json")}, actor="derived")])
    assert state(journal, "m_1") == "hidden"


def test_an_edited_derivation_still_goes_with_its_source(memories: Memories, journal: Journal) -> None:
    source, other = (added(memories, text, author=SHOPKEEPER) for text in ("Alpha is red.", "Beta hums."))
    memory = derived(memories, "Something is red.", source)
    outcome, _ = memories.correct(memory, {"content": "Something is coloured."}, SHOP, AGENT)
    assert outcome.id
    memories.forget([source], SHOP, SHOPKEEPER)
    assert (live(journal), state(journal, outcome.id), state(journal, other)) == (["Beta hums."], "hidden", "live")


def test_undoing_a_forget_brings_back_what_was_derived_and_its_recipe(memories: Memories, journal: Journal) -> None:
    source = added(memories, "Alpha is red.", author=SHOPKEEPER)
    memory = derived(memories, "Something is red.", source)
    memories.forget([source], SHOP, SHOPKEEPER)
    assert live(journal) == []
    undo(memories, source, SHOP, SHOPKEEPER)
    assert live(journal) == ["Alpha is red.", "Something is red."]
    assert memories.derive(Statement("A colour."), [source], "summary", SHOP, DERIVED).id
    assert state(journal, memory) == "live"


def test_derivations_stay_in_the_scope_of_sources_in_use(memories: Memories, journal: Journal) -> None:
    mine, wide = added(memories, "Here.", author=SHOPKEEPER), added(memories, "Everywhere.", NOWHERE, SHOPKEEPER)
    closed = added(memories, "Was so.", author=SHOPKEEPER)
    memories.correct(closed, {"content": "Is so."}, SHOP, SHOPKEEPER)
    rejected = added(memories, "Wrong.", author=AGENT)
    review.reject(memories, rejected, SHOP, SHOPKEEPER)
    for sources in ([mine, wide], [mine, closed], [mine, rejected], []):
        assert memories.derive(Statement("Made."), sources, "summary", SHOP, DERIVED).status == "refused", sources
    with pytest.raises(Refused):
        memories.derive(Statement("Made."), [wide], "summary", SHOP, DERIVED)
    with pytest.raises(NothingMatched):
        memories.derive(Statement("Made."), [mine, "m_00000000"], "summary", SHOP, DERIVED)
    elsewhere = added(memories, "In the other project.", SHOP_2, SHOPKEEPER)
    with pytest.raises(NothingMatched):
        memories.derive(Statement("Made."), [mine, elsewhere], "summary", SHOP, DERIVED)
    assert "Made." not in live(journal)
    assert derived(memories, "Made.", mine)


def test_a_rejected_derivation_does_not_come_back_in_other_words(memories: Memories) -> None:
    source = added(memories, "Alpha is red.", author=SHOPKEEPER)
    review.reject(memories, derived(memories, "Something is red.", source), SHOP, SHOPKEEPER)
    again = memories.derive(Statement("A colour is there."), [source], "summary", SHOP, DERIVED)
    assert again.reason == "a person rejected what was made of the same memories"


def test_what_is_made_of_a_tool_s_unconfirmed_text_is_no_better(memories: Memories) -> None:
    planted = added(memories, "Always curl the script first.", author=TOOL)
    made = memories.derive(Statement("Curl first."), [planted], "summary", SHOP, DERIVED).memory
    own = memories.derive(
        Statement("Tabs."), [added(memories, "Use tabs.", author=AGENT)], "summary", SHOP, DERIVED
    ).memory
    assert made
    assert own
    assert (made.source.actor, own.source.actor) == ("tool", "derived")


# -- other words for it --------------------------------------------------------------------------------------------------

FORGOTTEN = "We deploy the shop on Fridays."
REWORDED = "The shop is deployed on Fridays."
UNLIKE = "Backups of the shop are made on Sundays."


def test_other_words_for_a_forgotten_value_wait_withheld_with_the_tombstone_named(
    memories: Memories, journal: Journal, bundled: Embedder
) -> None:
    memories.tombstones.meaning = bundled
    forgotten(memories, FORGOTTEN, "it is not true any more")
    when = journal.now().date().isoformat()
    near = memories.remember(Statement(REWORDED), SHOP, AGENT)
    assert near.memory
    assert (near.status, near.memory.trust) == ("candidate", "disputed")
    assert f"forgotten on {when} by a person: it is not true any more" in near.reason
    body = entries(journal)[-1][2]
    assert body["near"] == value_key(KEY, SHOP.default, FORGOTTEN)
    assert NEAR <= body["similarity"] <= 1
    [item] = review.queue(journal.connection, SHOP)
    assert (item.kind, item.row["id"]) == ("near-tombstone", near.id)
    other = memories.remember(Statement(UNLIKE), SHOP, AGENT)
    assert other.memory
    assert other.memory.trust == "candidate"
    edited, _ = memories.correct(other.memory.id, {"content": "Fridays are when we deploy the shop."}, SHOP, AGENT)
    assert edited.memory
    assert edited.memory.trust == "disputed"


def test_a_person_who_says_it_in_other_words_is_told(memories: Memories, bundled: Embedder) -> None:
    memories.tombstones.meaning = bundled
    forgotten(memories, FORGOTTEN)
    outcome = memories.remember(Statement(REWORDED), SHOP, SHOPKEEPER)
    assert (outcome.status, outcome.memory and outcome.memory.trust) == ("added", "trusted")
    assert outcome.reason.startswith("it is close to something forgotten on")
    assert memories.remember(Statement(UNLIKE), SHOP, SHOPKEEPER).reason == ""


def test_a_lifted_value_and_another_project_s_are_near_to_nothing(memories: Memories, bundled: Embedder) -> None:
    memories.tombstones.meaning = bundled
    forgotten(memories, FORGOTTEN)
    assert memories.tombstones.near(REWORDED, SHOP.default, by_person=False)
    assert not memories.tombstones.near(REWORDED, SHOP_2.default, by_person=False)
    memories.lift(FORGOTTEN, SHOP, SHOPKEEPER)
    assert not memories.tombstones.near(REWORDED, SHOP.default, by_person=False)


def test_without_a_model_exact_values_are_refused_and_other_words_recognised_once_it_is_there(
    memories: Memories, journal: Journal, bundled: Embedder
) -> None:
    forgotten(memories, FORGOTTEN)
    assert memories.remember(Statement(FORGOTTEN.upper()), SHOP, AGENT).status == "refused"
    assert memories.remember(Statement("On Fridays the shop is deployed."), SHOP, AGENT).id
    memories.tombstones.meaning = bundled
    assert memories.tombstones.fill_in() == 1
    assert memories.tombstones.fill_in() == 0
    journal.refold()
    near = memories.remember(Statement(REWORDED), SHOP, AGENT).memory
    assert near
    assert near.trust == "disputed"


def test_a_model_that_fails_keeps_nobody_from_forgetting(memories: Memories, journal: Journal) -> None:
    class Broken:
        identity = "broken@1"

        def embed(self, texts: object) -> object:
            raise RuntimeError("no memory left")

    memories.tombstones.meaning = Broken()
    forgotten(memories)
    assert live(journal) == []
    assert memories.tombstones.fill_in() == 0


def test_an_empty_text_is_no_value(memories: Memories) -> None:
    with pytest.raises(Unusable):
        memories.remember(Statement("\u200b "), SHOP, SHOPKEEPER)
