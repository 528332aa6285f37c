"""What the commands about memories ask the daemon, what they print, and their exit codes."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.test_cli_stand_in import MEMORY, Document, StandIn, page, standing_in

from cems.core.cli import console
from cems.core.cli.main import main

Capture = pytest.CaptureFixture[str]
ADDED: Document = {"id": MEMORY["id"], "status": "added", "reason": "", "redacted": 0}


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with standing_in(tmp_path, monkeypatch) as server:
        yield server


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Put bytes on standard input."""

    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="cp1252"))

    return put


def test_add_says_what_was_remembered_and_where(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["add"] = ADDED
    assert main(["add", "Staging listens on port 8081", "-c", "decisions"]) == 0
    assert daemon.payload("add") == {"content": "Staging listens on port 8081", "category": "decisions"}
    assert capsys.readouterr().out == "remembered m_1a2b3c4d (project github.com/org/repo, decisions)\n"


def test_every_option_of_add_reaches_the_daemon(daemon: StandIn) -> None:
    daemon.answers["add"] = ADDED
    options = ["--title", "Ports", "-t", "a", "--tag", "b", "--kind", "pattern", "--user", "--pin"]
    times = ["--valid-from", "2026-03-01", "--valid-to", "2027-01-01T00:00:00+02:00"]
    assert main(["remember", "x", *options, *times, "--json"]) == 0
    assert daemon.payload("add") == {
        "content": "x",
        "title": "Ports",
        "tags": ["a", "b"],
        "kind": "pattern",
        "scope": "user",
        "pin": True,
        "valid_from": "2026-03-01T00:00:00+00:00",
        "valid_to": "2026-12-31T22:00:00+00:00",
    }


@pytest.mark.parametrize("words", [["-"], []])
def test_add_takes_piped_text_with_line_feeds_as_it_is(
    daemon: StandIn, pipe: Callable[[bytes], None], words: list[str]
) -> None:
    daemon.answers["add"] = ADDED
    pipe("\ufefffirst — 一\n\nsecond\r\n".encode())
    assert main(["add", *words]) == 0
    assert daemon.payload("add")["content"] == "first — 一\n\nsecond"


def test_add_without_a_text_is_a_usage_error(daemon: StandIn, pipe: Callable[[bytes], None], capsys: Capture) -> None:
    pipe(b" \n")
    assert main(["add"]) == 2
    assert "the text to remember is empty" in capsys.readouterr().err
    assert daemon.asked == []


def test_a_refused_value_is_said_with_its_reason_and_exit_code_4(daemon: StandIn, capsys: Capture) -> None:
    refused = {"id": None, "status": "refused", "reason": "forgotten on 2026-01-02", "redacted": 0}
    daemon.answers["add"] = refused
    assert main(["add", "x"]) == 4
    assert capsys.readouterr().err == "cems: not remembered: forgotten on 2026-01-02\n"
    assert main(["add", "x", "--json"]) == 4
    assert json.loads(capsys.readouterr().out) == refused


def test_duplicates_candidates_and_redactions_are_said(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["add"] = {**ADDED, "status": "duplicate", "reason": "the same text"}
    assert main(["add", "x"]) == 0
    assert capsys.readouterr().out == "already known as m_1a2b3c4d: the same text\n"
    daemon.answers["add"] = {**ADDED, "status": "candidate", "reason": "an agent said it", "redacted": 2}
    assert main(["add", "x", "--user"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "kept as candidate m_1a2b3c4d (user, general): an agent said it"
    assert lines[1] == "2 secrets or private parts cut out before anything was written"


def test_lines_of_a_file_go_in_batches(daemon: StandIn, tmp_path: Path, capsys: Capture) -> None:
    def add_many(payload: Document) -> Document:
        refused = ["bad" in item["content"] for item in payload["items"]]
        return {"results": [{**ADDED, "status": "refused" if bad else "added"} for bad in refused]}

    daemon.answers["add_many"] = add_many
    lines: list[Document] = [{"content": f"fact {number}", "recorded_at": "2025-01-01"} for number in range(250)]
    lines[7] = {"content": "bad", "tags": ["a"], "pin": True, "confidence": 0.5, "colour": "red"}
    file = tmp_path / "notes.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    assert main(["add", "--from-jsonl", str(file), "-c", "context"]) == 4
    batches = [payload["items"] for _, payload in daemon.asked]
    assert [len(batch) for batch in batches] == [100, 100, 50]
    assert batches[0][0] == {
        "category": "context",
        "content": "fact 0",
        "recorded_at": "2025-01-01T00:00:00+00:00",
    }
    assert "colour" not in batches[0][7]
    output = capsys.readouterr()
    assert output.out == "249 lines remembered, 1 line refused\n"
    assert "line 8 refused" in output.err
    assert "colour" in output.err


@pytest.mark.parametrize("watched", [True, False])
def test_progress_is_shown_to_who_watches_and_to_nobody_else(
    daemon: StandIn, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    daemon.answers["add_many"] = lambda payload: {"results": [{"status": "added"} for _ in payload["items"]]}
    monkeypatch.setattr(console, "is_terminal", lambda stream: watched and stream is sys.stderr)
    # What rich asks to know whether it can draw.
    monkeypatch.setenv("FORCE_COLOR" if watched else "NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    file = tmp_path / "notes.jsonl"
    file.write_text("\n".join(json.dumps({"content": f"fact {number}"}) for number in range(250)))
    assert main(["add", "--from-jsonl", str(file)]) == 0
    output = capsys.readouterr()
    assert output.out == "250 lines remembered\n"
    assert ("remembering" in output.err) == watched
    assert watched or output.err == ""


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not a JSON object"),
        ("[]", "not a JSON object"),
        ('{"content": " "}', "`content` is missing"),
        ('{"content": 3}', "`content` must be str"),
        ('{"content": "x", "tags": [1]}', "`tags` must be a list"),
        ('{"content": "x", "scope": "everyone"}', "`scope` must be"),
        ('{"content": "x", "valid_from": "yesterday"}', "is not a date"),
        ('{"content": "x", "valid_from": "2025-01-01", "valid_to": "2024-01-01"}', "`valid_to` must lie"),
        ('{"content": "x", "confidence": true}', "`confidence` must be"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_sent(
    daemon: StandIn, tmp_path: Path, capsys: Capture, line: str, problem: str
) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text('{"content": "good"}\n' + line)
    assert main(["add", "--from-jsonl", str(file), "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "bad_line"
    assert error["message"].startswith("line 2: ")
    assert problem in error["message"]
    assert daemon.asked == []


def test_search_shows_what_it_found(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["search"] = page(MEMORY, mode="hybrid")
    assert main(["recall", "which", "port", "-n", "3", "-s", "project", "--all"]) == 0
    assert daemon.payload("search") == {
        "query": "which port",
        "limit": 3,
        "scope": "project",
        "include_closed": True,
    }
    heading, content = capsys.readouterr().out.splitlines()
    assert heading == "m_1a2b3c4d  2026-03-01  decisions  project github.com/org/repo  trusted  0.83"
    assert content == "    Staging listens on port 8081"


def test_search_says_when_words_alone_were_compared(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["search"] = page(MEMORY, mode="keyword", reason="the model file is damaged")
    assert main(["search", "port"]) == 0
    assert capsys.readouterr().err == "cems: found by words alone: the model file is damaged\n"


def test_search_that_finds_nothing_says_so_and_exits_3(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["search"] = page(mode="hybrid")
    assert main(["search", "port"]) == 3
    assert capsys.readouterr().out == "nothing found for 'port' among 40 memories\n"
    assert main(["search", "port", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["memories"] == []


def test_a_memory_cannot_steer_the_terminal(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["search"] = page({**MEMORY, "content": "\x1b]0;owned\x07 \u202eabc"})
    assert main(["search", "port"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "    \\u001b]0;owned\\u0007 \\u202eabc"


def test_list_pages(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["list"] = {**page(MEMORY), "next": "c2"}
    assert main(["list", "--limit", "1", "-c", "decisions"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 40; more: cems list --cursor c2 -c decisions"
    daemon.asked.clear()
    assert main(["list", "--cursor", "c2", "--json"]) == 0
    assert daemon.payload("list") == {"limit": 50, "cursor": "c2"}


def test_show_has_everything_and_the_history(daemon: StandIn, capsys: Capture) -> None:
    event = {"op": "remember", "at": "2026-03-02T12:00:00.000Z", "actor": "person", "reason": "moved"}
    daemon.answers["show"] = {"memory": MEMORY, "history": [event]}
    assert main(["show", "1a2b"]) == 0
    output = capsys.readouterr().out
    assert MEMORY["id"] in output
    assert "from 2026-03-01 12:00" in output
    assert "2026-03-02 12:00  remember  person  moved" in output


def test_an_unknown_id_is_one_line_and_exit_3(daemon: StandIn, capsys: Capture) -> None:
    daemon.refuse("show", "not_found", "no memory begins with m_ff", 3)
    assert main(["show", "ff"]) == 3
    assert capsys.readouterr().err == "cems: no memory begins with m_ff\n"
    assert main(["show", "ff", "--json"]) == 3
    error = json.loads(capsys.readouterr().out)
    assert error == {"error": {"code": "not_found", "message": "no memory begins with m_ff"}}


def test_a_correction_says_which_id_replaces_which(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["edit"] = {"id": "m_99887766aa", "replaced": MEMORY["id"], "status": "added", "reason": ""}
    assert main(["update", "1a2b", "Port 8082", "--reason", "moved", "-t", "x"]) == 0
    assert daemon.payload("edit") == {"id": "1a2b", "content": "Port 8082", "tags": ["x"], "reason": "moved"}
    assert capsys.readouterr().out == "corrected: m_99887766 replaces m_1a2b3c4d\n"


def test_edit_changes_the_category_alone(daemon: StandIn) -> None:
    daemon.answers["edit"] = {"id": "m_9", "replaced": MEMORY["id"], "status": "added", "reason": ""}
    assert main(["edit", "1a2b", "-c", "context"]) == 0
    assert daemon.payload("edit") == {"id": "1a2b", "category": "context"}


def test_forget_says_what_it_hid(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["forget"] = {"hidden": [MEMORY], "tombstones": 1}
    assert main(["delete", "1a2b", "--reason", "wrong"]) == 0
    assert daemon.payload("forget") == {"id": "1a2b", "reason": "wrong"}
    assert capsys.readouterr().out == "forgot m_1a2b3c4d  Staging listens on port 8081\n"


def test_several_ids_go_in_one_operation(daemon: StandIn) -> None:
    daemon.answers["forget"] = {"hidden": [MEMORY], "tombstones": 1}
    assert main(["forget", "1a2b", "ff", "1a2b"]) == 0
    assert daemon.payload("forget") == {"ids": ["1a2b", "ff"]}


def test_lift_allows_a_text_again(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["lift"] = {"lifted": 1}
    assert main(["lift", "port", "8080", "-r", "it was right"]) == 0
    assert daemon.payload("lift") == {"text": "port 8080", "reason": "it was right"}
    daemon.refuse("lift", "refused", "a person has to do this", 4)
    assert main(["lift", "x"]) == 4


def test_forgetting_a_text_that_nothing_says_exits_3(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["forget"] = {"hidden": [], "tombstones": 0}
    assert main(["forget", "--text", "never said"]) == 3
    assert daemon.payload("forget") == {"text": "never said"}
    assert "nothing matched" in capsys.readouterr().err


def test_a_text_in_quotes_is_a_text(daemon: StandIn) -> None:
    daemon.answers["forget"] = {"hidden": [MEMORY], "tombstones": 1}
    assert main(["forget", "Staging listens on port 8080"]) == 0
    assert daemon.payload("forget") == {"text": "Staging listens on port 8080"}


@pytest.mark.parametrize(
    "words", [["forget"], ["forget", "1a2b", "--text", "x"], ["forget", "some text", "--text", "x"]]
)
def test_forget_needs_ids_or_a_text(daemon: StandIn, words: list[str]) -> None:
    assert main(words) == 2
    assert daemon.asked == []


def test_pin_and_unpin(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["pin"] = lambda payload: {"id": MEMORY["id"], "pinned": payload["pinned"]}
    assert main(["pin", "1a2b"]) == 0
    assert main(["unpin", "1a2b"]) == 0
    assert [payload["pinned"] for _, payload in daemon.asked] == [True, False]
    assert capsys.readouterr().out == "pinned m_1a2b3c4d\nunpinned m_1a2b3c4d\n"


def test_sharing_that_needs_a_person_is_refused_with_4(daemon: StandIn, capsys: Capture) -> None:
    daemon.refuse("share", "refused", "a person has to do this", 4)
    assert main(["share", "1a2b"]) == 4
    assert capsys.readouterr().err == "cems: a person has to do this\n"
