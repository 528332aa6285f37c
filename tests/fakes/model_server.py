"""A model service on 127.0.0.1 that speaks enough of each service's interface for the agents' real programs.

It records every request, answers from a script (text, or a call of a tool the client offers), and refuses
with 400 what the real service would refuse, so that a test notices damage that a lenient fake would let pass.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from tests.fakes.anthropic_dialect import Anthropic
from tests.fakes.chat_dialect import ChatCompletions
from tests.fakes.gemini_dialect import GenerateContent
from tests.fakes.model_api import BadRequest, Dialect, ModelRequest, Reply, Step, Text, ToolUse, parse_request
from tests.fakes.responses_dialect import Responses

DIALECTS: tuple[Dialect, ...] = (Anthropic(), ChatCompletions(), Responses(), GenerateContent())


class FakeModel:
    """The service: `with FakeModel() as service:`, then its `url`, `script(...)` and `requests`.

    `problems` lists what no test should let pass: refused requests, scripted calls of tools nobody offered.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[ModelRequest] = []
        self._script: list[Step] = []
        self.problems: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> FakeModel:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def everything(self) -> list[ModelRequest]:
        """All requests, those beside the conversation too."""
        with self._lock:
            return list(self._requests)

    @property
    def requests(self) -> list[ModelRequest]:
        """The requests of conversations: not those for a title and the like (`ModelRequest.aside`)."""
        return [request for request in self.everything if not request.aside]

    def script(self, *steps: Step) -> None:
        """Replace the answers to come, one a request of a conversation. After the last one every answer is `Text()`."""
        with self._lock:
            self._script = list(steps)

    def answer(self, dialect: Dialect, path: str, body: Mapping[str, Any]) -> Reply:
        """Record a request and return what to send back. Raises BadRequest."""
        request = dialect.read(body, time.monotonic())
        with self._lock:
            self._requests.append(request)
            number = len(self._requests)
            step: Step = self._script.pop(0) if self._script and not request.aside else Text()
        if isinstance(step, ToolUse) and step.name not in request.tools and step.name not in request.text:
            self.problems.append(f"the script calls {step.name}, which request {number} does not offer")
            step = Text(f"There is no tool {step.name}.")
        return dialect.answer(request, path, step, number)


def _handler_of(service: FakeModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A client that never sends the body it announced must not hold a thread for ever.
        timeout = 30

        def do_HEAD(self) -> None:
            self._send(200, Reply(b"", "text/plain"))

        def do_GET(self) -> None:
            self._other({})

        def do_CONNECT(self) -> None:
            # This service is the clients' proxy too: none of them has anything to do outside.
            self.close_connection = True
            self._refuse(403, "the way outside is closed", DIALECTS[0])

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = urlsplit(self.path).path
            dialect = next((each for each in DIALECTS if each.serves(path)), None)
            try:
                body = parse_request(raw)
                if dialect is None:
                    self._other(body)
                elif not any(self.headers.get(name) for name in dialect.key_headers):
                    self._refuse(401, "no key", dialect)
                else:
                    self._send(200, service.answer(dialect, path, body))
            except BadRequest as error:
                self._refuse(400, str(error), dialect or DIALECTS[0])

        def _other(self, body: Mapping[str, Any]) -> None:
            path = urlsplit(self.path).path
            for dialect in DIALECTS:
                reply = dialect.other(self.command, path, body)
                if reply is not None:
                    self._send(200, reply)
                    return
            self._refuse(404, path, DIALECTS[0])

        def _refuse(self, status: int, why: str, dialect: Dialect) -> None:
            service.problems.append(f"{self.command} {self.path}: {status}: {why}")
            self._send(status, Reply.json(dialect.refusal(status, why)))

        def _send(self, status: int, reply: Reply) -> None:
            self.send_response(status)
            self.send_header("Content-Type", reply.kind)
            self.send_header("Content-Length", str(len(reply.body)))
            self.send_header("request-id", "req_fake")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    return Handler
