"""`cems uninstall --agent`: one agent's files as they were before, the rest and the program untouched."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from tests.fakes.person import Person

from cems.adapters.agents_skills import AGENTS_SKILLS
from cems.adapters.base import AgentRecord, Detection, FileEdit, Launchers, Machine, WiredState, Wiring, Wish
from cems.adapters.claude_code.agent import ClaudeCode
from cems.core.cli.failures import CommandError
from cems.installer import agents, check, commands, undo
from cems.installer.record import InstallRecord, first, load

Capture = pytest.CaptureFixture[str]


class Other(ClaudeCode):
    """A second agent, with one file of its own, that uses the skills several agents share."""

    name = "other"
    title = "Other"
    uses_shared_skills = True

    def detect(self, machine: Machine) -> Detection:
        folder = machine.home / f".{self.name}"
        return Detection(folder.is_dir(), folder)

    def wire(self, machine: Machine, launchers: Launchers, wish: Wish) -> Wiring:
        path = machine.home / f".{self.name}" / "config"
        before = path.read_bytes() if path.exists() else None
        after = (before or b"").replace(b"cems\n", b"") + b"cems\n"
        edits = () if before == after else (FileEdit(path, before, after, "hooks"),)
        return Wiring(path.parent, edits, ("hook Start",))

    def unwire(self, machine: Machine, launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
        path = machine.home / f".{self.name}" / "config"
        before = path.read_bytes()
        after = before.replace(b"cems\n", b"")
        return () if after == before else (FileEdit(path, before, after, "hooks"),)

    def wired(self, machine: Machine, launchers: Launchers, record: AgentRecord) -> WiredState:
        return WiredState(("hook Start",))


class Third(Other):
    """Another that uses them."""

    name = "third"
    title = "Third"


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Claude Code and two others, set up."""
    places = {
        "claude-code": "cems.adapters.claude_code.agent:AGENT",
        "other": f"{__name__}:OTHER",
        "third": f"{__name__}:THIRD",
    }
    loaded = {"claude-code": ClaudeCode(), "other": Other(), "third": Third()}
    monkeypatch.setattr(agents, "registered_agents", lambda: places)
    monkeypatch.setattr(
        agents, "_load", lambda place: loaded[next(name for name, each in places.items() if each == place)]
    )
    made = Person(tmp_path).has()
    for name in ("other", "third"):
        (tmp_path / f".{name}").mkdir()
        (tmp_path / f".{name}/config").write_bytes(b"theirs\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CEMS_HOME", str(made.home.root))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return made


def record_of(person: Person) -> InstallRecord:
    record = load(person.home)
    assert record is not None
    return record


def names(person: Person) -> list[str]:
    return [entry.agent for entry in record_of(person).agents]


def test_one_agent_is_taken_out_and_the_rest_stays_to_the_byte(person: Person, capsys: Capture) -> None:
    before = person.tree()
    person.setup()
    with_all = person.tree()
    assert commands.uninstall(agent=["claude-code"]) == 0
    said = capsys.readouterr().out
    assert "~/.claude/settings.json" in said
    assert "Claude Code: disconnected. `cems setup` leaves it alone from now on;" in said
    assert "`cems setup --agent claude-code` connects it again." in said
    after = person.tree()
    ours = (".cems", ".local")
    for path, content in after.items():
        if path.startswith(ours):
            continue
        assert content == (before if path.startswith(".claude") else with_all)[path], path
    assert not [path for path in before if path not in after]
    assert (person.home.bin / "cems").exists()
    assert "claude-code" not in names(person)


def test_setup_leaves_it_alone_until_it_is_named(person: Person, capsys: Capture) -> None:
    person.setup()
    commands.uninstall(agent=["claude-code"], as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["disconnected"] == ["claude-code"]
    assert str(person.settings) in document["files"]
    assert commands.setup(no_prove=True) == 0
    assert "disconnected by you; `cems setup --agent claude-code` connects it again" in capsys.readouterr().out
    assert person.settings.read_text() == "{}\n"
    row = next(each for each in check.agent_checks(person.home, person.machine) if each["name"] == "Claude Code")
    assert (row["ok"], row["detail"]) == (True, "is here, disconnected by you")
    assert commands.setup(agent=["claude-code"], no_prove=True) == 0
    assert "cems-hook" in person.settings.read_text()
    assert record_of(person).disconnected == ()
    assert commands.setup(no_prove=True) == 0
    assert "cems-hook" in person.settings.read_text()


def test_what_agents_share_goes_with_the_last_of_them(person: Person) -> None:
    person.setup()
    skills = person.root / ".agents" / "skills"
    assert skills.is_dir()
    commands.uninstall(agent=["other"])
    assert skills.is_dir()
    assert AGENTS_SKILLS.name in names(person)
    commands.uninstall(agent=["third"])
    assert not (person.root / ".agents").exists()
    assert names(person) == ["claude-code"]


def test_what_the_person_changed_since_stays(person: Person) -> None:
    person.setup()
    settings = json.loads(person.settings.read_text()) | {"model": "opus"}
    person.settings.write_text(json.dumps(settings))
    commands.uninstall(agent=["claude-code"])
    assert json.loads(person.settings.read_text()) == {"model": "opus"}


def test_an_agent_that_was_not_connected_is_left_out_from_now_on(person: Person, capsys: Capture) -> None:
    commands.uninstall(agent=["other"])
    assert "nothing of ours was there" in capsys.readouterr().out
    commands.setup(no_prove=True)
    assert "other" not in names(person)
    assert "third" in names(person)


def test_names_and_options_that_cannot_be_meant(person: Person) -> None:
    with pytest.raises(CommandError, match="no agent named 'clod'") as caught:
        commands.uninstall(agent=["clod"])
    assert caught.value.exit_code == 2
    with pytest.raises(CommandError, match="exclude each other"):
        commands.uninstall(agent=["other"], purge_data=True)


def test_a_no_changes_nothing(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.setup()
    before = person.tree()
    stream = io.StringIO("n\n")
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", stream)
    with pytest.raises(CommandError, match="nothing was changed"):
        commands.uninstall(agent=["claude-code"])
    assert person.tree() == before


def test_uninstalling_everything_afterwards_leaves_nothing(person: Person) -> None:
    before = person.tree()
    person.setup()
    commands.uninstall(agent=["other"])
    undo.take_out(
        person.home,
        person.machine,
        undo.plan_removals(person.home, person.machine, agents.with_shared(agents.all_agents()), load(person.home)),
        load(person.home),
    )
    undo.remove_program(person.home, load(person.home) or first(person.home), purge=True)
    assert person.tree() == before
