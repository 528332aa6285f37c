"""`why`, `status`, `doctor`, `config`, `daemon`, `rebuild`: what they show, with a daemon and without one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.test_cli_stand_in import MEMORY, Document, StandIn, page, standing_in

from cems.core.cli.main import main
from cems.core.paths import Home

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with standing_in(tmp_path, monkeypatch) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home without a daemon."""
    monkeypatch.setenv("CEMS_HOME", str(tmp_path / "cems"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(tmp_path)
    return Home(tmp_path / "cems")


def test_why_shows_candidates_gate_budget_stages_and_block(daemon: StandIn, capsys: Capture) -> None:
    candidate = {**MEMORY, "score": 0.71, "probability": 0.64, "decision": "injected"}
    other = {**candidate, "id": "m_ffffffffff", "probability": 0.02, "decision": "below gate"}
    answer = {
        "candidates": [candidate, other],
        "injected": [MEMORY["id"]],
        "tokens": 31,
        "stages": {"search_ms": 4.21, "gate_threshold": 0.3, "token_budget": 2000, "max_memories": 8},
        "mode": "hybrid",
        "block": "<memory>\nx\n</memory>",
    }
    daemon.answers["why"] = answer
    assert main(["why", "which port", "--session", "s1"]) == 0
    assert daemon.payload("why") == {"prompt": "which port", "session": "s1"}
    output = capsys.readouterr().out
    assert "m_1a2b3c4d  0.710  0.640  injected    decisions" in output
    assert "m_ffffffff  0.710  0.020  below gate  decisions" in output
    assert "gate    a probability of 0.30 or more" in output
    assert "budget  31 of 2,000 tokens for 1 memory, 8 at most" in output
    assert "stages  search 4.2 ms" in output
    assert "    <memory>\n    x\n    </memory>\n" in output
    assert main(["why", "which port", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == answer


STATUS: Document = {
    "daemon": {"pid": 12, "version": "0.1.0", "state": "ready", "uptime_s": 7500.0, "rss_mib": 301.4},
    "memories": {"total": 130, "live": 124, "closed": 6, "hidden": 0, "here": 12, "pending_index": 3},
    "embedding": {"model": "none", "state": "keyword", "reason": "no model file"},
    "review": 2,
    "hook_failures": 1,
    "scope": {"project": "project:github.com/org/repo"},
    "home": "/h/.cems",
}


def test_status_is_one_page(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["status"] = STATUS
    record = {"version": 1, "agents": [{"agent": "claude-code", "config_dir": "/h/.claude"}]}
    daemon.home.install_conf.write_text(json.dumps(record))
    assert main(["status"]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    facts = {name: value.strip() for name, value in lines.items()}
    assert facts["daemon"] == "ready, pid 12, version 0.1.0, up 2 h 5 min, 301 MiB"
    assert facts["here"] == "project github.com/org/repo"
    assert facts["memories"] == "12 seen from here, 124 in all, 6 corrected, 3 not yet in the index"
    assert facts["embedding"] == ("none: memories are found by words alone, not by meaning (no model file)")
    assert facts["review"] == "2 memories waiting for your word"
    assert facts["agents"] == "claude-code (not heard of yet)"


def test_doctor_exits_1_and_says_what_to_do(daemon: StandIn, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whether agents are wired is the installer's check; it is there only where the package is installed.
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    checks = [{"name": "journal", "ok": False, "detail": "chain broken", "fix": "restore a backup"}]
    daemon.answers["check"] = {"checks": checks}
    assert main(["doctor"]) == 1
    output = capsys.readouterr().out
    assert "problem  journal" in output
    assert "-> restore a backup" in output
    assert "ok       permissions" in output
    assert main(["health"]) == 1
    assert capsys.readouterr().out == "1 problem: journal (cems doctor)\n"


def test_doctor_finds_files_that_others_can_read(
    daemon: StandIn, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether agents are wired is the installer's check; it is there only where the package is installed.
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    daemon.answers["check"] = {"checks": []}
    assert main(["health"]) == 0
    (daemon.home.root / "journal.db").touch(mode=0o644)
    (daemon.home.root / "journal.db").chmod(0o644)
    capsys.readouterr()
    assert main(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    # A journal without its key is a problem of its own.
    [problem] = [check for check in report["checks"] if not check["ok"] and check["name"] == "permissions"]
    assert "journal.db" in problem["detail"]
    assert problem["fix"].startswith("chmod")


def test_rebuild_says_how_many_and_how_long(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["rebuild"] = {"memories": 1200, "seconds": 3.14159}
    assert main(["rebuild"]) == 0
    assert capsys.readouterr().out == "1,200 memories indexed in 3.1 s\n"


def test_the_daemon_learns_the_folder_and_the_agent_and_no_other_variable(
    daemon: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    daemon.answers["list"] = page()
    assert main(["list"]) == 0
    [sent] = daemon.contexts
    assert sent["client"] == "cli"
    assert sent["cwd"] == os.getcwd()  # noqa: PTH109 - the same call as in the product
    assert sent["CLAUDECODE"] == "1"
    assert sent["tty"] == "0"
    assert "secret" not in json.dumps(sent)


def test_a_deleted_folder_is_said_and_no_folder_is_sent(
    daemon: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    daemon.answers["list"] = page(MEMORY)
    assert main(["list"]) == 0
    assert "cwd" not in daemon.contexts[0]
    assert "this folder no longer exists" in capsys.readouterr().err


def test_status_without_a_daemon_says_so_and_starts_none(home: Home, capsys: Capture) -> None:
    home.create()
    home.hook_failures.write_text(f"1790000000 cems_stop deadline\n{time.time():.0f} cems_stop deadline\n")
    home.install_conf.write_text('{"version": 1, "agents": [{"agent": "claude-code", "config_dir": "/x"}]}')
    assert main(["status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["daemon"]["state"] == "not running"
    assert status["memories"]["total"] is None
    assert status["hook_failures"] == 1
    assert status["agents"] == {"claude-code": {"folders": ["/x"]}}
    assert main(["status"]) == 0
    assert "not running; any command or hook starts it" in capsys.readouterr().out
    assert not home.endpoint.exists()


def test_a_daemon_that_could_not_load_is_said_in_status(daemon: StandIn, capsys: Capture) -> None:
    daemon.refuse("status", "broken", "the daemon could not load lancedb", 1)
    assert main(["status"]) == 0
    assert "runs, but does not answer: the daemon could not load lancedb" in capsys.readouterr().out
    assert main(["daemon", "status", "--json"]) == 5
    state = json.loads(capsys.readouterr().out)["daemon"]
    assert state["state"] == "not answering"
    assert state["pid"] == os.getpid()


def test_status_shows_why_the_last_start_failed(home: Home, capsys: Capture) -> None:
    home.create()
    (home.logs / "last-start-failure").write_text("1790000000 OSError: disk full\n")
    assert main(["status"]) == 0
    assert "last start failed: OSError: disk full" in capsys.readouterr().out


def test_daemon_status_exits_5_without_a_daemon_and_stop_is_content(home: Home, capsys: Capture) -> None:
    assert main(["daemon", "status"]) == 5
    assert capsys.readouterr().out == "not running; any command or hook starts it\n"
    assert main(["daemon", "stop", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"stopped": False}


def test_logs_print_the_last_lines(home: Home, capsys: Capture) -> None:
    assert main(["daemon", "logs"]) == 3
    home.create()
    (home.logs / "daemon.log").write_text("".join(f"line {number}\n" for number in range(20_000)))
    capsys.readouterr()
    assert main(["daemon", "logs", "-n", "2"]) == 0
    assert capsys.readouterr().out == "line 19998\nline 19999\n"
    assert main(["daemon", "logs", "-n", "0"]) == 0
    assert capsys.readouterr().out == ""


def test_config_shows_sets_and_unsets_and_keeps_comments(home: Home, capsys: Capture) -> None:
    home.create()
    home.config.write_text("# mine\nmax_memories = 3\n")
    assert main(["config", "set", "CEMS_TOKEN_BUDGET", "900"]) == 0
    assert main(["config", "get", "token_budget", "--json"]) == 0
    output = capsys.readouterr().out
    row = json.loads(output[output.index("{") :])
    assert (row["value"], row["origin"]) == (900, "file")
    assert home.config.read_text().startswith("# mine\n")
    assert main(["config", "unset", "max_memories"]) == 0
    capsys.readouterr()
    assert main(["config", "--json"]) == 0
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)["settings"]}
    assert rows["max_memories"]["origin"] == "default"


def test_config_names_the_setting_that_was_meant(home: Home, capsys: Capture) -> None:
    assert main(["config", "get", "token_bugdet"]) == 2
    assert capsys.readouterr().err == ("cems: there is no setting 'token_bugdet' (did you mean token_budget?)\n")


def test_config_refuses_a_value_and_changes_nothing(home: Home, capsys: Capture) -> None:
    assert main(["config", "set", "token_safety", "-5"]) == 2
    assert "nothing was changed" in capsys.readouterr().err
    assert not home.config.exists()


def test_a_broken_setting_can_be_mended(home: Home, capsys: Capture) -> None:
    home.create()
    home.config.write_text('token_budget = "many"\n')
    assert main(["config"]) == 1
    assert "token_budget" in capsys.readouterr().err
    assert main(["config", "set", "token_budget", "100"]) == 0
    assert main(["config"]) == 0


def test_config_says_when_the_environment_wins(home: Home, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEMS_TOKEN_BUDGET", "500")
    assert main(["config", "set", "token_budget", "900"]) == 0
    assert "CEMS_TOKEN_BUDGET in the environment wins" in capsys.readouterr().err
