"""Acceptance: there is one way to change memory, and a model cannot pass for a person on it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.ways import MACHINES, NEEDLE, PORT, forgotten, only
from tests.fakes.ancestors import Ancestors
from tests.fakes.daemon_home import REPOSITORY
from tests.fakes.machine import IN_CLAUDE, INTERACTIVE, PRINT_MODE, SOURCE, Machine

from cems.core.service.client import OperationError


def counted(machine: Machine, folder: Path, kind: str) -> int:
    entries = machine.call("audit", {"limit": 500}, folder)["entries"]
    return sum(kind in json.dumps(entry) for entry in entries)


@pytest.mark.parametrize("way", MACHINES)
def test_gateway_no_bypass_path(machine: Machine, way: str) -> None:
    """Each way by which a model writes meets the tombstones, and its refusal is written down."""
    folder = machine.project()
    forgotten(machine, folder)
    refusals = counted(machine, folder, "refuse")
    assert MACHINES[way](machine, folder, PORT) == "refused"
    assert counted(machine, folder, "refuse") == refusals + 1
    assert MACHINES[way](machine, folder, f"Something else by {way}.") in ("candidate", "added")
    only(machine, folder, "mercury", NEEDLE)


def test_gateway_no_bypass_path_for_people_either(machine: Machine) -> None:
    folder = machine.project()
    forgotten(machine, folder)
    assert machine.call("add", {"content": PORT}, folder)["status"] == "refused"
    assert machine.cli("add", PORT, folder=folder, terminal=True).exit == 4
    assert "did not store" in machine.prompt(f"/remember {PORT}", folder)
    other = machine.add("Something else.", folder)
    assert machine.call("edit", {"id": other, "content": PORT}, folder)["status"] == "refused"
    only(machine, folder, "mercury", NEEDLE)


SOURCES = [*(REPOSITORY / "core").rglob("*.py"), *(REPOSITORY / "adapters").rglob("*.py")]


def test_gateway_no_bypass_path_in_the_source() -> None:
    """Only the gateway appends to the journal, and only the journal's own modules write its tables."""
    appending = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "append"
                and ast.unparse(node.func.value).endswith("journal")
            ):
                appending.add(path.relative_to(REPOSITORY).as_posix())
    assert appending == {"core/memories.py"}
    writes = re.compile(r"(INSERT INTO|UPDATE|DELETE FROM|INSERT OR \w+ INTO) (chain|payloads)\b")
    writing = {path.name for path in SOURCES if writes.search(path.read_text("utf-8"))}
    assert writing <= {"journal.py", "journal_schema.py"}
    assert "journal.py" in writing


# -- authority -------------------------------------------------------------------------------------------------------

CLAIMS = {
    "trust": "trusted", "actor": "person", "author": "person", "present": True, "tty": True, "person": True,
    "source": {"actor": "person", "agent": ""}, "client": "cli", "confidence": 1.0, "recorded_at": "2020-01-01T00:00:00Z",
}  # fmt: skip
LADDER = [
    ("claude",), ("sh", "codex"), ("goose", "sh"), ("cursor-agent",), ("copilot",), ("gemini",), ("opencode",), ("pi",),
]  # fmt: skip


def added(machine: Machine, folder: Path, text: str) -> dict[str, object]:
    memories = machine.call("list", {"limit": 100}, folder)["memories"]
    return next(each for each in memories if each["content"] == text)


def test_gateway_model_cannot_claim_human_authority(machine: Machine) -> None:
    """By an argument: whatever a call says of its author, an agent's stays an agent's."""
    folder = machine.project()
    machine.call("add", {"content": "By operation.", **CLAIMS}, folder, CLAUDECODE="1")
    machine.mcp(folder).call("memory_add", content="By tool.", **CLAIMS)
    for text in ("By operation.", "By tool."):
        memory = added(machine, folder, text)
        assert (memory["trust"], memory["source"]["actor"]) == ("candidate", "agent")  # type: ignore[index]
        assert float(str(memory["confidence"])) <= 0.7
        assert str(memory["recorded_at"]) > "2026"
        for operation, body in PERSONS_ACTS.items():
            named = {"id": memory["id"], "what": memory["id"], **body}
            with pytest.raises(OperationError, match="person"):
                machine.call(operation, {**CLAIMS, **named}, folder, CLAUDECODE="1")
    # The person's own are theirs.
    machine.call("add", {"content": "By the person."}, folder)
    assert added(machine, folder, "By the person.")["trust"] == "trusted"


PERSONS_ACTS: dict[str, dict[str, object]] = {
    "share": {"to": "user"},
    "decide": {"verdict": "approve"},
    "purge": {},
    "undo": {},
}


def test_gateway_model_cannot_lift_what_was_forgotten(machine: Machine) -> None:
    folder = machine.project()
    forgotten(machine, folder)
    for env in (IN_CLAUDE, {"GEMINI_CLI": "1"}):
        assert machine.cli("lift", PORT, folder=folder, env=env, terminal=True).exit == 4
    assert machine.cli("lift", PORT, folder=folder).exit == 4
    only(machine, folder, "mercury", NEEDLE)
    machine.cli("lift", PORT, folder=folder, terminal=True).ok()
    assert machine.call("add", {"content": PORT}, folder)["status"] == "added"


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not looked at on Windows")
@pytest.mark.parametrize("line", LADDER, ids=" ".join)
def test_gateway_model_cannot_claim_human_authority_by_emptying_its_environment(
    machine: Machine, above: Ancestors, line: tuple[str, ...]
) -> None:
    folder = machine.project()
    said = machine.cli("add", "We deploy on Fridays.", "--json", folder=folder, under=above.command(*line, run=[]))
    assert said.ok().json["status"] == "candidate"
    mine = machine.add("The pelican sleeps on the left side of the pond.", folder)
    shared = machine.cli("share", mine, folder=folder, under=above.command(*line, run=[]), terminal=True)
    assert shared.exit == 4
    # Under an editor or a shell, the person.
    said = machine.cli("add", "Tea at four.", "--json", folder=folder, under=above.command("vim", "sh", run=[]))
    assert said.ok().json["status"] == "added"


FORGE = """
import sys; sys.path.insert(0, {source!r})
from pathlib import Path
from cems.core.paths import Home
from cems.core.service.client import Client, OperationError
said = {{"client": "cli", "cwd": {folder!r}, "tty": "1", "ancestor_agent": "", "peer": "1", "agents": ""}}
client = Client(Home(Path({home!r})), said)
print(client.call("add", {{"content": {text!r}}}, start=False)["status"])
try:
    client.call("share", {{"id": {memory!r}, "to": "user"}}, start=False)
    print("shared")
except OperationError as refused:
    print(refused.code)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the kernel does not tell who connected")
def test_gateway_model_cannot_claim_human_authority_by_a_forged_header(machine: Machine, above: Ancestors) -> None:
    """A program of the agent's own speaks to the socket, as the command line at a terminal would."""
    folder = machine.project()
    memory = machine.add("Mine.", folder)

    def forge(text: str, *line: str) -> list[str]:
        code = FORGE.format(
            source=str(SOURCE), folder=str(folder), home=str(machine.home.root), text=text, memory=memory
        )
        command = above.command(*line, run=["env", "-i", sys.executable, "-c", code])
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()

    assert forge("Forged.", "claude") == ["candidate", "refused"]
    assert forge("Written by a script of the person.", "sh") == ["added", "shared"]
    machine.call("forget", {"id": memory}, folder)


# -- what is typed in an agent ---------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not looked at on Windows")
def test_gateway_model_cannot_type_for_the_person(machine: Machine, above: Ancestors) -> None:
    """`claude -p "/remember …"` is the person's where the person runs it, and the model's where a model does."""
    folder = machine.project()

    def typed(text: str, *line: str, env: dict[str, str] = PRINT_MODE) -> object:
        machine.prompt(f"/remember {text}", folder, under=above.command(*line, run=[]), env=env)
        return added(machine, folder, text)["trust"]

    assert typed("One.", "claude", env=INTERACTIVE) == "trusted"
    assert typed("Two.", "claude") == "trusted"
    assert typed("Three.", "claude", "sh", "claude") == "candidate"
    assert typed("Four.", "claude", "setsid", "claude", env=INTERACTIVE) == "candidate"
    assert typed("Five.", "codex", "sh", "claude") == "candidate"
    assert typed("Six.", "claude", env={**INTERACTIVE, "CODEX_SANDBOX": "seatbelt"}) == "candidate"
    assert typed("Seven.", "cursor", "claude", env={**INTERACTIVE, "CURSOR_TRACE_ID": "x"}) == "trusted"
    mine = machine.add("The heron waits on the right side of the pond.", folder)
    share = f"/share {mine}"
    nested = above.command("claude", "sh", "claude", run=[])
    assert "person's act" in machine.prompt(share, folder, under=nested, env=INTERACTIVE)
    assert "person's act" in machine.prompt(share, folder, under=above.command("claude", run=[]), env=PRINT_MODE)
    at_terminal = machine.prompt(share, folder, under=above.command("claude", run=[]), env=INTERACTIVE)
    assert "to the scope user" in at_terminal
    machine.call("forget", {"id": mine}, folder)


def test_the_kernel_tells_who_connected(machine: Machine) -> None:
    """What a caller says of its own processes is not believed."""
    folder = machine.project()
    assert machine.call("add", {"content": "One."}, folder, peer="1", agents="codex")["status"] == "added"
    assert machine.call("add", {"content": "Two."}, folder, ancestor_agent="codex")["status"] == "candidate"
    assert os.getpid() > 1
