"""Mark: scope enforced. A session sees its project's memories, the person's and the team's, on every path that reads;
its scope follows from where it runs, and nothing it says widens it. Each refusal stands beside what is allowed.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.machine import IN_CLAUDE, Machine
from tests.fakes.real_parts import Place, run

from cems.core.embedding import Embedder
from cems.core.scope import SHARED, USER, Scope, SessionScope, project_scope, session_scope
from cems.core.service.client import Client, OperationError
from cems.core.store import live_filter

ALPHA = "The staging database listens on port 5433."
BETA = "The staging database is called mercury."
QUESTION = "which port does the staging database listen on, and what is it called"

Read = Callable[[Machine, Path, str], str]


class Two:
    """A project with a memory and another one with another, both about the same question. No two have the same texts."""

    def __init__(self, machine: Machine) -> None:
        self.alpha, self.beta = machine.project("app"), machine.project("app")
        number = self.alpha.parent.name
        self.a, self.b = f"{ALPHA} It is for {number}.", f"{BETA} It is for {number}."
        self.in_alpha = machine.add(self.a, self.alpha, category="preferences")
        self.in_beta = machine.add(self.b, self.beta, category="preferences")


@pytest.fixture(scope="module")
def two(machine: Machine) -> Two:
    made = Two(machine)
    machine.settle()
    return made


def given_before(machine: Machine, folder: Path, command: str) -> str:
    """What a session says after it was given all it may have."""
    session = machine.session()
    machine.prompt(QUESTION, folder, session=session)
    return machine.prompt(command, folder, session=session)


def session_given(machine: Machine, folder: Path) -> str:
    session = machine.session()
    machine.prompt(QUESTION, folder, session=session)
    return json.dumps(machine.call("session", {"session": session}, folder))


READS: dict[str, Read] = {
    "injection": lambda machine, folder, _: machine.prompt(QUESTION, folder),
    "profile": lambda machine, folder, _: machine.begin(folder),
    "profile operation": lambda machine, folder, _: json.dumps(machine.call("profile", {}, folder)),
    "search": lambda machine, folder, _: machine.cli("search", QUESTION, "--json", folder=folder).out,
    "search with closed ones": lambda machine, folder, _: json.dumps(
        machine.call("search", {"query": QUESTION, "include_closed": True, "limit": 500}, folder)
    ),
    "audit": lambda machine, folder, _: json.dumps(machine.call("audit", {"limit": 500}, folder)),
    "list": lambda machine, folder, _: machine.cli("list", "--all", "--json", folder=folder).out,
    "why": lambda machine, folder, _: machine.cli("why", QUESTION, "--json", folder=folder).out,
    "/recall": lambda machine, folder, _: machine.prompt("/recall staging database", folder),
    "/context": lambda machine, folder, _: given_before(machine, folder, "/context"),
    "session": lambda machine, folder, _: session_given(machine, folder),
    "MCP search": lambda machine, folder, _: machine.mcp(folder).call("memory_search", query=QUESTION).out,
}


@pytest.mark.parametrize("path", READS)
def test_a_read_finds_its_own_projects_memory_and_not_the_other_projects(machine: Machine, two: Two, path: str) -> None:
    for folder, own, other in ((two.alpha, two.a, two.b), (two.beta, two.b, two.a)):
        result = READS[path](machine, folder, "")
        assert own in result
        assert other not in result


BY_ID: dict[str, dict[str, Any]] = {
    "show": {},
    "edit": {"content": "changed"},
    "forget": {},
    "pin": {"pinned": True},
    "share": {"to": "user"},
    "mark": {"useful": True},
    "history": {},
    "audit": {},
    "retract": {},
    "purge": {"ids": True},
}


def asked(operation: str, named: str) -> dict[str, Any]:
    body = {"id": named, **BY_ID[operation]}
    return body | {"ids": [named]} if "ids" in body else body


@pytest.mark.parametrize("operation", BY_ID)
@pytest.mark.parametrize("shorten", [24, 10], ids=["by id", "by prefix"])
def test_another_projects_id_is_refused_and_its_memory_stays_as_it_was(
    machine: Machine, operation: str, shorten: int
) -> None:
    two = Two(machine)
    # Which model its vector is of is told once it has one.
    machine.settle()
    named = two.in_alpha[:shorten]
    before = machine.call("show", {"id": two.in_alpha}, two.alpha)
    with pytest.raises(OperationError) as refused:
        machine.call(operation, asked(operation, named), two.beta)
    assert (refused.value.code, refused.value.exit_code) == ("not_found", 3)
    assert "port 5433" not in str(refused.value)
    assert machine.call("show", {"id": two.in_alpha}, two.alpha) == before
    # The same call, from where the memory belongs.
    machine.call(operation, asked(operation, named), two.alpha)
    if operation == "share":
        machine.call("forget", {"id": two.in_alpha}, two.alpha)


def test_what_waits_for_review_elsewhere_is_not_shown_here_and_not_decided_from_here(machine: Machine) -> None:
    two = Two(machine)
    note = machine.call("add", {"content": f"{two.a} Noted."}, two.alpha, CLAUDECODE="1")["id"]
    for folder, seen in ((two.alpha, True), (two.beta, False)):
        assert (note in json.dumps(machine.call("review", {"skipped": True}, folder))) == seen
    with pytest.raises(OperationError, match="no memory"):
        machine.call("decide", {"id": note, "verdict": "reject"}, two.beta)
    assert machine.call("show", {"id": note}, two.alpha)["memory"]["trust"] != "rejected"
    machine.call("decide", {"id": note, "verdict": "reject"}, two.alpha)
    assert machine.call("show", {"id": note}, two.alpha)["memory"]["trust"] == "rejected"


def test_another_projects_text_cannot_be_forgotten_from_here(machine: Machine) -> None:
    two = Two(machine)
    with pytest.raises(OperationError, match="no memory here"):
        machine.call("forget", {"text": two.a}, two.beta)
    assert len(machine.call("forget", {"text": two.a}, two.alpha)["hidden"]) == 1


@pytest.mark.parametrize("operation", ["search", "list"])
def test_a_scope_that_is_not_the_sessions_is_refused_by_name(machine: Machine, two: Two, operation: str) -> None:
    theirs = str(session_scope(str(two.alpha)).project)
    for named in (theirs, theirs + "/", "project:", "projec", "%", "user'--"):
        with pytest.raises(OperationError) as refused:
            machine.call(operation, {"query": QUESTION, "scope": named}, two.beta)
        assert (refused.value.code, refused.value.exit_code) == ("refused", 4)
    for named, folder in ((theirs, two.alpha), ("project", two.alpha), ("user", two.beta)):
        answer = machine.call(operation, {"query": QUESTION, "scope": named}, folder)
        assert (two.a in json.dumps(answer)) == (folder == two.alpha)


def test_a_write_into_another_project_is_refused_and_written_down(place: Place) -> None:
    theirs = str(place.scope(place.beta).project)
    with pytest.raises(Exception, match="not this session's"):
        run(place.call("add", {"content": ALPHA, "scope": theirs}))
    kinds = [row[0] for row in place.reader.execute("SELECT kind FROM chain")]
    assert kinds == ["refuse"]
    assert run(place.call("add", {"content": ALPHA, "scope": str(place.scope().project)}))["status"] == "added"


# -- what a caller says does not widen it ----------------------------------------------------------------------------


def test_no_argument_of_a_tool_reaches_another_project(machine: Machine, two: Two) -> None:
    theirs = str(session_scope(str(two.alpha)).project)
    client = machine.mcp(two.beta)
    for argument in ({"scope": theirs}, {"scope": "user"}, {"cwd": str(two.alpha)}, {"roots": [str(two.alpha)]},
                     {"project": theirs}, {"include_closed": True}, {"context": {"cwd": str(two.alpha)}}):  # fmt: skip
        found = client.call("memory_search", query=QUESTION, **argument)
        assert two.a not in found.out
        # A version that refuses the argument says so; one that does not know it leaves it out.
        assert found.exit == 1 or two.b in found.out
    refused = client.call("memory_get", id=two.in_alpha)
    assert (refused.exit, "no memory" in refused.out) == (1, True)
    assert two.b in client.call("memory_get", id=two.in_beta).out


@pytest.mark.parametrize("named", ["user", "shared", "project:github.com/org/other"])
def test_a_tool_cannot_add_to_a_wider_scope(machine: Machine, named: str) -> None:
    folder = machine.project()
    client = machine.mcp(folder)
    refused = client.call("memory_add", content=ALPHA, scope=named)
    assert refused.exit == 1
    assert "scope" in refused.out
    assert machine.call("list", {}, folder)["memories"] == []
    added = client.call("memory_add", content=ALPHA).ok().json
    assert added["status"] == "candidate"
    assert machine.call("show", {"id": added["id"]}, folder)["memory"]["scope"].startswith("project:")


def test_forged_roots_add_no_second_project(machine: Machine, two: Two) -> None:
    """The roots an agent declares count where its own folder is in no project, and then only the first that is in one."""
    nowhere = machine.root / "r"
    for cwd, roots, sees in (
        (two.beta, [two.alpha], two.b),
        (two.beta, [two.beta, two.alpha], two.b),
        (Path("/"), [two.alpha, two.beta], two.a),
        (Path("/"), [Path("/"), two.beta, two.alpha], two.b),
    ):
        said = {"client": "mcp", "cwd": str(cwd), "roots": "\n".join(map(str, roots))}
        found = json.dumps(Client(machine.home, said).call("search", {"query": QUESTION}, start=False))
        assert [text for text in (two.a, two.b) if text in found] == [sees]
    for said in (
        {"client": "cli", "cwd": "/", "roots": str(two.alpha)},
        {"client": "mcp", "cwd": "/", "roots": f"{nowhere}-is-nowhere"},
        {"client": "mcp", "cwd": f"{two.alpha}/../app-that-is-not-there"},
        {"client": "mcp", "cwd": "w1/app"},
    ):
        found = json.dumps(Client(machine.home, said).call("search", {"query": QUESTION}, start=False))
        assert two.a not in found


def test_the_roots_that_a_client_declares_are_the_sessions_where_its_folder_is_nobodys(
    machine: Machine, two: Two
) -> None:
    found = machine.mcp(Path("/"), roots=[two.alpha.as_uri(), two.beta.as_uri()]).call("memory_search", query=QUESTION)
    assert (two.a in found.out, two.b in found.out) == (True, False)
    found = machine.mcp(two.beta, roots=[two.alpha.as_uri()]).call("memory_search", query=QUESTION)
    assert (two.a in found.out, two.b in found.out) == (False, True)


def test_widening_is_a_persons_act(machine: Machine) -> None:
    two = Two(machine)
    for env, terminal in ((IN_CLAUDE, True), ({}, False)):
        refused = machine.cli("share", two.in_alpha, folder=two.alpha, env=env, terminal=terminal)
        assert refused.exit == 4
        assert "person's act" in refused.err
    assert two.a not in machine.prompt(QUESTION, two.beta)
    machine.cli("share", two.in_alpha, folder=two.alpha, terminal=True).ok()
    assert two.a in machine.prompt(QUESTION, two.beta)
    machine.call("forget", {"id": two.in_alpha}, two.alpha)


# -- what is one project ---------------------------------------------------------------------------------------------


def repository(folder: Path, remote: str) -> Path:
    for words in (["init", "--quiet", str(folder)], ["-C", str(folder), "remote", "add", "origin", remote]):
        subprocess.run(["git", *words], check=True, capture_output=True)
    return folder


def sees(machine: Machine, folder: Path) -> bool:
    by_search = ALPHA in json.dumps(machine.call("search", {"query": QUESTION}, folder))
    by_prompt = ALPHA in machine.prompt(QUESTION, folder)
    assert by_search == by_prompt
    return by_search


def test_neighbours_by_name_are_other_projects(machine: Machine) -> None:
    repo = repository(machine.project("repo"), "git@example.com:org/repo.git")
    machine.add(ALPHA, repo)
    for remote in ("org/repo-2", "org/rep", "org/repo/sub", "other/repo", "org"):
        assert not sees(machine, repository(machine.project("repo"), f"https://example.com/{remote}.git")), remote
    assert not sees(machine, machine.project("repo"))
    for remote in ("https://user:secret@example.com/org/repo", "ssh://git@example.com:22/Org/Repo.git/"):
        assert sees(machine, repository(machine.project("clone"), remote)), remote


def test_a_worktree_a_subfolder_and_a_link_are_the_same_project_and_a_copy_of_the_name_is_not(machine: Machine) -> None:
    repo = machine.project("repo")
    subprocess.run(["git", "init", "--quiet", str(repo)], check=True)
    subprocess.run(["git", "-C", str(repo), "commit", "--quiet", "--allow-empty", "-m", "x"], check=True)
    tree = machine.project("trees") / "feature"
    subprocess.run(["git", "-C", str(repo), "worktree", "add", "--quiet", str(tree)], check=True, capture_output=True)
    (repo / "src").mkdir()
    link = machine.root / "a-link-to-repo"
    link.symlink_to(repo)
    machine.add(ALPHA, repo)
    assert [sees(machine, folder) for folder in (repo, tree, repo / "src", link, link / "src")] == [True] * 5
    assert not sees(machine, machine.project("repo"))
    assert not sees(machine, repo.parent)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)


@given(NAMES, NAMES)
def test_two_identities_are_two_scopes_and_neither_reads_the_other(one: str, other: str) -> None:
    first, second = SessionScope(project_scope(one)), SessionScope(project_scope(other))
    assert (first.project == second.project) == (one == other)
    assert (first.project in second.readable) == (one == other)
    assert set(first.readable) == {first.project, USER, SHARED}
    assert first.project not in SessionScope(None).readable


# -- under the surface -----------------------------------------------------------------------------------------------


def test_the_index_holds_every_project_and_each_query_of_it_only_its_own(place: Place, bundled: Embedder) -> None:
    """The background indexer works on all scopes; the filter stands in the store's own query, not behind it."""

    async def work() -> None:
        mine = place.add(BETA, folder=place.beta)
        theirs = [place.add(f"{ALPHA} ({number})") for number in range(80)]
        async with place.with_vectors(bundled) as indexer:
            query = bundled.embed_query(ALPHA)

            async def found(scopes: tuple[Scope, ...]) -> set[str]:
                where = live_filter(scopes, ("trusted",), "2026-12-01T00:00:00.000Z")
                hits = await indexer.store.search_vector(query, where, 500)
                hits += await indexer.store.search_text(["staging", "database"], where, 500)
                return {hit.id for hit in hits}

            assert await found(place.scope().readable) == set(theirs)
            assert await found(place.scope(place.beta).readable) == {mine}
            # The best matches of all are another project's, and do not crowd this one's memory out.
            answer = await place.call("search", {"query": ALPHA}, place.caller(place.beta))
            assert [each["id"] for each in answer["memories"]] == [mine]
            assert answer["coverage"]["total"] == 1

    run(work())


def test_an_ambiguous_beginning_names_only_ids_of_the_session(place: Place) -> None:
    ids = [place.add(f"statement {number}") for number in range(17)]
    place.add("mine", folder=place.beta)
    shared = next(each[:3] for each in ids if sum(other[:3] == each[:3] for other in ids) > 1)
    with pytest.raises(Exception, match="could be"):
        run(place.call("show", {"id": shared}))
    with pytest.raises(Exception, match="no memory"):
        run(place.call("show", {"id": shared}, place.caller(place.beta)))


def test_another_home_has_nothing_of_this_one(machine: Machine, two: Two, place: Place) -> None:
    """The same folder, asked with another CEMS_HOME."""
    place.add("The staging database is in another home.", folder=two.alpha)
    answer = json.dumps(run(place.call("search", {"query": QUESTION}, place.caller(two.alpha))))
    assert "another home" in answer
    assert two.a not in answer
    assert two.a in json.dumps(machine.call("search", {"query": QUESTION}, two.alpha))
    assert "another home" not in json.dumps(machine.call("search", {"query": QUESTION}, two.alpha))
