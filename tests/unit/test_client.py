"""The client of the CLI: it finds, starts, waits for and stops the daemon, and says plainly what is wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.daemon_home import ECHO_HOOKS, PATIENCE, SMALL_RUNTIME, DaemonHome, copy_package, wait_for

from cems.core.service.client import (
    Client,
    DaemonUnreachable,
    OperationError,
    cli_context,
    daemon_pid,
    is_running,
    stop_daemon,
)
from cems.core.service.context import decode, encode

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


def test_a_call_starts_the_daemon_and_waits_for_it(place: DaemonHome) -> None:
    done = place.python(
        "from cems.core.service.client import Client; print(Client(home).call('status', {'a': 1})['path'])",
        CEMS_SLOW_START="1",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "/v1/status\n", "")
    assert is_running(place.home)


def test_a_call_that_may_not_start_the_daemon_says_what_to_do(place: DaemonHome) -> None:
    with pytest.raises(DaemonUnreachable) as raised:
        Client(place.home).call("status", {}, start=False)
    assert raised.value.exit_code == 5
    assert "`cems daemon start`" in str(raised.value)
    assert "`cems daemon logs`" in str(raised.value)
    assert not place.home.endpoint.exists()


def test_a_daemon_that_cannot_start_is_reported_with_its_reason(make_place: Make) -> None:
    place = make_place(hooks="raise OSError('no space left')")
    code = (
        "from cems.core.service.client import *\n"
        "try: Client(home).call('status', {}, timeout=4)\n"
        "except DaemonUnreachable as problem: print(problem)"
    )
    done = place.python(code)
    assert "no space left" in done.stdout, done
    assert "\n" not in done.stdout.strip()


def test_what_the_daemon_refuses_is_passed_on(place: DaemonHome) -> None:
    place.daemon()
    with pytest.raises(OperationError) as raised:
        Client(place.home).call("refuse", {})
    assert (raised.value.code, str(raised.value), raised.value.exit_code) == (
        "tombstone",
        "It was forgotten.",
        4,
    )
    with pytest.raises(OperationError) as raised:
        Client(place.home).call("fail", {})
    assert (raised.value.code, raised.value.exit_code) == ("internal", 1)


def test_a_broken_second_stage_is_an_error_at_once(make_place: Make) -> None:
    place = make_place(runtime="raise OSError('the store is broken')")
    place.daemon()
    with pytest.raises(OperationError, match="the store is broken") as raised:
        Client(place.home).call("status", {})
    assert raised.value.code == "broken"


def test_a_call_has_one_time_limit(place: DaemonHome) -> None:
    place.daemon()
    began = time.monotonic()
    with pytest.raises(DaemonUnreachable, match="did not answer within 1 seconds"):
        Client(place.home).call("hang", {}, timeout=1)
    assert time.monotonic() - began < PATIENCE


def test_a_stopped_daemon_is_named_at_once(place: DaemonHome) -> None:
    daemon = place.daemon()
    os.kill(daemon.pid, signal.SIGSTOP)
    wait_for(lambda: Path(f"/proc/{daemon.pid}/stat").read_text().split()[2] == "T")
    began = time.monotonic()
    with pytest.raises(DaemonUnreachable, match=f"pid {daemon.pid}"):
        Client(place.home).call("status", {})
    assert time.monotonic() - began < 10
    assert Client(place.home).health(timeout=0.3) is None
    assert stop_daemon(place.home, timeout=1)
    assert daemon.wait(PATIENCE) in (0, -signal.SIGKILL)
    assert not is_running(place.home)


def test_health_is_told_while_the_second_stage_loads(place: DaemonHome) -> None:
    assert Client(place.home).health() is None
    daemon = place.daemon(CEMS_SLOW_START="60")
    health = Client(place.home).health()
    assert health is not None
    assert (health["pid"], health["version"], health["state"]) == (daemon.pid, "0.1.0", "keyword")
    assert daemon_pid(place.home) == daemon.pid


def test_stopping_is_polite_first(place: DaemonHome) -> None:
    assert stop_daemon(place.home) is False
    daemon = place.daemon()
    wait_for(lambda: (Client(place.home).health() or {}).get("state") == "ready")
    assert stop_daemon(place.home)
    assert daemon.wait(PATIENCE) == 0
    assert (place.home.root / "closed").exists()
    assert not is_running(place.home)
    assert daemon_pid(place.home) is None


def test_a_daemon_that_cannot_be_asked_is_told(place: DaemonHome) -> None:
    daemon = place.daemon()
    # Its answer to the request would never come; the signal reaches it all the same.
    place.home.endpoint.unlink()
    assert stop_daemon(place.home, timeout=1)
    assert daemon.wait(PATIENCE) == 0


def test_what_is_not_proven_to_be_ours_is_never_killed(place: DaemonHome) -> None:
    bystander = subprocess.Popen(["/bin/sleep", "60"])
    code = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'r+'); fcntl.flock(file, fcntl.LOCK_EX); "
        "print('locked', flush=True); time.sleep(60)"
    )
    # Some process holds the lock, and the file names another, as a stale or forged one would.
    place.home.lock.write_text(f"{bystander.pid} 12345\n")
    holder = subprocess.Popen(
        [sys.executable, "-c", code, place.home.lock], stdout=subprocess.PIPE, env=place.environment
    )
    try:
        assert holder.stdout
        holder.stdout.readline()
        assert is_running(place.home)
        assert daemon_pid(place.home) is None
        with pytest.raises(DaemonUnreachable, match="does not stop"):
            stop_daemon(place.home, timeout=0.2)
        assert bystander.poll() is None
        assert holder.poll() is None
    finally:
        for process in (holder, bystander):
            process.kill()
            process.communicate()


def test_something_else_at_the_address_is_not_believed(place: DaemonHome) -> None:
    place.daemon()
    client = Client(place.home)
    assert client.call("status", {})["path"] == "/v1/status"
    place.runtime_dir.chmod(0o755)
    with pytest.raises(DaemonUnreachable):
        client.call("status", {}, start=False)


def test_the_context_says_where_the_caller_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "ü b"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    context = cli_context()
    assert context["cwd"] == str(folder)
    assert context["client"] == "cli"
    assert context["CLAUDECODE"] == "1"
    assert "secret" not in context.values()
    assert decode(encode(context)) == context


def test_a_folder_that_was_removed_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert "cwd" not in cli_context()
