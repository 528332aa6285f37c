"""The command line as a whole: help, errors, encodings, terminals, broken pipes, what it imports."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from tests.unit.test_cli_stand_in import (
    MEMORY,
    PROGRAM,
    WITH_PATH,
    StandIn,
    on_a_terminal,
    page,
    standing_in,
)

import cems
from cems.core.cli import asking, remember
from cems.core.cli.main import main
from cems.core.paths import Home

Capture = pytest.CaptureFixture[str]
COMMANDS = [
    *("add", "search", "list", "show", "edit", "forget", "lift", "pin", "unpin", "share"),
    *("retract", "undo", "history", "audit"),
    *("why", "status", "doctor", "health", "config", "env", "debug", "pause", "resume", "daemon", "rebuild", "mcp"),
    "rule",
]
GROUPS = {"daemon": "start", "rule": "add", "mcp": "token"}


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with standing_in(tmp_path, monkeypatch) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home without a daemon."""
    monkeypatch.setenv("CEMS_HOME", str(tmp_path / "cems"))
    return Home(tmp_path / "cems")


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_the_help_page_lists_every_command_and_the_exit_codes(home: Home, capsys: Capture, words: list[str]) -> None:
    assert main(words) == 0
    output = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n  {name} " in output
    for code in ("0    done", "3    nothing matched", "4    refused", "5    the daemon"):
        assert code in output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_json(home: Home, capsys: Capture, name: str) -> None:
    assert main([name, "--help"]) == 0
    output = capsys.readouterr().out
    if name in GROUPS:
        assert main([name, GROUPS[name], "--help"]) == 0
        output = capsys.readouterr().out
    assert "--json" in output
    if name not in {"daemon", "health"}:
        assert "Example" in output


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"cems {cems.__version__}\n"


def test_a_typo_is_one_line_with_a_suggestion(home: Home, capsys: Capture) -> None:
    assert main(["serach", "x"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("cems: no such command 'serach'. Did you mean 'search'")
    assert output.err.endswith("(see `cems --help`)\n")
    assert output.err.count("\n") == 1


def test_a_usage_error_is_json_where_json_was_asked_for(home: Home, capsys: Capture) -> None:
    assert main(["search", "x", "-n", "0", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "usage"
    assert "cems search --help" in error["message"]


def test_an_unreachable_daemon_is_exit_5(home: Home, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    home.create()
    home.endpoint.write_text(f"unix:{home.root}/gone.sock\n{'ab' * 32}\n1\n")
    # A daemon cannot be started from a program that is not there.
    monkeypatch.setattr(sys, "executable", str(home.root / "no-python"))
    assert main(["list", "--json"]) == 5
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "unreachable"


def test_a_fault_of_ours_is_one_line_and_a_private_log_without_arguments(
    home: Home, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remember, "_tell", None)
    monkeypatch.setattr(asking, "ask", lambda *_: {"status": "added"})
    assert main(["add", "something private"]) == 1
    log = home.logs / "cli.log"
    error = capsys.readouterr().err
    assert error == f"cems: `cems add` failed unexpectedly: TypeError (the trace is in {log})\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "Traceback" in log.read_text()
    assert "something private" not in log.read_text()
    monkeypatch.setenv("CEMS_DEBUG", "1")
    assert main(["add", "x"]) == 1
    assert "Traceback" in capsys.readouterr().err


class Extension:
    """What another package declares: an entry point."""

    def __init__(self, found: object) -> None:
        self.name = self.value = "theirs"
        self._found = found

    def load(self) -> object:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


def test_other_packages_add_commands_and_doctors_but_cannot_take_ours(
    daemon: StandIn, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def register(app: typer.Typer) -> None:
        app.command("greet")(lambda: print("hello"))
        app.command("add")(lambda: print("not ours"))

    def ill(home: Home) -> list[dict[str, object]]:
        raise RuntimeError(home.root.name)

    found = {"cems.commands": [Extension(register), Extension(ImportError("no module x"))]}
    found["cems.doctor"] = [Extension(lambda home: [{"name": "theirs", "ok": True}]), Extension(ill)]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found.get(group, []))
    daemon.answers["add"] = {"id": MEMORY["id"], "status": "added", "reason": "", "redacted": 0}
    assert main(["greet"]) == 0
    output = capsys.readouterr()
    assert output.out == "hello\n"
    assert output.err == "cems: the commands of theirs are missing: ImportError: no module x\n"
    assert main(["add", "x"]) == 0
    assert capsys.readouterr().out.startswith("remembered")
    daemon.answers["check"] = {"checks": []}
    assert main(["doctor"]) == 1
    output = capsys.readouterr()
    assert "ok       theirs" in output.out
    assert "could not run: RuntimeError: cems" in output.out


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "cp932"])
def test_any_console_encoding_works(daemon: StandIn, encoding: str) -> None:
    daemon.answers["search"] = page({**MEMORY, "content": "日本語 — “quoted” \udc80 ok"})
    for options in ([], ["--json"]):
        done = subprocess.run(
            [*PROGRAM, "search", "日本語", *options],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": encoding},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert ("日本語" if not options else "\\u65e5") in done.stdout.decode("utf-8", "surrogateescape")


def test_piped_output_is_plain_and_whole(daemon: StandIn, capsys: Capture) -> None:
    daemon.answers["list"] = page({**MEMORY, "content": "word " * 60})
    assert main(["list"]) == 0
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert len(output.splitlines()) == 2


def test_a_terminal_gets_styles_and_wrapping_unless_no_color(daemon: StandIn) -> None:
    daemon.answers["list"] = page({**MEMORY, "content": "word 漢字 " * 40})
    code, output = on_a_terminal(["list"], COLUMNS="60")
    assert code == 0
    assert "\x1b[1mm_1a2b3c4d\x1b[0m" in output
    assert len(output.splitlines()) > 5
    _, plain = on_a_terminal(["list"], NO_COLOR="1")
    assert "\x1b" not in plain


@pytest.mark.parametrize("words", [["1a", "ff"], ["--text", "staging LISTENS on port 8081"]])
def test_forgetting_several_asks_on_a_terminal(daemon: StandIn, words: list[str]) -> None:
    same, another = {**MEMORY, "id": "m_ffffffffff"}, {**MEMORY, "content": "Staging listens elsewhere"}
    daemon.answers["search"] = page(MEMORY, another, same, mode="hybrid")
    daemon.answers["show"] = lambda payload: {"memory": same if payload["id"] == "ff" else MEMORY}
    daemon.answers["forget"] = {"hidden": [MEMORY, same], "tombstones": 1}
    code, output = on_a_terminal(["forget", *words], typed="n\n")
    assert code == 0
    assert "2 memories would be forgotten" in output
    assert "nothing was forgotten" in output
    assert "forget" not in [op for op, _ in daemon.asked]
    code, output = on_a_terminal(["forget", *words], typed="y\n")
    assert code == 0
    assert [op for op, _ in daemon.asked].count("forget") == 1
    daemon.asked.clear()
    code, output = on_a_terminal(["forget", *words, "--yes"])
    assert "[y/N]" not in output
    assert [op for op, _ in daemon.asked] == ["forget"]


def test_edit_opens_the_editor_without_a_shell(daemon: StandIn, tmp_path: Path) -> None:
    editor = tmp_path / "my editor"
    editor.write_text(f"#!{sys.executable}\nimport sys\nopen(sys.argv[2], 'w').write(sys.argv[1] + '\\n')\n")
    editor.chmod(0o700)
    daemon.answers["show"] = {"memory": MEMORY, "history": []}
    daemon.answers["edit"] = {"id": "m_9", "replaced": MEMORY["id"], "status": "added", "reason": ""}
    code, _ = on_a_terminal(["edit", "1a2b"], EDITOR=f"'{editor}' '$HOME; new'", VISUAL="")
    assert code == 0
    assert daemon.payload("edit") == {"id": "1a2b", "content": "$HOME; new"}
    code, output = on_a_terminal(["edit", "1a2b"], EDITOR="true", VISUAL="")
    assert (code, "nothing was changed" in output) == (0, True)
    code, output = on_a_terminal(["edit", "1a2b"], EDITOR="false", VISUAL="")
    assert (code, "nothing was changed" in output) == (1, True)


def test_a_reader_that_leaves_early_is_no_error(daemon: StandIn) -> None:
    daemon.answers["list"] = page(*[{**MEMORY, "content": "word " * 400}] * 500)
    process = subprocess.Popen([*PROGRAM, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=30) == 141
    process.stderr.close()


def test_an_interrupt_is_quiet_and_exit_130(daemon: StandIn) -> None:
    def hang(_payload: dict[str, object]) -> dict[str, object]:
        time.sleep(5)
        return {}

    daemon.answers["list"] = hang
    process = subprocess.Popen([*PROGRAM, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + 20
    while not daemon.asked and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == (b"", b"")
    assert process.returncode == 130


def test_a_command_of_ours_imports_no_engine_and_no_settings(daemon: StandIn) -> None:
    daemon.answers["add"] = {"id": MEMORY["id"], "status": "added", "reason": "", "redacted": 0}
    heavy = "rich lancedb fastembed numpy starlette mcp pydantic_settings tomlkit"
    program = (
        f"{WITH_PATH}from cems.core.cli.main import main\ncode = main(['add', 'x'])\n"
        f"print([name for name in {heavy.split()} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
