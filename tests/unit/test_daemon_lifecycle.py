"""The daemon's life: one per home, there when needed, gone when not, and never in an agent's way."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.daemon_home import (
    ECHO_HOOKS,
    PATIENCE,
    REPOSITORY,
    SMALL_RUNTIME,
    DaemonHome,
    copy_package,
    wait_for,
)

from cems.core.service.asgi import MAX_BODY
from cems.core.service.client import Client
from cems.core.service.endpoint import TCP, read_endpoint
from cems.core.service.handover import is_newer, may_hand_over
from cems.core.service.launch import allowed
from cems.core.service.lock import DaemonLock, is_locked, lock_holder, process_state
from cems.core.service.logs import read_start_failure

Make = Callable[..., DaemonHome]


@pytest.fixture
def make_place(session_root: Path) -> Iterator[Make]:
    made: list[DaemonHome] = []

    def make(hooks: str = ECHO_HOOKS, runtime: str = SMALL_RUNTIME) -> DaemonHome:
        root = Path(tempfile.mkdtemp(prefix="d", dir=session_root)).resolve()
        made.append(DaemonHome(root, copy_package(root / "site", hooks=hooks, runtime=runtime)))
        return made[-1]

    yield make
    for place in made:
        place.end()


@pytest.fixture
def place(make_place: Make) -> DaemonHome:
    return make_place()


def state(place: DaemonHome) -> str:
    health = Client(place.home).health()
    return str(health["state"]) if health else "absent"


def test_of_many_daemons_started_at_once_one_remains(place: DaemonHome) -> None:
    started = [place.spawn() for _ in range(6)]
    wait_for(lambda: sum(process.poll() is None for process in started) == 1)
    survivor = next(process for process in started if process.poll() is None)
    assert all(process.returncode == 0 for process in started if process is not survivor)
    wait_for(lambda: place.pid() == survivor.pid)
    assert place.hook(given=b"x").stdout


def test_a_daemon_that_was_killed_is_replaced_by_the_next_hook(place: DaemonHome) -> None:
    first = place.daemon()
    first.kill()
    first.wait()
    # What it left behind leads nowhere, and the lock is the kernel's.
    assert place.home.endpoint.exists()
    assert place.hook("cems_stop", b"x").stdout == b"cems_stop|0.1.0|x"
    assert place.pid() not in (None, first.pid)


def test_what_the_daemon_makes_is_for_its_owner_only(place: DaemonHome) -> None:
    daemon = place.daemon()
    wait_for(lambda: state(place) == "ready")
    endpoint = place.endpoint()
    assert endpoint
    paths = [path for path in place.home.root.rglob("*") if path != place.launcher]
    for path in [*paths, Path(endpoint.path)]:
        assert path.lstat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    daemon.terminate()
    assert daemon.wait(PATIENCE) == 0


def test_a_daemon_started_by_a_hook_inherits_nothing(place: DaemonHome) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    folder = place.root / "project"
    folder.mkdir()
    secrets = {
        "ANTHROPIC_API_KEY": "s",
        "CEMS_API_KEY": "s",
        "CEMS_CREDENTIALS_FILE": "s",
        "CEMS_X_TOKEN": "s",
        "CLAUDECODE": "1",
        "LD_PRELOAD": "",
        "PYTHONPATH": str(folder),
        "CEMS_LOG_LEVEL": "debug",
        "CEMS_HOOK_DEADLINE": "10",
    }
    subprocess.run(
        [place.launcher, "cems_stop"],
        input=b"{}",
        env={**place.environment, **secrets},
        cwd=folder,
        close_fds=False,
        stdout=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    pid = place.pid()
    assert pid
    # Were the pipe still open in the daemon, this would wait for ever.
    assert os.read(reading, 1) == b""
    os.close(reading)
    answer = Client(place.home).call("environment", {})
    assert answer["environment"]["CEMS_HOME"] == str(place.home.root)
    assert answer["environment"]["CEMS_LOG_LEVEL"] == "debug"
    assert not set(answer["environment"]) & {*list(secrets)[:7], "CEMS_GUARD"}
    assert os.getsid(pid) == pid
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert {Path(f"/proc/{pid}/fd/{number}").readlink() for number in range(3)} == {Path("/dev/null")}


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("PATH", True),
        ("LC_ALL", True),
        ("XDG_RUNTIME_DIR", True),
        ("CEMS_IDLE_SECONDS", True),
        ("CEMS_API_URL", True),
        ("CEMS_API_KEY", False),
        ("CEMS_GUARD", False),
        ("CEMS_CREDENTIALS", False),
        ("CEMS_LLM_TOKEN", False),
        ("ANTHROPIC_API_KEY", False),
        ("CLAUDECODE", False),
        ("PYTHONPATH", False),
        ("LD_LIBRARY_PATH", False),
        ("GITHUB_TOKEN", False),
    ],
)
def test_the_daemons_environment_is_an_allow_list(name: str, passes: bool) -> None:
    assert allowed(name) is passes


def test_hooks_are_answered_before_the_second_stage_is_there(place: DaemonHome) -> None:
    place.daemon(CEMS_SLOW_START="4")
    assert place.hook("cems_stop", b"x").stdout == b"cems_stop|0.1.0|x"
    assert state(place) == "keyword"
    # Others wait for it.
    assert Client(place.home).call("status", {}, timeout=PATIENCE)["path"] == "/v1/status"
    assert state(place) == "ready"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_requests_finish_and_ends_cleanly(place: DaemonHome, number: int) -> None:
    daemon = place.daemon()
    wait_for(lambda: state(place) == "ready")
    with subprocess.Popen(
        [place.launcher, "cems_stop"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**place.environment, "CEMS_HOOK_DEADLINE": "10"},
    ) as hook:
        assert hook.stdin
        assert hook.stdout
        hook.stdin.write(b"sleep1.5")
        hook.stdin.close()
        time.sleep(0.7)
        daemon.send_signal(number)
        assert hook.stdout.read() == b"cems_stop|0.1.0|sleep1.5"
    assert daemon.wait(PATIENCE) == 0
    assert (place.home.root / "closed").exists()
    assert not place.home.endpoint.exists()
    assert not is_locked(place.home.lock)


def test_a_daemon_that_is_asked_to_leave_while_it_loads_leaves(place: DaemonHome) -> None:
    daemon = place.daemon(CEMS_SLOW_START="60")
    daemon.terminate()
    assert daemon.wait(PATIENCE) == 0
    assert read_start_failure(place.home) is None


def test_an_idle_daemon_leaves_and_a_busy_one_stays(place: DaemonHome) -> None:
    (place.home.root / "busy").touch()
    daemon = place.daemon(CEMS_IDLE_SECONDS="0.5")
    time.sleep(3)
    assert daemon.poll() is None
    (place.home.root / "busy").unlink()
    assert daemon.wait(PATIENCE) == 0
    assert not place.home.endpoint.exists()


def test_a_daemon_with_a_running_request_is_not_idle(place: DaemonHome) -> None:
    daemon = place.daemon(CEMS_IDLE_SECONDS="0.5")
    assert place.hook("cems_stop", b"sleep2.5").stdout == b"cems_stop|0.1.0|sleep2.5"
    assert daemon.wait(PATIENCE) == 0


def test_a_removed_socket_is_replaced(place: DaemonHome) -> None:
    daemon = place.daemon(CEMS_IDLE_SECONDS="4")
    endpoint = place.endpoint()
    assert endpoint
    Path(endpoint.path).unlink()
    assert daemon.wait(PATIENCE) == 0
    assert place.hook("cems_stop", b"x").stdout == b"cems_stop|0.1.0|x"


def test_a_removed_endpoint_file_is_written_again(place: DaemonHome) -> None:
    place.daemon(CEMS_IDLE_SECONDS="4")
    written = place.home.endpoint.read_bytes()
    place.home.endpoint.unlink()
    wait_for(place.home.endpoint.exists)
    assert place.home.endpoint.read_bytes() == written


def test_a_daemon_whose_home_was_removed_leaves_and_makes_nothing_new(place: DaemonHome) -> None:
    daemon = place.daemon(CEMS_IDLE_SECONDS="4")
    moved = place.root / "moved"
    place.home.root.rename(moved)
    assert daemon.wait(PATIENCE) == 0
    assert not place.home.root.exists()


def test_a_higher_version_takes_over_and_a_lower_one_never(place: DaemonHome) -> None:
    old = place.daemon()
    newer = copy_package(place.root / "newer", version="0.10.0")
    place.install(newer)
    # Answered by the old one, which then makes way.
    assert place.hook("cems_stop", b"x").stdout == b"cems_stop|0.1.0|x"
    assert old.wait(PATIENCE) == 0
    wait_for(lambda: place.hook("cems_stop", b"x").stdout == b"cems_stop|0.10.0|x")
    pid = place.pid()
    place.install(copy_package(place.root / "older", version="0.9.9"))
    for _ in range(3):
        assert place.hook("cems_stop", b"x").stdout == b"cems_stop|0.10.0|x"
    time.sleep(1)
    assert place.pid() == pid
    assert len(place.daemons()) == 1


def test_no_hook_goes_unanswered_during_a_handover(place: DaemonHome) -> None:
    place.daemon()
    place.install(copy_package(place.root / "newer", version="0.2.0"))
    answers = [place.hook("cems_stop", b"%d" % number).stdout for number in range(25)]
    assert all(answer.endswith(b"|%d" % number) for number, answer in enumerate(answers)), answers
    wait_for(lambda: place.hook("cems_stop", b"x").stdout == b"cems_stop|0.2.0|x")
    assert place.failures() == []


def test_two_installs_cannot_take_turns_for_ever(place: DaemonHome) -> None:
    newer = copy_package(place.root / "newer", version="0.2.0")
    pids = set()
    for _ in range(4):
        # The launcher is the old install's; another program of the new one asks.
        place.hook("cems_stop", b"x")
        pids.add(place.pid())
        subject = DaemonHome.__new__(DaemonHome)
        subject.__dict__.update(place.__dict__, package=newer)
        subject.python("from cems.core.service.client import Client; Client(home).call('status', {})")
        time.sleep(1.5)
        wait_for(lambda: place.pid() is not None)
        pids.add(place.pid())
    assert len(pids) <= 3
    assert "take turns" in place.log()


def test_the_budget_of_handovers_renews(place: DaemonHome, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [may_hand_over(place.home) for _ in range(3)] == [True, True, False]
    later = time.time() + 601
    monkeypatch.setattr(time, "time", lambda: later)
    assert may_hand_over(place.home)


@pytest.mark.parametrize(
    ("theirs", "ours", "newer"),
    [
        ("0.2.0", "0.1.0", True),
        ("0.10.0", "0.9.0", True),
        ("1", "0.9", True),
        ("0.1.0", "0.1.0", False),
        ("0.1", "0.1.0", False),
        ("0.0.9", "0.1.0", False),
        ("0.1.0rc1", "0.1.0", False),
        ("", "0.1.0", False),
        ("nonsense", "0.1.0", False),
        ("9" * 5000, "0.1.0", True),
    ],
)
def test_versions_are_compared_by_numbers(theirs: str, ours: str, newer: bool) -> None:
    assert is_newer(theirs, ours) is newer


def test_a_successor_waits_for_the_lock(place: DaemonHome) -> None:
    first = place.daemon()
    successor = place.spawn("--wait-lock", "20")
    time.sleep(1)
    assert successor.poll() is None
    first.terminate()
    assert first.wait(PATIENCE) == 0
    wait_for(lambda: place.pid() == successor.pid)
    assert place.hook(given=b"x").stdout


def test_a_first_stage_that_fails_leaves_its_reason(make_place: Make) -> None:
    place = make_place(hooks="import no_such_module")
    daemon = place.spawn()
    assert daemon.wait(PATIENCE) == 1
    failure = read_start_failure(place.home)
    assert failure is not None
    assert failure[1] == "ModuleNotFoundError: No module named 'no_such_module'"
    assert "no_such_module" in place.log()
    assert not place.home.endpoint.exists()


def test_hooks_go_on_when_the_second_stage_fails(make_place: Make) -> None:
    place = make_place(runtime="raise OSError('the store is\\nbroken')")
    place.daemon()
    wait_for(lambda: state(place) == "broken")
    assert place.hook("cems_stop", b"x").stdout == b"cems_stop|0.1.0|x"
    failure = read_start_failure(place.home)
    assert failure is not None
    assert failure[1] == "OSError: the store is broken"
    status, answer = ask(place, "POST", "/v1/status")
    assert status == 500
    error = json.loads(answer)["error"]
    assert (error["code"], error["exit"]) == ("broken", 1)
    assert "the store is broken" in error["message"]
    assert "\n" not in error["message"]


def test_a_daemon_that_dies_while_loading_says_so_and_is_not_started_for_ever(make_place: Make) -> None:
    place = make_place(runtime="import os; os.abort()")
    for deaths in (1, 2, 3):
        place.spawn().wait(PATIENCE)
        failure = read_start_failure(place.home)
        assert failure is not None
        assert failure[1] == f"the daemon died while it loaded its store and model ({deaths})"
    place.daemon()
    wait_for(lambda: state(place) == "broken")
    assert place.hook("cems_stop", b"x").stdout == b"cems_stop|0.1.0|x"


def test_after_a_stop_that_was_asked_for_the_second_stage_is_tried_again(make_place: Make) -> None:
    place = make_place(runtime="import os; os.abort()")
    for _ in range(3):
        place.spawn().wait(PATIENCE)
    daemon = place.daemon()
    wait_for(lambda: state(place) == "broken")
    daemon.terminate()
    assert daemon.wait(PATIENCE) == 0
    assert read_start_failure(place.home) is None


def test_a_start_that_works_forgets_why_an_earlier_one_did_not(place: DaemonHome) -> None:
    (place.home.logs / "last-start-failure").write_text("1 something\n")
    place.daemon()
    wait_for(lambda: state(place) == "ready")
    assert read_start_failure(place.home) is None


def test_a_hook_that_fails_answers_nothing_and_quotes_nothing(place: DaemonHome) -> None:
    place.daemon()
    wait_for(lambda: state(place) == "ready")
    assert place.hook(given=b"fail: my password is hunter2").silent
    assert place.failures() == []
    status, answer = ask(place, "POST", "/v1/fail")
    assert status == 500
    assert b"ValueError" in answer
    assert "ValueError" in place.log()
    for secret in ("hunter2", "a secret prompt", "a secret memory"):
        assert secret not in place.log()
        assert secret.encode() not in answer


def ask(
    place: DaemonHome, method: str, path: str, body: bytes = b"{}", headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """A request as any program could send it; on TCP with the token, unless `headers` has another one."""
    endpoint = place.endpoint()
    assert endpoint
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=PATIENCE)
    if endpoint.kind != TCP:
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(PATIENCE)
        connection.sock.connect(endpoint.path)
    try:
        sent = {"Authorization": f"Bearer {endpoint.token}"} | (headers or {})
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:99"}, 200),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer " + "0" * 64}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:80"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
@pytest.mark.parametrize("path", ["/v1/status", "/hook/cems_stop"])
def test_on_tcp_only_a_local_caller_with_the_token_is_answered(
    tcp_place: DaemonHome, path: str, headers: dict[str, str], status: int
) -> None:
    assert ask(tcp_place, "POST", path, headers=headers)[0] == status


@pytest.fixture(scope="module")
def tcp_place(session_root: Path) -> Iterator[DaemonHome]:
    root = Path(tempfile.mkdtemp(prefix="d", dir=session_root)).resolve()
    place = DaemonHome(root, copy_package(root / "site"))
    place.daemon("--tcp")
    yield place
    place.end()


def test_a_hook_works_over_tcp(tcp_place: DaemonHome) -> None:
    found = read_endpoint(tcp_place.home.endpoint)
    assert found is not None
    assert found.kind == TCP
    assert tcp_place.hook("cems_stop", b"x").stdout == b"cems_stop|0.1.0|x"
    assert Client(tcp_place.home).call("status", {})["path"] == "/v1/status"


def test_a_body_over_the_limit_is_refused(tcp_place: DaemonHome) -> None:
    for path in ("/v1/status", "/hook/cems_stop"):
        status, _ = ask(tcp_place, "POST", path, b"", {"Content-Length": str(MAX_BODY + 1)})
        assert status == 413


@pytest.mark.parametrize("path", ["/hook/", "/hook/cems_..", "/hook/x", "/hook/cems_stop/x", "/hook/CEMS_STOP"])
def test_an_odd_script_name_reaches_no_hook(tcp_place: DaemonHome, path: str) -> None:
    _, answer = ask(tcp_place, "POST", path, b"hello")
    assert b"hello" not in answer


def test_the_lock_knows_its_holder_and_no_one_else(place: DaemonHome) -> None:
    lock = place.home.lock
    assert lock_holder(lock) is None
    mine = DaemonLock(lock)
    assert mine.acquire()
    assert lock_holder(lock) == os.getpid()
    assert not DaemonLock(lock).acquire()
    # A number in a file proves nothing.
    lock.write_text(f"{os.getppid()} 1\n")
    assert is_locked(lock)
    assert lock_holder(lock) is None
    mine.release()
    assert not is_locked(lock)


def test_a_zombies_state_is_told() -> None:
    child = subprocess.Popen(["/bin/true"])
    wait_for(lambda: process_state(child.pid) == "Z")
    child.wait()
    assert process_state(child.pid) == ""


@pytest.mark.slow
def test_the_real_hooks_and_second_stage_live_in_it(session_root: Path) -> None:
    root = Path(tempfile.mkdtemp(prefix="d", dir=session_root)).resolve()
    place = DaemonHome(root, REPOSITORY / "src")
    try:
        event = {"hook_event_name": "UserPromptSubmit", "prompt": "hello", "session_id": "s", "cwd": str(root)}
        result = place.hook(given=json.dumps(event).encode(), env={"CLAUDECODE": "1"})
        assert result.silent, result
        status = Client(place.home).call("status", {}, timeout=120)
        assert status["daemon"]["pid"] == place.pid()
        assert state(place) == "ready"
        assert "hello" not in place.log()
        assert place.failures() == []
    finally:
        place.end()
