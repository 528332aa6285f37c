"""`cems mcp`: answers at once, forwards the rest, outlives daemons and dies with its agent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.fakes import throwaway
from tests.fakes.mcp_daemon import STEPS, TOKEN, McpDaemon

from cems import __version__
from cems.core.paths import Home
from cems.core.service import mcp_proxy
from cems.core.service.endpoint import UNIX, Endpoint
from cems.core.service.hook_client import HookFailure
from cems.core.service.launch import launcher_source
from cems.core.service.mcp_call import Call
from cems.core.service.mcp_messages import MAX_LINE, path_of
from cems.core.service.mcp_server import INSTRUCTIONS

SOURCE = Path(__file__).resolve().parents[2] / "src"
# What a loaded machine may add to a time.
MARGIN = 4.0
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class Place:
    """A home with the real launcher; every process started in it is ended."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = Home(root / ".cems")
        self.home.create()
        self.launcher = self.home.bin / "cems-mcp"
        self.launcher.write_bytes(launcher_source(Path(sys.executable), SOURCE, self.home.root, "mcp"))
        self.launcher.chmod(0o700)
        (root / "r").mkdir(mode=0o700)
        self.environment = throwaway.child_environment(root, root / "r")
        self._proxies: list[Client] = []

    def proxy(self, cwd: Path | None = None, **environment: str) -> Client:
        self._proxies.append(Client(self.launcher, cwd or self.root, {**self.environment, **environment}))
        return self._proxies[-1]

    def end(self) -> None:
        for proxy in self._proxies:
            proxy.end()
        throwaway.end_processes(self.root)


class Client:
    """The agent's end of a proxy's pipes."""

    def __init__(self, launcher: Path, cwd: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [launcher], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=environment
        )
        self._answers: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._answers.put(line)

    def send(self, message: Any) -> None:
        self.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")

    def write(self, raw: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def receive(self, seconds: float = 60.0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._answers.get(timeout=seconds))
        return found

    def silent(self, seconds: float = 0.3) -> bool:
        with contextlib.suppress(queue.Empty):
            return self._answers.get(timeout=seconds) == b""
        return True

    def ask(self, method: str, request_id: Any = 1, **params: Any) -> dict[str, Any]:
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        return self.receive()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def start(self, **capabilities: Any) -> Client:
        self.ask("initialize", 0, **{**INITIALIZE, "capabilities": capabilities})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def leave(self) -> float:
        """Close the input; seconds until the process was gone."""
        assert self.process.stdin
        self.process.stdin.close()
        began = time.monotonic()
        self.process.wait(20)
        return time.monotonic() - began

    def said_on_stderr(self) -> bytes:
        assert self.process.stderr
        return self.process.stderr.read()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)


@pytest.fixture
def place(session_root: Path) -> Iterator[Place]:
    made = Place(Path(tempfile.mkdtemp(prefix="x", dir=session_root)).resolve())
    yield made
    made.end()


@pytest.fixture
def daemon(place: Place) -> Iterator[McpDaemon]:
    with McpDaemon(place.home, place.root / "r" / "s") as running:
        yield running


# --- what the proxy answers itself


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2099-01-01", None, 7])
def test_initialize_answers_in_the_clients_version(place: Place, daemon: McpDaemon, version: Any) -> None:
    result = place.proxy().ask("initialize", 0, **{**INITIALIZE, "protocolVersion": version})["result"]
    known = isinstance(version, str) and version < "2099"
    assert result["protocolVersion"] == (version if known else "2025-11-25")
    assert (result["serverInfo"]["name"], result["serverInfo"]["version"]) == ("cems", __version__)
    assert result["capabilities"] == {
        "tools": {"listChanged": False},
        "resources": {"subscribe": False, "listChanged": False},
        "prompts": {"listChanged": False},
    }
    assert result["instructions"] == INSTRUCTIONS


def test_the_probe_before_initialize_is_an_unknown_method(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy()
    assert client.ask("server/discover", "probe")["error"]["code"] == -32601
    assert client.ask("initialize", 1, **INITIALIZE)["id"] == 1


@pytest.mark.parametrize("request_id", [0, 7, "seven", "ü\n", 1.5, -3])
def test_an_id_comes_back_as_it_was(place: Place, daemon: McpDaemon, request_id: Any) -> None:
    client = place.proxy()
    assert client.ask("ping", request_id) == {"jsonrpc": "2.0", "id": request_id, "result": {}}
    assert client.ask("resources/list", request_id)["id"] == request_id


def test_the_tools_are_listed_without_the_daemon(place: Place, daemon: McpDaemon) -> None:
    tools = place.proxy().start().ask("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == [
        "memory_add",
        "memory_search",
        "memory_get",
        "memory_forget",
        "memory_update",
        "memory_history",
        "memory_timeline",
        "memory_promote",
        "memory_maintenance",
    ]
    assert daemon._app is None


def test_resources_and_prompts_are_listed_without_the_daemon(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy().start()
    uris = [each["uri"] for each in client.ask("resources/list")["result"]["resources"]]
    assert uris == [
        "memory://status",
        "memory://project/summary",
        "memory://personal/summary",
        "memory://shared/summary",
    ]
    assert client.ask("resources/templates/list")["result"] == {"resourceTemplates": []}
    prompts = [each["name"] for each in client.ask("prompts/list")["result"]["prompts"]]
    assert prompts == ["remember", "recall", "context"]
    assert daemon._app is None


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700), (b"nonsense", -32700), (b'{"a":1} {"b":2}', -32700), (b"\xff\xfe", -32700), (b'{"id":"\xff"}', -32700),
        (b"[" * 200_000, -32700), (b"[]", -32600), (b"5", -32600), (b'{"id":1,"method":5}', -32600), (b'{"id":{},"method":"x"}', -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    ],
)  # fmt: skip
def test_a_broken_line_is_an_error_and_the_next_one_is_answered(
    place: Place, daemon: McpDaemon, line: bytes, code: int
) -> None:
    client = place.proxy()
    client.write(line + b"\n")
    assert client.receive()["error"]["code"] == code
    assert client.ask("ping")["result"] == {}


def test_blank_lines_notifications_and_stray_answers_are_not_answered(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy()
    client.write(b"\n\r\n  \n")
    client.send({"jsonrpc": "2.0", "method": "notifications/anything", "params": {}})
    client.send({"jsonrpc": "2.0", "id": 4, "result": {}})
    client.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}\r\n')
    assert client.silent()
    assert client.ask("ping")["result"] == {}


def test_lines_may_come_in_pieces_and_together(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy()
    message = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    for at in range(0, len(message), 7):
        client.write(message[at : at + 7])
        time.sleep(0.01)
    client.write(b"\r\n" + message + b"\n" + message + b"\n")
    assert [client.receive()["id"] for _ in range(3)] == [1, 1, 1]


# --- what it forwards


def test_a_call_reaches_the_daemon_with_its_caller(place: Place, daemon: McpDaemon) -> None:
    project = place.root / "pröject"
    project.mkdir()
    client = place.proxy(project, CLAUDECODE="1", CLAUDE_CODE_SESSION_ID="s-1", OPENAI_API_KEY="never").start()
    result = client.call("memory_search", query="runner")["result"]
    assert result["structuredContent"]["memories"][0]["id"].startswith("m_3fa2")
    _, _, caller = daemon.asked[0]
    assert (caller.client, caller.cwd, caller.agent, caller.session) == ("mcp", str(project), "claude-code", "s-1")
    assert caller.version == __version__
    assert set(caller.variables) == {"CLAUDECODE", "CLAUDE_CODE_SESSION_ID"}


def test_the_clients_roots_are_asked_for_and_asked_again_when_they_change(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy()
    client.ask("initialize", 0, **{**INITIALIZE, "capabilities": {"roots": {"listChanged": True}}})
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    for number, folder in enumerate(("one", "two")):
        request = client.receive()
        assert request["method"] == "roots/list"
        # A call that comes before the answer waits for it.
        client.send(
            {
                "jsonrpc": "2.0",
                "id": 9,
                "method": "tools/call",
                "params": {"name": "memory_get", "arguments": {"id": "m_1"}},
            }
        )
        time.sleep(0.1)
        roots = [{"uri": f"file:///srv/{folder}%20%C3%BC"}, {"uri": "https://example.com/x"}, {"name": "no uri"}]
        client.send({"jsonrpc": "2.0", "id": request["id"], "result": {"roots": roots}})
        assert client.receive()["id"] == 9
        assert daemon.asked[number][2].roots == (f"/srv/{folder} ü",)
        client.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})


def test_a_client_that_never_tells_its_roots_is_served_all_the_same(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy()
    client.start(roots={})
    assert client.receive()["method"] == "roots/list"
    assert "result" in client.call("memory_get", id="m_1")


def test_a_slow_call_blocks_no_other(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy().start()
    client.call("memory_get", id="m_1")
    daemon.delay = 1.0
    began = time.monotonic()
    for number in range(20):
        params = {"name": "memory_get", "arguments": {"id": "m_1"}}
        client.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    assert client.ask("ping", "p")["id"] == "p"
    assert {client.receive()["id"] for _ in range(20)} == set(range(20))
    assert time.monotonic() - began < 1.0 + MARGIN


def test_a_cancelled_call_is_not_answered(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy().start()
    daemon.delay = 30.0
    params = {"name": "memory_get", "arguments": {"id": "m_1"}}
    client.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})
    wait_until(lambda: daemon.asked != [])
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
    assert client.silent(0.5)
    assert client.ask("ping")["result"] == {}
    assert client.leave() < 1.0 + MARGIN


def test_text_with_half_a_character_is_carried_on(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy().start()
    params = r'{"name":"memory_add","arguments":{"content":"cut \ud83d here, whole \ud83d\ude00"}}'
    client.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + params.encode() + b"}\n")
    assert not client.receive()["result"].get("isError")
    assert daemon.asked[0][1]["content"] == "cut ? here, whole 😀"


def test_long_lines_pass_and_too_long_ones_are_answered_with_their_id(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy().start()
    client.call("memory_add", content="x" * 3_000_000)
    assert len(daemon.asked[0][1]["content"]) == 3_000_000
    padding = b"x" * (MAX_LINE + 1000)
    client.write(
        b'{"method":"tools/call","params":{"name":"memory_add","arguments":{"content":"'
        + padding
        + b'"}},"jsonrpc":"2.0","id":77}\n'
    )
    answer = client.receive()
    assert (answer["id"], answer["error"]["code"]) == (77, -32600)
    client.write(b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"content":"' + padding + b'"}}\n')
    assert client.receive()["id"] == "a"
    assert client.ask("ping")["result"] == {}


def test_an_unknown_method_and_an_unknown_tool_are_the_daemons_to_refuse(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy().start()
    assert client.ask("no/such")["error"]["code"] == -32601
    assert "error" in (answer := client.call("memory_everything")) or answer["result"]["isError"]


def test_the_official_client_finds_and_calls_the_tools(place: Place, daemon: McpDaemon) -> None:
    async def run() -> None:
        server = StdioServerParameters(command=str(place.launcher), args=[], env=place.environment, cwd=place.root)
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            about = await session.initialize()
            assert about.server_info.name == "cems"
            tools = (await session.list_tools()).tools
            assert len(tools) == 9
            results = await asyncio.gather(*(session.call_tool("memory_search", {"query": f"q{n}"}) for n in range(5)))
            assert all(result.structured_content and not result.is_error for result in results)
            failed = await session.call_tool("memory_forget", {"reason": "asked"})
            assert failed.is_error

    asyncio.run(run())


def test_the_official_client_reads_resources_gets_prompts_and_hears_of_progress(
    place: Place, daemon: McpDaemon
) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async def run() -> None:
        server = StdioServerParameters(command=str(place.launcher), args=[], env=place.environment, cwd=place.root)
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            for resource in (await session.list_resources()).resources:
                assert (await session.read_resource(resource.uri)).contents
            assert not (await session.list_resource_templates()).resource_templates
            assert len((await session.list_prompts()).prompts) == 3
            prompt = await session.get_prompt("remember", {"fact": "we use tabs"})
            assert "we use tabs" in str(prompt.messages[0].content)
            done = await session.call_tool("memory_maintenance", {"job": "verify"}, progress_callback=note)
            assert not done.is_error

    asyncio.run(run())
    assert [each for each in heard if each[0] >= 1] == [(n + 1, STEPS + 1, f"step {n}") for n in range(STEPS)]


# --- progress


def ask_with_token(
    client: Client,
    tool: str,
    token: Any = "t1",  # noqa: S107 - of progress, no secret
    **arguments: Any,
) -> list[dict[str, Any]]:
    """Everything the client hears until the answer, which is the last."""
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": token}}
    client.send({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params})
    heard = [client.receive()]
    while heard[-1].get("id") != 4:
        heard.append(client.receive())
    return heard


@pytest.mark.parametrize("token", ["t1", 0, 7])
def test_what_the_daemon_tells_of_its_progress_is_carried_on(place: Place, daemon: McpDaemon, token: Any) -> None:
    *notes, answer = ask_with_token(place.proxy().start(), "memory_maintenance", token, job="verify")
    told = [note["params"] for note in notes if note["params"]["progress"] >= 1]
    assert [(each["progressToken"], each["message"]) for each in told] == [(token, f"step {n}") for n in range(STEPS)]
    assert "result" in answer


def test_a_call_that_waits_for_the_daemon_says_so_ever_more(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy().start()
    daemon.delay = 2.6
    *notes, answer = ask_with_token(client, "memory_get", id="m_1")
    values = [note["params"]["progress"] for note in notes]
    assert len(values) >= 2
    assert values == sorted(set(values))
    assert values[-1] < 1
    assert {note["params"]["message"] for note in notes} == {"waiting for the memory daemon"}
    assert "result" in answer
    assert client.silent(1.5)


def test_a_cold_start_is_told_to_who_asked(place: Place) -> None:
    hold_off_daemons(place)
    client = place.proxy().start()
    params = {"name": "memory_get", "arguments": {"id": "m_1"}, "_meta": {"progressToken": "p"}}
    client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    note = client.receive()["params"]
    assert (note["progressToken"], note["message"]) == ("p", "starting the memory daemon")
    with McpDaemon(place.home, place.root / "r" / "s"):
        while (heard := client.receive()).get("id") != 1:
            pass
    assert "result" in heard


@pytest.mark.parametrize("meta", [{}, {"progressToken": None}, {"progressToken": True}, {"progressToken": ["x"]}, 5])
def test_who_gave_no_token_hears_of_no_progress(place: Place, daemon: McpDaemon, meta: Any) -> None:
    client = place.proxy().start()
    daemon.delay = 1.5
    params = {"name": "memory_maintenance", "arguments": {}, "_meta": meta}
    client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert client.receive()["id"] == 1


def test_a_cancelled_long_call_is_silent_and_ends_in_the_daemon(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy().start()
    daemon.delay = 30.0
    params = {"name": "memory_maintenance", "arguments": {}, "_meta": {"progressToken": "p"}}
    client.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})
    while client.receive()["params"]["progress"] < STEPS:
        pass
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
    wait_until(lambda: daemon.cancelled == 1)
    assert client.silent(1.5)
    assert client.ask("ping")["result"] == {}


def test_a_stream_that_breaks_off_is_asked_for_again(place: Place) -> None:
    note = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t1","progress":1}}'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    dying = Listening(place, head + b"event: message\r\ndata: " + note + b"\r\n\r\nevent: mess")
    client = place.proxy()
    hold_off_daemons(place)
    params = {"name": "memory_maintenance", "arguments": {}, "_meta": {"progressToken": "t1"}}
    client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert client.receive() == json.loads(note)
    dying.close()
    with McpDaemon(place.home, place.root / "r" / "b"):
        while (heard := client.receive()).get("id") != 1:
            assert heard["method"] == "notifications/progress"
    assert "result" in heard


# --- daemons come and go


class Listening:
    """Something that is not our daemon at the place where it should be."""

    def __init__(self, place: Place, answer: bytes) -> None:
        path = place.root / "r" / "other"
        self.requests = 0
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        place.home.endpoint.write_bytes(Endpoint(UNIX, str(path), token=TOKEN).encode())
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                if connection.recv(1 << 20):
                    self.requests += 1
                    connection.sendall(self._answer)
                connection.close()

    def close(self) -> None:
        self._socket.close()


def wait_until(done: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def hold_off_daemons(place: Place) -> None:
    """As if one had just been started: nobody starts another for three seconds."""
    (place.home.root / "daemon.starting").touch()


def test_a_new_daemon_at_a_new_place_is_found(place: Place) -> None:
    with McpDaemon(place.home, place.root / "r" / "a") as first:
        client = place.proxy().start()
        client.call("memory_get", id="m_1")
        assert len(first.asked) == 1
    hold_off_daemons(place)
    with McpDaemon(place.home, place.root / "r" / "b") as second:
        assert "result" in client.call("memory_get", id="m_2")
        assert len(second.asked) == 1


def test_a_question_is_asked_again_when_the_daemon_dies_over_it(place: Place) -> None:
    dying = Listening(place, b"")
    client = place.proxy()
    hold_off_daemons(place)
    params = {"name": "memory_search", "arguments": {"query": "x"}}
    client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    wait_until(lambda: dying.requests > 0)
    dying.close()
    with McpDaemon(place.home, place.root / "r" / "b"):
        assert "result" in client.receive()


@pytest.mark.parametrize("tool", ["memory_forget", "memory_update"])
def test_a_change_that_may_have_happened_is_not_made_twice(place: Place, tool: str) -> None:
    dying = Listening(place, b"HTTP/1.1 200 OK\r\ncontent-le")
    hold_off_daemons(place)
    error = place.proxy().call(tool, id="m_1", reason="x")["error"]
    assert "may or may not" in error["message"]
    assert dying.requests == 1
    dying.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "not one of ours"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n<html", "unexpected (HTTP 200)"),
        (b'HTTP/1.1 503 No\r\ncontent-length: 53\r\n\r\n{"error": {"code": "starting", "message": "not yet"}}', "not yet"),
        (b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\n{}", "refused the call (HTTP 500)"),
        (b'HTTP/1.1 200 OK\r\ncontent-length: 36\r\n\r\n{"jsonrpc":"2.0","id":8,"result":{}}', "refused the call (HTTP 200)"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_becomes_an_error(place: Place, answer: bytes, said: str) -> None:
    other = Listening(place, answer)
    assert said in place.proxy().call("memory_get", id="m_1")["error"]["message"]
    other.close()


@pytest.mark.parametrize(("dies_after", "tries"), [(2, 3), (None, 9)])
def test_one_that_was_killed_is_waited_for_and_one_that_is_stopped_is_named(
    monkeypatch: pytest.MonkeyPatch, place: Place, dies_after: int | None, tries: int
) -> None:
    """While the system takes a killed daemon down it looks like one that is stopped."""
    sent: list[dict[str, Any]] = []
    asked: list[float] = []

    def exchange(_call: Call, _endpoint: Endpoint, _headers: bytes, _send: Any) -> tuple[int, bytes]:
        asked.append(time.monotonic())
        if dies_after is None or len(asked) <= dies_after:
            raise HookFailure("stopped")
        return 200, b'{"jsonrpc":"2.0","id":3,"result":{}}'

    place.home.endpoint.write_bytes(Endpoint(UNIX, str(place.root / "r" / "s"), token=TOKEN).encode())
    monkeypatch.setattr(Call, "exchange", exchange)
    monkeypatch.setattr(mcp_proxy, "start_new_thread", lambda function, arguments: None)
    proxy = mcp_proxy.Proxy(str(place.home.root))
    monkeypatch.setattr(proxy, "_send", lambda line: sent.append(json.loads(line)))
    proxy._forward(Call(3, "tools/list", {}, b"{}"))
    assert len(asked) == tries
    assert ("result" in sent[0]) if dies_after else ("cems daemon stop" in sent[0]["error"]["message"])


def test_a_daemon_that_does_not_start_is_reported(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(mcp_proxy, "START_SECONDS", 0.2)
    monkeypatch.setattr(mcp_proxy, "spawn_daemon", lambda *_: True)
    monkeypatch.setattr(mcp_proxy, "start_new_thread", lambda function, arguments: None)
    proxy = mcp_proxy.Proxy(str(place.home.root))
    monkeypatch.setattr(proxy, "_send", lambda line: sent.append(json.loads(line)))
    proxy._forward(Call(3, "tools/list", {}, b"{}"))
    assert sent[0]["id"] == 3
    assert "cems doctor" in sent[0]["error"]["message"]


@pytest.mark.slow
def test_the_real_daemon_is_started_and_survived(place: Place) -> None:
    project = place.root / "app"
    project.mkdir()
    client = place.proxy(project, CLAUDECODE="1").start()
    added = client.call("memory_add", content="The staging database is called Heron.")["result"]
    assert not added.get("isError"), added
    found = client.call("memory_search", query="staging database")["result"]
    assert "Heron" in found["content"][0]["text"]
    pids = [pid for pid in throwaway.processes_under(place.root) if pid != client.process.pid]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    found = client.call("memory_search", query="staging database")["result"]
    assert "Heron" in found["content"][0]["text"]
    assert client.leave() < 1.0 + MARGIN
    assert client.said_on_stderr() == b""


# --- life and death


def test_initialize_takes_less_than_three_bare_interpreters(place: Place, daemon: McpDaemon) -> None:
    message = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}).encode() + b"\n"
    interpreter = launcher_source(Path(sys.executable), SOURCE, place.home.root, "mcp")
    assert interpreter.startswith((b"#!", b"exec"))

    def bare() -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True, env=place.environment)
        return time.perf_counter() - began

    def initialize() -> float:
        began = time.perf_counter()
        with subprocess.Popen(
            [place.launcher], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.environment
        ) as process:
            assert process.stdin
            assert process.stdout
            process.stdin.write(message)
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
            taken = time.perf_counter() - began
            process.stdin.close()
        return taken

    pairs = [(bare(), initialize()) for _ in range(15)]
    ratio = statistics.median(both / alone for alone, both in pairs)
    assert ratio < 3.0, f"initialize takes {ratio:.2f} times a bare interpreter"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_stays_small(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy().start()
    for _ in range(20):
        client.call("memory_search", query="x")
    status = Path(f"/proc/{client.process.pid}/status").read_text("ascii")
    resident = int(status.partition("VmRSS:")[2].split()[0])
    assert resident < 16 * 1024, f"{resident} KiB"


def test_it_leaves_when_its_input_ends(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy().start()
    assert client.leave() < 0.5 + MARGIN
    assert client.process.returncode == 0
    assert client.said_on_stderr() == b""


def test_it_leaves_when_its_input_ends_although_a_call_hangs(place: Place, daemon: McpDaemon) -> None:
    daemon.delay = 60.0
    client = place.proxy().start()
    params = {"name": "memory_get", "arguments": {"id": "m_1"}}
    client.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})
    wait_until(lambda: daemon.asked != [])
    assert client.leave() < 1.0 + MARGIN
    assert client.said_on_stderr() == b""


def test_what_was_asked_before_the_end_is_still_answered(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy().start()
    client.call("memory_get", id="m_1")
    daemon.delay = 0.2
    params = {"name": "memory_get", "arguments": {"id": "m_1"}}
    client.send({"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": params})
    client.leave()
    assert client.receive()["id"] == 6


@pytest.mark.skipif(sys.platform == "win32", reason="needs a process's parent")
def test_it_leaves_with_its_agent_although_its_input_stays_open(place: Place, daemon: McpDaemon) -> None:
    agent = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.argv[1]], stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    held, ours = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-I", "-c", agent, place.launcher], stdin=held, stdout=subprocess.PIPE, env=place.environment
    ) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        time.sleep(0.5)
        os.kill(pid, 0)
        process.kill()
        process.wait()
        began = time.monotonic()
        wait_until(lambda: not is_running(pid))
    assert time.monotonic() - began < 1.0 + MARGIN
    os.close(held)
    os.close(ours)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2][1:2] not in (b"Z", b"X")
    except OSError:
        if Path("/proc/self").exists():
            return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_quietly(place: Place, daemon: McpDaemon, number: signal.Signals) -> None:
    client = place.proxy().start()
    client.process.send_signal(number)
    client.process.wait(10)
    assert client.said_on_stderr() == b""


def test_it_leaves_quietly_when_nobody_reads_it(place: Place, daemon: McpDaemon) -> None:
    client = place.proxy()
    assert client.process.stdout
    process = subprocess.Popen(
        [place.launcher], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place.environment
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    process.stdin.flush()
    assert process.wait(10) == 0
    assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///srv/app", "/srv/app"), ("file://localhost/a", "/a"), ("FILE:///a%2Fb%25", "/a/b%"), ("file:///a%zz", "/a%zz"),
        ("file://server/share", ""), ("https://x/y", ""), ("file:", ""), (None, ""), (7, ""), ("file:///%00x", "/x"),
    ],
)  # fmt: skip
def test_a_root_is_the_path_of_a_local_file_uri(uri: Any, path: str) -> None:
    assert path_of(uri) == path
