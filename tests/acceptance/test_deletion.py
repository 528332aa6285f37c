"""Acceptance: what was deleted is gone from every copy there is."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.acceptance.ways import HOST, KEPT, MACHINES, NEEDLE, PORT, everywhere, forgotten, only
from tests.fakes.daemon_home import wait_for
from tests.fakes.machine import Machine, running

from cems.core.backups import copies, copy_daily

SECRET = "The vault code of the wine cellar is swordfish-7719-quux."
UNIQUE = "swordfish-7719-quux"


def restart(machine: Machine, sign: signal.Signals = signal.SIGTERM) -> None:
    pid = machine.pid()
    assert pid
    os.kill(pid, sign)
    wait_for(lambda: machine.pid() is None)
    machine.start()


def test_deletion_absent_after_reindex_and_restart(session_root: Path) -> None:
    with running(session_root) as machine:
        folder = machine.project()
        memory = forgotten(machine, folder)
        machine.settle()
        only(machine, folder, KEPT, NEEDLE)
        restart(machine)
        only(machine, folder, KEPT, NEEDLE)
        machine.call("rebuild", {}, folder)
        machine.settle()
        only(machine, folder, KEPT, NEEDLE)
        restart(machine, signal.SIGKILL)
        only(machine, folder, KEPT, NEEDLE)
        assert machine.call("show", {"id": memory}, folder)["memory"]["content"] == ""
        assert NEEDLE not in machine.begin(folder)


def test_a_daemon_killed_right_after_a_forget_has_forgotten(session_root: Path) -> None:
    with running(session_root) as machine:
        folder = machine.project()
        memory = machine.add(PORT, folder)
        machine.add(HOST, folder)
        machine.settle()
        everywhere(machine, folder, NEEDLE, KEPT)
        machine.call("forget", {"id": memory}, folder)
        restart(machine, signal.SIGKILL)
        only(machine, folder, KEPT, NEEDLE)


def test_deletion_absent_from_shared_copies(machine: Machine) -> None:
    """A memory that was widened is one memory for all: forgotten by one project, it is gone in each, and no project that
    had it comes back with it."""
    one, other = machine.project(), machine.project()
    memory = machine.add(PORT, one)
    for folder in (one, other):
        machine.add(HOST, folder)
    machine.cli("share", memory, folder=one, terminal=True).ok()
    everywhere(machine, other, NEEDLE, KEPT)
    machine.call("forget", {"id": memory}, other)
    for folder in (one, other):
        only(machine, folder, KEPT, NEEDLE)
        for way in ("a tool", "a correction", "an operation"):
            assert MACHINES[way](machine, folder, PORT) == "refused", way
    machine.call("lift", {"text": PORT}, one)


def traces(root: Path, text: str) -> list[str]:
    """Files whose raw bytes hold the text, in any encoding that we write."""
    forms = [text.encode(), json.dumps(text).strip('"').encode(), text.encode("utf-16-le")]
    return [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink() and any(form in path.read_bytes() for form in forms)
    ]


def test_purge_leaves_no_trace_of_the_text(session_root: Path) -> None:
    with running(session_root) as machine:
        folder = machine.project()
        memory = machine.add(SECRET, folder, title=f"About {UNIQUE}", tags=[UNIQUE])
        kept = machine.add(HOST, folder)
        longer = machine.add(f"Ask before you open the cellar. {SECRET} Close it again.", folder)
        machine.call("edit", {"id": kept, "content": f"{HOST} See also {UNIQUE}.", "reason": f"for {UNIQUE}"}, folder)
        machine.prompt(f"where is {UNIQUE}", folder)
        machine.settle()
        assert copy_daily(machine.home)
        (machine.home.logs / "daemon.log").open("a").write(f"an old log line about {UNIQUE}\n")
        before = traces(machine.home.root, UNIQUE)
        assert any("journal.db" in name for name in before)
        assert any(name.startswith("store/") for name in before)
        assert any(name.startswith("backups/") for name in before)
        agent = machine.cli("purge", "--text", UNIQUE, "--yes", folder=folder, env={"CLAUDECODE": "1"}, terminal=True)
        assert agent.exit == 4
        assert traces(machine.home.root, UNIQUE) == before
        for words in (("--text", SECRET), ("--text", UNIQUE)):
            done = machine.cli("purge", *words, "--yes", "--json", folder=folder, terminal=True)
            assert done.exit == 0, done
            assert done.json["left"] == []
        assert traces(machine.home.root, UNIQUE) == []
        # What was not it is there, the chain is whole, and the value stays forgotten.
        assert "Ask before you open" in machine.call("show", {"id": longer}, folder)["memory"]["content"]
        assert KEPT in json.dumps(machine.call("search", {"query": "which host"}, folder))
        assert machine.call("audit_verify", {}, folder)["whole"]
        assert copies(machine.home)
        assert MACHINES["a tool"](machine, folder, SECRET) == "refused"
        assert memory not in json.dumps(machine.call("list", {}, folder))
        restart(machine)
        assert traces(machine.home.root, UNIQUE) == []
