"""The file in which an agent that takes no hook's output looks for context: emptied at every event, and only ever its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.ancestors import Ancestors
from tests.fakes.daemon_home import DaemonHome, copy_package
from tests.unit.test_hook_client import Answering, sending

from cems.core.agent_env import CONTEXT_PID
from cems.core.service.ancestry import nearest
from cems.core.service.context import decode
from cems.core.service.context_file import emptied, path_of, put

PID = "4711"
TO_FILE = b"HTTP/1.1 200 OK\r\nX-Cems: 1\r\nX-Cems-To: file\r\nContent-Length: 5\r\n\r\nblock"
TO_OUTPUT = b"HTTP/1.1 200 OK\r\nX-Cems: 1\r\nContent-Length: 5\r\n\r\nblock"
NAMED = {CONTEXT_PID: PID}
posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes of this kind are not made on Windows")


@pytest.fixture
def place(session_root: Path) -> Iterator[DaemonHome]:
    root = Path(tempfile.mkdtemp(prefix="d", dir=session_root)).resolve()
    made = DaemonHome(root, copy_package(root / "site"))
    yield made
    made.end()


@pytest.fixture
def file(place: DaemonHome) -> Path:
    """The file of the process PID, with an old answer in it."""
    path = Path(path_of(str(place.home.root), int(PID)))
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"what the turn before was given")
    return path


@pytest.fixture
def answering(place: DaemonHome) -> Iterator[Callable[[bytes], Answering]]:
    made: list[Answering] = []

    def make(answer: bytes) -> Answering:
        made.append(Answering(place, sending(answer)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_an_answer_for_the_file_goes_there_and_nowhere_else(
    place: DaemonHome, file: Path, answering: Callable[[bytes], Answering]
) -> None:
    listening = answering(TO_FILE)
    assert place.hook(env=NAMED).silent
    assert file.read_bytes() == b"block"
    header = listening.requests[0].partition(b"X-Cems-Context: ")[2].partition(b"\r\n")[0]
    assert decode(header.decode())["context_pid"] == PID


def test_any_other_answer_is_printed_and_the_file_is_empty(
    place: DaemonHome, file: Path, answering: Callable[[bytes], Answering]
) -> None:
    answering(TO_OUTPUT)
    assert place.hook(env=NAMED).stdout == b"block"
    assert file.read_bytes() == b""


def test_no_answer_leaves_the_file_empty(
    place: DaemonHome, file: Path, answering: Callable[[bytes], Answering]
) -> None:
    answering(b"HTTP/1.1 500 no\r\n\r\n")
    assert place.hook(env=NAMED).silent
    assert file.read_bytes() == b""
    assert len(place.failures()) == 1


@pytest.mark.parametrize("named", ["", "4712", "../run/context-4711", "0x1267", "٤٧١١", "9" * 30, "-1"])
def test_a_process_without_a_file_of_its_own_is_answered_as_ever(
    place: DaemonHome, file: Path, answering: Callable[[bytes], Answering], named: str
) -> None:
    listening = answering(TO_OUTPUT)
    assert place.hook(env={CONTEXT_PID: named}).stdout == b"block"
    assert file.read_bytes() == b"what the turn before was given"
    header = listening.requests[0].partition(b"X-Cems-Context: ")[2].partition(b"\r\n")[0]
    assert "context_pid" not in decode(header.decode())
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_an_answer_for_a_file_that_is_not_there_is_not_printed(
    place: DaemonHome, answering: Callable[[bytes], Answering]
) -> None:
    answering(TO_FILE)
    assert place.hook(env=NAMED).silent


@posix
def test_a_link_is_not_followed_and_a_pipe_not_waited_for(tmp_path: Path) -> None:
    home, precious = str(tmp_path), tmp_path / "precious"
    precious.write_text("mine")
    path = Path(path_of(home, 1))
    path.parent.mkdir()
    path.symlink_to(precious)
    assert emptied(home, "1") == ""
    path.unlink()
    path.hardlink_to(precious)
    assert emptied(home, "1") == ""
    assert precious.read_text() == "mine"
    path.unlink()
    os.mkfifo(path)
    assert emptied(home, "1") == ""
    path.unlink()
    with pytest.raises(FileNotFoundError):
        put(home, "1", b"x")
    assert not path.exists()


@posix
def test_the_nearest_process_of_an_agent_is_found(tmp_path: Path) -> None:
    above = Ancestors(tmp_path / "programs")
    source = str(Path(__file__).parents[2] / "src")
    code = (
        f"import os, sys; sys.path.insert(0, {source!r}); from cems.core.service.ancestry import nearest;"
        "found = nearest(os.getpid(), 'goose'); print(found, os.getppid(), nearest(os.getpid(), 'pi'))"
    )
    command = above.command("goose", "goose", run=[sys.executable, "-c", code])
    found, parent, other = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert found == parent
    assert other == "0"
    assert nearest(0, "goose") == 0
