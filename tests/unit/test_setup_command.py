"""`cems setup` and `cems uninstall` as commands: what they print, what they ask, how they end."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.person import Person

from cems.adapters.base import Agent
from cems.adapters.claude_code.agent import AGENT
from cems.core.cli.failures import CommandError
from cems.installer import commands
from cems.installer.prove import Proof


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Claude Code in a home that is HOME; the proof is left out where a test does not bring its own."""
    made = Person(tmp_path).has()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CEMS_HOME", str(made.home.root))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(commands, "prove", lambda home, agents, environ: Proof("<block>", 12.3))
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return made


def _at_a_terminal(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    stream = io.StringIO(answer)
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", stream)


def _json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_the_adapter_has_the_shape_of_an_agent() -> None:
    agent: Agent = AGENT
    assert (agent.name, agent.title) == ("claude-code", "Claude Code")


def test_setup_shows_its_plan_writes_it_and_shows_the_proof(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.setup() == 0
    said = capsys.readouterr().out
    assert "~/.claude/settings.json" in said
    tools = "memory_search, memory_get, memory_history, memory_timeline, memory_add"
    assert f"{tools} allowed unasked (--no-permissions leaves that out)" in " ".join(said.split())
    assert "cems_user_prompts_submit" in said
    assert "<block>" in said
    assert "12 ms" in said
    assert commands.setup() == 0
    assert "nothing was changed" in capsys.readouterr().out


def test_a_dry_run_writes_nothing(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    before = person.tree()
    assert commands.setup(dry_run=True) == 0
    assert "nothing was written" in capsys.readouterr().out
    assert commands.setup(dry_run=True, as_json=True) == 0
    assert _json(capsys)["agents"]["claude-code"]["files"][0]["path"] == str(person.settings)
    assert person.tree() == before


def test_json_is_one_document(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.setup(as_json=True) == 0
    document = _json(capsys)
    assert document["changed"] is True
    assert document["proof"] == {"ok": True, "ms": 12.3, "block": "<block>", "problem": ""}
    assert "hook Stop" in document["agents"]["claude-code"]["entries"]
    assert commands.setup(as_json=True, no_prove=True) == 0
    assert _json(capsys)["proof"] is None


def test_a_person_is_asked_once_and_no_means_no(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    before = person.tree()
    _at_a_terminal(monkeypatch, "no\n")
    with pytest.raises(CommandError, match="nothing was written"):
        commands.setup()
    assert person.tree() == before
    _at_a_terminal(monkeypatch, "y\n")
    assert commands.setup() == 0
    # Nothing to write is nothing to ask about.
    _at_a_terminal(monkeypatch, "no\n")
    assert commands.setup() == 0


def test_an_unreadable_file_ends_with_1_and_the_rest_is_set_up(
    person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    person.settings.write_text('{\n"a": 1,\n}')
    assert commands.setup(no_prove=True) == 1
    said = capsys.readouterr()
    assert "settings.json:" in said.err
    assert "Nothing was written" in said.err
    assert (person.home.bin / "cems-hook").exists()
    assert person.settings.read_text() == '{\n"a": 1,\n}'


def test_a_read_only_file_ends_with_1(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    person.settings.chmod(0o444)
    assert commands.setup(no_prove=True) == 1
    assert "is read-only" in capsys.readouterr().err


def test_a_failed_proof_ends_with_1(
    person: Person, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "prove", lambda home, agents, environ: Proof(problem="the round trip failed"))
    assert commands.setup() == 1
    assert "the round trip failed" in capsys.readouterr().err


def test_an_unknown_agent_and_contradicting_options_are_usage_errors(person: Person) -> None:
    with pytest.raises(CommandError, match="claude-code") as unknown:
        commands.setup(agent=["clod"])
    assert unknown.value.exit_code == 2
    with pytest.raises(CommandError, match="exclude"):
        commands.setup(agent=["claude-code"], all_agents=True)


def test_purging_asks_or_wants_yes(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    commands.setup()
    with pytest.raises(CommandError, match="--yes") as unasked:
        commands.uninstall(purge_data=True)
    assert unasked.value.exit_code == 2
    _at_a_terminal(monkeypatch, "n\n")
    with pytest.raises(CommandError, match="nothing was removed"):
        commands.uninstall(purge_data=True)
    assert person.home.install_conf.exists()
    assert commands.uninstall(purge_data=True, yes=True) == 0
    assert not person.home.root.exists()


def test_uninstall_says_where_the_memories_remain(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    commands.setup()
    person.home.journal.write_text("memories")
    capsys.readouterr()
    assert commands.uninstall() == 0
    said = capsys.readouterr().out
    assert "memories remain in ~/.cems: journal.db" in said.replace(str(person.root), "~")
    assert f"rm -r {person.home.root}" in said
    commands.setup(as_json=True)
    capsys.readouterr()
    assert commands.uninstall(as_json=True) == 0
    assert _json(capsys)["left"] == ["journal.db"]


def test_setup_does_not_say_that_an_agent_remembers_which_waits_for_the_person(
    person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    (person.home.root.parent / ".codex").mkdir()
    assert commands.setup(agent=["codex"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Codex CLI will remember" not in said
    assert "Codex CLI remembers nothing yet. It runs hooks only once you have trusted them" in said
    assert commands.setup() == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Claude Code will remember from the next session on." in said
    assert "Codex CLI remembers nothing yet." in said


def test_a_project_rule_is_for_cursor_and_for_a_project(
    person: Person, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "work" / "shop"
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    rule = project / ".cursor/rules/cems.mdc"
    monkeypatch.chdir(project / "src")
    with pytest.raises(CommandError, match="--agent cursor"):
        commands.setup(project_rule=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError, match="no project"):
        commands.setup(agent=["cursor"], project_rule=True)
    monkeypatch.chdir(project / "src")
    assert commands.setup(agent=["cursor"], no_prove=True) == 0
    assert not rule.exists()
    assert commands.setup(agent=["cursor"], project_rule=True, no_prove=True) == 0
    assert rule.exists()
    assert str(rule).removeprefix(f"{tmp_path}/") in capsys.readouterr().out
    assert commands.uninstall(agent=["cursor"], yes=True) == 0
    assert not (project / ".cursor").exists()
