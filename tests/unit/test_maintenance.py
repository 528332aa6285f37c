"""The maintenance report and its jobs: what is counted, for whom, and that no memory is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fakes.real_parts import AGENT_AUTHOR, PERSON, Place, run

from cems.core import promotion, review
from cems.core.embedding import Embedder
from cems.core.service import progress
from cems.core.service.caller import Caller
from cems.core.service.operations import OperationFailed

SAME = "Deploys to the staging cluster run through the make ship target on the build host every evening"


def agent(place: Place) -> Caller:
    return place.caller(client="mcp", agent="codex", tty=False)


def report(place: Place) -> dict[str, Any]:
    return run(place.call("maintenance", {}, agent(place)))


def entries(place: Place) -> int:
    return int(place.reader.execute("SELECT COUNT(*) FROM chain").fetchone()[0])


def test_the_report_counts_what_is_in_the_callers_scopes(place: Place) -> None:
    place.add("Logs go to Loki.", author=AGENT_AUTHOR)
    asked = place.add("Tests are sentences.")
    promotion.ask(place.memories, asked, place.scope(), AGENT_AUTHOR)
    review.dispute(place.memories, place.add("The API is in Go."), place.scope(), PERSON)
    place.add("Bob is on call.", valid_to="2026-01-01T00:00:00Z", valid_from="2025-01-01T00:00:00Z")
    place.memories.forget([place.add("Never true.")], place.scope(), PERSON)
    place.add("Of another project.", folder=place.beta)
    found = report(place)
    assert found["memories"] == {
        "live": 4, "closed": 0, "hidden": 1, "archived": 0, "unverified": 1, "withheld": 1, "over": 1,
    }  # fmt: skip
    assert found["review"] == {"total": 3, "conflict": 1, "promotion": 1, "candidate": 1}
    assert found["store"] == {"state": "none", "reason": place.operations.without}
    assert [job["name"] for job in found["jobs"]] == ["verify", "compact"]
    assert all(len(job["does"]) > 20 for job in found["jobs"])


def test_a_report_changes_nothing(place: Place) -> None:
    place.add("Logs go to Loki.")
    before = entries(place)
    report(place)
    assert entries(place) == before


def test_memories_that_say_the_same_in_nearly_the_same_words_are_suspected(place: Place) -> None:
    older = place.add(SAME)
    newer = place.add(SAME + " please")
    place.add(SAME.replace("run through", "never run through"))
    place.add(SAME + " again", folder=place.beta)
    place.add(SAME + " here", everywhere=True)
    assert report(place)["duplicates"] == {"suspected": 1, "compared": 4, "pairs": [[older, newer]]}


def test_a_rejected_or_ended_memory_is_nobodys_duplicate(place: Place) -> None:
    review.dispute(place.memories, place.add(SAME + " please"), place.scope(), PERSON)
    place.add(SAME, valid_from="2025-01-01T00:00:00Z", valid_to="2026-01-01T00:00:00Z")
    place.add(SAME + " again")
    assert report(place)["duplicates"]["suspected"] == 0


def test_a_paraphrase_is_found_by_its_vector(place: Place, bundled: Embedder) -> None:
    older = place.add("The staging database runs on port 5433.")
    newer = place.add("The staging database is on port 5433.")
    place.add("The staging database runs on port 5434.")
    assert report(place)["duplicates"]["suspected"] == 0

    async def asked() -> dict[str, Any]:
        async with place.with_vectors(bundled):
            return await place.call("maintenance", {}, agent(place))

    found = run(asked())
    assert found["duplicates"]["pairs"] == [[older, newer]]
    assert found["store"]["state"] == "ready"


def test_verify_looks_at_every_part_and_says_what_is_wrong(place: Place) -> None:
    place.add("Logs go to Loki.")
    before = entries(place)
    found = run(place.call("maintenance", {"job": "verify"}, agent(place)))
    names = [check["name"] for check in found["result"]["checks"]]
    assert names == ["journal", "records", "sessions", "embedding", "store"]
    assert entries(place) == before
    with place.journal.connection as connection:
        connection.execute("DROP TRIGGER payload_only_erased")
        connection.execute("UPDATE payloads SET body = '{}'")
    found = run(place.call("maintenance", {"job": "verify"}, agent(place)))
    assert not found["result"]["sound"]
    assert "1 entries do not fit" in found["result"]["checks"][0]["detail"]


def test_compact_leaves_every_memory_and_fewer_files(place: Place, bundled: Embedder) -> None:
    def files(folder: Path) -> int:
        return sum(path.is_file() for path in folder.rglob("*"))

    async def compacted() -> tuple[dict[str, Any], int, int]:
        async with place.with_vectors(bundled) as indexer:
            for n in range(5):
                place.add(f"Rule {n} of the house.")
                indexer.wake()
                assert await indexer.settled(60)
            before = files(place.home.store)
            found = await place.call("maintenance", {"job": "compact"}, agent(place))
            assert await indexer.store.count() == 5
            assert indexer.store.unoptimized == 0
            return found["result"], before, files(place.home.store)

    count = entries(place)
    result, before, after = run(compacted())
    assert result["done"]
    assert 0 < after < before
    assert result["bytes_after"] < result["bytes_before"]
    assert entries(place) == count + 5


def test_without_a_store_compact_says_so(place: Place) -> None:
    found = run(place.call("maintenance", {"job": "compact"}, agent(place)))
    assert found["result"]["done"] is False
    assert found["result"]["reason"]


@pytest.mark.parametrize("job", ["rebuild", "forget", "../x"])
def test_there_is_no_other_job(place: Place, job: str) -> None:
    with pytest.raises(OperationFailed, match="there are verify, compact"):
        run(place.call("maintenance", {"job": job}, agent(place)))


def test_whoever_listens_is_told_of_each_step(place: Place) -> None:
    steps: list[tuple[float, float | None, str]] = []

    async def listening() -> None:
        async def note(done: float, total: float | None, what: str) -> None:
            steps.append((done, total, what))

        progress.listener.set(note)
        await place.call("maintenance", {"job": "verify"}, agent(place))

    run(listening())
    assert [(done, total) for done, total, _ in steps] == [(n, 5) for n in range(5)]
    assert steps[0][2] == "checking: journal"


# -- summaries ---------------------------------------------------------------------------------------------------------


def test_a_summary_is_of_one_scope_what_always_holds_first_and_always_the_same_text(place: Place) -> None:
    place.add("The build needs Node 22.")
    place.add("I prefer short answers.", everywhere=True, category="preferences")
    place.add("My editor is Helix.", everywhere=True)
    personal = run(place.call("summary", {"scope": "user"}, agent(place)))
    assert (personal["given"], personal["total"]) == (2, 2)
    lines = personal["block"].splitlines()
    assert lines[0].startswith("<cems-profile note=")
    assert "short answers" in lines[1]
    assert "Helix" in lines[2]
    assert personal == run(place.call("summary", {"scope": "user"}, agent(place)))
    assert run(place.call("summary", {"scope": "shared"}, agent(place)))["block"] == ""
    project = run(place.call("summary", {"scope": "project"}, agent(place)))
    assert "Node 22" in project["block"]
    assert "Helix" not in project["block"]


def test_a_summary_without_a_project_is_empty(place: Place) -> None:
    place.add("The build needs Node 22.")
    nowhere = place.caller(client="mcp", agent="codex", tty=False, cwd="/")
    found = run(place.call("summary", {"scope": "project"}, nowhere))
    assert (found["project"], found["block"], found["total"]) == (None, "", 0)


def test_a_summary_leaves_out_what_does_not_fit_and_says_how_much(place: Place) -> None:
    for n in range(60):
        place.add(f"Rule {n}: " + "word " * 80, everywhere=True)
    found = run(place.call("summary", {"scope": "user"}, agent(place)))
    assert 0 < found["given"] < found["total"] == 60
