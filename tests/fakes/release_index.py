"""A release index on loopback: a page in the JSON form of PEP 691 and the files it names."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ACCEPTED = "application/vnd.pypi.simple.v1+json"


class ReleaseIndex(ThreadingHTTPServer):
    """`files` are the page's entries, `contents` the bytes by path; `asked` has each request's path and headers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: list[Any] = []
        self.contents: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/simple/"

    def publish(self, version: str, content: bytes = b"", name: str = "", **fields: Any) -> dict[str, Any]:
        """Offer a wheel with these bytes; `fields` replace or add what the page says of it (None: left out)."""
        filename = name or f"cems-{version}-py3-none-any.whl"
        content = content or f"wheel {version}".encode()
        entry = {
            "filename": filename,
            "url": f"../../files/{filename}",
            "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
            "requires-python": ">=3.11",
            "yanked": False,
        } | fields
        self.contents[f"/files/{filename}"] = content
        self.files.append({name: value for name, value in entry.items() if value is not None})
        return entry

    def page(self) -> bytes:
        return json.dumps({"meta": {"api-version": "1.1"}, "name": "cems", "files": self.files}).encode()


class _Handler(BaseHTTPRequestHandler):
    server: ReleaseIndex

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        if target := self.server.redirects.get(self.path):
            self.send_response(302)
            self.send_header("Location", target)
            self.end_headers()
            return
        content = self.server.contents.get(self.path)
        if content is None and self.path == "/simple/cems/":
            content = self.server.page()
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Type", ACCEPTED)
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextmanager
def serving() -> Iterator[ReleaseIndex]:
    """An index that answers until the block is left."""
    with ReleaseIndex() as index:
        threading.Thread(target=index.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield index
        index.shutdown()
