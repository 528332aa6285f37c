"""Goose's files: what setup writes into them, keeps, leaves alone and takes out again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from cems.adapters.base import (
    AgentRecord,
    ConfigUnreadable,
    FileEdit,
    FileRecord,
    Launchers,
    Machine,
    Wiring,
    Wish,
    digest,
)
from cems.adapters.goose.agent import AGENT, SCRIPTS
from cems.adapters.goose.config import HOOKS
from cems.adapters.goose.standing import write_standing
from cems.adapters.marked_block import BEGIN, END
from cems.core.paths import Home

SAMPLE = Path(__file__).parents[1] / "fixtures" / "goose" / "config.yaml"
LAUNCHERS = Launchers(Path("/home/dev/.cems/bin/cems-hook"), Path("/home/dev/.cems/bin/cems-mcp"))
ENTRIES = ("block AGENTS.md", "hook plugin", "plugin cems", "tools cems")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"PATH": "/nowhere"})


def config(machine: Machine) -> Path:
    return machine.home / ".config/goose/config.yaml"


def plugin(machine: Machine) -> Path:
    return machine.home / ".agents/plugins/cems"


def agents_md(machine: Machine) -> Path:
    return machine.home / ".config/goose/AGENTS.md"


def put(path: Path, content: bytes) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return content


def make(edits: tuple[FileEdit, ...]) -> None:
    for edit in edits:
        assert edit.before == (edit.path.read_bytes() if edit.path.exists() else None)
        edit.path.parent.mkdir(parents=True, exist_ok=True)
        if edit.after is None:
            edit.path.unlink()
        else:
            edit.path.write_bytes(edit.after)


def record(wiring: Wiring) -> AgentRecord:
    """As the installer keeps it: what was there before has a name."""
    files = tuple(
        FileRecord(
            edit.path, digest(edit.after or b""), "" if edit.before is None else digest(edit.before), edit.containers
        )
        for edit in wiring.edits
    )
    return AgentRecord("goose", wiring.config_dir, wiring.entries, wiring.removed, files, forms=wiring.forms)


def set_up(machine: Machine) -> AgentRecord:
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    make(wiring.edits)
    return record(wiring)


def settings(machine: Machine) -> Any:
    return yaml.safe_load(config(machine).read_bytes())


def test_it_is_not_found_on_an_empty_machine_and_says_where_it_looked(machine: Machine) -> None:
    detection = AGENT.detect(machine)
    assert not detection.found
    assert detection.config_dir == machine.home / ".config/goose"
    assert "`goose` on PATH" in detection.looked_for[0]
    assert list(machine.home.iterdir()) == []


def test_it_is_found_by_its_program_and_by_its_folder(machine: Machine) -> None:
    program = machine.home / ".local/bin/goose"
    put(program, b"#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    assert AGENT.detect(machine).program == program
    program.unlink()
    assert not AGENT.detect(machine).found
    put(config(machine), b"")
    assert AGENT.detect(machine).found


def test_the_files_say_what_goose_reads(machine: Machine) -> None:
    put(config(machine), SAMPLE.read_bytes())
    before = settings(machine)
    known = set_up(machine)
    assert known.entries == ENTRIES
    now = settings(machine)
    assert now["extensions"].pop("cems") == {
        "enabled": True,
        "type": "stdio",
        "name": "cems",
        "description": now_description(),
        "cmd": str(LAUNCHERS.mcp),
        "args": [],
        "envs": {},
        "env_keys": [],
        "timeout": 60,
        "bundled": None,
        "available_tools": [],
    }
    # Goose notes a plugin it sees for the first time, and writes its whole file anew for that.
    assert now["plugins"].pop(str(plugin(machine))) == {"enabled": True}
    assert now == before
    hooks = json.loads((plugin(machine) / "hooks/hooks.json").read_bytes())["hooks"]
    entry = {"type": "command", "command": f"{LAUNCHERS.hook} cems_user_prompts_submit", "timeout": 10}
    assert hooks["UserPromptSubmit"] == [{"hooks": [entry]}]
    assert list(hooks) == [hook.event for hook in HOOKS]
    assert json.loads((plugin(machine) / "plugin.json").read_bytes())["name"] == "cems"
    assert agents_md(machine).read_text() == f"{BEGIN}\n{END}\n"
    for wish in (Wish(known), Wish()):
        assert AGENT.wire(machine, LAUNCHERS, wish).edits == ()


def now_description() -> str:
    manifest = json.loads((Path(__file__).parents[2] / "adapters/goose/mcp.json").read_bytes())
    return str(manifest["server"]["description"])


def test_every_time_limit_is_outside_the_hooks_own_deadline_and_every_script_is_read() -> None:
    assert all(hook.timeout > 1 for hook in HOOKS)
    assert {(hook.script, hook.event) for hook in HOOKS} == {(script, name) for script, (_, name) in SCRIPTS.items()}
    scripts = Path(__file__).parents[2] / "adapters/goose/hooks"
    assert {path.stem for path in scripts.glob("cems_*.py")} == set(SCRIPTS)


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"GOOSE_PATH_ROOT": "{home}/root", "XDG_CONFIG_HOME": "{home}/xdg"}, "root/config"),
        ({"XDG_CONFIG_HOME": "{home}/xdg"}, "xdg/goose"),
        ({"XDG_CONFIG_HOME": "relative"}, ".config/goose"),
        ({}, ".config/goose"),
    ],
)
def test_its_folder_is_where_goose_looks(tmp_path: Path, variables: dict[str, str], folder: str) -> None:
    machine = Machine(tmp_path, {name: value.format(home=tmp_path) for name, value in variables.items()})
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    make(wiring.edits)
    assert wiring.config_dir == tmp_path / folder
    assert (tmp_path / folder / "config.yaml").exists()
    below = "root/" if "GOOSE_PATH_ROOT" in variables else ""
    assert (tmp_path / f"{below}.agents/plugins/cems/plugin.json").exists()
    # Taken out later, from a shell in which nothing of it is set.
    make(AGENT.unwire(Machine(tmp_path), LAUNCHERS, record(wiring)))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


THEIRS = (
    b"",
    b"# only a comment\n",
    b"GOOSE_MODE: auto   # why\nextensions:\n    mine: {enabled: true, type: stdio, cmd: x, args: []}   # mine\n",
    b"\xef\xbb\xbfGOOSE_MODE: auto\r\nextensions:\r\n  mine:\r\n    enabled: true",
    b"extensions: {}\nGOOSE_MODE: 'auto'\n",
    SAMPLE.read_bytes(),
)
HINTS = (None, b"", b"# Mine\n", b"\xef\xbb\xbf# Mine\r\n\r\nUse tabs.", b"no end")


@pytest.mark.parametrize("theirs", THEIRS, ids=range(len(THEIRS)))
@pytest.mark.parametrize("hints", HINTS, ids=range(len(HINTS)))
def test_it_goes_in_and_out_to_the_identical_bytes(machine: Machine, theirs: bytes, hints: bytes | None) -> None:
    put(config(machine), theirs)
    if hints is not None:
        put(agents_md(machine), hints)
    known = set_up(machine)
    assert known.entries == ENTRIES
    # As the daemon does it.
    home = Home(machine.home / "cems")
    home.create()
    files = [{"path": str(file.path)} for file in known.files]
    home.install_conf.write_text(json.dumps({"agents": [{"agent": "goose", "entries": ENTRIES, "files": files}]}))
    assert write_standing(home, "<cems-profile>\n- tabs\n</cems-profile>")
    assert b"- tabs" in agents_md(machine).read_bytes()
    # Setup leaves what stands there.
    assert AGENT.wire(machine, LAUNCHERS, Wish(known)).edits == ()
    make(AGENT.unwire(machine, LAUNCHERS, known))
    assert config(machine).read_bytes() == theirs
    assert (agents_md(machine).read_bytes() if agents_md(machine).exists() else None) == hints
    assert not any(path.is_file() for path in plugin(machine).rglob("*"))


def test_what_goose_noted_of_our_plugin_goes_with_it(machine: Machine) -> None:
    put(
        config(machine),
        f"plugins:\n  {plugin(machine)}:\n    enabled: true\n  /home/dev/other:\n    enabled: true\n".encode(),
    )
    known = set_up(machine)
    assert "plugin cems" in known.entries
    make(AGENT.unwire(machine, LAUNCHERS, known))
    assert settings(machine) == {"plugins": {"/home/dev/other": {"enabled": True}}}


def test_our_server_is_ours_after_goose_has_written_the_file_anew(machine: Machine) -> None:
    put(config(machine), SAMPLE.read_bytes())
    known = set_up(machine)
    now = settings(machine)
    config(machine).write_text(yaml.safe_dump(now, sort_keys=True))
    assert AGENT.wire(machine, LAUNCHERS, Wish(known)).notes == ()
    assert AGENT.wire(machine, LAUNCHERS, Wish(known)).edits == ()
    make(AGENT.unwire(machine, LAUNCHERS, known))
    del now["extensions"]["cems"], now["plugins"][str(plugin(machine))]
    assert settings(machine) == now


def test_what_the_person_takes_out_stays_out_until_asked_for(machine: Machine) -> None:
    put(config(machine), SAMPLE.read_bytes())
    put(agents_md(machine), b"# Mine\n")
    known = set_up(machine)
    put(config(machine), SAMPLE.read_bytes())
    put(agents_md(machine), b"# Mine\n")
    again = AGENT.wire(machine, LAUNCHERS, Wish(known))
    assert again.edits == ()
    assert set(again.removed) == {"block AGENTS.md", "plugin cems", "tools cems"}
    make(AGENT.wire(machine, LAUNCHERS, Wish(known, repair=True)).edits)
    assert "cems" in settings(machine)["extensions"]
    assert BEGIN in agents_md(machine).read_text()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"GOOSE_MODE: auto\nextensions: [\n", 3),
        (b"a: 1\na: 2\n", 2),
        (b"GOOSE_MODE: auto\n\textensions: {}\n", 2),
        (b"GOOSE_MODE: auto\nextensions: [x]\n", 2),
        (b"- a\n", 1),
    ],
)
def test_a_file_goose_cannot_read_is_refused_with_its_line(machine: Machine, text: bytes, line: int) -> None:
    put(config(machine), text)
    with pytest.raises(ConfigUnreadable) as refused:
        AGENT.wire(machine, LAUNCHERS, Wish())
    assert refused.value.line in (line, line - 1)
    assert str(config(machine)) in str(refused.value)


def test_half_a_block_is_refused_with_its_line(machine: Machine) -> None:
    put(agents_md(machine), f"# Mine\n{BEGIN}\n".encode())
    with pytest.raises(ConfigUnreadable) as refused:
        AGENT.wire(machine, LAUNCHERS, Wish())
    assert (refused.value.path, refused.value.line) == (agents_md(machine), 2)


def test_another_programs_extension_and_plugin_of_our_name_are_left_alone(machine: Machine) -> None:
    theirs = put(config(machine), b"extensions:\n  cems: {enabled: true, type: stdio, cmd: other, args: []}\n")
    put(plugin(machine) / "plugin.json", b'{"name": "cems"}')
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    assert {edit.path for edit in wiring.edits} == {agents_md(machine)}
    assert wiring.entries == ("block AGENTS.md",)
    said = "\n".join(wiring.notes)
    assert "runs something else" in said
    assert "is somebody else's" in said
    make(wiring.edits)
    make(AGENT.unwire(machine, LAUNCHERS, record(wiring)))
    assert config(machine).read_bytes() == theirs
    assert (plugin(machine) / "plugin.json").exists()


def test_a_person_is_told_what_goose_needs_for_prompts_and_for_runs(machine: Machine) -> None:
    put(config(machine), b"GOOSE_MODE: approve\n")
    first = AGENT.wire(machine, LAUNCHERS, Wish())
    assert any("alias goose='cems run goose'" in note for note in first.notes)
    assert any("GOOSE_MODE is approve" in note for note in first.notes)
    put(config(machine), b"GOOSE_MODE: auto\n")
    wiring = AGENT.wire(machine, LAUNCHERS, Wish())
    assert len(wiring.notes) == 1
    make(wiring.edits)
    assert AGENT.wire(machine, LAUNCHERS, Wish(record(wiring))).notes == ()


def test_the_doctor_sees_what_is_switched_off_and_what_is_gone(machine: Machine) -> None:
    known = set_up(machine)
    problems = AGENT.wired(machine, LAUNCHERS, known).problems
    assert [problem for problem in problems if "is not there" in problem] == [
        f"{plugin(machine)}/hooks/hooks.json runs {LAUNCHERS.hook}, which is not there"
    ]
    assert set(AGENT.wired(machine, LAUNCHERS, known).present) == set(ENTRIES)
    put(config(machine).with_name("settings.json"), b'{"disabledPlugins": ["cems"]}')
    text = config(machine).read_text().replace("enabled: true", "enabled: false")
    config(machine).write_text(text.replace("extensions:", "extensions:\n  tom: {enabled: false}"))
    said = "\n".join(AGENT.wired(machine, LAUNCHERS, known).problems)
    assert "disabledPlugins" in said
    assert "the extension `cems` is switched off" in said
    assert "the extension `tom` is switched off" in said
    assert f"the plugin {plugin(machine)} is switched off" in said
