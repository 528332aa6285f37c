"""`cems purge` at the terminal: it names what it would erase, asks, and tells what is left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.test_cli_stand_in import MEMORY, StandIn, on_a_terminal, standing_in

SECRET = "the gate code is 0815 and a half"
GONE = MEMORY | {"content": SECRET}
CUT = MEMORY | {"id": "m_ffffffff0000000000000000", "content": "before [purged] after"}
DONE: dict[str, Any] = {
    "purged": [GONE],
    "cut": [CUT],
    "entries": 3,
    "logs": 2,
    "problems": [],
    "left": [],
    "texts": [SECRET],
}


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv("HOME", str(tmp_path))
    with standing_in(tmp_path, monkeypatch) as server:
        server.answers |= {"purge_plan": {"purged": [GONE], "cut": [CUT], "entries": 3}, "purge": DONE}
        yield server


def cems(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        run(list(words))
    return int(left.value.code or 0)


def asked(daemon: StandIn) -> list[str]:
    return [name for name, _ in daemon.asked]


def test_a_person_sees_what_would_go_and_agrees(daemon: StandIn) -> None:
    code, said = on_a_terminal(["purge", "1a2b", "--reason", "leaked"], typed="y\n")
    assert code == 0
    assert "1 memory would be erased for good" in said
    assert SECRET in said
    assert "1 other memory would have the text cut out" in said
    assert "cannot be undone" in said
    assert "erased 1 memory, cut the text out of 1 more; 3 entries" in said
    assert "2 lines taken out of our logs" in said
    assert "it is not there any more" in said
    assert daemon.payload("purge") == {"ids": ["1a2b"], "reason": "leaked"}


@pytest.mark.parametrize("typed", ["n\n", "\n", "what\n"])
def test_anything_but_yes_erases_nothing(daemon: StandIn, typed: str) -> None:
    code, said = on_a_terminal(["purge", "--text", SECRET], typed=typed)
    assert (code, asked(daemon)) == (0, ["purge_plan"])
    assert "nothing was erased" in said


def test_a_pipe_cannot_agree(daemon: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    assert cems("purge", "1a2b") == 1
    assert asked(daemon) == ["purge_plan"]
    assert "--yes" in capsys.readouterr().err


def test_a_refusal_is_the_daemons_word(daemon: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.refuse("purge_plan", "refused", "erasing a memory is a person's act", 4)
    assert cems("purge", "1a2b", "--yes") == 4
    assert "a person's act" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["purge"], ["purge", "1a2b", "--text", "x"]])
def test_it_wants_ids_or_a_text(daemon: StandIn, words: list[str]) -> None:
    assert cems(*words) == 2
    assert asked(daemon) == []


def test_what_is_left_is_named_and_makes_the_exit_code_1(daemon: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["purge"] = DONE | {"left": [{"place": "backups/files/settings.json", "form": "utf-8"}]}
    assert cems("purge", "1a2b", "--yes") == 1
    output = capsys.readouterr()
    assert "still in CEMS_HOME: backups/files/settings.json (utf-8)" in output.err
    assert "not there any more" not in output.out
    daemon.answers["purge"] = DONE | {
        "problems": ["the store could not be cleaned (disk full); run the same purge again"]
    }
    assert cems("purge", "1a2b", "--yes") == 1


def test_an_agents_transcript_is_named_and_left_alone(
    daemon: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = tmp_path / ".claude" / "projects" / "-work" / "a.jsonl"
    session.parent.mkdir(parents=True)
    line = json.dumps({"message": {"content": f"remember: {SECRET}"}}) + "\n"
    session.write_text(line)
    (session.parent / "b.jsonl").write_text(json.dumps({"message": "something else"}))
    assert cems("purge", "--text", SECRET, "--yes") == 0
    said = capsys.readouterr().err
    assert f"an agent's own record still holds it: {session}" in said
    assert "b.jsonl" not in said
    assert session.read_text() == line


def test_json(daemon: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    assert cems("purge", "1a2b", "--yes", "--json") == 0
    assert json.loads(capsys.readouterr().out) == DONE | {"agents": []}
