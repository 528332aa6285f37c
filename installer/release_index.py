"""A release index in the simple repository's JSON form (PEP 691): the newest release of CEMS in it, and its wheel.

Only what the person's own setting names is asked, and nothing is said about them or this machine.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import platform
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from cems.core.config import release_place

PROJECT = "cems"
_ACCEPT = "application/vnd.pypi.simple.v1+json"
_SECONDS = 30.0
_MOST_PAGE = 16 << 20
_MOST_WHEEL = 512 << 20
_PIECE = 1 << 16
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FILENAME = re.compile(r"[\w.+!-]+", re.ASCII)
_UNREADABLE = (OSError, http.client.HTTPException)


class IndexProblem(Exception):
    """The index, or a file of it, cannot be used; the message is a sentence for the person."""


@dataclass(frozen=True, slots=True)
class Release:
    """One wheel: its version, where it is, and the SHA-256 (hex) that the index gives for it."""

    version: str
    filename: str
    url: str
    digest: str


def newest(index: str, ours: str) -> Release | None:
    """The newest release above `ours` that this Python can run: stable, not yanked, with a digest. Raises IndexProblem."""
    url = f"{index.rstrip('/')}/{PROJECT}/"
    page = f"{url}index.json" if urlsplit(url).scheme == "file" else url
    found = [(Version(release.version), release) for release in _releases(page, _page(page))]
    above = [(version, release) for version, release in found if version > Version(ours)]
    return max(above, key=lambda pair: pair[0])[1] if above else None


def fetch(release: Release, folder: Path) -> Path:
    """The release's wheel, in `folder`, once its bytes have the digest. Raises IndexProblem, and leaves no file then."""
    path = folder / release.filename
    digest, size = hashlib.sha256(), 0
    try:
        with _opened(release.url) as answer, path.open("xb") as file:
            while piece := answer.read(_PIECE):
                size += len(piece)
                if size > _MOST_WHEEL:
                    raise IndexProblem(f"{release.url} is larger than {_MOST_WHEEL >> 20} MiB and was not taken")
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != release.digest:
            raise IndexProblem(
                f"{release.url} does not have the digest that the index gives for it; nothing was installed"
            )
    except BaseException as problem:
        path.unlink(missing_ok=True)
        if isinstance(problem, _UNREADABLE):
            raise IndexProblem(f"{release.url} cannot be fetched ({_reason(problem)})") from None
        raise
    return path


def _releases(page: str, document: dict[str, Any]) -> Iterator[Release]:
    """What of the page this machine could install."""
    tags, python = frozenset(sys_tags()), platform.python_version()
    files = document.get("files")
    for entry in files if isinstance(files, list) else ():
        try:
            name, version, _, wheel_tags = parse_wheel_filename(entry["filename"])
            digest = str(entry["hashes"]["sha256"]).lower()
            requires = SpecifierSet(entry.get("requires-python") or "")
            url = urljoin(page, entry["url"])
        except (
            InvalidWheelFilename,
            InvalidVersion,
            InvalidSpecifier,
            KeyError,
            TypeError,
            AttributeError,
            ValueError,
        ):
            # A source archive, a file without a digest, an entry of a form to come.
            continue
        stable = not (version.is_prerelease or version.is_devrelease or version.local)
        # The build number in a wheel's name may be any text, a way to another folder too.
        if not _FILENAME.fullmatch(entry["filename"]):
            continue
        if name != PROJECT or not stable or entry.get("yanked") or not _SHA256.fullmatch(digest):
            continue
        if not requires.contains(python, prereleases=True) or tags.isdisjoint(wheel_tags) or not _same_kind(page, url):
            continue
        yield Release(str(version), str(entry["filename"]), url, digest)


def _page(url: str) -> dict[str, Any]:
    try:
        with _opened(url) as answer:
            data = answer.read(_MOST_PAGE + 1)
    except _UNREADABLE as problem:
        raise IndexProblem(f"the release index {url} cannot be read ({_reason(problem)})") from None
    try:
        document = json.loads(data) if len(data) <= _MOST_PAGE else None
        version = str(document["meta"]["api-version"]) if isinstance(document, dict) else ""
    except (ValueError, KeyError, TypeError, RecursionError):
        version, document = "", None
    if document is None or version.partition(".")[0] != "1":
        raise IndexProblem(f"{url} is no release index in the JSON form of PEP 691 (api-version 1)")
    found: dict[str, Any] = document
    return found


def _same_kind(page: str, url: str) -> bool:
    """Whether a file may be taken from there: an index on the network cannot name a file of this machine."""
    return release_place(url) and urlsplit(url).scheme == urlsplit(page).scheme


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows only to where the setting itself could have pointed."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not _same_kind(req.full_url, newurl):
            raise urllib.error.URLError(f"it leads to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opened(url: str) -> Any:
    """An answer to read from. Raises OSError, HTTPException."""
    if urlsplit(url).scheme == "file":
        return Path(unquote(urlsplit(url).path)).open("rb")
    proxies = {kind: place for kind, place in urllib.request.getproxies().items() if kind == "https"}
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(proxies), urllib.request.HTTPHandler(), urllib.request.HTTPSHandler(), _Redirects(),
        urllib.request.HTTPDefaultErrorHandler(), urllib.request.HTTPErrorProcessor(),
    ):  # fmt: skip
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", PROJECT)]
    return opener.open(urllib.request.Request(url, headers={"Accept": _ACCEPT}), timeout=_SECONDS)  # noqa: S310


def _reason(problem: Exception) -> str:
    reason = getattr(problem, "reason", "") or getattr(problem, "strerror", "") or problem
    return str(reason).strip() or type(problem).__name__
