"""Purge: what is erased is nowhere in CEMS_HOME afterwards, and everything else is as it was."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.real_parts import AGENT_AUTHOR, PERSON, Place, run
from tests.fakes.small_model import small_embedder
from tests.unit.conftest import records_of

from cems.adapters.claude_code.agent import AGENT
from cems.core import backups
from cems.core.journal import Journal
from cems.core.memories import Author, Refused, Statement
from cems.core.needles import PURGED, needles_for
from cems.core.purge import Purge, unfinished
from cems.core.recall import lookup
from cems.core.recall.engine import Within
from cems.core.recall.question import ask
from cems.core.records import Records
from cems.core.service.operations import OperationFailed
from cems.core.service.purge_operations import finish_purge
from cems.core.traces import search_files, search_folder, search_home

SECRET = "xylophone-quagmire-éß-7731"
KEPT = "Deployments are announced in the release channel."
KEY = b"k" * 32


def places(place: Place, text: str = SECRET) -> set[str]:
    return {each.place for each in search_home(place.home, needles_for([text]))}


def files_with(root: Path, text: str) -> list[str]:
    """By other means than the program's own search."""
    forms = [text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be"), json.dumps(text)[1:-1].encode()]
    forms += [each.swapcase() for each in forms] + [text.casefold().encode(), text.upper().encode()]
    found = [path for path in root.rglob("*") if path.is_file() and any(f in path.read_bytes() for f in forms)]
    return [str(path.relative_to(root)) for path in found]


def plant(place: Place) -> dict[str, str]:
    """The secret in every field and in every state a memory can have."""
    memories, scope = place.memories, place.scope()
    planted = {
        "only": place.add(SECRET),
        "content": place.add(f"The vault opens with {SECRET.upper()} and a key."),
        "title": place.add("The vault is in the cellar.", title=f"About {SECRET}"),
        "tag": place.add("The cellar is locked.", tags=("cellar", SECRET)),
        "quote": place.add("The cellar has two doors.", quote=f"I said {SECRET}, didn't I?"),
        "elsewhere": place.add(f"{SECRET} opens the garage.", folder=place.beta),
        "everywhere": place.add(SECRET, everywhere=True),
        "agents": place.add(f"Maybe {SECRET} is old.", author=AGENT_AUTHOR),
        "forgotten": place.add(f"{SECRET} was the key of the shed."),
    }
    memories.forget([planted["forgotten"]], scope, PERSON, f"because of {SECRET}")
    memories.correct(planted["agents"], {"content": f"Surely {SECRET} is old."}, scope, PERSON)
    # What was forgotten, said again by an agent; and a refusal that quotes it.
    again = memories.remember(Statement(f"{SECRET} was the key of the shed."), scope, AGENT_AUTHOR)
    assert again.status == "refused"
    memories.refuse("remember", f"refused: {SECRET}", AGENT_AUTHOR, scope.default, SECRET)
    for name in ("daemon.log", "cli.log"):
        (place.home.logs / name).write_text(f"first\nsomething failed: {SECRET}\nlast\n", "utf-8")
    # An agent that was killed in the middle of its turn.
    place.home.run.mkdir()
    (place.home.run / "context-4242").write_text(f"- {SECRET}\n", "utf-8")
    return planted


async def purge(place: Place, **target: Any) -> dict[str, Any]:
    return await place.call("purge", target)


def test_a_purged_text_is_nowhere_and_everything_else_is_as_it_was(place: Place) -> None:
    async def work() -> None:
        kept = place.add(KEPT, tags=("release",))
        planted = plant(place)
        embedder = small_embedder()
        async with place.with_vectors(embedder) as indexer:
            for number in range(30):
                place.add(f"filler number {number} beside the vault")
                place.memories.pin(planted["content"], number % 2 == 0, place.scope(), PERSON)
                indexer.wake()
                assert await indexer.settled(30)
            await indexer.store.optimize(force=True)
            backups.copy_daily(place.home)
            # The search finds it wherever it is: in rows, in words, in old versions, in logs and in copies.
            before = places(place)
            day = backups.copies(place.home)[0].name
            for expected in (
                "journal.db", "journal.db: payloads.body", "journal.db: records.body", "logs/daemon.log", "logs/cli.log",
                f"backups/{day}/journal.db", f"backups/{day}/journal.db: payloads.body",
            ):  # fmt: skip
                assert expected in before, expected
            assert any(each.startswith("store/") and "version" in each for each in before)
            assert any(each.startswith("store/") and each.endswith(".lance") for each in before)
            assert files_with(place.home.root, SECRET)

            plan = await place.call("purge_plan", {"text": SECRET})
            assert {each["id"] for each in plan["purged"]} == {planted["only"], planted["everywhere"]}
            assert len(plan["cut"]) >= 6
            done = await purge(place, text=SECRET, reason=f"{SECRET} leaked")
            assert done["left"] == []
            assert done["problems"] == []
            assert done["logs"] == 2
            assert {each["id"] for each in done["purged"]} == {planted["only"], planted["everywhere"]}

            assert_gone(place)
            await assert_others_are_found(place, kept)
            assert all(each["ok"] for each in (await place.call("check", {}))["checks"])
            await place.call("rebuild", {})
            assert_gone(place)
            await assert_others_are_found(place, kept)
        # The logs keep what else they said, the memories what else they told.
        assert (place.home.logs / "daemon.log").read_text() == "first\nlast\n"
        assert place.row(planted["content"])["content"] == f"The vault opens with {PURGED} and a key."
        assert place.row(planted["title"])["title"] == f"About {PURGED}"
        assert place.row(planted["tag"])["tags"] == ["cellar", PURGED]
        assert place.row(planted["quote"])["source"]["quote"] == f"I said {PURGED}, didn't I?"
        assert place.row(planted["elsewhere"])["scope"] != place.row(planted["title"])["scope"]
        assert place.row(planted["forgotten"])["state"] == "hidden"
        assert place.row(planted["agents"])["state"] == "closed"
        assert planted["only"] not in lookup.rows_by_id(place.reader, [planted["only"]])
        # And after a restart with another process's eyes, folded again.
        records = records_of(place.journal.connection)
        place.journal.refold()
        assert records_of(place.journal.connection) == records
        reopened = Journal(place.home.journal, Records(KEY))
        assert reopened.verify() == []
        reopened.close()
        async with place.with_vectors(embedder):
            assert_gone(place)
            await assert_others_are_found(place, kept)

    run(work())


def assert_gone(place: Place) -> None:
    assert places(place) == set()
    assert files_with(place.home.root, SECRET) == []
    assert place.journal.verify() == []


async def assert_others_are_found(place: Place, kept: str) -> None:
    found = await place.call("search", {"query": "where are deployments announced"})
    assert found["mode"] == "hybrid"
    assert found["memories"][0]["id"] == kept
    assert found["memories"][0]["content"] == KEPT


def test_it_stays_refused_and_only_a_person_lifts_it(place: Place) -> None:
    memory = place.add(f"{SECRET} is it")
    run(purge(place, ids=[memory]))
    assert tombstone(place) == [0]
    for folder, category in ((place.alpha, "general"), (place.alpha, "decisions")):
        again = run(
            place.call("add", {"content": f" {SECRET.upper()}  is it.", "category": category}, place.caller(folder))
        )
        assert again["status"] == "refused"
    place.journal.refold()
    assert tombstone(place) == [0]
    assert run(place.call("add", {"content": f"{SECRET} is it"}))["status"] == "refused"


def tombstone(place: Place) -> list[int]:
    return [row[0] for row in place.journal.connection.execute("SELECT lifted FROM tombstones")]


def test_an_earlier_forget_keeps_its_date_and_reason(place: Place) -> None:
    memory = place.add(f"{SECRET} is it")
    place.memories.forget([memory], place.scope(), PERSON, "never true")
    before = place.journal.connection.execute("SELECT * FROM tombstones").fetchall()
    run(purge(place, ids=[memory]))
    place.journal.refold()
    assert place.journal.connection.execute("SELECT * FROM tombstones").fetchall() == before


@pytest.mark.parametrize("operation", ["purge", "purge_plan"])
@pytest.mark.parametrize(
    "caller",
    [
        {"agent": "claude-code"},
        {"client": "mcp", "agent": "claude-code", "tty": False},
        {"client": "mcp", "tty": True},
        {"tty": False},
    ],
)
def test_only_a_person_at_a_terminal_may(place: Place, operation: str, caller: dict[str, Any]) -> None:
    memory = place.add(f"{SECRET} is it")
    for target in ({"ids": [memory]}, {"text": SECRET}, {"text": "never said by anybody"}):
        with pytest.raises(OperationFailed) as refused:
            run(place.call(operation, target, place.caller(**caller)))
        assert refused.value.exit_status == 4
        assert "person" in str(refused.value)
    assert place.row(memory)["state"] == "live"
    kinds = [row[0] for row in place.journal.connection.execute("SELECT kind FROM chain")]
    assert kinds == ["remember", "refuse", "refuse", "refuse"]


def test_it_is_journaled_without_what_it_erased(place: Place) -> None:
    memory = place.add(f"{SECRET} is it")
    run(purge(place, ids=[memory], reason=f"{SECRET} is it, and it leaked"))
    rows = place.journal.connection.execute(
        "SELECT kind, actor, body, salt, erased_at FROM chain JOIN payloads USING (op_id) ORDER BY seq"
    ).fetchall()
    assert [(row[0], row[1]) for row in rows] == [("remember", "person"), ("forget", "person"), ("purge", "person")]
    assert rows[0][2] is None
    assert rows[0][3] is None
    assert rows[0][4]
    body = json.loads(rows[2][2])
    assert len(body["erased"]) == 1
    assert body["reason"] == f"{PURGED}, and it leaked"
    assert "instead" not in body


def test_another_memory_keeps_what_else_it_says_of_any_spelling(place: Place) -> None:
    secret = "the gate code is 0815 and a half"
    memory = place.add(secret)
    longer = place.add("Remember: The Gate Code  is 0815 and a half. Ring twice.", folder=place.beta)
    odd = place.add("x: the g\u0430te code is 0815 and a half", folder=place.beta)
    done = run(purge(place, ids=[memory]))
    assert done["left"] == []
    assert {each["id"] for each in done["cut"]} == {longer, odd}
    assert place.row(longer)["content"] == f"Remember: {PURGED}. Ring twice."
    assert place.row(odd)["content"] == f"x: {PURGED}"


def test_a_short_memory_is_not_cut_out_of_others(place: Place) -> None:
    short, longer = place.add("Use uv"), place.add("Use uv and ruff for everything.")
    done = run(purge(place, ids=[short]))
    assert (len(done["purged"]), done["cut"], done["left"], done["texts"]) == (1, [], [], [])
    assert place.row(longer)["content"] == "Use uv and ruff for everything."


def test_what_was_derived_from_a_purged_memory_goes_with_it(place: Place) -> None:
    scope = place.scope()
    first = place.add(f"{SECRET} is it")
    second = place.memories.derive(Statement("It has a dash in the middle."), [first], "summary", scope, PERSON).id
    assert second
    third = place.memories.derive(Statement("Dashes are in it, they say."), [second], "summary", scope, PERSON).id
    stranger = place.add("Nothing to do with that.")
    plan = run(place.call("purge_plan", {"ids": [first]}))
    assert {each["id"] for each in plan["purged"]} == {first, second, third}
    done = run(purge(place, ids=[first]))
    assert {each["id"] for each in done["purged"]} == {first, second, third}
    assert set(done["texts"]) >= {"It has a dash in the middle.", "Dashes are in it, they say."}
    for text in (f"{SECRET} is it", "It has a dash in the middle", "Dashes are in it, they say"):
        assert places(place, text) == set()
        assert run(place.call("add", {"content": text}))["status"] == "refused"
    assert place.row(stranger)["state"] == "live"


def test_what_another_project_derived_from_the_same_text_goes_too(place: Place) -> None:
    there = place.scope(place.beta)
    said = place.add(SECRET, folder=place.beta)
    made = place.memories.derive(Statement("It has a dash in the middle."), [said], "summary", there, PERSON).id
    done = run(purge(place, text=SECRET))
    assert {each["id"] for each in done["purged"]} == {said, made}
    assert places(place, "It has a dash in the middle.") == set()


def test_vectors_of_what_was_forgotten_go_and_others_stay(place: Place) -> None:
    place.memories.tombstones.meaning = small_embedder()
    gone, stays = place.add(f"{SECRET} is it"), place.add("The shed is blue.")
    place.memories.forget([stays], place.scope(), PERSON)
    run(purge(place, ids=[gone]))
    connection = place.journal.connection
    assert connection.execute("SELECT COUNT(*) FROM tombstones").fetchone() == (2,)
    key = connection.execute("SELECT value_key FROM records WHERE id = ?", (stays,)).fetchone()
    assert connection.execute("SELECT value_key FROM tombstone_vectors").fetchall() == [key]


def test_a_second_purge_of_what_the_first_left_over(place: Place) -> None:
    memory = place.add(f"one {SECRET} two plum-orchard-9981 three", quote="said so")
    run(purge(place, text=SECRET))
    assert place.row(memory)["content"] == f"one {PURGED} two plum-orchard-9981 three"
    done = run(purge(place, text="plum-orchard-9981"))
    assert done["left"] == []
    assert place.row(memory)["content"] == f"one {PURGED} two {PURGED} three"
    assert place.row(memory)["source"]["quote"] == "said so"
    run(purge(place, ids=[memory]))
    assert place.journal.verify() == []
    assert lookup.rows_by_id(place.reader, [memory]) == {}
    left = place.journal.connection.execute("SELECT body FROM payloads WHERE body IS NOT NULL").fetchall()
    assert "one" not in json.dumps(left)


def test_what_happened_to_a_memory_outlives_the_cutting_of_the_reasons(place: Place) -> None:
    scope = place.scope()
    closed, forgotten, pinned = (place.add(text) for text in ("The first one.", "The second one.", "The third one."))
    place.memories.correct(closed, {"content": "The first one, corrected."}, scope, PERSON, f"since {SECRET}")
    place.memories.forget([forgotten], scope, PERSON, f"since {SECRET}")
    place.memories.pin(pinned, True, scope, PERSON)
    before = {each: place.row(each) for each in (closed, forgotten, pinned)}
    done = run(purge(place, text=SECRET))
    assert (done["purged"], done["left"]) == ([], [])
    place.journal.refold()
    for memory, row in before.items():
        assert place.row(memory) | {"seq": 0} == row | {"seq": 0}
    assert run(place.call("add", {"content": "The second one."}))["status"] == "refused"


def test_a_text_that_nobody_wrote_is_not_purged_and_a_log_that_holds_it_is(place: Place) -> None:
    with pytest.raises(OperationFailed) as missing:
        run(place.call("purge", {"ids": ["m_ffff"]}))
    assert missing.value.exit_status == 3
    (place.home.logs / "daemon.log").write_text(f"a\n{SECRET}\n")
    done = run(purge(place, text=SECRET))
    assert (done["entries"], done["logs"], done["left"]) == (0, 1, [])


def test_what_we_may_not_change_is_reported(place: Place) -> None:
    memory = place.add(f"{SECRET} is it")
    files = place.home.backups / "files"
    files.mkdir(parents=True)
    (files / "settings.json").write_text(json.dumps({"env": f"{SECRET} is it"}))
    done = run(purge(place, ids=[memory]))
    assert [each["place"] for each in done["left"]] == ["backups/files/settings.json"]


def test_words_of_the_text_leave_the_indexes_and_words_others_use_stay(place: Place) -> None:
    place.add("A walrus eats clams in winter.")
    memory = place.add("A walrus sings operettas, flabbergasting everyone.")
    words = "SELECT term FROM scope_terms"
    assert ("flabbergast",) in place.journal.connection.execute(words).fetchall()
    run(purge(place, ids=[memory]))
    left = {row[0] for row in place.journal.connection.execute(words)}
    assert "walrus" in left
    assert not {"flabbergast", "operetta"} & left
    with sqlite3.connect(place.home.journal) as connection:
        blocks = b"".join(row[0] for row in connection.execute("SELECT block FROM keywords_data"))
    assert b"flabberga" not in blocks


def test_the_search_names_a_word_that_only_an_index_still_has(place: Place) -> None:
    place.add("A walrus eats clams.")
    place.journal.connection.execute("INSERT INTO scope_terms VALUES ('user', 'flabbergast', 1)")
    place.journal.connection.execute("INSERT INTO keywords (rowid, terms) VALUES (99, 'flabbergast')")
    found = places(place, "A walrus flabbergasts everyone")
    assert found == {"journal.db: scope_terms", "journal.db: keywords"}


@pytest.mark.parametrize("stopped_in", ["clean_journal", "_clean_store", "_remove_set_aside"])
def test_a_purge_that_was_cut_short_is_finished_later(
    place: Place, monkeypatch: pytest.MonkeyPatch, stopped_in: str
) -> None:
    async def work() -> None:
        memory = place.add(f"{SECRET} is it")
        place.add(KEPT)

        def full_disk(*_: object) -> None:
            raise OSError(28, "No space left on device")

        async with place.with_vectors(small_embedder()):
            (place.home.root / "store.damaged-1").mkdir()
            (place.home.root / "store.damaged-1" / "x.lance").write_text(f"{SECRET} is it")
            with monkeypatch.context() as patch:
                patch.setattr(f"cems.core.service.purge_operations.{stopped_in}", full_disk)
                done = await purge(place, ids=[memory])
            assert len(done["problems"]) == 1
            assert "No space left" in done["problems"][0]
            assert unfinished(place.reader)
            journal = next(each for each in (await place.call("check", {}))["checks"] if each["name"] == "journal")
            assert not journal["ok"]
            await finish_purge(place.operations)
            assert not unfinished(place.reader)
            assert places(place) == set()

    run(work())


def test_reading_goes_on_while_the_files_are_written_anew(place: Place) -> None:
    async def work() -> None:
        kept = place.add(KEPT)
        async with place.with_vectors(small_embedder()) as indexer:
            question, within = ask("where are deployments announced"), Within(place.scope().readable, ("trusted",))
            reading = True
            answers: list[bool] = []

            async def read() -> None:
                while reading:
                    found = await place.operations.searcher.search(question, within)
                    answers.append(found.mode == "hybrid" and found.candidates[0].id == kept)
                    await asyncio.sleep(0)

            readers = [asyncio.create_task(read()) for _ in range(3)]
            for number in range(4):
                memory = place.add(f"{SECRET} number {number}")
                indexer.wake()
                await indexer.settled(30)
                done = await purge(place, ids=[memory])
                assert (done["left"], done["problems"]) == ([], [])
            reading = False
            await asyncio.gather(*readers)
            assert len(answers) > 10
            assert all(answers)

    run(work())


def test_who_reads_an_older_version_ends_before_its_files_go(place: Place) -> None:
    async def work() -> None:
        place.add(KEPT)
        async with place.with_vectors(small_embedder()) as indexer:
            store = indexer.store
            older, everything = store._table, "state = 'live'"
            async with store._gate.reading():
                rewriting = asyncio.create_task(store.rewrite())
                await asyncio.sleep(0.3)
                assert not rewriting.done()
                assert (await older.query().to_arrow()).num_rows == 1
            await rewriting
            reads: list[Callable[[], Any]] = [
                store.count, store.faults, store.entries, lambda: store.mean_vector("user"), lambda: store.vectors(["m_1"]),
                lambda: store.search_text(["release"], everything, 5),
                lambda: store.search_vector(small_embedder().embed_query("release"), everything, 5),
            ]  # fmt: skip
            await store.size()
            # Else the means are known, and nothing is read for one.
            store._centroids = None
            for read in reads:
                async with store._gate.shut():
                    waiting = asyncio.create_task(read())
                    await asyncio.wait([waiting], timeout=0.2)
                    assert not waiting.done(), read
                await waiting

    run(work())


def test_deleting_and_optimising_alone_would_leave_it(place: Place) -> None:
    """Why the table is written anew; when this fails, LanceDB has learnt to do it and `rewrite` can go."""

    async def work() -> None:
        memory = place.add(f"{SECRET} is it")
        for number in range(40):
            place.add(f"filler {number}")
        async with place.with_vectors(small_embedder()) as indexer:
            await indexer.store.optimize(force=True)
            await indexer.store.delete([memory])
            with warnings.catch_warnings(action="ignore"):
                await indexer.store._table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)
            assert files_with(place.home.store, SECRET)
            await indexer.store.rewrite()
            assert files_with(place.home.store, SECRET) == []

    run(work())


@pytest.mark.parametrize(
    "write",
    [
        lambda path, text: path.write_text(text, "utf-8"),
        lambda path, text: path.write_text(text.upper(), "utf-8"),
        lambda path, text: path.write_text(text, "utf-16-le"),
        lambda path, text: path.write_text(text, "utf-16-be"),
        lambda path, text: path.write_text(json.dumps({"a": text})),
        lambda path, text: path.write_text(json.dumps(json.dumps({"a": text}))),
        lambda path, text: path.write_bytes(b"\xff" * ((1 << 20) - 9) + text.encode() + b"\0" * 50),
    ],
)
def test_the_search_finds_it_in_any_encoding(tmp_path: Path, write: Callable[[Path, str], None]) -> None:
    write(tmp_path / "some.file", SECRET)
    needles = needles_for([SECRET])
    assert [each.place for each in search_folder(tmp_path, needles)] == ["some.file"]
    assert [each.place for each in search_files([tmp_path], needles)] == [str(tmp_path / "some.file")]
    assert search_folder(tmp_path, needles_for(["something else altogether"])) == []


def test_a_line_of_a_text_is_found_by_itself_and_the_program_is_not_searched(place: Place) -> None:
    text = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA75xx\n-----END KEY-----"
    (place.home.root / "note").write_text("x MIIEpAIBAAKCAQEA75xx y")
    place.home.env.mkdir()
    (place.home.env / "lib.py").write_text(text)
    assert places(place, text) == {"note"}


def test_a_database_that_cannot_be_read_is_not_vouched_for(place: Place) -> None:
    (place.home.root / "odd.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000)
    found = search_home(place.home, needles_for([SECRET]))
    assert [each.place for each in found] == ["odd.db"]
    assert "cannot be read" in found[0].form


def test_an_older_version_of_the_store_is_searched_too(place: Place) -> None:
    async def work() -> None:
        memory = place.add(f"{SECRET} is it")
        place.add(KEPT)
        async with place.with_vectors(small_embedder()) as indexer:
            await indexer.store.delete([memory])

    run(work())
    rows = {each for each in places(place, f"{SECRET} is it") if "content, version" in each}
    assert rows
    newest = max(int(each.rpartition(" ")[2]) for each in places(place, KEPT) if "content, version" in each)
    assert all(not each.endswith(f" {newest}") for each in rows)


def test_claude_names_where_it_keeps_its_sessions(tmp_path: Path) -> None:
    folders = AGENT.transcript_folders(tmp_path, {})
    assert tmp_path / ".claude" / "projects" in folders
    named = AGENT.transcript_folders(tmp_path, {"CLAUDE_CONFIG_DIR": str(tmp_path / "elsewhere")})
    assert tmp_path / "elsewhere" / "projects" in named
    session = tmp_path / ".claude" / "projects" / "-work" / "a.jsonl"
    session.parent.mkdir(parents=True)
    session.write_text(json.dumps({"message": {"content": f"the key is {SECRET}"}}) + "\n")
    assert [each.place for each in search_files(folders, needles_for([SECRET]))] == [str(session)]


def test_without_a_model_the_store_of_an_earlier_one_is_removed(place: Place) -> None:
    async def work() -> str:
        memory = place.add(f"{SECRET} is it")
        async with place.with_vectors(small_embedder()):
            pass
        return memory

    memory = run(work())
    place.operations.indexer = None
    assert run(purge(place, ids=[memory]))["left"] == []
    assert not place.home.store.exists()


def test_the_indexer_names_files_that_stayed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        place.add(KEPT)
        async with place.with_vectors(small_embedder()) as indexer:

            async def nothing() -> None:
                return

            monkeypatch.setattr(indexer.store, "rewrite", nothing)
            assert await indexer.erase()

    run(work())


def test_an_author_who_is_not_there_cannot_carry_out_a_plan(place: Place) -> None:
    memory = place.add(f"{SECRET} is it")
    purging = Purge(place.memories, place.journal)
    plan = purging.by_id([memory], place.scope(), PERSON)
    with pytest.raises(Refused):
        purging.carry_out(plan, Author("person", present=False))
    assert place.row(memory)["state"] == "live"
