"""The agents' programs are fetched whole or not at all, and only as pinned. npm is a stand-in here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.e2e import programs
from tests.e2e.programs import FetchFailed, Program, ProgramMissing

NPM = """#!/bin/sh
for argument in "$@"; do case $argument in --prefix=*) prefix=${argument#--prefix=} ;; esac; done
printf '%s\\n' "$*" >>"$NPM_LOG"
[ -z "$NPM_FAILS" ] || { echo "E404 not found" >&2; exit 1; }
mkdir -p "$prefix/node_modules/agent-linux"
echo program >"$prefix/node_modules/agent-linux/agent"
printf '%s' "$NPM_LOCK" >"$prefix/node_modules/.package-lock.json"
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An agent in the table, an empty cache, and an npm that logs its calls to the returned file."""
    (tmp_path / "bin").mkdir()
    npm = tmp_path / "bin" / "npm"
    npm.write_text(NPM)
    npm.chmod(0o755)
    entry = {"version": "1.2.3", "integrity": "sha512-good"}
    monkeypatch.setenv("PATH", f"{npm.parent}:/usr/bin:/bin")
    monkeypatch.setenv("NPM_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("NPM_FAILS", "")
    monkeypatch.setenv("NPM_LOCK", json.dumps({"packages": {"node_modules/agent-linux": entry}}))
    monkeypatch.setenv("CEMS_TEST_CACHE", str(tmp_path / "cache"))
    table = {"agent": Program("agent", "1.2.3", "agent", {programs.platform_name(): ("agent-linux", "good")})}
    monkeypatch.setattr(programs, "PROGRAMS", table)
    return tmp_path / "log"


def pin(monkeypatch: pytest.MonkeyPatch, version: str, sha512: str) -> None:
    table = {"agent": Program("agent", version, "agent", {programs.platform_name(): ("agent-linux", sha512)})}
    monkeypatch.setattr(programs, "PROGRAMS", table)


def test_a_fetched_program_is_found_and_not_fetched_again(log: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgramMissing, match=r"\./test\.sh --agents"):
        programs.find("agent")
    path = programs.fetch("agent")
    assert path.read_text() == "program\n"
    assert path.stat().st_mode & 0o111
    assert programs.find("agent") == programs.fetch("agent") == path
    (call,) = log.read_text().splitlines()
    assert call.endswith("agent-linux@1.2.3")
    assert "--ignore-scripts" in call
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == ["agent"]


@pytest.mark.parametrize(("version", "sha512"), [("1.2.3", "other"), ("1.2.4", "good")])
def test_another_program_than_the_pinned_is_refused(
    version: str, sha512: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin(monkeypatch, version, sha512)
    with pytest.raises(FetchFailed, match="not the pinned one"):
        programs.fetch("agent")
    assert [*(tmp_path / "cache").iterdir()] == []


def test_a_failing_npm_leaves_nothing_and_says_why(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_FAILS", "1")
    with pytest.raises(FetchFailed, match="E404 not found"):
        programs.fetch("agent")
    assert [*(tmp_path / "cache").iterdir()] == []


def test_a_new_pin_replaces_the_old_program(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs.fetch("agent")
    pin(monkeypatch, "1.3.0", "new")
    entry = {"version": "1.3.0", "integrity": "sha512-new"}
    monkeypatch.setenv("NPM_LOCK", json.dumps({"packages": {"node_modules/agent-linux": entry}}))
    with pytest.raises(ProgramMissing, match=r"1\.2\.3 is fetched, 1\.3\.0 is wanted"):
        programs.find("agent")
    assert programs.fetch("agent").is_file()
    assert (tmp_path / "cache" / "agent" / "version").read_text().startswith("1.3.0\n")


def test_a_platform_nobody_packages_is_named(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "platform_name", lambda: "plan9-vax")
    with pytest.raises(FetchFailed, match="plan9-vax"):
        programs.fetch("agent")
