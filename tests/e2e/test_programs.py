"""The agents' programs are fetched whole or not at all, and only as pinned. npm is a stand-in here."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import programs
from tests.e2e.pins import PROGRAMS, Package, Program
from tests.e2e.programs import FetchFailed, ProgramMissing

NPM = """#!/bin/sh
for argument in "$@"; do case $argument in --prefix=*) prefix=${argument#--prefix=} ;; esac; done
printf '%s\\n' "$*" >>"$NPM_LOG"
[ -z "$NPM_FAILS" ] || { echo "E404 not found" >&2; exit 1; }
mkdir -p "$prefix/node_modules/agent-linux" "$prefix/node_modules/.bin"
printf '#!/bin/sh\necho "program $*"\n%s\n' "$AGENT_DOES" >"$prefix/node_modules/agent-linux/agent"
echo entry >"$prefix/node_modules/.bin/agent"
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
    monkeypatch.setenv("AGENT_DOES", "")
    pin(monkeypatch)
    return tmp_path / "log"


def pin(monkeypatch: pytest.MonkeyPatch, version: str = "1.2.3", sha512: str = "good", **fields: Any) -> None:
    """Make the table hold this agent, and a `node` whose package is the same stand-in."""
    package = {programs.platform_name(): Package("agent-linux", sha512, "agent")}
    table = {"agent": Program("agent", version, package, **fields), "node": Program("node", "1.2.3", package)}
    monkeypatch.setattr(programs, "PROGRAMS", table)


def test_a_fetched_program_is_found_and_not_fetched_again(log: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgramMissing, match=r"\./test\.sh --agents"):
        programs.find("agent")
    path = programs.fetch("agent")
    assert path.read_text().startswith("#!/bin/sh\necho")
    assert path.stat().st_mode & 0o111
    assert programs.find("agent") == programs.fetch("agent") == path
    (call,) = log.read_text().splitlines()
    assert "agent-linux@1.2.3" in call.split()
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


def test_a_program_of_javascript_is_run_by_the_pinned_node(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, node=True)
    path = programs.fetch("agent")
    assert path.name == "agent"
    assert len(log.read_text().splitlines()) == 2, "Node came with it"
    said = subprocess.run([path, "a b"], capture_output=True, text=True, check=True).stdout
    # The stand-in for Node prints what it was told to run.
    assert said.startswith("program ")
    assert said.endswith("/node_modules/.bin/agent a b\n")
    (programs.cache_folder() / "node" / "version").unlink()
    with pytest.raises(ProgramMissing, match="node is not fetched"):
        programs.find("agent")


def test_a_tree_of_dependencies_comes_as_its_lock_says(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "LOCKS", tmp_path)
    (tmp_path / "agent.json").write_text('{"first": 1}')
    pin(monkeypatch, lock="agent.json")
    path = programs.fetch("agent")
    (call,) = log.read_text().splitlines()
    assert call.split()[0] == "ci"
    folder = path.parents[2]
    assert json.loads((folder / "package.json").read_text())["dependencies"] == {"agent-linux": "1.2.3"}
    assert (folder / "package-lock.json").read_text() == '{"first": 1}'
    (tmp_path / "agent.json").write_text('{"second": 2}')
    with pytest.raises(ProgramMissing, match="is wanted"):
        programs.find("agent")


def test_a_program_that_unpacks_itself_does_so_once(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_DOES", 'mkdir -p "$HOME/.cache/agent" && echo rest >"$HOME/.cache/agent/rest"')
    pin(monkeypatch, unpacks=("--version",))
    path = programs.fetch("agent")
    assert (programs.unpacked("agent") / "agent" / "rest").read_text() == "rest\n"
    assert not (path.parents[2] / "home").exists()


def test_a_program_that_unpacks_nothing_is_not_taken(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, unpacks=("--version",))
    with pytest.raises(FetchFailed, match="did not unpack itself: program --version"):
        programs.fetch("agent")
    assert [*programs.cache_folder().iterdir()] == []


def test_each_program_that_fails_is_named_and_the_others_come(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(monkeypatch, version="9.9.9")
    assert programs.main([]) == 1
    said = capsys.readouterr()
    assert "agent 9.9.9: NOT FETCHED: npm brought 1.2.3" in said.err
    assert said.out.startswith("node 1.2.3: /")


def test_every_pinned_digest_is_a_sha512_and_every_lock_is_its_programs() -> None:
    for program in PROGRAMS.values():
        for package in program.packages.values():
            assert len(base64.b64decode(package.sha512, validate=True)) == 64, package
        if program.lock:
            lock = json.loads((programs.LOCKS / program.lock).read_text())["packages"]
            (package,) = program.packages.values()
            entry = lock[f"node_modules/{package.name}"]
            assert (entry["version"], entry["integrity"]) == (program.version, f"sha512-{package.sha512}")
            assert all(each["integrity"].startswith("sha512-") for name, each in lock.items() if name)
