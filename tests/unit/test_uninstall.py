"""Uninstall leaves the home folder as it was, byte for byte, and the memories where they are."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.person import Person

from cems.adapters.base import ConfigUnreadable
from cems.adapters.claude_code import config as claude_config
from cems.installer import files, undo

MEMORIES = ("journal.db", "journal.db-wal", "config.toml", "pauses.json", "keys/values.key")


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


@pytest.fixture(autouse=True)
def skills(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("skills")
    (folder / "recall").mkdir()
    (folder / "recall" / "SKILL.md").write_text("recall")
    monkeypatch.setattr(claude_config, "SKILLS", folder)


def _remember(person: Person) -> None:
    for name in (*MEMORIES, "state.db", "store/rows.lance", "logs/daemon.log", "env/bin/python", "snapshot.json"):
        path = person.home.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


ODD = [
    "{}",
    "",
    "\n",
    '{"model":"opus"}',
    '\ufeff{\r\n\t"permissions" : {"allow":[ ]},\r\n\t"hooks": { "Stop": [ ] }\r\n}',
    '{\n    "hooks": {\n        "Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]\n    }\n}\n\n',
    '{"hooks": {"Stop": []}, "hooks": {"SessionEnd": []}}',
]


@pytest.mark.parametrize("text", ODD)
def test_an_untouched_home_is_the_same_to_the_byte(person: Person, text: str) -> None:
    person.has(text, state='{\n "numStartups": 3\n}')
    before = person.tree()
    person.setup()
    assert person.tree() != before
    assert person.uninstall() == []
    assert person.tree() == before


def test_a_home_without_any_agent_is_the_same_too(person: Person) -> None:
    person.setup()
    assert person.uninstall() == []
    assert person.tree() == {}


def test_files_and_folders_that_were_made_go(person: Person) -> None:
    (person.root / ".local").mkdir()
    before = person.tree()
    person.setup(insisted=frozenset({"claude-code"}))
    assert (person.root / ".claude/skills/recall/SKILL.md").exists()
    person.uninstall()
    assert person.tree() == before


def test_the_memories_stay_and_the_program_goes(person: Person) -> None:
    person.has()
    person.setup()
    _remember(person)
    left = person.uninstall()
    assert left == ["config.toml", "journal.db", "journal.db-wal", "keys", "pauses.json"]
    assert all((person.home.root / name).read_text() == name for name in MEMORIES)


def test_purge_removes_them_too_but_nothing_that_was_there_before_us(person: Person) -> None:
    person.home.root.mkdir(mode=0o700)
    (person.home.root / "notes.txt").write_text("mine")
    person.setup()
    _remember(person)
    assert person.uninstall(purge=True) == ["notes.txt"]
    (person.home.root / "notes.txt").unlink()
    person.setup()
    _remember(person)
    assert person.uninstall(purge=True) == []
    assert not person.home.root.exists()


def test_after_the_agent_wrote_its_file_anew_only_ours_is_missing(person: Person) -> None:
    person.has('{"model": "opus", "hooks": {}}', state='{"mcpServers": {"other": {"command": "x"}}}')
    person.setup()
    for path in (person.settings, person.state):
        now = person.read(path)
        now["added"] = {"by": "claude"}
        path.write_text(json.dumps(now, indent=1, sort_keys=True))
    person.uninstall()
    assert person.read(person.settings) == {"model": "opus", "hooks": {}, "added": {"by": "claude"}}
    assert person.read(person.state) == {"mcpServers": {"other": {"command": "x"}}, "added": {"by": "claude"}}


def test_what_is_edited_after_setup_keeps_its_form(person: Person) -> None:
    person.has('{\n  "model": "opus"\n}\n')
    person.setup()
    text = person.settings.read_text()
    person.settings.write_text(text.replace('"opus"', '"haiku",   "theme" : "dark"'))
    person.uninstall()
    assert person.settings.read_text() == '{\n  "model": "haiku",   "theme" : "dark"\n}\n'


def test_an_upgrade_over_an_edited_file_goes_back_to_the_edit(person: Person) -> None:
    person.has('{\n  "model": "opus"\n}\n')
    person.setup(permissions=False)
    text = person.settings.read_text()
    person.settings.write_text(text.replace('"opus"', '"haiku"'))
    person.setup()
    person.uninstall()
    assert person.settings.read_text() == '{\n  "model": "haiku"\n}\n'


def test_a_file_the_agent_filled_after_we_made_it_stays(person: Person) -> None:
    person.setup(insisted=frozenset({"claude-code"}))
    now = person.read(person.state)
    person.state.write_text(json.dumps({**now, "numStartups": 1}))
    person.uninstall()
    assert person.read(person.state) == {"numStartups": 1}
    assert not person.settings.exists()


def test_a_linked_file_is_restored_through_its_link(person: Person) -> None:
    person.has()
    (person.root / "dotfiles").mkdir()
    person.settings.rename(person.root / "dotfiles/settings.json")
    person.settings.symlink_to("../dotfiles/settings.json")
    before = person.tree()
    person.setup()
    person.uninstall()
    assert person.tree() == before


def test_a_skill_the_person_edited_stays_theirs(person: Person) -> None:
    person.has()
    person.setup()
    skill = person.root / ".claude/skills/recall/SKILL.md"
    skill.write_text("mine now")
    person.uninstall()
    assert skill.read_text() == "mine now"


def test_without_the_record_our_entries_are_found_by_what_they_say(person: Person) -> None:
    person.has('{"model": "opus"}', state='{"numStartups": 1}')
    person.setup()
    person.home.install_conf.unlink()
    person.uninstall()
    settings_now = person.read(person.settings)
    # Rules name no program: without the record nothing says that they are ours.
    assert set(settings_now) == {"model", "permissions"}
    assert person.read(person.state) == {"numStartups": 1}
    assert not (person.root / ".claude/skills/recall").exists()
    assert not (person.root / ".local/bin/cems").is_symlink()


def test_a_file_broken_since_stops_everything(person: Person) -> None:
    person.has()
    person.setup()
    person.settings.write_text("{ broken")
    before = person.tree()
    with pytest.raises(ConfigUnreadable, match=r"settings\.json:1"):
        person.uninstall()
    assert person.tree() == before


def test_a_file_made_read_only_since_stops_everything(person: Person) -> None:
    person.has()
    person.setup()
    person.settings.chmod(0o444)
    before = person.tree()
    with pytest.raises(files.CannotWrite):
        person.uninstall()
    assert person.tree() == before


def test_a_home_that_holds_more_than_cems_is_not_emptied(person: Person, tmp_path: Path) -> None:
    person.has()
    from cems.core.paths import Home

    with pytest.raises(undo.NotOurHome, match="holds more than CEMS"):
        undo.check_home(Home(person.root), person.machine)
    with pytest.raises(undo.NotOurHome, match="holds more than CEMS"):
        undo.check_home(Home(Path("/")), person.machine)
    other = tmp_path / "Documents"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    with pytest.raises(undo.NotOurHome, match="does not look like"):
        undo.check_home(Home(other), person.machine)


def test_uninstall_twice_and_setup_again_are_no_special_cases(person: Person) -> None:
    person.has()
    before = person.tree()
    person.setup()
    _remember(person)
    person.uninstall()
    assert person.uninstall() == ["config.toml", "journal.db", "journal.db-wal", "keys", "pauses.json"]
    person.setup()
    assert "Stop" in person.read(person.settings)["hooks"]
    person.uninstall(purge=True)
    assert person.tree() == before


KEYS = st.text(string.ascii_letters + "é日 ", min_size=1, max_size=5)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), KEYS)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2), max_leaves=6
)
GROUP = st.fixed_dictionaries({"hooks": st.just([{"type": "command", "command": "theirs"}])})
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "model": KEYS,
        "hooks": st.dictionaries(st.sampled_from(["Stop", "PreToolUse", "SessionStart"]), st.lists(GROUP, max_size=2)),
        "permissions": st.fixed_dictionaries(
            {}, optional={"allow": st.lists(KEYS, max_size=2), "deny": st.lists(KEYS, max_size=2)}
        ),
        "env": st.dictionaries(KEYS, VALUES, max_size=2),
    },
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(found=SETTINGS, indent=st.sampled_from([None, 1, 2, 4, "\t"]), sort=st.booleans(), rewrite=st.booleans())
def test_any_settings_come_back(
    tmp_path_factory: pytest.TempPathFactory, found: object, indent: int | None, sort: bool, rewrite: bool
) -> None:
    person = Person(tmp_path_factory.mktemp("home")).has(json.dumps(found, indent=indent, sort_keys=sort))
    before = person.tree()
    person.setup()
    if rewrite:
        # As agents do: the whole file anew, in their own order and form.
        person.settings.write_text(json.dumps(person.read(person.settings), sort_keys=True, indent=3))
        person.uninstall()
        assert person.read(person.settings) == found
    else:
        person.uninstall()
        assert person.tree() == before


def test_a_folder_that_was_there_and_empty_stays(person: Person) -> None:
    for name in (".cursor", ".copilot", ".pi/agent"):
        (person.root / name).mkdir(parents=True)
    before = person.tree()
    person.setup()
    person.uninstall()
    assert person.tree() == before
