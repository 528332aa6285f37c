"""A disk that is full at any write: a change says so and is not made, nothing acknowledged is lost, reading goes on."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.daemon_nursery import Nursery, Person, cli

from cems.core.paths import Home
from cems.core.service.client import OperationError

SIZE_MIB = 24
PAGES_LEFT = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144)
QUESTION = {"query": "which port does the staging database listen on"}


class Disk:
    """A small file system, and a file that takes up what room is left on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, leave: int) -> None:
        """Take up everything but `leave` bytes."""
        with self._ballast.open("ab", buffering=0) as file:
            for piece in (1 << 20, 1 << 16, 1 << 12):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * piece)
            file.truncate(max(0, file.tell() - leave))

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(session_root: Path, tmp_path: Path, nursery: Nursery) -> Iterator[Disk]:
    folder = session_root / f"disk-{tmp_path.name}"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m,mode=700", "tmpfs", folder],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        folder.rmdir()
        reason = f"a small file system cannot be mounted here ({mounted.stderr.strip()}); root can"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    yield Disk(folder)
    nursery.leave_none()
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


@pytest.fixture
def home(disk: Disk) -> Home:
    made = Home(disk.folder / "h" / ".cems")
    made.create()
    return made


def added(ask: Person, text: str) -> str:
    memory: str = ask("add", {"content": text})["id"]
    return memory


def listed(ask: Person) -> dict[str, str]:
    return {each["id"]: each["content"] for each in ask("list", {"limit": 500})["memories"]}


@pytest.mark.slow
def test_a_full_disk_loses_nothing_and_says_so(home: Home, disk: Disk, nursery: Nursery) -> None:
    ask = nursery.start(home)
    kept = {added(ask, text): text for text in ("The staging database listens on port 5433.", "Logs go to Loki.")}
    refusals: list[OperationError] = []
    for pages in PAGES_LEFT:
        disk.fill(pages * 4096)
        for number in range(200):
            text = f"fact {pages} {number}" + " word" * 300
            try:
                kept[added(ask, text)] = text
            except OperationError as error:
                refusals.append(error)
                break
        else:
            pytest.fail("the disk was never full")
        # What the store made room for meanwhile; then none of the other changes is half made.
        disk.fill(0)
        long = {"content": "word " * 1_500}
        for name, body in (("edit", {"id": next(iter(kept)), **long}), ("add_many", {"items": [long, long]})):
            with pytest.raises(OperationError, match="no space left"):
                ask(name, body)
        assert listed(ask) == kept
        found = ask("search", QUESTION)["memories"]
        assert found[0]["content"] == "The staging database listens on port 5433."
        assert ask("why", {"prompt": QUESTION["query"]})["candidates"]
        disk.free()
        kept[memory_after := added(ask, f"after {pages}")] = f"after {pages}"
        assert listed(ask) == kept
        ask("forget", {"id": memory_after})
        del kept[memory_after]
        if pages in (0, 5, 34, 144):
            assert_all_is_well(ask, kept)
    assert {error.exit_code for error in refusals} == {1}
    for sentence in map(str, refusals):
        assert "no space left" in sentence
        assert "free some and try again" in sentence
        assert "\n" not in sentence
    # A daemon that is killed on a full disk, and the next one.
    disk.fill(0)
    with pytest.raises(OperationError, match="no space left"):
        added(ask, "word " * 2_000)
    nursery.kill()
    disk.free()
    assert_all_is_well(nursery.start(home), kept)


def assert_all_is_well(ask: Person, kept: dict[str, str]) -> None:
    checks = ask.settled()
    assert all(each["ok"] for each in checks.values()), checks
    assert listed(ask) == kept


def test_the_command_line_ends_with_one_line_and_code_1(home: Home, disk: Disk, nursery: Nursery) -> None:
    ask = nursery.start(home)
    added(ask, "Logs go to Loki.")
    disk.fill(0)
    done = cli(home, "add", "word " * 1_500)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "no space left" in done.stderr
    assert "free some and try again" in done.stderr
    doctor = cli(home, "doctor")
    assert doctor.returncode == 1
    assert "make room on the disk" in doctor.stdout
    disk.free()
    assert cli(home, "add", "word " * 1_500).returncode == 0
