"""`cems rule`: what it sends, what it says, and that a bad rule never reaches the daemon."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.test_cli_stand_in import Document, StandIn, on_a_terminal, standing_in

from cems.core.cli.main import main

Capture = pytest.CaptureFixture[str]
FORCE = "Bash: git push --force* — ask first"
RULE: Document = {
    "id": "m_1a2b3c4d5e6f70819a2b3c4d",
    "content": FORCE,
    "tools": ["Bash"],
    "pattern": "git push --force*",
    "reason": "ask first",
    "severity": "confirm",
    "scope": "project:github.com/org/repo",
    "trust": "trusted",
    "valid_from": None,
    "valid_to": None,
    "in_force": True,
    "problem": "",
}
ADDED = {**RULE, "status": "added", "reason": "", "redacted": 0}


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with standing_in(tmp_path, monkeypatch) as server:
        yield server


def test_add_says_how_the_rule_was_understood(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["rule_add"] = {"results": [ADDED]}
    assert main(["rule", "add", FORCE]) == 0
    assert daemon.payload("rule_add") == {"rules": [FORCE]}
    output = capsys.readouterr().out
    assert output == "rule m_1a2b3c4d (project github.com/org/repo): confirm on Bash: git push --force*\n"
    assert main(["rule", "add", FORCE, "--severity", "warn", "--user", "--json"]) == 0
    assert daemon.asked[-1] == ("rule_add", {"rules": [f"[warn] {FORCE}"], "scope": "user"})
    assert json.loads(capsys.readouterr().out) == ADDED


def test_styles_reach_a_terminal(daemon: StandIn) -> None:
    daemon.answers["rule_add"] = {"results": [ADDED]}
    daemon.answers["rule_list"] = {"rules": [RULE]}
    for words in (["rule", "add", FORCE], ["rule", "list"]):
        code, output = on_a_terminal(words)
        assert code == 0
        assert "\x1b[1mm_1a2b3c4d\x1b[0m" in output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["git push --force"], "no gate rule: a rule begins with the tool and a colon"),
        (["[maybe] Bash: x"], "[maybe] is no severity"),
        ([FORCE, "--severity", "hard"], "'hard' is no severity"),
        ([f"[block] {FORCE}", "--severity", "warn"], "the rule says [block] itself"),
        (["Bash: a - b - c"], "put the pattern in backquotes"),
        ([FORCE, "--user", "--scope", "project"], "exclude each other"),
    ],
)
def test_a_bad_rule_is_one_line_and_is_not_sent(daemon: StandIn, capsys: Capture, words: list[str], said: str) -> None:
    assert main(["rule", "add", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert daemon.asked == []


def test_what_an_agent_adds_is_said_to_stop_nothing(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["rule_add"] = {
        "results": [{**ADDED, "status": "candidate", "trust": "candidate", "in_force": False}]
    }
    assert main(["rule", "add", FORCE]) == 0
    assert "stops nothing until a person approves it" in capsys.readouterr().out
    daemon.answers["rule_add"] = {
        "results": [{"id": None, "status": "refused", "reason": "retracted before", "redacted": 0}]
    }
    assert main(["rule", "add", FORCE]) == 4
    assert "not added" in capsys.readouterr().err


def test_load_sends_all_lines_at_once(
    daemon: StandIn, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rules.txt"
    file.write_text(f"# ours\n\n  {FORCE}\nEdit: *.env — never\n")
    daemon.answers["rule_add"] = {"results": [ADDED, {**ADDED, "status": "duplicate", "tools": ["Edit"]}]}
    assert main(["rule", "load", str(file)]) == 0
    assert daemon.payload("rule_add") == {"rules": [FORCE, "Edit: *.env — never"]}
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("rule m_1a2b3c4d")
    assert "is there already" in second
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(f"{FORCE}\r\n".encode()), isatty=lambda: False))
    daemon.answers["rule_add"] = {"results": [ADDED]}
    assert main(["rule", "load", "-", "--json"]) == 0
    assert daemon.asked[-1][1] == {"rules": [FORCE]}
    assert json.loads(capsys.readouterr().out) == {"results": [ADDED]}


def test_load_names_each_bad_line_and_sends_nothing(daemon: StandIn, capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "rules.txt"
    file.write_text(f"{FORCE}\nno rule\n# fine\n[bad] Bash: x\n")
    assert main(["rule", "load", str(file)]) == 1
    error = capsys.readouterr().err
    assert "line 2: a rule begins with the tool" in error
    assert "line 4: [bad] is no severity" in error
    assert "2 lines are no rules; nothing was added" in error
    assert main(["rule", "load", str(file), "--json"]) == 1
    message = json.loads(capsys.readouterr().out)["error"]["message"]
    assert "line 2" in message
    assert "line 4" in message
    assert daemon.asked == []
    file.write_text("# nothing\n")
    assert main(["rule", "load", str(file)]) == 3
    assert main(["rule", "load", str(tmp_path / "absent")]) == 2
    file.write_bytes(b"\xff\xfe")
    assert main(["rule", "load", str(file)]) == 1
    assert daemon.asked == []


def test_list_shows_what_holds_and_why_not(daemon: StandIn, capsys: Capture) -> None:
    waiting = {**RULE, "trust": "candidate", "in_force": False, "scope": "user"}
    broken = {
        **RULE,
        "severity": None,
        "in_force": False,
        "content": "x\x1b[2J",
        "problem": "a rule begins with the tool",
    }
    daemon.answers["rule_list"] = {"rules": [RULE, waiting, {**RULE, "in_force": False}, broken]}
    assert main(["rule", "list"]) == 0
    output = capsys.readouterr()
    one, two, three, four = output.out.splitlines()
    assert one.split()[:3] == ["m_1a2b3c4d", "confirm", "project"]
    assert FORCE in one
    assert "cems review" in two
    assert "not valid now" in three
    assert "no rule" in four
    assert "\x1b" not in output.out
    assert "a rule begins with the tool" in output.err
    daemon.answers["rule_list"] = {"rules": []}
    assert main(["rule", "list", "--scope", "user"]) == 0
    assert daemon.asked[-1] == ("rule_list", {"scope": "user"})
    assert "cems rule add" in capsys.readouterr().out


def test_test_says_what_would_happen(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["rule_test"] = {"rules": [RULE], "severity": "confirm", "told": "CEMS: ask\nSay why."}
    assert main(["rule", "test", "git push --force"]) == 0
    assert daemon.payload("rule_test") == {"tool": "Bash", "subject": "git push --force"}
    output = capsys.readouterr().out
    assert "the person is asked; the agent is told:\n    CEMS: ask\n    Say why." in output
    daemon.answers["rule_test"] = {"rules": [], "severity": None, "told": ""}
    assert main(["rule", "test", "--tool", "Edit", "a.py"]) == 3
    assert daemon.asked[-1][1] == {"tool": "Edit", "subject": "a.py"}
    assert "it runs" in capsys.readouterr().out
    assert main(["rule", "test", "x", "--json"]) == 3
    assert json.loads(capsys.readouterr().out) == daemon.answers["rule_test"]


def test_remove_names_what_is_gone(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["rule_remove"] = {"rule": RULE}
    assert main(["rule", "remove", "1a2b", "--reason", "too strict"]) == 0
    assert daemon.payload("rule_remove") == {"id": "1a2b", "reason": "too strict"}
    assert capsys.readouterr().out == f"removed m_1a2b3c4d  {FORCE}\n"
    assert main(["rule", "remove", "1a2b", "--json"]) == 0
    daemon.refuse("rule_remove", "refused", "m_1a2b3c4d is a gate rule: only a person changes those", 4)
    assert main(["rule", "remove", "1a2b"]) == 4
