"""Which release an index offers, and that nothing but its very bytes is taken."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.release_index import ACCEPTED, ReleaseIndex, serving

from cems.core.config import release_place
from cems.installer.release_index import IndexProblem, fetch, newest


@pytest.fixture
def index() -> Iterator[ReleaseIndex]:
    with serving() as made:
        yield made


def found(index: ReleaseIndex, ours: str = "0.1.0") -> str | None:
    release = newest(index.url, ours)
    return release.version if release else None


def test_the_newest_release_above_ours_is_offered(index: ReleaseIndex, tmp_path: Path) -> None:
    assert found(index) is None
    for version in ("0.2.0", "0.10.0", "0.9.0", "0.1.0"):
        index.publish(version)
    assert found(index) == "0.10.0"
    assert found(index, "0.10.0") is None
    assert found(index, "1.0") is None
    release = newest(index.url, "0.1.0")
    assert release is not None
    path = fetch(release, tmp_path)
    assert (path.name, path.read_bytes()) == ("cems-0.10.0-py3-none-any.whl", b"wheel 0.10.0")


def test_the_index_is_told_nothing_about_the_person(index: ReleaseIndex) -> None:
    found(index)
    [(path, headers)] = index.asked
    assert path == "/simple/cems/"
    sent = {name: value for name, value in headers.items() if name not in ("Host", "Connection", "Accept-Encoding")}
    assert sent == {"Accept": ACCEPTED, "User-Agent": "cems"}


UNUSABLE: tuple[dict[str, Any], ...] = (
    {"version": "0.9.0rc1"},
    {"version": "0.9.0.dev3"},
    {"version": "0.9.0+local"},
    {"version": "0.9.0", "yanked": True},
    {"version": "0.9.0", "yanked": "it loses memories"},
    {"version": "0.9.0", "hashes": {}},
    {"version": "0.9.0", "hashes": {"md5": "0" * 32}},
    {"version": "0.9.0", "hashes": {"sha256": "0" * 63}},
    {"version": "0.9.0", "hashes": None},
    {"version": "0.9.0", "url": None},
    {"version": "0.9.0", "url": 7},
    {"version": "0.9.0", "url": "file:///etc/passwd"},
    {"version": "0.9.0", "url": "http://198.51.100.7/cems-0.9.0-py3-none-any.whl"},
    {"version": "0.9.0", "url": "ftp://127.0.0.1/cems-0.9.0-py3-none-any.whl"},
    {"version": "0.9.0", "url": "https://127.0.0.1/cems-0.9.0-py3-none-any.whl"},
    {"version": "0.9.0", "requires-python": ">=9"},
    {"version": "0.9.0", "requires-python": "a python"},
    {"version": "0.9.0", "name": "cems-0.9.0-cp311-cp311-win_amd64.whl"},
    {"version": "0.9.0", "name": "cems-0.9.0.tar.gz"},
    {"version": "0.9.0", "name": "cems_extra-0.9.0-py3-none-any.whl"},
    {"version": "0.9.0", "name": "../cems-0.9.0-py3-none-any.whl"},
    {"version": "0.9.0", "name": "cems-0.9.0-1/../../x-py3-none-any.whl"},
    {"version": "0.9.0", "url": "http://user:secret@127.0.0.1/cems-0.9.0-py3-none-any.whl"},
    {"version": "0.9.0", "name": "nonsense"},
)


@pytest.mark.parametrize("entry", UNUSABLE)
def test_what_is_no_stable_release_with_a_digest_for_this_machine_is_passed_over(
    index: ReleaseIndex, entry: dict[str, Any]
) -> None:
    index.publish(**entry)
    index.publish("0.2.0")
    assert found(index) == "0.2.0"


@pytest.mark.parametrize("entry", ["x", None, 7, [], {}, {"filename": 3}, {"filename": "cems-0.9.0-py3-none-any.whl"}])
def test_an_entry_of_another_form_is_passed_over(index: ReleaseIndex, entry: Any) -> None:
    index.files.append(entry)
    index.publish("0.2.0")
    assert found(index) == "0.2.0"


def test_other_bytes_than_the_index_has_the_digest_of_are_not_taken(index: ReleaseIndex, tmp_path: Path) -> None:
    index.publish("0.9.0")
    release = newest(index.url, "0.1.0")
    assert release is not None
    index.contents["/files/cems-0.9.0-py3-none-any.whl"] = b"something else"
    with pytest.raises(IndexProblem, match="does not have the digest"):
        fetch(release, tmp_path)
    del index.contents["/files/cems-0.9.0-py3-none-any.whl"]
    with pytest.raises(IndexProblem, match="cannot be fetched"):
        fetch(release, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["http://198.51.100.7/", "file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_a_redirection_leads_nowhere_the_setting_could_not(index: ReleaseIndex, target: str) -> None:
    index.redirects["/simple/cems/"] = target
    with pytest.raises(IndexProblem, match="cannot be read"):
        found(index)


def test_a_redirection_on_this_machine_is_followed(index: ReleaseIndex) -> None:
    index.redirects["/simple/cems/"] = "/moved/cems/"
    index.contents["/moved/cems/"] = index.page()
    assert found(index) is None
    assert [path for path, _ in index.asked] == ["/simple/cems/", "/moved/cems/"]


@pytest.mark.parametrize(
    "page", [b"", b"<html></html>", b"[]", b"{}", b'{"meta": {}}', b'{"meta": {"api-version": "2.0"}}', b"[" * 99_999]
)
def test_a_page_that_is_no_index_is_said_to_be_none(index: ReleaseIndex, page: bytes) -> None:
    index.contents["/simple/cems/"] = page
    with pytest.raises(IndexProblem, match="PEP 691"):
        found(index)


def test_an_answer_that_is_no_http_is_said_to_be_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4_096)
                connection.sendall(b"hello there\r\n\r\n")

        talking = threading.Thread(target=talk)
        talking.start()
        with pytest.raises(IndexProblem, match="cannot be read"):
            newest(f"http://127.0.0.1:{server.getsockname()[1]}/simple", "0.1.0")
        talking.join()


def test_an_index_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "an index" / "cems"
    folder.mkdir(parents=True)
    made = ReleaseIndex()
    made.publish("0.9.0", url="cems-0.9.0-py3-none-any.whl")
    made.server_close()
    (folder / "index.json").write_bytes(made.page())
    (folder / "cems-0.9.0-py3-none-any.whl").write_bytes(b"wheel 0.9.0")
    release = newest((tmp_path / "an index").as_uri(), "0.1.0")
    assert release is not None
    assert fetch(release, tmp_path).read_bytes() == b"wheel 0.9.0"
    with pytest.raises(IndexProblem, match="cannot be read"):
        newest((tmp_path / "nowhere").as_uri(), "0.1.0")
    json.loads(made.page())


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("https://releases.example.org/simple/", True),
        ("file:///srv/simple", True),
        ("http://127.0.0.1:8000/simple", True),
        ("http://localhost/simple", True),
        ("http://[::1]:8000/simple", True),
        ("http://releases.example.org/simple/", False),
        ("http://127.0.0.1.example.org/simple/", False),
        ("http://127.0.0.1@example.org/", False),
        ("file://server/share", False),
        ("ftp://127.0.0.1/simple", False),
        ("releases.example.org", False),
        ("https://", False),
        ("http://[", False),
        ("https://user:secret@releases.example.org/simple/", False),
        ("https://user@releases.example.org/simple/", False),
        ("https://releases example.org/simple/", False),
        ("http://127.0.0.1:999999/simple", False),
    ],
)
def test_where_releases_may_come_from(url: str, fine: bool) -> None:
    assert release_place(url) == fine
