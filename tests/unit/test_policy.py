"""The snapshot of the last full start: used only while nothing it depends on has changed."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cems.core.paths import Home
from cems.core.policy import RecallPolicy, Snapshot, fingerprint, read_snapshot, write_snapshot

SOURCES = Path(__file__).resolve().parents[2] / "src"
SNAPSHOT = Snapshot(RecallPolicy(token_budget=500, inject="trusted"), {"claude-code": "a.b:AGENT"})


def test_a_snapshot_is_read_back_as_it_was_left(home: Home) -> None:
    write_snapshot(home, "1.0", SNAPSHOT)
    assert read_snapshot(home, "1.0") == SNAPSHOT
    assert stat.S_IMODE((home.root / "snapshot.json").stat().st_mode) == 0o600
    assert [path.name for path in home.root.iterdir() if path.is_file()] == ["snapshot.json"]


def test_without_a_snapshot_there_is_none(home: Home) -> None:
    assert read_snapshot(home, "1.0") is None


def test_another_version_makes_it_void(home: Home) -> None:
    write_snapshot(home, "1.0", SNAPSHOT)
    assert read_snapshot(home, "1.1") is None


@pytest.mark.parametrize("content", ["", "token_budget = 600\n"])
def test_a_changed_file_makes_it_void(home: Home, content: str) -> None:
    home.config.write_text("token_budget = 500\n")
    write_snapshot(home, "1.0", SNAPSHOT)
    home.config.write_text(content)
    assert read_snapshot(home, "1.0") is None


def test_a_removed_file_makes_it_void(home: Home) -> None:
    home.config.write_text("token_budget = 500\n")
    write_snapshot(home, "1.0", SNAPSHOT)
    home.config.unlink()
    assert read_snapshot(home, "1.0") is None


@pytest.mark.parametrize("name", ["CEMS_TOKEN_BUDGET", "CEMS_INJECT"])
def test_a_changed_variable_makes_it_void(home: Home, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "a")
    write_snapshot(home, "1.0", SNAPSHOT)
    assert read_snapshot(home, "1.0") == SNAPSHOT
    monkeypatch.setenv(name, "b")
    assert read_snapshot(home, "1.0") is None
    monkeypatch.delenv(name)
    assert read_snapshot(home, "1.0") is None


def test_a_key_in_the_environment_is_not_looked_at(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(home, "1.0")
    monkeypatch.setenv("CEMS_API_KEY", "secret")
    assert fingerprint(home, "1.0") == before


def test_version_and_file_cannot_be_taken_for_one_another(home: Home) -> None:
    home.config.write_text("0x = 1")
    one = fingerprint(home, "1.")
    home.config.write_text("x = 1")
    assert fingerprint(home, "1.0") != one


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b'{"version": 1}', b"9" * 5_000])
def test_a_damaged_snapshot_is_as_good_as_none(home: Home, content: bytes) -> None:
    (home.root / "snapshot.json").write_bytes(content)
    assert read_snapshot(home, "1.0") is None


@pytest.mark.parametrize(
    "change", [{"version": 99}, {"policy": None}, {"policy": {"unknown": 1}}, {"agents": None}, {"agents": [1]}]
)
def test_a_snapshot_of_another_shape_is_as_good_as_none(home: Home, change: dict[str, object]) -> None:
    write_snapshot(home, "1.0", SNAPSHOT)
    path = home.root / "snapshot.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert read_snapshot(home, "1.0") is None


def test_what_the_first_stage_imports_is_light() -> None:
    heavy = ["pydantic", "lancedb", "numpy", "fastembed", "tomlkit", "pyarrow"]
    modules = ["policy", "paths", "scope", "git_identity", "recall.terms", "recall.lookup", "recall.versions"]
    script = f"import sys\n{''.join(f'import cems.core.{name}{chr(10)}' for name in modules)}print(*(set(sys.modules) & set({heavy})))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True,
        env={"PYTHONPATH": str(SOURCES), "HOME": "/nonexistent"},
    )  # fmt: skip
    assert done.stdout.strip() == ""
