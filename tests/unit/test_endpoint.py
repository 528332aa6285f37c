"""The endpoint file and the socket it names: only ours, only local, only for us."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cems.core.paths import Home
from cems.core.service.endpoint import (
    TCP,
    UNIX,
    Endpoint,
    bounded_deadline,
    parse_endpoint,
    read_endpoint,
)
from cems.core.service.listening import Listener, choose_socket_path, is_private_folder


@pytest.fixture
def home(session_root: Path) -> Home:
    made = Home(Path(tempfile.mkdtemp(prefix="e", dir=session_root)) / ".cems")
    made.create()
    return made


@given(
    path=st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), min_size=1, max_size=60),
    token=st.text("0123456789abcdef", min_size=1, max_size=64),
    deadline=st.floats(0.05, 10),
)
def test_what_is_written_is_read_back(path: str, token: str, deadline: float) -> None:
    found = parse_endpoint(Endpoint(UNIX, path=f"/{path}", token=token, deadline=deadline).encode())
    assert found is not None
    assert (found.kind, found.path, found.token) == (UNIX, f"/{path}", token)
    assert found.deadline == pytest.approx(deadline, rel=1e-3)


def test_a_port_is_read_back() -> None:
    found = parse_endpoint(Endpoint(TCP, port=65535, token="ab").encode())
    assert found is not None
    assert (found.kind, found.port, found.token, found.deadline) == (TCP, 65535, "ab", 1.0)


@given(st.binary(max_size=2000))
def test_no_bytes_raise(raw: bytes) -> None:
    parse_endpoint(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"unix:/x",
        b"unix:/x\nab",
        b"unix:x\nab\n1\n",
        b"unix:/x\n\n1\n",
        b"unix:/x\na b\n1\n",
        b"unix:/x\nab\r\n1\n",
        b"unix:/a\0b\nab\n1\n",
        b"tcp:127.0.0.1:0\nab\n1\n",
        b"tcp:127.0.0.1:65536\nab\n1\n",
        b"tcp:127.0.0.1:99999999999999999999\nab\n1\n",
        b"tcp:127.0.0.1:\xc2\xb2\nab\n1\n",
        b"tcp:127.0.0.2:80\nab\n1\n",
        b"tcp:localhost:80\nab\n1\n",
        b"tcp:evil.example:80\nab\n1\n",
        b"http:127.0.0.1:80\nab\n1\n",
        b"unix:/" + b"x" * 2000 + b"\nab\n1\n",
    ],
)
def test_what_no_daemon_of_ours_writes_is_refused(raw: bytes) -> None:
    assert parse_endpoint(raw) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0.5", 0.5), ("0", 0.05), ("-1", 0.05), ("99", 10), ("inf", 10), ("nan", 7), ("x", 7), ("", 7)],
)
def test_a_deadline_stays_within_its_bounds(text: str, seconds: float) -> None:
    assert bounded_deadline(text, 7) == seconds


def test_a_missing_file_is_no_endpoint(home: Home) -> None:
    assert read_endpoint(home.endpoint) is None


def test_the_socket_lives_in_the_runtime_folder(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home.root / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    chosen = choose_socket_path(home.root)
    assert chosen.parent == folder
    assert chosen == choose_socket_path(home.root)
    assert chosen != choose_socket_path(home.root / "other")


@pytest.mark.parametrize("kind", ["none", "relative", "open to others", "a link", "too long"])
def test_without_a_good_runtime_folder_it_lives_in_one_of_its_own(
    home: Home, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = home.root / ("long" * 30 if kind == "too long" else "run")
    folder.mkdir(mode=0o755 if kind == "open to others" else 0o700)
    if kind == "a link":
        link = home.root / "link"
        link.symlink_to(folder)
        folder = link
    value = {"none": "", "relative": "run"}.get(kind, str(folder))
    monkeypatch.setenv("XDG_RUNTIME_DIR", value)
    chosen = choose_socket_path(home.root)
    try:
        assert folder not in chosen.parents
        assert chosen.is_absolute()
        assert is_private_folder(chosen.parent)
        assert len(os.fsencode(chosen)) < 100
    finally:
        chosen.parent.rmdir()


def test_a_folder_somebody_else_prepared_is_not_used(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    expected = choose_socket_path(home.root).parent
    expected.rmdir()
    # As a stranger would: a link, or a folder that others can enter.
    elsewhere = home.root / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    expected.symlink_to(elsewhere)
    chosen = choose_socket_path(home.root)
    try:
        assert chosen.parent != expected
        assert is_private_folder(chosen.parent)
    finally:
        expected.unlink()
        chosen.parent.rmdir()


def test_a_listener_is_private_and_takes_back_what_it_published(home: Home) -> None:
    listener = Listener(home, tcp=False)
    path = Path(listener.endpoint.path)
    assert path.lstat().st_mode & 0o777 == 0o600
    assert home.endpoint.stat().st_mode & 0o777 == 0o600
    found = read_endpoint(home.endpoint)
    assert found is not None
    assert (found.path, found.token) == (str(path), listener.endpoint.token)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(path))
    assert listener.is_published()
    assert listener.is_reachable()
    listener.close()
    assert not home.endpoint.exists()
    assert not path.exists()


def test_a_listener_leaves_its_successors_endpoint_alone(home: Home) -> None:
    listener = Listener(home, tcp=False)
    successor = Endpoint(UNIX, "/elsewhere/x.sock", token="cd")
    home.endpoint.write_bytes(successor.encode())
    assert not listener.is_published()
    listener.close()
    assert home.endpoint.read_bytes() == successor.encode()


def test_a_listener_notices_that_its_socket_is_gone(home: Home) -> None:
    listener = Listener(home, tcp=False)
    path = Path(listener.endpoint.path)
    path.unlink()
    assert not listener.is_reachable()
    path.touch()
    assert not listener.is_reachable()
    listener.close()
    # It is not ours.
    assert path.exists()
    path.unlink()


def test_on_tcp_only_this_machine_is_listened_to(home: Home) -> None:
    listener = Listener(home, tcp=True)
    assert listener.socket.getsockname()[0] == "127.0.0.1"
    found = read_endpoint(home.endpoint)
    assert found is not None
    assert (found.kind, found.port) == (TCP, listener.socket.getsockname()[1])
    assert len(found.token) == 64
    listener.close()
    assert not home.endpoint.exists()
