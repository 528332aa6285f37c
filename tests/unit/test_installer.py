"""Setup writes what it showed, once, through links, recorded, and never over what is somebody else's."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.person import Person

from cems.adapters.base import FileEdit, Wiring
from cems.adapters.claude_code import config as claude_config
from cems.core.paths import Home
from cems.core.service.adapters import packaged_agents
from cems.installer import apply, files, launchers, show
from cems.installer.agents import UnknownAgent, all_agents, named
from cems.installer.check import agent_checks, agent_states
from cems.installer.plan import Plan
from cems.installer.record import RecordUnreadable, load


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


@pytest.fixture
def shipped(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of skills to ship in place of ours: /recall with two files."""
    folder = tmp_path_factory.mktemp("skills")
    (folder / "recall" / "more").mkdir(parents=True)
    (folder / "recall" / "SKILL.md").write_text("recall, first version")
    (folder / "recall" / "more" / "notes.md").write_text("notes")
    monkeypatch.setattr(claude_config, "SKILLS", folder)
    return folder


def _wiring(plan: Plan) -> Wiring:
    (agent,) = plan.agents
    assert agent.wiring is not None
    return agent.wiring


def test_setup_twice_changes_nothing_the_second_time(person: Person) -> None:
    person.has()
    assert person.setup().changes
    before = person.tree()
    times = {path: path.lstat().st_mtime_ns for path in person.root.rglob("*")}
    assert not person.setup().changes
    assert person.tree() == before
    assert {path: path.lstat().st_mtime_ns for path in person.root.rglob("*")} == times


def test_a_plan_writes_nothing(person: Person) -> None:
    person.has()
    before = person.tree()
    plan = person.plan()
    assert plan.changes
    assert list(show.plan_lines(plan, person.home, person.machine))
    assert person.tree() == before


def test_no_agent_is_not_an_error_and_the_plan_says_where_it_looked(person: Person) -> None:
    plan = person.setup()
    assert plan.agents == ()
    text = "\n".join(show.plan_lines(plan, person.home, person.machine))
    assert "No agent was found" in text
    assert "~/.claude.json" in text
    assert not (person.root / ".claude").exists()
    assert (person.home.bin / "cems-hook").exists()


def test_an_agent_asked_for_by_name_is_set_up_though_it_is_not_there(person: Person) -> None:
    person.setup(insisted=frozenset({"claude-code"}))
    assert "Stop" in person.read(person.settings)["hooks"]


def test_everything_of_ours_is_private_and_the_agents_files_keep_their_mode(person: Person) -> None:
    person.has()
    person.settings.chmod(0o640)
    person.setup()
    assert stat.S_IMODE(person.settings.stat().st_mode) == 0o640
    assert stat.S_IMODE(person.state.stat().st_mode) == 0o600
    for path in (person.home.root, *person.home.root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_linked_file_is_written_through_its_links(person: Person) -> None:
    person.has()
    dotfiles = person.root / "dotfiles"
    dotfiles.mkdir()
    person.settings.rename(dotfiles / "settings.json")
    (dotfiles / "alias.json").symlink_to("settings.json")
    person.settings.symlink_to("../dotfiles/alias.json")
    person.setup()
    assert os.readlink(person.settings) == "../dotfiles/alias.json"  # noqa: PTH115
    assert (dotfiles / "alias.json").is_symlink()
    assert "Stop" in person.read(dotfiles / "settings.json")["hooks"]


def test_a_link_that_leads_nowhere_is_refused(person: Person) -> None:
    person.has()
    person.settings.unlink()
    person.settings.symlink_to(person.root / "not" / "there.json")
    with pytest.raises(files.CannotWrite, match="does not exist"):
        person.setup()
    assert not (person.root / "not").exists()


@pytest.mark.parametrize("locked", ["settings.json", ".claude"])
def test_what_is_read_only_is_refused_before_anything_is_written(person: Person, locked: str) -> None:
    person.has(state="{}")
    path = person.settings if locked == "settings.json" else person.settings.parent
    path.chmod(path.stat().st_mode & ~0o222)
    before = person.tree(without=(".cems", ".local"))
    with pytest.raises(files.CannotWrite, match=locked):
        person.setup()
    assert person.tree(without=(".cems", ".local")) == before
    record = load(person.home)
    assert record is not None
    assert record.agents == ()
    path.chmod(0o755)


def test_a_file_claude_would_ignore_is_left_and_said_so_with_its_line(person: Person) -> None:
    person.has('{\n  "model": "opus",\n  // the good one\n}\n')
    before = person.tree()
    plan = person.setup()
    assert plan.problems
    assert "settings.json:3: comments are not allowed" in plan.problems[0]
    assert {name: kind for name, kind in person.tree().items() if not name.startswith((".cems", ".local"))} == before


def test_line_ends_mark_and_missing_last_newline_are_kept(person: Person) -> None:
    before = b'\xef\xbb\xbf{\r\n\t"model": "opus \\u00e9"\r\n}'
    person.has(before)
    person.setup()
    now = person.settings.read_bytes()
    assert now.startswith(before[:-3] + b",\r\n\t")
    assert now.count(b"\n") == now.count(b"\r\n")
    assert now.endswith(b"}")


def test_somebody_elses_write_in_between_is_not_overwritten(person: Person) -> None:
    person.has()
    path = person.settings
    edits = (
        FileEdit(path, b"{}\n", b'{"a": 1}', "ours"),
        FileEdit(person.state, b"{}", b'{"b": 1}', "read before somebody wrote it"),
    )
    person.state.write_text('{"theirs": 1}')
    with pytest.raises(files.ChangedMeanwhile):
        apply.write_edits(edits)
    assert path.read_bytes() == b"{}\n"
    assert person.state.read_text() == '{"theirs": 1}'


def test_the_agents_lock_is_waited_for_and_given_back(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOCK_WAIT", 0.2)
    lock = person.root / ".claude.json.lock"
    person.has(state="{}")
    person.setup()
    assert not lock.exists()
    # Left behind by a crash: it is not ours to remove, and no reason to do nothing.
    lock.mkdir()
    person.state.write_text("{}")
    person.setup(repair=True)
    assert "cems" in person.read(person.state)["mcpServers"]
    assert lock.is_dir()


def test_a_failed_write_puts_the_others_back(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.has(state="{}")
    before = person.tree(without=(".cems", ".local"))
    real = files.write

    def failing(path: Path, data: bytes, *, mode: int = 0o600) -> None:
        if path == person.state:
            raise OSError(28, "No space left on device")
        real(path, data, mode=mode)

    monkeypatch.setattr(files, "write", failing)
    with pytest.raises(OSError, match="No space"):
        person.setup()
    assert person.tree(without=(".cems", ".local")) == before


def test_what_the_person_took_out_stays_out(person: Person) -> None:
    person.has()
    person.setup()
    now = person.read(person.settings)
    del now["hooks"]["Stop"]
    person.settings.write_text(json.dumps(now))
    plan = person.setup()
    assert not plan.changes
    assert "hook Stop" in _wiring(plan).removed
    assert "Stop" not in person.read(person.settings)["hooks"]
    person.setup(insisted=frozenset({"claude-code"}))
    assert "Stop" in person.read(person.settings)["hooks"]


def test_skills_are_copied_updated_and_left_alone_once_edited(person: Person, shipped: Path) -> None:
    person.has()
    person.setup()
    skill = person.root / ".claude" / "skills" / "recall"
    assert (skill / "more" / "notes.md").read_text() == "notes"
    (shipped / "recall" / "SKILL.md").write_text("recall, second version")
    person.setup()
    assert (skill / "SKILL.md").read_text() == "recall, second version"
    (skill / "SKILL.md").write_text("mine now")
    (shipped / "recall" / "SKILL.md").write_text("recall, third version")
    plan = person.setup()
    assert (skill / "SKILL.md").read_text() == "mine now"
    assert any("was edited" in note for note in _wiring(plan).notes)


def test_a_skill_that_was_removed_stays_removed(person: Person, shipped: Path) -> None:
    person.has()
    person.setup()
    (person.root / ".claude/skills/recall/SKILL.md").unlink()
    plan = person.setup()
    assert not plan.changes
    assert _wiring(plan).removed == ("skill recall",)
    person.setup(repair=True)
    assert (person.root / ".claude/skills/recall/SKILL.md").exists()


def test_somebody_elses_skill_of_the_same_name_is_left_alone(person: Person, shipped: Path) -> None:
    person.has()
    theirs = person.root / ".claude/skills/recall/SKILL.md"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")
    plan = person.setup()
    assert theirs.read_text() == "theirs"
    assert any("somebody else's" in note for note in _wiring(plan).notes)
    person.uninstall()
    assert theirs.read_text() == "theirs"


def test_the_command_is_linked_unless_the_name_is_taken(person: Person) -> None:
    person.setup()
    link = person.root / ".local/bin/cems"
    assert link.resolve() == person.home.bin / "cems"
    assert any("PATH" in note for note in person.plan().link.notes)
    link.unlink()
    link.write_text("another program")
    plan = person.setup()
    assert link.read_text() == "another program"
    assert any("another program's" in note for note in plan.link.notes)


def test_the_launchers_are_the_same_bytes_each_time_and_mended_when_damaged(person: Person) -> None:
    person.setup()
    hook = launchers.launchers(person.home).hook
    text = hook.read_bytes()
    assert text in launchers.sources(person.home).values()
    hook.write_bytes(b"#!/bin/sh\n")
    assert person.plan().launchers == (hook,)
    person.setup()
    assert hook.read_bytes() == text
    assert stat.S_IMODE(hook.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "line",
    [
        '  "MY_API_KEY": "sk-live-1",',
        '{"env": {"TOKEN": "sk-live-1", "other": 1}, "auth": "sk-live-1"}',
        'api_key = "sk-live-1"  # mine',
        "http_headers = { Authorization = 'sk-live-1' }",
        "    GITHUB_TOKEN: sk-live-1",
        "    password: 'sk-live-1'",
    ],
)
def test_no_secret_is_shown_in_any_of_the_agents_formats(tmp_path: Path, line: str) -> None:
    edit = FileEdit(tmp_path / "config", f"{line}\n".encode(), f"{line}\nours\n".encode(), "ours")
    shown = "\n".join(show.diff_lines(edit))
    assert "ours" in shown
    assert "sk-live-1" not in shown


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ('  "GITHUB_PAT": "ghp_0123456789abcdefghijABCDEFGHIJ012345",', "ghp_0123456789"),
        ('  "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789",', "abcdefghijklmnop"),
        ("  url: postgres://bob:hunter22@db.example.org/shop", "hunter22"),
        ('  passphrase: "open sesame 123"', "sesame"),
    ],
)
def test_a_secret_is_not_shown_whatever_its_name(tmp_path: Path, line: str, secret: str) -> None:
    edit = FileEdit(tmp_path / "config", f"{line}\n".encode(), f"{line}\nours\n".encode(), "ours")
    shown = "\n".join(show.diff_lines(edit))
    assert "ours" in shown
    assert secret not in shown


def test_secrets_of_the_person_are_not_shown(person: Person) -> None:
    person.has(state='{\n  "primaryApiKey": "sk-ant-1234",\n  "model": "x"\n}')
    text = "\n".join(show.plan_lines(person.plan(), person.home, person.machine))
    assert "sk-ant-1234" not in text
    assert "cems-mcp" in text
    person.has(state='{"primaryApiKey":"sk-ant-1234"}')
    text = "\n".join(show.plan_lines(person.plan(), person.home, person.machine))
    assert "sk-ant-1234" not in text


def test_of_several_agents_each_file_is_one_line_unless_all_is_asked_for(person: Person) -> None:
    person.has(state='{\n  "primaryApiKey": "sk-ant-1234"\n}')
    (person.root / ".cursor").mkdir()
    plan = person.plan()
    short = list(show.plan_lines(plan, person.home, person.machine))
    full = list(show.plan_lines(plan, person.home, person.machine, in_full=True))
    assert len(short) < len(full) / 3
    assert any(line.strip().startswith("~/.cursor/hooks.json: hooks for ") for line in short)
    assert not any("cems-hook cems_stop" in line for line in short)
    assert any("--dry-run" in line for line in short)
    assert any("cems-hook cems_stop" in line for line in full)


def test_an_unknown_agent_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownAgent, match="claude-code"):
        named(["clod"])
    assert "claude-code" in all_agents()


def test_a_record_of_a_newer_version_or_damaged_is_refused(person: Person) -> None:
    person.setup()
    text = person.home.install_conf.read_text()
    person.home.install_conf.write_text(text.replace('"version": 1', '"version": 2'))
    with pytest.raises(RecordUnreadable, match="newer"):
        load(person.home)
    person.home.install_conf.write_text("{")
    with pytest.raises(RecordUnreadable, match="cannot be read"):
        load(person.home)


def test_the_doctor_tells_connected_from_broken_and_from_left_out(person: Person) -> None:
    assert agent_checks(person.home, person.machine)[0]["fix"] == "cems setup"
    person.has()
    person.setup()
    assert all(check["ok"] for check in agent_checks(person.home, person.machine))
    assert agent_states(person.home, person.machine)["claude-code"] == "set up"
    now = person.read(person.settings)
    del now["hooks"]["Stop"]
    person.settings.write_text(json.dumps(now))
    broken = [check for check in agent_checks(person.home, person.machine) if not check["ok"]]
    assert ["hook Stop" in check["detail"] for check in broken] == [True]
    # Once setup has been told, it is the person's choice and no problem.
    person.setup()
    assert all(check["ok"] for check in agent_checks(person.home, person.machine))
    launchers.launchers(person.home).mcp.unlink()
    assert not all(check["ok"] for check in agent_checks(person.home, person.machine))


def test_an_agent_that_came_later_is_pointed_out(person: Person) -> None:
    person.setup()
    assert agent_states(person.home, person.machine)["claude-code"] == "not found"
    person.has()
    (check,) = [check for check in agent_checks(person.home, person.machine) if not check["ok"]]
    assert check["fix"] == "cems setup --agent claude-code"


def test_a_home_made_by_setup_is_a_home(person: Person) -> None:
    person.setup()
    assert isinstance(person.home, Home)
    assert json.loads(person.home.install_conf.read_text())["version"] == 1


# -- entries over time


def _hook(person: Person, event: str) -> dict[str, Any]:
    groups: list[dict[str, Any]] = person.read(person.settings)["hooks"][event]
    return dict(groups[0]["hooks"][0])


def _older_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a version before this one wrote."""
    older = tuple(replace(hook, timeout=hook.timeout + 1) for hook in claude_config.HOOKS)
    monkeypatch.setattr(claude_config, "HOOKS", older)


def test_an_entry_of_an_older_version_is_brought_up_to_date_in_its_place(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.has()
    with monkeypatch.context() as earlier:
        _older_hooks(earlier)
        person.setup()
    settings = person.read(person.settings)
    settings["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "theirs"}]})
    # The agent writes its file anew, in its own layout.
    person.settings.write_text(json.dumps(settings))
    assert _hook(person, "Stop")["timeout"] == 6
    person.setup()
    assert _hook(person, "Stop")["timeout"] == 5
    assert [group["hooks"][0]["command"] for group in person.read(person.settings)["hooks"]["Stop"]][1] == "theirs"
    before = person.settings.read_bytes()
    assert not person.plan().changes
    assert person.settings.read_bytes() == before


def test_what_the_person_changed_in_an_entry_is_kept_and_said(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.has()
    with monkeypatch.context() as earlier:
        _older_hooks(earlier)
        person.setup()
    settings = person.read(person.settings)
    settings["hooks"]["Stop"][0]["hooks"][0]["timeout"] = 99
    person.settings.write_text(json.dumps(settings, indent=2))
    plan = person.setup()
    assert _hook(person, "Stop")["timeout"] == 99
    assert any("`hook Stop` was changed by you" in note for note in _wiring(plan).notes)
    person.setup(repair=True)
    assert _hook(person, "Stop")["timeout"] == 5
    person.uninstall()
    assert "cems" not in person.settings.read_text()


def test_our_agents_are_registered_under_the_names_of_their_packages() -> None:
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    assert declared["project"]["entry-points"]["cems.agents"] == packaged_agents()
    assert all(agent.name == name for name, agent in all_agents().items())
