"""The suite cannot reach the real home: no test can harm the memory of the person who runs it."""

from __future__ import annotations

import contextlib
import os
import pwd
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes import throwaway
from tests.fakes.home_guard import HomeGuard, RealHomeTouched

from cems.core.paths import cems_home

REAL_HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)


def test_the_default_home_cannot_be_made() -> None:
    with pytest.raises(NotADirectoryError, match="a-test-names-its-own-CEMS_HOME"):
        cems_home().create()


def test_home_is_a_throwaway_folder() -> None:
    assert Path.home() != REAL_HOME
    assert Path.home().is_relative_to(os.environ["CEMS_TEST_ROOT"])
    assert cems_home({}).root == Path.home() / ".cems"


@pytest.mark.parametrize("name", [".cems/journal.db", ".claude.json", ".claude/settings.json", ".local/bin/cems"])
def test_opening_a_file_of_ours_or_an_agent_in_the_real_home_raises(name: str, home_guard: HomeGuard) -> None:
    with pytest.raises(RealHomeTouched):
        (REAL_HOME / name).open("rb")
    assert home_guard.violations[-1].endswith(name)


def test_changing_the_real_home_raises(tmp_path: Path, home_guard: HomeGuard) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RealHomeTouched):
        (REAL_HOME / ".cems").mkdir()
    with pytest.raises(RealHomeTouched):
        (tmp_path / "file").rename(REAL_HOME / ".claude.json")
    with pytest.raises(RealHomeTouched):
        sqlite3.connect(REAL_HOME / ".cems" / "journal.db")


def test_code_that_swallows_errors_does_not_swallow_this(home_guard: HomeGuard) -> None:
    def fail_open() -> None:
        with contextlib.suppress(Exception):
            (REAL_HOME / ".cems" / "x").read_text()

    with pytest.raises(RealHomeTouched):
        fail_open()


@pytest.mark.parametrize("environment", [{}, {"HOME": str(REAL_HOME)}])
def test_a_child_process_needs_a_home_that_is_not_the_real_one(
    environment: dict[str, str], home_guard: HomeGuard
) -> None:
    with pytest.raises(RealHomeTouched):
        subprocess.run([sys.executable, "-c", "pass"], env=environment, check=True)


def test_the_repository_may_stand_in_an_agents_folder() -> None:
    guard = HomeGuard(["/home/ada"], Path("/home/ada/.cursor/worktrees/cems"))
    assert guard.protects("/home/ada/.cursor/hooks.json")
    assert not guard.protects("/home/ada/.cursor/worktrees/cems/README.md")
    assert not guard.protects("/home/ada/.claude-notes")


def test_keys_and_agents_variables_are_gone() -> None:
    dirty = {
        "ANTHROPIC_API_KEY": "k",
        "CLAUDECODE": "1",
        "CEMS_GUARD": "1",
        "CEMS_TEST_CACHE": "/cache",
        "CURSOR_TRACE_ID": "t",
        "GIT_DIR": "/elsewhere/.git",
        "OPENAI_BASE_URL": "u",
        "PATH": "/usr/bin",
        "SOME_API_KEY": "k",
        "XDG_CONFIG_HOME": "/home/ada/.config",
    }
    throwaway.clean(dirty)
    assert dirty == {"CEMS_TEST_CACHE": "/cache", "PATH": "/usr/bin"}


def test_what_a_test_starts_is_found_and_ended(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path / "s1"), "PATH": os.environ["PATH"]}
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=environment)
    assert throwaway.processes_under(tmp_path / "s") == {}
    assert list(throwaway.end_processes(tmp_path / "s1")) == [process.pid]
    assert process.wait(5) < 0
    assert throwaway.processes_under(tmp_path / "s1") == {}
