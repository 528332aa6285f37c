"""The names that people from an earlier system type: each does its work, and its help says whose name it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.test_cli_stand_in import MEMORY, Document, StandIn, page, standing_in
from tests.unit.test_update_command import InstallerCommands

from cems.core.cli.main import main
from cems.core.cli.other_names import OTHER_NAMES

Capture = pytest.CaptureFixture[str]
ID = "m_1a2b3c4d"
TEXT = "Staging listens on port 8081"

# What is typed, the operation the daemon is asked for with its payload, and a piece of the command's help.
NAMES: tuple[tuple[list[str], str, Document, str], ...] = (
    (["add", TEXT], "add", {"content": TEXT}, "Remember something."),
    (["remember", TEXT], "add", {"content": TEXT}, "`cems remember` is the other name of `cems add`."),
    (["search", "staging"], "search", {"query": "staging", "limit": 10}, "Find memories"),
    (
        ["recall", "staging"],
        "search",
        {"query": "staging", "limit": 10},
        "`cems recall` is the other name of `cems search`.",
    ),
    (["list"], "list", {"limit": 50}, "List memories"),
    (["edit", ID, TEXT], "edit", {"id": ID, "content": TEXT}, "Correct a memory."),
    (["update", ID, TEXT], "edit", {"id": ID, "content": TEXT}, "`cems update ID` is the other name of `cems edit`."),
    (["forget", ID], "forget", {"id": ID}, "Forget memories for good."),
    (["delete", ID], "forget", {"id": ID}, "`cems delete` is the other name of `cems forget`."),
    (["status"], "status", {}, "on one page"),
    (["health"], "check", {}, "`cems doctor` in short"),
    (["doctor"], "check", {}, "Check everything"),
    (["debug"], "check", {}, "Print a report"),
)
ANSWERS: Document = {
    "add": {"id": MEMORY["id"], "status": "added", "reason": "", "scope": "user", "category": "general"},
    "search": page(MEMORY),
    "list": page(MEMORY),
    "edit": {"id": "m_2222", "replaced": ID, "status": "added", "reason": ""},
    "forget": {"hidden": [MEMORY], "tombstones": 1},
    "status": {"daemon": {"state": "ready"}},
    "check": {"checks": []},
}


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    found = {"cems.commands": (InstallerCommands,)}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: found.get(group, ()))
    with standing_in(tmp_path, monkeypatch) as server:
        server.answers |= ANSWERS
        yield server


@pytest.mark.parametrize(("words", "operation", "payload", "said"), NAMES)
def test_a_name_does_its_work_and_its_help_says_whose_it_is(
    daemon: StandIn, capsys: Capture, words: list[str], operation: str, payload: Document, said: str
) -> None:
    assert main(words) == 0
    assert daemon.asked == [(operation, payload)]
    capsys.readouterr()
    named = [words[0], ID] if words[0] == "update" else [words[0]]
    assert main([*named, "--help"]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["setup", "uninstall", "update", "env"])
def test_a_name_without_an_operation_of_its_own_is_there(daemon: StandIn, capsys: Capture, name: str) -> None:
    assert main([name, "--help"]) == 0
    assert "Usage: cems " + name in capsys.readouterr().out


def test_every_other_name_is_in_the_table_and_on_the_help_page(daemon: StandIn, capsys: Capture) -> None:
    assert set(OTHER_NAMES) <= {words[0] for words, *_ in NAMES}
    assert main(["--help"]) == 0
    page_of_help = " ".join(capsys.readouterr().out.split())
    for other, ours in OTHER_NAMES.items():
        assert f"{other}{' ID' if other == 'update' else ''} = {ours}" in page_of_help


def test_updates_help_says_both_of_its_meanings(daemon: StandIn, capsys: Capture) -> None:
    assert main(["update", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Update CEMS to the newest release. With an ID: the other name of `cems edit`." in said


def test_env_prints_the_settings_as_a_shell_reads_them(
    daemon: StandIn, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CEMS_TOKEN_BUDGET", "700")
    monkeypatch.setenv("CEMS_API_KEY", "sk-secret")
    main(["config", "set", "embedding_cache", "/a folder/with 'quotes'"])
    capsys.readouterr()
    assert main(["env"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"CEMS_HOME={daemon.home.root}" in lines
    assert "CEMS_TOKEN_BUDGET=700" in lines
    assert "CEMS_EMBEDDING_DOWNLOAD=false" in lines
    assert """CEMS_EMBEDDING_CACHE='/a folder/with '"'"'quotes'"'"''""" in lines
    assert not any("secret" in line or "None" in line for line in lines)
    assert main(["env", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["variables"]["CEMS_TOKEN_BUDGET"] == "700"
    daemon.home.config.write_text("[")
    assert main(["env"]) == 1


def test_debug_has_versions_checks_changed_settings_and_the_ends_of_the_logs(
    daemon: StandIn, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CEMS_TOKEN_BUDGET", "700")
    (daemon.home.logs / "daemon.log").touch(mode=0o600)
    (daemon.home.logs / "daemon.log").write_text("".join(f"line {number}\n" for number in range(100)))
    assert main(["debug", "--json"]) == 0
    report: Any = json.loads(capsys.readouterr().out)
    assert report["versions"].keys() >= {"cems", "python", "system", "sqlite", "lancedb"}
    assert report["settings"] == {"token_budget": "700 (environment)"}
    assert report["logs"]["daemon.log"] == [f"line {number}" for number in range(60, 100)]
    assert report["logs"]["cli.log"] == []
    assert main(["debug"]) == 0
    said = capsys.readouterr().out
    assert "settings: token_budget = 700 (environment)" in said
    assert "daemon.log, its last 40 lines\n  line 60\n" in said
    assert "all is well" in said
    daemon.answers["check"] = {"checks": [{"name": "journal", "ok": False, "detail": "d", "fix": "f"}]}
    assert main(["debug"]) == 1
    assert "problem  journal" in capsys.readouterr().out
