"""`cems review` as a person sees it: a real daemon, a real terminal, keys typed one at a time."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.fakes import machine as machines
from tests.fakes.machine import IN_CLAUDE, SOURCE, Machine

from cems.core.service.client import OperationError

_CLI = "import sys; sys.path.insert(0, sys.argv.pop(1)); from cems.core.cli.main import run; run()"
_STYLE = re.compile("\x1b\\[[0-9;?]*[A-Za-z]")
KEYS = "q quit"
_SECONDS = 60.0


class Terminal:
    """One command on a terminal of 100 columns; `expect` waits for a text, `press` types without Enter."""

    def __init__(self, machine: Machine, folder: Path, *words: str, **env: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", _CLI, str(SOURCE), *words], stdin=theirs, stdout=theirs, stderr=theirs,
            cwd=folder, env={**machine.environment, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1", **env},
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._read = 0
        self.text = ""

    def expect(self, text: str) -> str:
        """Everything up to and with this text, since the last time."""
        end = time.monotonic() + _SECONDS
        while (found := self.text.find(text, self._read)) < 0:
            assert self._more(end), f"{text!r} did not come:\n{self.text[self._read :]}"
        said = self.text[self._read : found + len(text)]
        self._read = found + len(text)
        return said

    def press(self, keys: str, *, at_once: bool = False) -> None:
        # What was typed before the question is thrown away: wait until it is the terminal's turn.
        time.sleep(0 if at_once else 0.3)
        os.write(self._ours, keys.encode())

    def leave(self) -> tuple[int, str]:
        """The exit code, and what was still said."""
        end = time.monotonic() + _SECONDS
        while self._more(end):
            pass
        os.close(self._ours)
        return self.process.wait(timeout=_SECONDS), self.text[self._read :]

    def _more(self, end: float) -> bool:
        if not select.select([self._ours], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        try:
            piece = os.read(self._ours, 65_536)
        except OSError:
            return False
        self.text += _STYLE.sub("", piece.decode("utf-8", "replace")).replace("\r", "")
        return bool(piece)


@pytest.fixture(scope="module")
def machine(session_root: Path) -> Iterator[Machine]:
    with machines.running(session_root) as made:
        yield made


@pytest.fixture
def folder(machine: Machine) -> Path:
    return machine.project()


@pytest.fixture
def open_review(machine: Machine, folder: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*words: str, **env: str) -> Terminal:
        opened.append(Terminal(machine, folder, "review", *words, **env))
        return opened[-1]

    yield start
    for each in opened:
        each.process.kill()
        each.process.wait()


def note(machine: Machine, folder: Path, content: str, **fields: str) -> str:
    """What an agent adds; returns its id."""
    return str(machine.call("add", {"content": content, **fields}, folder, CLAUDECODE="1")["id"])


def shown(machine: Machine, memory: str, folder: Path) -> Mapping[str, object]:
    found: Mapping[str, object] = machine.call("show", {"id": memory}, folder)["memory"]
    return found


def test_a_person_goes_through_the_queue_with_single_keys(
    machine: Machine, folder: Path, open_review: Callable[..., Terminal]
) -> None:
    node = note(machine, folder, "The build needs Node 22.", quote="engine node 22 required")
    firewall = note(machine, folder, "Staging has no firewall.")
    later = note(machine, folder, "The tests need Docker.")
    typo = note(machine, folder, "The API is writen in Go.")
    review = open_review()
    page = review.expect(KEYS)
    assert "1 of 4  unverified" in page
    assert "The build needs Node 22." in page
    assert "“engine node 22 required”" in page
    assert re.search(r"said by +claude-code, \d{4}-\d\d-\d\d \d\d:\d\d", page)
    assert f"{node[:10]}  " in page
    review.press("a")
    assert f"approved: {node[:10]}" in review.expect(KEYS)
    review.press("x")
    review.expect(KEYS)
    review.press("r")
    assert f"rejected: {firewall[:10]}" in review.expect(KEYS)
    review.press("s")
    assert "4 of 4" in review.expect(KEYS)
    review.press("e")
    review.expect("new text: The API is writen in Go.")
    review.press("\x15The API is written in Go.\r")
    code, rest = review.leave()
    assert code == 0
    assert "edited: m_" in rest
    assert "approved 1, edited 1, rejected 1, skipped 1; 1 memory waits for your word" in rest
    trusts = [shown(machine, memory, folder)["trust"] for memory in (node, firewall, later)]
    assert trusts == ["trusted", "rejected", "candidate"]
    assert shown(machine, typo, folder)["state"] == "closed"
    code, rest = open_review().leave()
    assert (code, "1 skipped today" in rest) == (0, True)


def test_a_conflict_is_shown_as_a_word_diff_and_approving_it_closes_the_older(
    machine: Machine, folder: Path, open_review: Callable[..., Terminal]
) -> None:
    old = machine.add("Staging listens on port 8080, behind nginx.", folder)
    new = note(machine, folder, "Staging listens on port 8081, behind nginx.", quote="we moved staging to 8081")
    review = open_review()
    page = review.expect(KEYS)
    assert "contradicts what you trust" in page
    assert "Staging listens on port [-8080-] {+8081+}, behind nginx." in page
    assert re.search(rf"against +{old[:10]}, trusted, from a person, \d{{4}}", page)
    assert f"a approve (closes {old[:10]})" in page
    review.press("a")
    code, rest = review.leave()
    assert (code, f"approved: {new[:10]}; closed by it: {old[:10]}" in rest) == (0, True)
    assert shown(machine, old, folder)["closed_by"] == new


def test_merging_offers_what_is_alike_and_takes_the_persons_text(
    machine: Machine, folder: Path, open_review: Callable[..., Terminal]
) -> None:
    old = machine.add("Run make lint before a commit.", folder)
    new = note(machine, folder, "make lint runs ruff and mypy.")
    review = open_review()
    review.expect(KEYS)
    review.press("m")
    assert f"1  {old[:10]}  Run make lint before a commit." in review.expect("goes back): ")
    review.press("1\r")
    assert "Run make lint before a commit. make lint runs ruff and mypy." in review.expect("goes back  ")
    review.press("e")
    review.expect("new text: Run make lint before a commit. make lint runs ruff and mypy.")
    review.press("\x15Run make lint (ruff, mypy) before a commit.\r")
    code, rest = review.leave()
    assert (code, "merged: m_" in rest) == (0, True)
    listed = machine.call("list", {}, folder)["memories"]
    assert [memory["content"] for memory in listed] == ["Run make lint (ruff, mypy) before a commit."]
    assert {shown(machine, each, folder)["closed_by"] for each in (old, new)} == {listed[0]["id"]}


def test_edit_opens_the_editor_that_is_set(
    machine: Machine, folder: Path, open_review: Callable[..., Terminal], tmp_path: Path
) -> None:
    memory = note(machine, folder, "The build needs Node 22.")
    editor = tmp_path / "my editor"
    editor.write_text('#!/bin/sh\nprintf "The build needs %s 23.\\n" "$1" > "$2"\n')
    editor.chmod(0o700)
    review = open_review(EDITOR=f"'{editor}' Node")
    review.expect(KEYS)
    review.press("e")
    code, rest = review.leave()
    assert (code, "edited: m_" in rest) == (0, True)
    replaced = str(shown(machine, memory, folder)["closed_by"])
    assert shown(machine, replaced, folder)["content"] == "The build needs Node 23."


def test_leaving_early_changes_nothing_more_and_leaves_the_terminal_as_it_was(
    machine: Machine, folder: Path, open_review: Callable[..., Terminal]
) -> None:
    memory = note(machine, folder, "The build needs Node 22.")
    review = open_review()
    review.expect(KEYS)
    review.press("q")
    code, rest = review.leave()
    assert (code, "nothing was decided; 1 memory waits for your word" in rest) == (0, True)
    interrupted = open_review()
    interrupted.expect(KEYS)
    interrupted.process.send_signal(signal.SIGINT)
    assert interrupted.leave()[0] == 130
    assert shown(machine, memory, folder)["trust"] == "candidate"


def test_keys_typed_ahead_decide_nothing(machine: Machine, folder: Path, open_review: Callable[..., Terminal]) -> None:
    first, second = note(machine, folder, "The build needs Node 22."), note(machine, folder, "The tests need Docker.")
    review = open_review()
    review.expect(KEYS)
    review.press("aa")
    # Taken: the next key comes before the next question.
    review.expect("  a\n")
    review.press("a", at_once=True)
    review.expect("2 of 2")
    review.expect(KEYS)
    review.press("q")
    assert review.leave()[0] == 0
    assert [shown(machine, each, folder)["trust"] for each in (first, second)] == ["trusted", "candidate"]


def test_what_a_memory_says_cannot_steer_the_terminal(
    machine: Machine, folder: Path, open_review: Callable[..., Terminal]
) -> None:
    note(machine, folder, "Harmless \u202etxet.", quote="a\u2066b")
    review = open_review()
    page = review.expect(KEYS)
    assert "Harmless \\u202etxet." in page
    assert "\u202e" not in page
    review.press("q")
    review.leave()


@pytest.mark.parametrize("words", [(), ("approve",), ("reject",), ("--dispute",)], ids=" ".join)
def test_without_a_terminal_and_inside_an_agent_it_is_refused(
    machine: Machine, folder: Path, open_review: Callable[..., Terminal], words: tuple[str, ...]
) -> None:
    trusted = machine.add("The API listens on port 3000.", folder)
    memory = trusted if "--dispute" in words else note(machine, folder, "The build needs Node 22.")
    before = shown(machine, memory, folder)["trust"]
    command = (*words, memory) if words else ()
    for terminal in (False, True):
        # Standard output is a pipe here, whatever standard input is.
        refused = machine.cli("review", *command, folder=folder, terminal=terminal)
        assert (refused.exit, refused.out) == (4, "")
        assert "a person's act and needs a terminal" in refused.err
    code, said = open_review(*command, **IN_CLAUDE).leave()
    assert (code, "a person's act" in said) == (4, True)
    assert shown(machine, memory, folder)["trust"] == before
    if words:
        code, said = open_review(*command).leave()
        assert code == 0, said
        assert shown(machine, memory, folder)["trust"] != before


def test_the_list_may_be_read_anywhere(machine: Machine, folder: Path) -> None:
    assert "nothing waits for your word here" in machine.cli("review", "--list", folder=folder).ok().out
    memory = note(machine, folder, "The build needs Node 22.")
    listed = machine.cli("review", "--list", folder=folder, env=IN_CLAUDE).ok().out
    assert f"{memory[:10]}  " in listed
    assert "The build needs Node 22." in listed
    assert "1 memory waits for your word" in listed
    answer = machine.cli("review", "--list", "--json", folder=folder, env=IN_CLAUDE).ok().json
    assert (answer["total"], answer["may_decide"], answer["agent"]) == (1, False, "claude-code")
    assert [(item["kind"], item["memory"]["id"]) for item in answer["items"]] == [("candidate", memory)]
    assert machine.cli("status", "--json", folder=folder).ok().json["review"] == 1


def test_an_unknown_verdict_and_an_unknown_memory_are_told_apart(
    machine: Machine, folder: Path, open_review: Callable[..., Terminal]
) -> None:
    code, said = open_review("frobnicate").leave()
    assert (code, "cems review approve ID" in said) == (2, True)
    code, said = open_review("approve", "m_0123456789").leave()
    assert (code, "no memory m_0123456789 here" in said) == (3, True)
    with pytest.raises(OperationError, match="verdict must be one of"):
        machine.call("decide", {"verdict": "bless", "id": "m_0123456789"}, folder)


def test_a_request_for_all_projects_is_answered_with_a_key(
    machine: Machine, folder: Path, open_review: Callable[..., Terminal]
) -> None:
    wide, local = note(machine, folder, "Commits are signed."), note(machine, folder, "The port is 8080.")
    for memory in (wide, local):
        machine.call("promote", {"id": memory, "reason": "it is a habit"}, folder, CLAUDECODE="1")
    review = open_review()
    page = review.expect(KEYS)
    assert "wants to hold in all your projects" in page
    assert "claude-code asks that it hold in all your projects: it is a habit" in " ".join(page.split())
    review.press("m")
    review.expect(KEYS)
    review.press("a")
    assert f"approved: {wide[:10]} (it holds in all your projects now)" in review.expect(KEYS)
    review.press("r")
    _, rest = review.leave()
    assert f"rejected: {local[:10]} (it stays in its project" in rest
    assert "approved 1, rejected 1; 1 memory waits for your word" in rest
    assert shown(machine, wide, folder)["scope"] == "user"
    assert str(shown(machine, local, folder)["scope"]).startswith("project:")
