"""MCP over HTTP with the real daemon and the official client: tokens bound to a project, the loopback, and nobody else."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from tests.fakes import machine as machines
from tests.fakes.daemon_home import wait_for
from tests.fakes.machine import IN_CLAUDE, Machine

from cems.core.scope import project_identity
from cems.core.service.client import OperationError
from cems.core.service.context import BOUND, HEADER, encode

pytestmark = pytest.mark.slow

PORT_FACT = "Staging listens on port 8081."
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def machine(session_root: Path) -> Iterator[Machine]:
    with machines.running(session_root) as made:
        yield made


@pytest.fixture
def folder(machine: Machine) -> Path:
    return machine.project()


@pytest.fixture(autouse=True)
def no_token_is_left(machine: Machine) -> Iterator[None]:
    yield
    for each in machine.call("tokens", {}, machine.root)["tokens"]:
        machine.call("token_revoke", {"id": each["id"]}, machine.root)


def given(machine: Machine, folder: Path, name: str = "http") -> dict[str, Any]:
    """A new token, and where its bearer is answered."""
    made = machine.call("token_add", {"name": name}, folder)
    assert made["url"].startswith("http://127.0.0.1:"), made
    return made


def connected(made: dict[str, Any], work: Callable[[ClientSession], Awaitable[None]]) -> None:
    """Run `work` with the official client, connected with this token."""

    async def session() -> None:
        headers = {"Authorization": f"Bearer {made['token']}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
            streamable_http_client(made["url"], http_client=http) as streams,
            ClientSession(streams[0], streams[1]) as client,
        ):
            await client.initialize()
            await work(client)

    asyncio.run(asyncio.wait_for(session(), 90))


def post(url: str, token: str = "", **headers: str) -> httpx.Response:
    given = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.post(url, json=PING, headers={**ACCEPT, **given, **headers}, timeout=60, trust_env=False)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def is_open(port: int) -> bool:
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


# -- the official client -----------------------------------------------------------------------------------------------


def test_a_client_with_a_token_uses_every_tool_in_its_project(machine: Machine, folder: Path) -> None:
    machine.add(PORT_FACT, folder)
    machine.add("The other project listens on port 9999.", machine.project("other"))
    machine.add("I prefer short answers.", folder, scope="user", category="preferences")
    heard: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async def work(client: ClientSession) -> None:
        async def call(tool: str, **arguments: Any) -> Any:
            result = await client.call_tool(tool, arguments, progress_callback=note)
            assert not result.is_error, result
            assert result.structured_content
            return result.structured_content

        assert len((await client.list_tools()).tools) == 9
        found = await call("memory_search", query="which port does it listen on")
        assert [each["content"] for each in found["memories"]] == [PORT_FACT]
        added = await call("memory_add", content="Deploys go through make ship.")
        assert added["status"] == "candidate"
        shown = await call("memory_get", id=added["id"])
        assert shown["memory"]["source"]["agent"] == "my-editor"
        changed = await call(
            "memory_update", id=added["id"], content="Deploys go through make release.", reason="renamed"
        )
        history = await call("memory_history", id=changed["id"])
        assert [link["content"] for link in history["chain"]] == [
            "Deploys go through make ship.", "Deploys go through make release.",
        ]  # fmt: skip
        timeline = await call("memory_timeline")
        assert timeline["events"][0]["what"] == "corrected"
        assert (await call("memory_promote", id=changed["id"], reason="everywhere"))["status"] == "asked"
        assert (await call("memory_maintenance"))["review"]["promotion"] == 1
        verified = await call("memory_maintenance", job="verify")
        assert {check["name"] for check in verified["result"]["checks"]} >= {"journal", "store", "http"}
        assert (await call("memory_forget", id=changed["id"], reason="asked"))["hidden"]
        texts = {}
        for resource in (await client.list_resources()).resources:
            [content] = (await client.read_resource(resource.uri)).contents
            texts[str(resource.uri)] = str(content.model_dump()["text"])
        assert PORT_FACT in texts["memory://project/summary"]
        assert "short answers" in texts["memory://personal/summary"]
        assert texts["memory://shared/summary"].startswith("No team store is connected")
        assert json.loads(texts["memory://status"])["state"] == "ready"
        assert "9999" not in str(texts)
        assert len((await client.list_prompts()).prompts) == 3

    connected(given(machine, folder, "my-editor"), work)
    assert "checking: store" in heard


def test_the_same_client_over_stdio_sees_the_same(machine: Machine, folder: Path) -> None:
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    machine.add(PORT_FACT, folder)
    made = given(machine, folder)
    seen: list[Any] = []

    async def work(client: ClientSession) -> None:
        seen.append(
            (
                [tool.model_dump() for tool in (await client.list_tools()).tools],
                [each.model_dump() for each in (await client.list_resources()).resources],
                [each.model_dump() for each in (await client.list_prompts()).prompts],
                (await client.call_tool("memory_search", {"query": "which port"})).structured_content["memories"],
            )
        )

    connected(made, work)

    async def over_stdio() -> None:
        server = StdioServerParameters(
            command=str(machine.mcp_launcher), args=[], env={**machine.environment, **IN_CLAUDE}, cwd=folder
        )
        async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            await work(client)

    asyncio.run(asyncio.wait_for(over_stdio(), 90))
    assert seen[0] == seen[1]


# -- who is let in -----------------------------------------------------------------------------------------------------


def test_without_the_token_nobody_is_answered(machine: Machine, folder: Path) -> None:
    made = given(machine, folder)
    assert post(made["url"], made["token"]).status_code == 200
    for token in ("", "x", made["token"][:-1], made["token"] + "x", "cems_" + "a" * 43, made["id"]):
        answer = post(made["url"], token)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "cems mcp token" in answer.json()["error"]
    assert post(made["url"], Authorization=f"Basic {made['token']}").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example"}, {"Host": "localhost:x"}, {"Host": "evil.example:80"},
        {"Origin": "http://evil.example"}, {"Origin": "http://127.0.0.1"}, {"Origin": "null"},
    ],
)  # fmt: skip
def test_a_web_page_is_refused_even_with_the_token(machine: Machine, folder: Path, headers: dict[str, str]) -> None:
    made = given(machine, folder)
    assert post(made["url"], made["token"], **headers).status_code == 403


def test_nothing_but_the_mcp_endpoint_is_reachable(machine: Machine, folder: Path) -> None:
    made = given(machine, folder)
    root, authorized = made["url"].removesuffix("/mcp"), {"Authorization": f"Bearer {made['token']}"}
    for path in (
        "/",
        "/health",
        "/v1/status",
        "/v1/shutdown",
        "/hook/cems_stop",
        "/mcp/../v1/status",
        "/mcp/x",
        "//mcp",
    ):
        assert httpx.post(root + path, json={}, headers=authorized, trust_env=False).status_code == 404, path
    for method in ("GET", "DELETE", "PUT"):
        answer = httpx.request(method, made["url"], headers={**authorized, **ACCEPT}, trust_env=False)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    answer = httpx.post(made["url"], content=b"x" * 5_000_000, headers=authorized, trust_env=False)
    assert answer.status_code == 413


def test_only_the_loopback_is_listened_to(machine: Machine, folder: Path) -> None:
    port = port_of(given(machine, folder)["url"])
    listening = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    ours = [fields[1] for fields in listening if fields[3] == "0A" and fields[1].endswith(f":{port:04X}")]
    assert ours == [f"0100007F:{port:04X}"]
    if Path("/proc/net/tcp6").exists():
        assert f":{port:04X} " not in Path("/proc/net/tcp6").read_text("ascii")


def test_what_a_client_says_of_itself_counts_for_nothing(machine: Machine, folder: Path) -> None:
    """Neither another project nor a person is had by a header, nor an operation by the daemon's own way in."""
    other = machine.project("other")
    machine.add("The other project listens on port 9999.", other)
    made = given(machine, folder)
    claimed = {
        "client": "cli", "cwd": str(other), "roots": str(other), "tty": "1", BOUND: project_identity(str(other)) or "",
    }  # fmt: skip
    message = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "memory_add", "arguments": {"content": "Ports are odd numbers here."}},
    }  # fmt: skip
    headers = {"Authorization": f"Bearer {made['token']}", HEADER: encode(claimed), "Accept": "application/json"}
    answer = httpx.post(made["url"], json=message, headers=headers, timeout=60, trust_env=False)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["structuredContent"]["status"] == "candidate"
    here = {"scope": "project"}
    assert [each["content"] for each in machine.call("list", here, folder)["memories"]] == [
        "Ports are odd numbers here."
    ]
    # And the bound project of a token is nothing a caller of the socket can say.
    seen = machine.call("list", here, folder, bound_project=claimed[BOUND])["memories"]
    assert [each["content"] for each in seen] == ["Ports are odd numbers here."]


def test_the_project_is_the_tokens_also_when_its_folder_is_gone(machine: Machine) -> None:
    folder = machine.project("moved")
    machine.add(PORT_FACT, folder)
    made = given(machine, folder)
    folder.rename(folder.with_name("elsewhere"))

    async def work(client: ClientSession) -> None:
        found = await client.call_tool("memory_search", {"query": "which port"})
        assert PORT_FACT in str(found.content)

    connected(made, work)


# -- giving out and ending ---------------------------------------------------------------------------------------------


def test_only_a_digest_is_kept_and_only_for_its_owner(machine: Machine, folder: Path) -> None:
    made = given(machine, folder)
    path = machine.home.http_tokens
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = made["token"].removeprefix("cems_")
    for each in machine.home.root.rglob("*"):
        if each.is_file():
            assert secret.encode() not in each.read_bytes(), each
    listed = machine.call("tokens", {}, folder)
    assert [each["id"] for each in listed["tokens"]] == [made["id"]]
    assert "digest" not in listed["tokens"][0]
    assert secret not in json.dumps(listed)


def test_a_revoked_token_is_refused_and_with_the_last_one_the_port_is_closed(machine: Machine, folder: Path) -> None:
    one, two = given(machine, folder, "one"), given(machine, folder, "two")
    assert one["url"] == two["url"]
    machine.call("token_revoke", {"id": "one"}, folder)
    assert post(one["url"], one["token"]).status_code == 401
    assert post(two["url"], two["token"]).status_code == 200
    machine.call("token_revoke", {"id": two["id"][:6]}, folder)
    assert not is_open(port_of(two["url"]))
    assert machine.call("tokens", {}, folder)["url"] == ""
    # The address stays what clients have been told.
    assert given(machine, folder)["url"] == one["url"]


def test_an_agent_gives_out_no_access_and_ends_none(machine: Machine, folder: Path) -> None:
    made = given(machine, folder)
    for operation, body in (("token_add", {"name": "x"}), ("token_revoke", {"id": made["id"]})):
        asked: list[dict[str, Any]] = [
            {"CLAUDECODE": "1"}, {"client": "mcp"}, {"ancestor_agent": "codex"}, {"tty": False},
        ]  # fmt: skip
        for context in asked:
            with pytest.raises(OperationError, match="a person's act"):
                machine.call(operation, body, folder, **context)
    assert post(made["url"], made["token"]).status_code == 200
    other = machine.project("other")
    assert machine.call("tokens", {}, other, CLAUDECODE="1")["tokens"] == []
    assert len(machine.call("tokens", {}, other)["tokens"]) == 1


@pytest.mark.parametrize("name", ["", "A", "has space", "x" * 33, "../x", "a\nb", "-a"])
def test_a_name_that_could_mislead_is_refused(machine: Machine, folder: Path, name: str) -> None:
    with pytest.raises(OperationError, match="lowercase letters"):
        machine.call("token_add", {"name": name}, folder)


def test_outside_a_project_there_is_no_token(machine: Machine) -> None:
    with pytest.raises(OperationError, match="belongs to no project"):
        machine.call("token_add", {}, machine.root)


def test_the_commands(machine: Machine, folder: Path) -> None:
    assert machine.cli("mcp", "tokens", folder=folder).exit == 3
    nothing = machine.cli("mcp", "url", folder=folder)
    assert (nothing.exit, "cems mcp token" in nothing.out) == (3, True)
    made = machine.cli("mcp", "token", "my-editor", folder=folder, terminal=True).ok().out
    assert "header  Authorization: Bearer cems_" in made
    token = made.partition("Bearer ")[2].split()[0]
    url = machine.cli("mcp", "url", folder=folder).ok().out.strip()
    assert f"url     {url}" in made
    assert post(url, token).status_code == 200
    listed = machine.cli("mcp", "tokens", folder=folder).ok().out
    assert "my-editor" in listed
    assert token not in listed
    assert machine.cli("mcp", "tokens", "--json", folder=folder).ok().json["url"] == url
    refused = machine.cli("mcp", "revoke", "my-editor", folder=folder, terminal=True, env=IN_CLAUDE)
    assert (refused.exit, "a person's act" in refused.err) == (4, True)
    assert "ended: my-editor" in machine.cli("mcp", "revoke", "my-editor", folder=folder, terminal=True).ok().out
    assert machine.cli("mcp", "revoke", "my-editor", folder=folder, terminal=True).exit == 3
    assert post_fails(url)


def post_fails(url: str) -> bool:
    try:
        post(url)
    except httpx.ConnectError:
        return True
    return False


# -- the daemon comes and goes -----------------------------------------------------------------------------------------


@pytest.fixture
def own(session_root: Path) -> Iterator[Machine]:
    """A machine whose daemon the test ends."""
    with machines.running(session_root) as made:
        yield made


def restarted(machine: Machine, idle: str = "1800") -> None:
    machine.call("shutdown", {}, machine.root)
    wait_for(lambda: machine.pid() is None)
    machine.daemon(CEMS_IDLE_SECONDS=idle)
    machine.settle()


def test_after_a_restart_the_same_token_is_answered_at_the_same_address(own: Machine) -> None:
    folder = own.project()
    made = given(own, folder)
    restarted(own)
    wait_for(lambda: is_open(port_of(made["url"])))
    assert post(made["url"], made["token"]).status_code == 200


def test_while_there_is_a_token_the_daemon_stays(own: Machine) -> None:
    folder = own.project()
    made = given(own, folder)
    restarted(own, idle="1")
    time.sleep(4)
    assert post(made["url"], made["token"]).status_code == 200
    own.call("token_revoke", {"id": made["id"]}, folder)
    wait_for(lambda: own.pid() is None)


def test_a_taken_port_is_said_and_taken_back_when_it_is_free(own: Machine) -> None:
    folder = own.project()
    made = given(own, folder)
    own.call("shutdown", {}, folder)
    wait_for(lambda: own.pid() is None)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port_of(made["url"])))
        other.listen()
        own.daemon()
        own.settle()
        listed = own.cli("mcp", "url", folder=folder)
        assert listed.exit == 1
        assert "another program has it" in listed.err
        checks = {each["name"]: each for each in own.call("check", {}, folder)["checks"]}
        assert not checks["http"]["ok"]
    wait_for(lambda: own.call("tokens", {}, folder)["url"] == made["url"])
    assert post(made["url"], made["token"]).status_code == 200


@pytest.mark.parametrize(
    "damage", ["{", "[]", '{"version": 9, "port": 1, "tokens": []}', '{"version": 1, "port": 1, "tokens": [{}]}']
)
def test_a_damaged_file_lets_nobody_in_and_is_not_overwritten(own: Machine, damage: str) -> None:
    folder = own.project()
    made = given(own, folder)
    own.call("shutdown", {}, folder)
    wait_for(lambda: own.pid() is None)
    own.home.http_tokens.write_text(damage)
    own.daemon()
    own.settle()
    assert not is_open(port_of(made["url"]))
    assert "cannot be read" in own.call("tokens", {}, folder)["problem"]
    with pytest.raises(OperationError, match="cannot be read"):
        own.call("token_add", {}, folder)
    assert own.home.http_tokens.read_text() == damage
    assert os.access(own.home.http_tokens, os.R_OK)
