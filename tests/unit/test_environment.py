"""The copy of an environment, its scripts, and the exchange of two folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cems.core.paths import Home
from cems.installer import environment
from cems.installer.environment import UpdateFailed


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "cems")
    folder = made.env / "bin"
    folder.mkdir(parents=True)
    (made.env / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (made.env / "cems-source").write_text("a digest\n")
    (folder / "python").symlink_to("/usr/bin/python3")
    (folder / "cems").write_text(f"#!{folder}/python\nimport cems  # {folder}/x\n")
    (folder / "cems").chmod(0o755)
    (folder / "binary").write_bytes(b"\x7fELF" + os.fsencode(str(folder)))
    return made


def test_a_copy_is_made_of_links_and_belongs_to_no_checkout(home: Home) -> None:
    (home.root / "env.next").mkdir()
    (home.root / "env.next" / "left").touch()
    copy = environment.copy(home)
    assert sorted(path.name for path in copy.iterdir()) == ["bin", "pyvenv.cfg"]
    assert (copy / "pyvenv.cfg").samefile(home.env / "pyvenv.cfg")
    assert (copy / "bin/python").readlink() == Path("/usr/bin/python3")
    assert (home.env / "cems-source").read_text() == "a digest\n"


def test_a_copy_that_cannot_be_made_leaves_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(environment.os, "link", full)  # type: ignore[attr-defined]
    monkeypatch.setattr(environment.shutil, "copy2", full)  # type: ignore[attr-defined]
    with pytest.raises(UpdateFailed, match="No space left"):
        environment.copy(home)
    assert not (home.root / "env.next").exists()


def test_scripts_of_the_copy_name_the_place_it_will_have_and_the_others_stay(home: Home) -> None:
    old = (home.env / "bin/cems").read_text()
    copy = environment.copy(home)
    script = copy / "bin" / "cems"
    script.unlink()
    script.write_text(old.replace(str(home.env), str(copy)))
    script.chmod(0o755)
    environment._name_anew(copy, home.env)
    assert script.read_text() == old
    assert script.stat().st_mode & 0o777 == 0o755
    assert (copy / "bin/binary").samefile(home.env / "bin/binary")
    assert (home.env / "bin/cems").read_text() == old


@pytest.mark.parametrize("in_steps", [False, True])
def test_two_folders_change_places(tmp_path: Path, in_steps: bool) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    (environment._exchange_in_steps if in_steps else environment.exchange)(one, other)
    assert [path.name for path in one.iterdir()] == ["other"]
    assert [path.name for path in other.iterdir()] == ["one"]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("in_steps", [False, True])
def test_an_exchange_that_cannot_be_made_leaves_the_first_where_it_is(tmp_path: Path, in_steps: bool) -> None:
    one = tmp_path / "one"
    one.mkdir()
    (one / "file").touch()
    with pytest.raises(OSError, match="gone"):
        (environment._exchange_in_steps if in_steps else environment.exchange)(one, tmp_path / "gone")
    assert [path.name for path in one.iterdir()] == ["file"]


def test_a_command_that_cannot_be_started_or_does_not_end_is_a_failure(tmp_path: Path) -> None:
    assert environment.run([tmp_path / "nothing"], os.environ, 5.0)[0] == -1
    assert environment.run(["/bin/sh", "-c", "exec sleep 30"], os.environ, 0.1)[0] == -1
    assert environment.run(["/bin/sh", "-c", "echo a; echo b >&2; exit 3"], os.environ, 5.0) == (3, "a\nb\n")
