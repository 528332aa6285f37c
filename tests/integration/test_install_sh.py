"""`install.sh` from a clone into an empty home, again, and out again; and what it says where it cannot."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.fakes import throwaway
from tests.fakes.installation import REPOSITORY, copy_tree
from tests.fakes.person import tree
from tests.fakes.sandbox import Result, Sandbox

TOOLS = ("sh", "sed", "dirname", "mktemp", "rm", "mkdir", "chmod", "cat", "tail", "grep", "ls")
AGAIN_SECONDS = 90.0
OURS = (".cems", ".local")


@pytest.fixture
def sandbox(session_root: Path) -> Iterator[Sandbox]:
    """A home whose path has a space and a letter outside ASCII; nothing is installed in it."""
    home = session_root / f"ü {time.monotonic_ns()}"
    home.mkdir()
    environment = throwaway.child_environment(home, session_root / "r")
    made = Sandbox(home, session_root / "r", home / ".local/bin/cems", environment)
    yield made
    made.end()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    copy_tree(tmp_path / "a clone")
    return tmp_path / "a clone"


def _install(sandbox: Sandbox, clone: Path, *options: str, env: Mapping[str, str] | None = None) -> Result:
    return sandbox.run([clone / "install.sh", *options], cwd=clone.parent, env=env, timeout=1200)


def _tools_only(folder: Path) -> Path:
    """A folder for PATH with what the script itself needs, and no Python."""
    folder.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    return folder


def _times(root: Path, *names: str) -> dict[str, int]:
    paths = [path for name in names for path in (root / name, *(root / name).rglob("*"))]
    return {str(path): path.lstat().st_mtime_ns for path in paths}


@pytest.mark.slow
def test_from_a_clone_to_a_memory_and_out_again(sandbox: Sandbox, clone: Path) -> None:
    home = sandbox.home
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_bytes(b'\xef\xbb\xbf{\r\n\t"model": "opus"\r\n}')
    (home / ".claude.json").write_text('{"numStartups":3}')
    before, source = tree(home), tree(clone)

    installed = _install(sandbox, clone).ok()
    assert "4817" in installed.stdout, "the proof shows the block"
    assert tree(clone) == source, "the clone is left clean"
    written = {name.split("/")[0] for name in tree(home)} - {name.split("/")[0] for name in before}
    assert written == set(OURS)
    settings = json.loads((home / ".claude" / "settings.json").read_text("utf-8-sig"))
    hook = settings["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]
    assert not list((home / ".cems").glob("proof-*"))
    assert sandbox.cems("list", "--json").ok().json["memories"] == []

    names = (".claude", ".claude.json", ".local", ".cems/bin", ".cems/install.conf")
    everything, times = tree(home, without=(".cems",)), _times(home, *names)
    again = _install(sandbox, clone).ok()
    assert "nothing was changed" in again.stdout
    assert again.seconds < AGAIN_SECONDS
    assert (tree(home, without=(".cems",)), _times(home, *names)) == (everything, times)

    project = sandbox.project("shop")
    sandbox.cems("add", "The staging database of this shop listens on port 5544.", cwd=project).ok()
    event = {
        "session_id": "s-1",
        "transcript_path": str(home / ".claude/projects/x/s-1.jsonl"),
        "cwd": str(project),
        "hook_event_name": "UserPromptSubmit",
        "prompt": "which port does the staging database of this shop listen on?",
    }
    answer = sandbox.run(
        ["/bin/sh", "-c", hook], input=json.dumps(event), cwd=project, env={"CLAUDECODE": "1", "PATH": "/nowhere"}
    )
    assert "5544" in answer.ok().stdout
    shutil.rmtree(home / "work")

    gone = sandbox.cems("uninstall").ok()
    assert tree(home, without=(".cems",)) == before
    left = {path.name for path in (home / ".cems").iterdir()}
    assert {"journal.db", "keys"} <= left <= {"journal.db", "journal.db-wal", "journal.db-shm", "keys", "config.toml"}
    assert "memories remain" in gone.stdout
    assert sandbox.processes() == {}


def test_without_any_python_it_says_what_to_do(sandbox: Sandbox, clone: Path, tmp_path: Path) -> None:
    result = _install(sandbox, clone, env={"PATH": str(_tools_only(tmp_path / "bin"))})
    assert result.returncode == 1
    assert "no Python 3.11 or newer" in result.stderr
    assert list(sandbox.home.iterdir()) == []


def test_a_python_without_venv_is_named(sandbox: Sandbox, clone: Path, tmp_path: Path) -> None:
    tools = _tools_only(tmp_path / "bin")
    fake = tools / "python3"
    fake.write_text(f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; esac\nexec {sys.executable} "$@"\n')
    fake.chmod(0o755)
    result = _install(sandbox, clone, env={"PATH": str(tools)})
    assert result.returncode == 1
    assert "python3-venv" in result.stderr
    assert list(sandbox.home.iterdir()) == []


def test_without_a_package_index_it_fails_clearly_and_leaves_no_half_environment(sandbox: Sandbox, clone: Path) -> None:
    nowhere = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
        "PIP_RETRIES": "0",
    }
    result = _install(sandbox, clone, env=nowhere)
    assert result.returncode == 1
    assert "Check the network and the package index" in result.stderr
    assert not (sandbox.cems_home / "env").exists()


def test_a_script_alone_is_not_a_checkout(sandbox: Sandbox, tmp_path: Path) -> None:
    shutil.copy2(REPOSITORY / "install.sh", tmp_path / "install.sh")
    result = _install(sandbox, tmp_path)
    assert result.returncode == 1
    assert "not a checkout" in result.stderr


def test_a_folder_called_env_that_is_no_environment_is_not_removed(sandbox: Sandbox, clone: Path) -> None:
    (sandbox.cems_home / "env").mkdir(parents=True)
    (sandbox.cems_home / "env" / "thesis.txt").write_text("years of work")
    result = _install(sandbox, clone)
    assert result.returncode == 1
    assert (sandbox.cems_home / "env" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_every_shell_can_read_it(shell: str, sandbox: Sandbox) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not here")
    sandbox.run([shell, "-n", REPOSITORY / "install.sh"]).ok()
    assert "cems uninstall" in sandbox.run([shell, REPOSITORY / "install.sh", "--help"]).ok().stdout
