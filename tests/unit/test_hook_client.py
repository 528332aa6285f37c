"""The hook process: the daemon's answer or nothing, always exit 0, always within its deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.daemon_home import DaemonHome, copy_package, wait_for

from cems.core.agent_env import GUARD_VARIABLE
from cems.core.service.context import decode
from cems.core.service.endpoint import UNIX, Endpoint

# What a loaded machine may add to a deadline.
MARGIN = 3.0
TOKEN = "ab12" * 16
OK = b"HTTP/1.1 200 OK\r\nX-Cems: 1\r\nContent-Length: 5\r\n\r\n"


@pytest.fixture
def place(session_root: Path) -> Iterator[DaemonHome]:
    root = Path(tempfile.mkdtemp(prefix="d", dir=session_root)).resolve()
    made = DaemonHome(root, copy_package(root / "site"))
    yield made
    made.end()


class Answering:
    """Something that listens where the endpoint file says, and does what a test wants it to."""

    def __init__(self, place: DaemonHome, serve: Callable[[socket.socket], None], deadline: float = 1.0) -> None:
        path = place.runtime_dir / "other.sock"
        self.requests: list[bytes] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        self._serve = serve
        place.home.endpoint.write_bytes(Endpoint(UNIX, str(path), token=TOKEN, deadline=deadline).encode())
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            self.requests.append(read_request(connection))
            self._serve(connection)

    def close(self) -> None:
        self._socket.close()


def read_request(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(1 << 20)
    return head + b"\r\n\r\n" + body


def sending(*parts: bytes, pause: float = 0.0, hold: float = 0.0) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
        time.sleep(hold)

    return serve


@pytest.fixture
def answering(place: DaemonHome) -> Iterator[Callable[..., Answering]]:
    made: list[Answering] = []

    def make(serve: Callable[[socket.socket], None], deadline: float = 1.0) -> Answering:
        made.append(Answering(place, serve, deadline))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_the_daemons_bytes_are_printed_as_they_are(place: DaemonHome, answering: Callable[..., Answering]) -> None:
    answering(sending(b"HTTP/1.1 200 OK\r\nx-cems: 1\r\ncontent-length: 5\r\n\r\n\x00\xff\r\n\x80"))
    result = place.hook(given=b"{}")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"\x00\xff\r\n\x80", b"")
    assert place.failures() == []


def test_an_empty_answer_prints_nothing_and_is_no_failure(
    place: DaemonHome, answering: Callable[..., Answering]
) -> None:
    answering(sending(b"HTTP/1.1 200 OK\r\nX-Cems: 1\r\nContent-Length: 0\r\n\r\n"))
    assert place.hook().silent
    assert place.failures() == []


def test_the_daemon_gets_the_raw_input_and_the_callers_context(
    place: DaemonHome, answering: Callable[..., Answering]
) -> None:
    listening = answering(sending(OK + b"12345"))
    folder = place.root / "a b ü"
    folder.mkdir()
    raw = bytes(range(256)) * 40
    place.hook("cems_stop", raw, cwd=folder, env={"CLAUDECODE": "1", "ANTHROPIC_API_KEY": "secret"})
    head, _, body = listening.requests[0].partition(b"\r\n\r\n")
    assert body == raw
    assert head.startswith(b"POST /hook/cems_stop HTTP/1.1\r\n")
    assert f"Authorization: Bearer {TOKEN}".encode() in head
    context = decode(head.partition(b"X-Cems-Context: ")[2].partition(b"\r\n")[0].decode())
    assert context == {"client": "hook", "version": "0.1.0", "cwd": str(folder), "CLAUDECODE": "1"}


@pytest.mark.parametrize(
    ("serve", "reason"),
    [
        (sending(hold=30), "deadline"),
        (sending(OK, hold=30), "deadline"),
        (sending(OK + b"123", hold=30), "deadline"),
        (sending(OK[:30], hold=30), "deadline"),
        (sending(*(bytes([byte]) for byte in OK + b"12345"), pause=0.2), "deadline"),
        (sending(OK + b"123"), "short-answer"),
        (sending(OK + b"123456789"), "bad-answer"),
        (sending(b"\x00\xff garbage"), "bad-answer"),
        (sending(b"HTTP/1.1 500 Oh\r\nX-Cems: 1\r\nContent-Length: 5\r\n\r\n12345"), "bad-answer"),
        (sending(b"HTTP/1.1 2000 Oh\r\nX-Cems: 1\r\nContent-Length: 5\r\n\r\n12345"), "bad-answer"),
        (sending(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345"), "bad-answer"),
        (sending(b"HTTP/1.1 200 OK\r\nX-Cems: 1\r\n\r\n12345"), "bad-answer"),
        (sending(b"HTTP/1.1 200 OK\r\nX-Cems: 1\r\nContent-Length: -5\r\n\r\n12345"), "bad-answer"),
        (sending(b"HTTP/1.1 200 OK\r\nX-Cems: 1\r\nContent-Length: 999999999\r\n\r\n12345"), "bad-answer"),
        (sending(OK.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n") + b"12345"), "bad-answer"),
        (sending(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20000, hold=30), "bad-answer"),
        (
            sending(b"HTTP/1.1 200 OK\r\nX-Cems: 1\r\nContent-Length: 8000000\r\n\r\n" + b"x" * 8000000),
            "bad-answer",
        ),
    ],
)
def test_whatever_the_daemon_does_the_agent_notices_nothing(
    place: DaemonHome,
    answering: Callable[..., Answering],
    serve: Callable[[socket.socket], None],
    reason: str,
) -> None:
    answering(serve)
    result = place.hook(deadline=0.5)
    assert result.silent, result
    assert result.seconds < 0.5 + MARGIN
    assert place.failures() == [f"cems_user_prompts_submit {reason}"]


def test_the_endpoint_file_says_the_deadline_and_the_environment_overrides_it(
    place: DaemonHome, answering: Callable[..., Answering]
) -> None:
    answering(sending(hold=30), deadline=0.3)
    assert place.hook(deadline=None).seconds < 0.3 + MARGIN
    slower = place.hook(deadline=2.0)
    assert slower.silent
    assert slower.seconds >= 2.0


@pytest.mark.parametrize("value", ["nonsense", "nan", "-1", "", "1e99"])
def test_an_odd_deadline_is_put_right(place: DaemonHome, answering: Callable[..., Answering], value: str) -> None:
    answering(sending(OK + b"12345"), deadline=5.0)
    result = place.hook(deadline=None, env={"CEMS_HOOK_DEADLINE": value})
    # -1 becomes the shortest one, within which there may or may not be an answer.
    assert result.stdout == b"12345" or (value == "-1" and result.silent)


def test_a_stopped_daemon_is_given_up_long_before_the_deadline(place: DaemonHome) -> None:
    daemon = place.daemon()
    assert place.hook(given=b"hello").stdout
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        result = place.hook(deadline=8.0)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    assert result.silent, result
    assert result.seconds < 4.0
    assert place.failures() == ["cems_user_prompts_submit stopped"]
    assert place.hook(given=b"hello").stdout


def test_standard_input_that_never_ends_is_given_up(place: DaemonHome) -> None:
    began = time.monotonic()
    environment = {**place.environment, "CEMS_HOOK_DEADLINE": "0.5"}
    with subprocess.Popen(
        [place.launcher, "cems_stop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as hook:
        assert hook.stdin
        hook.stdin.write(b"{")
        hook.stdin.flush()
        assert hook.wait(30) == 0
        assert hook.stdout
        assert hook.stdout.read() == b""
    assert time.monotonic() - began < 0.5 + MARGIN
    assert place.failures() == ["cems_stop deadline"]


def test_the_deadline_holds_where_the_agent_blocks_its_signal(place: DaemonHome) -> None:
    environment = {**place.environment, "CEMS_HOOK_DEADLINE": "0.5"}
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    try:
        hook = subprocess.Popen(
            [place.launcher, "cems_stop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    with hook:
        assert hook.wait(0.5 + MARGIN) == 0


def test_the_guard_variable_makes_a_hook_do_nothing(place: DaemonHome, answering: Callable[..., Answering]) -> None:
    listening = answering(sending(OK + b"12345"))
    assert place.hook(env={GUARD_VARIABLE: "1"}).silent
    assert listening.requests == []
    assert place.failures() == []


@pytest.mark.parametrize("script", ["", "cems_unknown", "../cems_stop", "cems_stop.py", "cems_ü", "os"])
def test_a_script_nobody_has_is_no_error(place: DaemonHome, script: str) -> None:
    assert place.hook(script).silent
    assert place.failures() == []


def test_closed_output_is_no_error(place: DaemonHome, answering: Callable[..., Answering]) -> None:
    answering(sending(OK + b"12345"))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [place.launcher, "cems_stop"],
        input=b"{}",
        stdout=writing,
        stderr=subprocess.PIPE,
        env=place.environment,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_answer_larger_than_a_pipe_arrives_whole_at_a_slow_reader(
    place: DaemonHome, answering: Callable[..., Answering]
) -> None:
    body = bytes(range(256)) * 3000
    answering(sending(b"HTTP/1.1 200 OK\r\nX-Cems: 1\r\nContent-Length: %d\r\n\r\n" % len(body) + body))
    environment = {**place.environment, "CEMS_HOOK_DEADLINE": "0.5"}
    with subprocess.Popen(
        [place.launcher, "cems_stop"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment
    ) as hook:
        time.sleep(1.5)
        assert hook.stdout
        # Nothing, where the machine was too slow for the deadline; never a part.
        assert hook.stdout.read() in (body, b"")


def test_a_prompt_of_several_megabytes_passes(place: DaemonHome) -> None:
    raw = os.urandom(5_000_000)[:900_000]
    assert place.hook(given=raw).stdout.endswith(raw)
    # The echo of this one would be longer than an answer may be.
    result = place.hook(given=b"x" * 6_000_000)
    assert result.silent, result
    assert place.failures() == ["cems_user_prompts_submit bad-answer"]


def test_input_without_end_is_refused_quietly(place: DaemonHome) -> None:
    result = place.hook(given=b"x" * (17 * 1024 * 1024))
    assert result.silent, result
    assert place.failures() == ["cems_user_prompts_submit input-too-long"]


def test_the_first_hook_starts_the_daemon_and_gets_its_answer(place: DaemonHome) -> None:
    assert not place.home.endpoint.exists()
    assert place.hook("cems_stop", b"hello").stdout == b"cems_stop|0.1.0|hello"
    assert place.pid()
    assert place.failures() == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff",
        b"unix:relative\nab\n1\n",
        b"tcp:10.0.0.1:80\nab\n1\n",
        b"unix:/x\n\n1\n",
        b"x" * 5000,
    ],
)
def test_a_broken_endpoint_file_counts_as_none(place: DaemonHome, content: bytes) -> None:
    place.home.endpoint.write_bytes(content)
    assert place.hook("cems_stop", b"hello").stdout == b"cems_stop|0.1.0|hello"


def test_an_endpoint_nobody_listens_at_counts_as_none(place: DaemonHome) -> None:
    path = place.runtime_dir / "dead.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
    place.home.endpoint.write_bytes(Endpoint(UNIX, str(path), token=TOKEN).encode())
    assert place.hook("cems_stop", b"hello").stdout == b"cems_stop|0.1.0|hello"


def test_a_socket_in_a_folder_others_can_write_to_is_not_trusted(
    place: DaemonHome, answering: Callable[..., Answering]
) -> None:
    listening = answering(sending(OK + b"12345"))
    place.runtime_dir.chmod(0o777)
    assert b"12345" not in place.hook(given=b"private").stdout
    assert listening.requests == []


def test_a_daemon_that_cannot_be_started_is_noticed_by_nobody_but_doctor(place: DaemonHome) -> None:
    (place.package / "cems/core/service/hooks.py").write_text("raise RuntimeError('a broken install')")
    result = place.hook(deadline=1.0)
    assert result.silent, result
    assert place.failures()[0] in ("cems_user_prompts_submit no-daemon", "cems_user_prompts_submit deadline")
    wait_for((place.home.logs / "last-start-failure").exists)
    assert "a broken install" in (place.home.logs / "last-start-failure").read_text()


@pytest.mark.parametrize("name", ["with space", "ü", "it's", 'a "quoted" $HOME `x` \\', "x" * 120])
def test_any_folder_name_works(session_root: Path, name: str) -> None:
    outer = Path(tempfile.mkdtemp(prefix="d", dir=session_root)).resolve()
    root = outer / name
    root.mkdir()
    place = DaemonHome(root, copy_package(root / "site"))
    try:
        assert place.hook("cems_stop", b"hello").stdout == b"cems_stop|0.1.0|hello"
        # Also where the interpreter would take the name for something else.
        assert place.hook("cems_stop", b"x", env={"LC_ALL": "C", "LANG": "C"}).stdout == b"cems_stop|0.1.0|x"
    finally:
        place.end()
        outer.rmdir()


def test_an_interpreter_at_a_path_with_spaces_works(place: DaemonHome) -> None:
    folder = place.root / "an interpreter's ü folder"
    folder.mkdir()
    interpreter = folder / "python"
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    interpreter.chmod(0o700)
    from cems.core.service.launch import launcher_source

    place.launcher.write_bytes(launcher_source(interpreter, place.package, place.home.root, "hook"))
    assert place.hook("cems_stop", b"hello").stdout == b"cems_stop|0.1.0|hello"


def test_twenty_hooks_at_once_start_one_daemon_and_all_get_their_own_answer(place: DaemonHome) -> None:
    environment = {**place.environment, "CEMS_HOOK_DEADLINE": "10"}
    hooks = [
        subprocess.Popen([place.launcher, "cems_stop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        for _ in range(20)
    ]
    answers = [hook.communicate(b"%d" % number, timeout=60)[0] for number, hook in enumerate(hooks)]
    assert answers == [b"cems_stop|0.1.0|%d" % number for number in range(20)]
    wait_for(lambda: len(place.daemons()) == 1)


def test_the_failure_log_is_private_and_stops_growing(place: DaemonHome) -> None:
    place.home.endpoint.write_bytes(Endpoint(UNIX, "/nowhere/x.sock", token=TOKEN).encode())
    (place.package / "cems/core/service/daemon.py").unlink()
    place.hook(deadline=0.1)
    assert place.home.hook_failures.stat().st_mode & 0o777 == 0o600
    place.home.hook_failures.write_bytes(b"1 cems_stop deadline\n" * 3200)
    size = place.home.hook_failures.stat().st_size
    assert place.hook(deadline=0.1).silent
    assert place.home.hook_failures.stat().st_size == size


def test_a_home_that_cannot_be_written_is_no_error(place: DaemonHome) -> None:
    place.home.logs.rmdir()
    place.home.logs.write_text("not a folder")
    assert place.hook(deadline=0.3).silent


def test_the_hook_process_imports_built_ins_only(place: DaemonHome, answering: Callable[..., Answering]) -> None:
    answering(sending(OK + b"12345"))
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "importtime",
            "-IS",
            "-c",
            place.launcher.read_text().partition("\n")[2],
            "cems_stop",
        ],
        input=b"{}",
        capture_output=True,
        env=place.environment,
        check=False,
    )
    assert done.stdout == b"12345"
    imported = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}
    bare = subprocess.run(
        [sys.executable, "-X", "importtime", "-IS", "-c", "pass"],
        capture_output=True,
        env=place.environment,
        check=False,
    )
    imported -= {line.rpartition(b"|")[2].strip().decode() for line in bare.stderr.splitlines()}
    assert {name for name in imported if not name.startswith("cems")} == {"_socket"}
    assert len(imported) <= 9


def test_a_launcher_is_the_same_bytes_each_time() -> None:
    from cems.core.service.launch import launcher_source

    made = [launcher_source(Path("/p/python"), Path("/p/lib"), Path("/h/.cems"), "hook") for _ in range(2)]
    assert made[0] == made[1]
    assert made[0] == (
        b"#!/p/python -IS\nimport sys\nsys.path.append('/p/lib')\n"
        b"from cems.core.service.hook_client import run\nrun('/h/.cems')\n"
    )
