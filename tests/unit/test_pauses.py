"""Pauses: what is paused, since and until when, and what agents, people and hooks get meanwhile."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.fakes.real_parts import Place, run
from tests.unit.test_hook_service import DropsPrompts

from cems.core import pauses
from cems.core.paths import Home
from cems.core.pauses import EVERYWHERE, Pause, PauseFile, Pauses, read_pauses
from cems.core.scope import session_scope
from cems.core.service.caller import Caller
from cems.core.service.commands import TypedCommands
from cems.core.service.operations import OperationFailed

PORT = "The staging database listens on port 5433."
QUESTION = "which port does the staging database listen on"
ALPHA, BETA = "project:github.com/o/alpha", "project:github.com/o/beta"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "cems")


def agent(place: Place, folder: Path | None = None) -> Caller:
    return place.caller(folder, client="mcp", agent="claude-code", tty=False)


def refused(place: Place, name: str, caller: Caller, **body: object) -> OperationFailed:
    with pytest.raises(OperationFailed) as caught:
        run(place.call(name, body, caller))
    return caught.value


# -- the file


def test_a_pause_has_a_beginning_and_an_end(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000.9999)
    assert pauses.pause(home, ALPHA)
    assert not pauses.pause(home, ALPHA)
    known = read_pauses(home.pauses)
    assert known.now(ALPHA) == Pause(ALPHA, "1970-01-01T00:16:40.999Z")
    assert known.now(BETA) is None
    assert known.now(None) is None
    monkeypatch.setattr(time, "time", lambda: 2_000.9999)
    assert pauses.resume(home, ALPHA)
    assert not pauses.resume(home, ALPHA)
    known = read_pauses(home.pauses)
    assert known.now(ALPHA) is None
    assert [known.covers(ALPHA, moment) for moment in (1_000.9, 1_000.9999, 2_000.9999, 2_001.1)] == [
        False,
        True,
        True,
        False,
    ]
    assert not known.covers(BETA, 1_500.0)
    assert (home.pauses.stat().st_mode & 0o777, list(home.root.iterdir())) == (0o600, [home.pauses])


def test_a_clock_that_is_set_back_leaves_what_was_said_covered(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 2_000.0)
    pauses.pause(home, ALPHA)
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    pauses.resume(home, ALPHA)
    assert read_pauses(home.pauses).covers(ALPHA, 2_000.0)


def test_the_pause_of_everything_ends_by_itself_alone(home: Home) -> None:
    pauses.pause(home, ALPHA)
    pauses.pause(home, EVERYWHERE)
    known = read_pauses(home.pauses)
    assert [pause.scope for scope in (ALPHA, BETA, None) if (pause := known.now(scope))] == [EVERYWHERE] * 3
    assert not pauses.resume(home, BETA)
    assert pauses.resume(home, EVERYWHERE)
    known = read_pauses(home.pauses)
    assert known.now(ALPHA) == Pause(ALPHA, known.pauses[0].since)
    assert known.now(BETA) is None


def test_a_folder_is_paused_with_those_below_and_no_look_alike_is() -> None:
    folder = Pauses((Pause("project:path:/home/p/work", "2026-01-01T00:00:00Z"),))
    assert folder.now("project:path:/home/p/work/sub")
    assert folder.now("project:path:/home/p/work-2") is None
    repository = Pauses((Pause("project:github.com/o/alpha", "2026-01-01T00:00:00Z"),))
    assert repository.now("project:github.com/o/alpha-2") is None
    assert repository.now("project:github.com/o/alpha/deeper") is None


DAMAGED = (
    b"",
    b"{",
    b"[]",
    b"\xff\xfe",
    b'{"version": 1}',
    b'{"version": 2, "pauses": []}',
    b'{"version": 1, "pauses": [{"scope": "project:x"}]}',
    b'{"version": 1, "pauses": [{"scope": "project:x", "since": "yesterday"}]}',
    b'{"version": 1, "pauses": [{"scope": "project:x", "since": "2026-01-01T00:00:00"}]}',
    b'{"version": 1, "pauses": [{"scope": "", "since": "2026-01-01T00:00:00Z"}]}',
    b'{"version": 1, "pauses": [{"scope": "project:x", "since": "2026-01-01T00:00:00Z", "until": 7}]}',
    b'{"version": 1, "pauses": [{"scope": "project:x", "since": "2026-01-01T00:00:00Z", "of": 1}]}',
    b"[" * 100_000,
)


@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_file_pauses_everything(home: Home, data: bytes) -> None:
    home.root.mkdir()
    home.pauses.write_bytes(data)
    known = read_pauses(home.pauses)
    assert str(home.pauses) in known.damage
    assert known.now(BETA) is not None
    assert known.now(None) is not None
    assert known.covers(BETA, time.time() - 1e8)
    for change in (pauses.pause, pauses.resume):
        with pytest.raises(pauses.PausesDamaged, match="cems resume --all"):
            change(home, ALPHA)
    assert home.pauses.read_bytes() == data


def test_a_link_to_nowhere_and_a_file_that_cannot_be_read_pause_everything(home: Home) -> None:
    home.root.mkdir()
    home.pauses.symlink_to(home.root / "gone")
    assert read_pauses(home.pauses).now(ALPHA)
    home.pauses.unlink()
    home.pauses.mkdir()
    assert read_pauses(home.pauses).now(ALPHA)


def test_setting_a_damaged_file_aside_learns_nothing_of_what_was_said_before(home: Home) -> None:
    home.root.mkdir()
    home.pauses.write_bytes(b"{")
    said = time.time() - 3_600
    assert pauses.resume(home, EVERYWHERE)
    known = read_pauses(home.pauses)
    assert known.now(ALPHA) is None
    assert known.covers(ALPHA, said)
    assert not known.covers(ALPHA, time.time() + 1)
    assert [path.read_bytes() for path in home.root.glob("pauses.json.unreadable-*")] == [b"{"]


def test_the_file_is_looked_at_again_only_when_it_has_changed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses.pause(home, ALPHA)
    reader = PauseFile(home)
    assert reader.read().now(ALPHA)
    with monkeypatch.context() as patch:
        patch.setattr(pauses, "read_pauses", lambda _: pytest.fail("read again"))
        assert reader.read().now(ALPHA)
    pauses.resume(home, ALPHA)
    assert reader.read().now(ALPHA) is None
    home.pauses.write_bytes(b"{")
    assert reader.read().damage
    home.pauses.unlink()
    assert not reader.read().damage


# -- hooks


def test_hooks_give_nothing_in_a_paused_project_and_everything_elsewhere(place: Place) -> None:
    for folder in (place.alpha, place.beta):
        place.add(PORT, folder=folder, pinned=True)
    run(place.call("pause", {}))
    assert run(place.hook("SessionStart", source="startup")) == ""
    assert run(place.prompt(QUESTION)) == ""
    assert PORT in run(place.hook("SessionStart", source="startup", session="b", folder=place.beta))
    run(place.call("resume", {}))
    assert PORT in run(place.hook("SessionStart", source="startup"))
    assert PORT in run(place.prompt(QUESTION, session="s2"))


def test_what_is_said_during_a_pause_is_not_kept_for_the_prompt_after_it(place: Place) -> None:
    place.add(PORT)
    asked = f"Shall I look up {QUESTION}?"
    run(place.hook("Stop", last_assistant_message=asked))
    run(place.call("pause", {}))
    run(place.hook("Stop", last_assistant_message=asked))
    run(place.call("resume", {}))
    assert run(place.prompt("yes", prompt_id="t1")) == ""
    # The same without a pause: the question that was asked is what the "yes" is about.
    run(place.hook("Stop", last_assistant_message=asked))
    assert PORT in run(place.prompt("yes", prompt_id="t2"))


@pytest.mark.parametrize("typed", ["/remember {}", "/recall staging database port", "/context"])
def test_who_types_a_command_in_a_paused_project_is_told_and_nothing_is_stored(place: Place, typed: str) -> None:
    memory = place.add("The staging database is read at night, port or no port.")
    run(place.call("pause", {}))
    told = run(place.prompt(typed.format(PORT), prompt_id="t1"))
    assert "CEMS is paused in project" in told
    assert "`cems resume`" in told
    assert memory[:8] not in told
    assert run(place.prompt(typed.format(PORT), prompt_id="t1")) == ""
    assert [row["content"] for row in run(place.call("list", {}))["memories"]] != [PORT]
    assert len(run(place.call("list", {}))["memories"]) == 1


def test_what_waited_for_a_tool_is_not_given_during_a_pause_or_after_it(place: Place) -> None:
    place.add(PORT)
    place.hooks.accept(TypedCommands(place.operations), {"claude-code": DropsPrompts()}, place.policy)

    def tell(script: str, event: str, **fields: str) -> str:
        payload = {"session_id": "s1", "cwd": str(place.alpha), "hook_event_name": event, **fields}
        return run(place.hooks.answer(script, {"CLAUDECODE": "1"}, json.dumps(payload).encode())).decode()

    def use_tool() -> str:
        return tell("cems_pre_tool_use", "PreToolUse", tool_name="Bash")

    assert tell("cems_user_prompts_submit", "UserPromptSubmit", prompt=QUESTION, prompt_id="t1") == ""
    run(place.call("pause", {}))
    assert use_tool() == ""
    assert tell("cems_user_prompts_submit", "UserPromptSubmit", prompt="/recall port", prompt_id="t2") == ""
    assert "CEMS is paused" in use_tool()
    run(place.call("resume", {}))
    assert use_tool() == ""
    assert tell("cems_user_prompts_submit", "UserPromptSubmit", prompt=QUESTION, prompt_id="t3") == ""
    assert PORT in use_tool(), "it was never given"


def test_hooks_of_a_damaged_file_give_nothing_anywhere(place: Place) -> None:
    place.add(PORT, folder=place.beta)
    place.home.pauses.write_bytes(b"{")
    assert run(place.prompt(QUESTION, folder=place.beta)) == ""
    assert "cems resume --all" in run(place.prompt("/recall port", folder=place.beta, session="s2"))


# -- operations


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("add", {"content": "Logs go to Loki."}),
        ("add_many", {"items": [{"content": "Logs go to Loki."}]}),
        ("search", {"query": QUESTION}),
        ("list", {}),
        ("show", {"id": "m_"}),
        ("edit", {"id": "m_", "content": "x"}),
        ("forget", {"id": "m_"}),
        ("mark", {"id": "m_", "useful": True}),
        ("why", {"prompt": QUESTION}),
        ("profile", {}),
        ("history", {"id": "m_"}),
        ("rebuild", {}),
    ],
)
def test_an_agent_reads_and_writes_nothing_in_a_paused_project(
    place: Place, name: str, body: dict[str, object]
) -> None:
    place.add(PORT)
    run(place.call("pause", {}))
    for caller in (agent(place), place.caller(agent="claude-code"), Caller(cwd=str(place.alpha))):
        failure = refused(place, name, caller, **body)
        assert (failure.code, failure.exit_status) == ("paused", 4)
        assert "cems resume" in str(failure)
        assert PORT not in str(failure)
    assert [row["content"] for row in run(place.call("list", {}))["memories"]] == [PORT]


def test_a_person_goes_on_working_and_an_agent_elsewhere_too(place: Place) -> None:
    run(place.call("pause", {}))
    assert run(place.call("add", {"content": PORT}))["status"] == "added"
    assert run(place.call("search", {"query": QUESTION}))["memories"]
    assert run(place.call("add", {"content": PORT}, agent(place, place.beta)))["status"] == "candidate"


def test_an_agent_may_pause_its_project_and_cannot_resume_or_pause_everything(place: Place) -> None:
    answer = run(place.call("pause", {}, agent(place)))
    assert (answer["changed"], answer["paused"]["by"]) == (True, "claude-code")
    assert refused(place, "resume", agent(place)).exit_status == 4
    assert refused(place, "resume", agent(place), all=True).exit_status == 4
    assert refused(place, "pause", agent(place), all=True).exit_status == 4
    assert refused(place, "resume", place.caller(tty=False)).exit_status == 4
    assert run(place.call("status", {}, agent(place)))["paused"]["scope"] == answer["scope"]
    assert run(place.call("resume", {}))["paused"] is None


def test_the_list_names_other_projects_to_a_person_only(place: Place) -> None:
    run(place.call("pause", {}))
    run(place.call("pause", {}, place.caller(place.beta)))
    run(place.call("resume", {}))
    alpha, beta = (str(session_scope(str(folder)).project) for folder in (place.alpha, place.beta))
    assert [each["scope"] for each in run(place.call("pauses", {}))["pauses"]] == [beta]
    assert [each["scope"] for each in run(place.call("pauses", {"ended": True}))["pauses"]] == [alpha, beta]
    assert run(place.call("pauses", {}, agent(place)))["pauses"] == []


def test_a_folder_in_no_project_is_paused_with_everything_only(place: Place) -> None:
    nowhere = place.caller(Path("/"))
    assert refused(place, "pause", nowhere).exit_status == 2
    assert run(place.call("pause", {"all": True}, nowhere))["paused"]["scope"] == EVERYWHERE


def test_why_and_status_say_so(place: Place) -> None:
    place.add(PORT)
    assert run(place.call("status", {}))["paused"] is None
    run(place.call("pause", {}))
    answer = run(place.call("why", {"prompt": QUESTION}))
    assert (answer["mode"], answer["block"], answer["injected"]) == ("skipped", "", [])
    assert "paused in project" in answer["reason"]
    since = datetime.fromisoformat(run(place.call("status", {}))["paused"]["since"])
    assert abs((datetime.now(UTC) - since).total_seconds()) < 60


def test_a_damaged_file_is_mended_by_a_person(place: Place) -> None:
    place.home.pauses.write_bytes(b"{")
    assert refused(place, "pause", place.caller()).code == "damaged"
    assert "cannot be understood" in run(place.call("status", {}))["paused"]["damage"]
    assert run(place.call("resume", {"all": True}))["paused"] is None
    assert json.loads(place.home.pauses.read_bytes())["version"] == 1
