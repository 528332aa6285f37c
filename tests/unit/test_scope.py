"""A project is named by its repository, wherever it lies on the disk, and no two projects share a name."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cems.core import git_identity
from cems.core.git_identity import folder_name, remote_identity
from cems.core.scope import (
    SHARED,
    USER,
    SessionScope,
    is_project,
    project_identity,
    project_name,
    project_scope,
    session_scope,
)

BASE = Path("/nowhere/project")
NAME = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,12}(\.[a-z0-9_-]{1,5})?", fullmatch=True).filter(
    lambda name: not name.endswith(".git")
)


def git(*arguments: str, at: Path) -> None:
    subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments], cwd=at, check=True, capture_output=True, timeout=60
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


@pytest.fixture
def repository(place: Path) -> Path:
    made = place / "repo"
    made.mkdir()
    git("init", "-q", at=made)
    git("commit", "-q", "--allow-empty", "-m", "first", at=made)
    return made


# -- remotes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/Org/Repo",
        "https://github.com/org/repo.git",
        "https://github.com/org/repo.git/",
        "https://GitHub.com/org/repo/",
        "https://github.com//org//repo",
        "https://user:token@github.com/org/repo.git",
        "https://user:to@ken@github.com/org/repo.git",
        "https://ghp_0123456789@github.com/org/repo",
        "https://github.com:443/org/repo.git?depth=1#main",
        "http://github.com/org/repo",
        "git://github.com/org/repo.git",
        "ssh://git@github.com/org/repo.git",
        "ssh://git@github.com:22/org/repo.git",
        "ssh://git@ssh.github.com:443/org/repo.git",
        "git+ssh://git@github.com/org/repo",
        "git@github.com:org/repo.git",
        "git@github.com:/org/repo.git",
        "github.com:org/repo",
        "  git@github.com:org/repo.git\t",
    ],
)
def test_every_form_of_a_remote_gives_one_identity(url: str) -> None:
    assert remote_identity(url, BASE) == "github.com/org/repo"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://github.com/org/repo", "https://github.com/org/repo-2"),
        ("https://github.com/org/repo", "https://gitlab.com/org/repo"),
        ("https://github.com/org/repo", "https://github.com/org2/repo"),
        ("https://github.com/org/repo", "https://github.com/org/repo/sub"),
        ("https://github.com/org/repo", "https://github.com.evil.example/org/repo"),
        ("https://github.com/org/repo", "https://github.com@evil.example/org/repo"),
        ("git@host:org/repo", "git@host-2:org/repo"),
    ],
)
def test_different_remotes_keep_different_identities(one: str, other: str) -> None:
    assert remote_identity(one, BASE) != remote_identity(other, BASE)


@given(st.tuples(NAME, NAME, NAME), st.tuples(NAME, NAME, NAME))
def test_remote_identities_are_injective(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    names = [
        {
            remote_identity(form.format(*parts), BASE)
            for form in ("https://{0}x.org/{1}/{2}.git", "git@{0}x.org:{1}/{2}")
        }
        for parts in (one, other)
    ]
    assert all(len(each) == 1 for each in names)
    assert (names[0] == names[1]) == (one == other)


@pytest.mark.parametrize("secret", ["tok3n", "to@k3n", "a:b@c"])
def test_no_part_of_a_credential_reaches_the_identity(secret: str) -> None:
    for url in (f"https://me:{secret}@host.org/a/b", f"ssh://me:{secret}@host.org/a/b", f"me:{secret}@host.org:a/b"):
        identity = remote_identity(url, BASE) or ""
        assert not re.search(r"tok3n|k3n|a:b|@", identity), identity


@pytest.mark.parametrize(
    "url",
    [
        "", " ", "https://", "https:///path-only", "https://host.org", "https://host.org/.git", "ext::sh -c 'touch x'", "ext::sh",
        "https://host.org/a\nb", "https://host.org/a\x00b", "https://host.org/" + "a" * 5_000, "https://[zz]/a/b", "https://ho st/a",
        "https://host.org/a\udcff",
    ],
)  # fmt: skip
def test_a_remote_that_names_no_place_gives_no_identity(url: str) -> None:
    assert remote_identity(url, BASE) is None


@given(st.text(max_size=60))
def test_no_remote_makes_it_raise_or_collide_with_a_folder(url: str) -> None:
    identity = remote_identity(url, BASE)
    assert identity is None or identity.isprintable()
    assert identity is None or not identity.startswith("path:")
    if identity and identity.startswith("git:"):
        assert identity.startswith("git:/")


def test_ipv6_hosts_are_kept_apart() -> None:
    assert remote_identity("ssh://git@[::1]:22/a/b", BASE) == "::1/a/b"
    assert remote_identity("git@[::2]:a/b", BASE) == "::2/a/b"


# -- repositories ----------------------------------------------------------------------------------------------------


def test_a_repository_is_named_by_its_remote_from_any_folder_in_it(repository: Path) -> None:
    git("remote", "add", "fork", "https://github.com/me/repo", at=repository)
    git("remote", "add", "origin", "https://tok@github.com/Org/Repo.git", at=repository)
    deep = repository / "a" / "b c" / "ü"
    deep.mkdir(parents=True)
    assert project_identity(str(deep)) == project_identity(str(repository)) == "github.com/org/repo"


def test_without_origin_the_upstream_and_then_the_first_by_name_counts(repository: Path) -> None:
    git("remote", "add", "zeta", "https://host.org/zeta/r", at=repository)
    git("remote", "add", "alpha", "https://host.org/alpha/r", at=repository)
    assert project_identity(str(repository)) == "host.org/alpha/r"
    git("remote", "add", "upstream", "https://host.org/up/r", at=repository)
    assert project_identity(str(repository)) == "host.org/up/r"


def test_worktrees_share_the_identity_with_and_without_a_remote(repository: Path, place: Path) -> None:
    git("worktree", "add", "-q", str(place / "elsewhere" / "tree"), at=repository)
    tree = place / "elsewhere" / "tree"
    assert project_identity(str(tree)) == project_identity(str(repository)) == f"git:{repository}/.git"
    git("remote", "add", "origin", "git@github.com:org/repo", at=repository)
    assert project_identity(str(tree)) == project_identity(str(repository)) == "github.com/org/repo"


def test_worktrees_of_a_bare_repository_share_the_identity(repository: Path, place: Path) -> None:
    git("clone", "-q", "--bare", str(repository), str(place / "bare.git"), at=place)
    git("remote", "remove", "origin", at=place / "bare.git")
    git("worktree", "add", "-q", str(place / "one"), at=place / "bare.git")
    assert project_identity(str(place / "one")) == project_identity(str(place / "bare.git")) == f"git:{place}/bare.git"


def test_a_submodule_is_a_project_of_its_own(repository: Path, place: Path) -> None:
    git("init", "-q", "library", at=place)
    git("commit", "-q", "--allow-empty", "-m", "first", at=place / "library")
    git("submodule", "add", "-q", str(place / "library"), "vendored", at=repository)
    inside = repository / "vendored"
    assert (inside / ".git").is_file()
    assert project_identity(str(inside)) == project_identity(str(place / "library")) == f"git:{place}/library/.git"
    git("remote", "set-url", "origin", "https://github.com/org/library", at=inside)
    assert project_identity(str(inside)) == "github.com/org/library"
    assert project_identity(str(repository)) == f"git:{repository}/.git"


@pytest.mark.parametrize("form", ["{0}", "file://{0}", "file://localhost{0}", "FILE://{0}", "{0}/.git", "../repo"])
def test_a_clone_of_a_local_repository_has_its_identity(repository: Path, place: Path, form: str) -> None:
    git("clone", "-q", str(repository), "clone", at=place)
    git("remote", "set-url", "origin", form.format(repository), at=place / "clone")
    assert project_identity(str(place / "clone")) == project_identity(str(repository))


def test_a_bare_repository_and_a_folder_of_nearly_its_name_are_two_remotes(repository: Path, place: Path) -> None:
    git("clone", "-q", "--bare", str(repository), "repo.git", at=place)
    (bare, plain) = (remote_identity(str(place / name), BASE) for name in ("repo.git", "repo"))
    assert bare == f"git:{place}/repo.git"
    assert plain == f"git:{place}/repo/.git"


def test_a_local_remote_may_leave_git_out_of_its_name(repository: Path, place: Path) -> None:
    git("clone", "-q", "--bare", str(repository), "alone.git", at=place)
    assert remote_identity(str(place / "alone"), BASE) == f"git:{place}/alone.git"


def test_a_symbolic_link_to_a_project_is_the_project(repository: Path, place: Path) -> None:
    (place / "link").symlink_to(repository)
    (place / "plain").mkdir()
    (place / "link-2").symlink_to(place / "plain")
    assert project_identity(str(place / "link")) == project_identity(str(repository))
    assert project_identity(str(place / "link-2")) == project_identity(str(place / "plain")) == f"path:{place}/plain"


def test_the_inside_of_the_git_folder_is_the_project(repository: Path) -> None:
    assert project_identity(str(repository / ".git" / "hooks")) == project_identity(str(repository))


def test_two_folders_of_one_name_are_two_projects(place: Path) -> None:
    for parent in ("one", "two"):
        (place / parent / "app").mkdir(parents=True)
    assert project_identity(str(place / "one" / "app")) != project_identity(str(place / "two" / "app"))


# -- nobody's folders ------------------------------------------------------------------------------------------------


@pytest.fixture
def own_home(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (place / "people" / "me").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(place / "people" / "me"))
    return place / "people" / "me"


@pytest.mark.parametrize(
    "folder", ["/", "/tmp", "/var/tmp", "", ".", "relative", "/does/not/exist", "/etc/passwd", "a\0b"]
)
def test_a_folder_that_is_nobodys_project_gives_the_persons_scope_only(folder: str) -> None:
    assert session_scope(folder) == SessionScope(None)
    assert session_scope(folder).readable == (USER, SHARED)
    assert session_scope(folder).default == USER


def test_the_home_folder_and_what_holds_it_are_nobodys_project(own_home: Path) -> None:
    assert project_identity(str(own_home)) is None
    assert project_identity(str(own_home.parent)) is None
    (own_home / "notes").mkdir()
    assert project_identity(str(own_home / "notes")) == f"path:{own_home}/notes"


def test_a_repository_of_dotfiles_in_the_home_is_not_the_project_of_every_folder_below(own_home: Path) -> None:
    git("init", "-q", at=own_home)
    (own_home / "work").mkdir()
    git("init", "-q", "repo", at=own_home / "work")
    assert project_identity(str(own_home)) is None
    assert project_identity(str(own_home / "work")) == f"path:{own_home}/work"
    assert project_identity(str(own_home / "work" / "repo")) == f"git:{own_home}/work/repo/.git"


def test_a_working_directory_that_was_deleted_gives_the_persons_scope_only(place: Path) -> None:
    gone = place / "gone"
    gone.mkdir()
    before = Path.cwd()
    try:
        os.chdir(gone)
        gone.rmdir()
        assert session_scope(str(gone)) == SessionScope(None)
        # The daemon's own folder may be gone too: others' projects are still found.
        assert project_identity(str(place)) == f"path:{place}"
    finally:
        os.chdir(before)


def test_a_folder_name_that_is_no_text_can_be_stored_and_stays_apart(place: Path) -> None:
    one, other = (Path(os.fsdecode(os.fsencode(place) + tail)) for tail in (b"/\xff", b"/\xfe"))
    one.mkdir()
    other.mkdir()
    names = {project_identity(str(each)) or "" for each in (one, other)}
    assert len(names) == 2
    assert all(name.encode().decode().isprintable() for name in names)


def test_a_line_break_in_a_folder_name_does_not_reach_the_scope(place: Path) -> None:
    (place / "x\nnew instructions").mkdir()
    assert "\n" not in (project_identity(str(place / "x\nnew instructions")) or "\n")


@given(
    st.text(st.characters(blacklist_characters="\0"), max_size=20),
    st.text(st.characters(blacklist_characters="\0"), max_size=20),
)
def test_folder_names_are_injective(one: str, other: str) -> None:
    first, second = Path("/p") / one.replace("/", "-"), Path("/p") / other.replace("/", "-")
    try:
        os.fsencode(first), os.fsencode(second)
    except UnicodeEncodeError:
        return
    assert (folder_name(first) == folder_name(second)) == (first == second)


# -- the session's scope ---------------------------------------------------------------------------------------------


def test_a_declared_root_counts_where_the_working_directory_is_in_no_project(repository: Path, place: Path) -> None:
    spaced = place / "a b ü"
    spaced.mkdir()
    expected = project_scope(f"git:{repository}/.git")
    assert session_scope("/", [repository.as_uri()]).project == expected
    assert session_scope("/", [str(repository)]).project == expected
    assert session_scope("/", ["file:///nope", spaced.as_uri()]).project == project_scope(f"path:{spaced}")
    assert session_scope(str(repository), [spaced.as_uri()]).project == expected
    assert session_scope("/", ["https://host.org/x", "file://", "file:///%ff"]).project is None


def test_a_session_reads_its_project_the_person_and_the_team() -> None:
    scope = SessionScope(project_scope("github.com/org/repo"))
    assert scope.readable == ("project:github.com/org/repo", "user", "shared")
    assert scope.default == "project:github.com/org/repo"
    assert project_scope("github.com/org/repo-2") not in scope.readable


def test_a_scope_tells_its_project() -> None:
    assert is_project(project_scope("x/y"))
    assert not is_project(USER)
    assert project_name(project_scope("x/y")) == "x/y"
    assert project_name(USER) == "user"


# -- hostile repositories --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ('[remote "origin"]\n\turl = https://host.org/a/b # comment', "host.org/a/b"),
        ('[remote "origin"]\n\turl = "https://host.org/a/b" ; comment', "host.org/a/b"),
        ('[Remote "origin"] URL=https://host.org/a/b', "host.org/a/b"),
        ('\ufeff[remote "origin"]\r\n\turl = https://host.org/a/b\r\n', "host.org/a/b"),
        ('[remote "origin"]\n\turl = https://host.org/\\\na/b\n', "host.org/a/b"),
        ('[remote "o]r\\"x"]\n url = https://host.org/a/b', "host.org/a/b"),
        ('[remote "origin"]\n\turl = https://host.org/a/b\n\turl = https://evil.org/a/b', "host.org/a/b"),
        ('[remote "origin"]\n\tpushurl = https://evil.org/a/b', None),
        ('[branch "origin"]\n\turl = https://evil.org/a/b', None),
        ('[remote]\n\turl = https://evil.org/a/b', None),
        ('[core]\n\tfsmonitor = touch owned\n\tsshCommand = touch owned\n[include]\n\tpath = /etc/passwd', None),
        ('[remote "origin"]\n\turl = ext::sh -c "touch owned"', None),
        ("\x00\xff garbage [[[ ", None),
        ("[" * 100_000, None),
        ('[remote "origin"]\n\turl = ' + "a " * 400_000 + "b", None),
        ('[remote "' + "\\a" * 300_000, None),
    ],
)  # fmt: skip
def test_a_configuration_is_read_as_git_reads_it_and_nothing_in_it_runs(
    place: Path, config: str, expected: str | None
) -> None:
    (place / ".git").mkdir()
    (place / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (place / ".git" / "config").write_bytes(config.encode("utf-8"))
    assert project_identity(str(place)) == (expected or f"git:{place}/.git")
    assert not (place / "owned").exists()


def test_a_pipe_in_place_of_a_git_file_is_not_waited_for(place: Path) -> None:
    (place / ".git").mkdir()
    (place / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    os.mkfifo(place / ".git" / "config")
    assert project_identity(str(place)) == f"git:{place}/.git"
    (place / "other").mkdir()
    os.mkfifo(place / "other" / ".git")
    assert project_identity(str(place / "other")) == f"git:{place}/.git"


@pytest.mark.parametrize(
    "marker", ["", "nonsense", "gitdir:", "gitdir: /nowhere", "gitdir: \0", "gitdir: " + "a/" * 9_000]
)
def test_a_git_file_that_leads_nowhere_makes_a_plain_folder(place: Path, marker: str) -> None:
    (place / ".git").write_text(marker)
    assert project_identity(str(place)) == f"path:{place}"


def test_an_empty_git_folder_is_no_repository(place: Path) -> None:
    (place / ".git").mkdir()
    assert project_identity(str(place)) == f"path:{place}"


def test_git_itself_is_never_run(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    monkeypatch.setattr(os, "posix_spawn", None)
    assert project_identity(str(repository))
    assert "subprocess" not in vars(git_identity)
