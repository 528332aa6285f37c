"""The command line with the real daemon, journal, index and model."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.unit.test_cli_stand_in import PROGRAM, on_a_terminal

Document = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Document:
        document: Document = json.loads(self.out)
        return document


@dataclass(frozen=True)
class CommandLine:
    """`cems` in one throwaway home."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / ".cems"

    def project(self, name: str) -> Path:
        """A clone of github.com/org/<name>."""
        folder = self.root / name
        (folder / ".git").mkdir(parents=True, exist_ok=True)
        url = f"https://github.com/org/{name}.git"
        (folder / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {url}\n')
        return folder

    def __call__(
        self, *words: str, project: str = "repo", typed: bytes = b"", cwd: Path | None = None, **environment: str
    ) -> Done:
        done = subprocess.run(
            [*PROGRAM, *words],
            input=typed,
            capture_output=True,
            env={**os.environ, "HOME": str(self.root), "CEMS_HOME": str(self.home), **environment},
            cwd=cwd or self.project(project),
            timeout=120,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def on_a_terminal(self, *words: str, typed: str = "") -> tuple[int, str]:
        return on_a_terminal(list(words), typed, self.project("repo"), HOME=str(self.root), CEMS_HOME=str(self.home))


@pytest.fixture(scope="module")
def cems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    line = CommandLine(tmp_path_factory.mktemp("cli"))
    yield line
    assert line("daemon", "stop").code == 0


def added(cems: CommandLine, *words: str, **options: Any) -> str:
    """Add a memory; returns its id."""
    done = cems("add", *words, "--json", **options)
    assert done.code == 0, done
    assert done.json["status"] == "added"
    return str(done.json["id"])


def contents(done: Done) -> list[str]:
    return [memory["content"] for memory in done.json["memories"]]


def test_what_is_added_is_found_listed_shown_and_explained(cems: CommandLine) -> None:
    memory = added(cems, "The billing service listens on port 8081", "-c", "decision", "--tag", "ports")
    other = added(cems, "Answer in short sentences", "-c", "preferences", "--user")
    found = cems("search", "billing service port", "--json").json
    assert found["memories"][0]["id"] == memory
    assert found["memories"][0]["score"] > 0
    assert found["memories"][0]["category"] == "decisions"
    assert found["coverage"]["total"] >= 2
    listed = {each["id"]: each for each in cems("list", "--json").json["memories"]}
    assert listed[memory]["scope"] == "project:github.com/org/repo"
    assert listed[other]["scope"] == "user"
    shown = cems("show", memory, "--json").json
    assert shown["memory"]["source"]["actor"] == "person"
    assert [event["op"] for event in shown["history"]] == ["remember"]
    why = cems("why", "On which port does the billing service listen?", "--json").json
    assert memory in why["injected"]
    assert {"id", "content", "score", "decision"} <= why["candidates"][0].keys()
    assert why["tokens"] > 0
    assert "port 8081" in why["block"]
    assert "The prompt gets:" in cems("why", "On which port does the billing service listen?").out


def test_line_feeds_and_any_writing_survive(cems: CommandLine) -> None:
    text = "Schritt 1: prüfen\n\n  二番目 — “quotes” 🦊\nend"
    done = cems("add", "-", "--json", typed=text.encode(), PYTHONIOENCODING="cp1252")
    assert cems("show", done.json["id"], "--json").json["memory"]["content"] == text
    shown = cems("show", done.json["id"], PYTHONIOENCODING="cp1252")
    assert shown.code == 0
    assert "二番目 — “quotes” 🦊" in shown.out


def test_an_id_is_accepted_at_any_unambiguous_length(cems: CommandLine) -> None:
    memory = added(cems, "Ids may be short")
    for form in (memory, memory[:10], memory[2:10], memory[2:14]):
        assert cems("show", form, "--json").json["memory"]["id"] == memory
    assert cems("show", "m_zzzz").code == 3
    assert cems("show", "m_").code == 2


def test_a_correction_closes_the_old_memory(cems: CommandLine) -> None:
    old = added(cems, "The queue holds 100 jobs")
    edited = cems("update", old[:10], "The queue holds 200 jobs", "--reason", "raised", "--json").json
    assert edited["replaced"] == old
    assert edited["id"] != old
    assert "The queue holds 100 jobs" not in contents(cems("list", "--json"))
    assert "The queue holds 200 jobs" in contents(cems("list", "--json"))
    assert "The queue holds 100 jobs" in contents(cems("list", "--all", "--json"))
    assert cems("show", old, "--json").json["memory"]["expired_at"] is not None


def test_a_forgotten_value_is_refused_until_a_person_lifts_it(cems: CommandLine) -> None:
    memory = added(cems, "Deploys happen on Fridays")
    forgotten = cems("forget", memory[:10], "--reason", "never again", "--json")
    assert [each["id"] for each in forgotten.json["hidden"]] == [memory]
    assert forgotten.json["tombstones"] == 1
    again = cems("add", "  deploys HAPPEN on fridays", "-c", "context", "--json")
    assert (again.code, again.json["status"]) == (4, "refused")
    assert "forgotten" in again.json["reason"]
    assert cems("forget", memory[:10]).code == 3
    assert cems("forget", "--text", "nobody ever said this").code == 3
    assert cems("lift", "Deploys happen on Fridays").code == 4
    assert cems.on_a_terminal("lift", "Deploys happen on Fridays")[0] == 0
    assert cems("add", "Deploys happen on Fridays").code == 0


def test_forgetting_by_text_and_by_several_ids(cems: CommandLine) -> None:
    first, second = added(cems, "Temporary fact one"), added(cems, "Temporary fact two")
    assert cems("forget", first, "m_zzzz").code == 3
    assert "Temporary fact one" in contents(cems("list", "-n", "500", "--json"))
    assert len(cems("forget", first[:12], second[:12], "--json").json["hidden"]) == 2
    added(cems, "Temporary fact three")
    assert len(cems("forget", "--text", "temporary fact THREE", "--json").json["hidden"]) == 1
    added(cems, "Temporary fact four")
    assert len(cems("forget", "temporary fact FOUR", "--json").json["hidden"]) == 1


def test_another_project_does_not_see_it_and_sees_its_own(cems: CommandLine) -> None:
    secret = added(cems, "Only this project uses the blue cluster")
    added(cems, "The other project uses the green cluster", project="repo-2")
    everywhere = added(cems, "Cluster names are colours", "--user")
    found = cems("search", "cluster", "-n", "50", "--json", project="repo-2")
    assert "The other project uses the green cluster" in contents(found)
    assert "Cluster names are colours" in contents(found)
    assert "Only this project uses the blue cluster" not in contents(found)
    for words in (["show", secret], ["edit", secret, "x"], ["forget", secret], ["pin", secret]):
        assert cems(*words, project="repo-2").code == 3
    assert cems("show", everywhere, project="repo-2").code == 0


def test_what_an_agent_adds_is_a_candidate_and_it_cannot_be_a_person(cems: CommandLine) -> None:
    done = cems("add", "The agent believes in tabs", "--json", CLAUDECODE="1")
    assert (done.code, done.json["status"]) == (0, "candidate")
    memory = cems("show", done.json["id"], "--json").json["memory"]
    assert (memory["trust"], memory["source"]["actor"]) == ("candidate", "agent")
    refused = cems("share", done.json["id"], "--json", CLAUDECODE="1")
    assert (refused.code, refused.json["error"]["code"]) == (4, "refused")
    code, output = cems.on_a_terminal("share", done.json["id"])
    assert code == 0, output
    assert cems("show", done.json["id"], project="repo-2").code == 0


def test_secrets_are_cut_before_they_are_written(cems: CommandLine) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    done = cems("add", f"The deploy token is {token}", "--json")
    assert done.json["redacted"] == 1
    assert token not in cems("show", done.json["id"]).out
    found = subprocess.run(["grep", "-rlF", token, str(cems.home)], capture_output=True, check=False)
    assert found.stdout == b""


def test_many_lines_are_remembered_with_their_times(cems: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    lines = [
        {"content": f"Imported fact number {number}", "category": "imported", "recorded_at": "2024-02-01"}
        for number in range(230)
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    done = cems("add", "--from-jsonl", str(file), project="import")
    assert (done.code, done.out) == (0, "230 lines remembered\n")
    again = cems("add", "--from-jsonl", str(file), "--json", project="import").json
    assert (again["added"], again["duplicate"]) == (0, 230)
    seen: set[str] = set()
    cursor: list[str] = []
    while True:
        answer = cems("list", "-c", "imported", "-n", "100", *cursor, "--json", project="import").json
        seen |= {memory["content"] for memory in answer["memories"]}
        assert all(memory["recorded_at"] < "2024-02-03" for memory in answer["memories"])
        if not answer["next"]:
            break
        cursor = ["--cursor", answer["next"]]
    assert len(seen) == 230


def test_pinned_memories_come_first_in_status_and_show(cems: CommandLine) -> None:
    memory = added(cems, "Always run the linter", "--pin")
    assert cems("show", memory, "--json").json["memory"]["pinned"] is True
    assert cems("unpin", memory[:12]).code == 0
    assert cems("show", memory, "--json").json["memory"]["pinned"] is False


def test_a_deleted_folder_still_answers(cems: CommandLine, tmp_path: Path) -> None:
    script = f'mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone && exec "$@"'
    environment = {**os.environ, "HOME": str(cems.root), "CEMS_HOME": str(cems.home)}
    added(cems, "Known everywhere", "--user")
    done = subprocess.run(
        ["sh", "-c", script, "sh", *PROGRAM, "search", "known everywhere"],
        capture_output=True,
        env=environment,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    assert "Known everywhere" in done.stdout
    assert "this folder no longer exists" in done.stderr


def test_status_doctor_health_and_rebuild_agree(cems: CommandLine) -> None:
    added(cems, "Something to index")
    status = cems("status", "--json").json
    assert status["daemon"]["state"] in {"keyword", "ready"}
    assert status["scope"]["project"] == "github.com/org/repo"
    rebuilt = cems("rebuild", "--json").json
    assert rebuilt["memories"] >= 1
    checks = {check["name"]: check for check in cems("doctor", "--json").json["checks"]}
    for name in ("python", "folder", "permissions", "settings", "daemon", "endpoint", "journal", "store"):
        assert checks[name]["ok"], checks[name]
    assert cems("health").out.count("\n") == 1


def test_nobody_else_can_read_a_file(cems: CommandLine) -> None:
    added(cems, "Private")
    for path in (cems.home, *cems.home.rglob("*")):
        # Under a folder nobody else can enter, a database's own files may keep their modes.
        if path.parent in (cems.home, cems.home / "logs", cems.home / "keys") or path == cems.home:
            assert stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0, path


def test_the_log_holds_no_memory(cems: CommandLine) -> None:
    added(cems, "xylophone quarterly zebra")
    cems("why", "xylophone quarterly zebra")
    logs = cems("daemon", "logs", "-n", "100000")
    assert logs.code == 0
    assert "xylophone" not in logs.out


def test_a_stopped_daemon_is_said_and_comes_back_with_everything(cems: CommandLine) -> None:
    memory = added(cems, "Survives a restart")
    assert cems("daemon", "stop").code == 0
    assert cems("daemon", "status").code == 5
    assert cems("status", "--json").json["daemon"]["state"] == "not running"
    assert cems("daemon", "stop").out == "the daemon was not running\n"
    started = cems("daemon", "start", "--json")
    assert started.json["started"] is True
    assert cems("daemon", "status", "--json").json["daemon"]["pid"] == started.json["daemon"]["pid"]
    assert cems("show", memory).code == 0


def test_a_frozen_daemon_is_said_and_replaced(cems: CommandLine) -> None:
    memory = added(cems, "Survives a frozen daemon")
    pid = cems("status", "--json").json["daemon"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        frozen = cems("list", "--json")
        assert (frozen.code, frozen.json["error"]["code"]) == (5, "unreachable")
        assert cems("status", "--json").json["daemon"]["state"] == "not answering"
    finally:
        restarted = cems("daemon", "restart", "--json")
    assert restarted.code == 0, restarted
    assert restarted.json["daemon"]["pid"] != pid
    assert cems("show", memory).code == 0
