"""`cems update` on a real installation: to a really built release, and back from one that does not work."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import throwaway
from tests.fakes.installation import Installation, given_program
from tests.fakes.release_index import ReleaseIndex, serving
from tests.fakes.sandbox import Sandbox

NEXT = "0.9.0"
FACT = "The staging database listens on port 5433."
RUN = "from cems.core.cli.main import run; run()"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release above ours, built from this tree."""
    if given_program():
        pytest.skip("needs an installation of its own, not CEMS_TEST_PROGRAM")
    source = tmp_path_factory.mktemp("release") / "source"
    shutil.copytree(installed.source, source, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    version = source / "src/cems/__init__.py"
    ours = version.read_text().partition('__version__ = "')[2].partition('"')[0]
    version.write_text(version.read_text().replace(f'__version__ = "{ours}"', f'__version__ = "{NEXT}"'))
    python = installed.sandbox.program.with_name("python")
    command: list[str | Path] = [python, "-I", "-m", "pip", "wheel", "--no-deps", "--wheel-dir", source.parent, source]
    done = installed.sandbox.run(command, timeout=600)
    assert done.returncode == 0, done
    [made] = source.parent.glob("*.whl")
    return made


@pytest.fixture
def person(installed: Installation, wheel: Path, session_root: Path) -> Iterator[Sandbox]:
    """A home with an installation of its own: the shared environment's files, under another path."""
    home = Path(tempfile.mkdtemp(prefix="u", dir=session_root))
    environment = throwaway.child_environment(home, session_root / "r")
    made = Sandbox(home, session_root / "r", home / ".cems/bin/cems", environment)
    made.cems_home.mkdir(mode=0o700)
    shutil.copytree(installed.sandbox.program.parents[1], made.cems_home / "env", symlinks=True, copy_function=_linked)
    done = made.run([made.cems_home / "env/bin/python", "-I", "-c", RUN, "setup", "--yes", "--no-prove"])
    assert done.returncode == 0, done
    # On a busy machine the first start takes longer than a command waits.
    assert made.cems("daemon", "start").returncode == 0
    yield made
    made.end()


@pytest.fixture
def index() -> Iterator[ReleaseIndex]:
    with serving() as made:
        yield made


def _json(person: Sandbox, *arguments: str, env: Mapping[str, str] | None = None) -> Any:
    return person.cems(*arguments, "--json", env=env).json


def _linked(source: str, target: str) -> None:
    os.link(source, target, follow_symlinks=False)


def _broken(wheel: Path, folder: Path, module: str, text: str) -> Path:
    """The same release with another text in one of its modules."""
    target = folder / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for name in source.namelist():
            made.writestr(name, text if name == module else source.read(name))
    return target


def _publish(index: ReleaseIndex, wheel: Path) -> dict[str, str]:
    index.publish(NEXT, wheel.read_bytes(), wheel.name)
    return {"CEMS_UPDATE_INDEX": index.url}


def _content(environment: Path) -> dict[str, str]:
    """What is in an environment: the digest of each file, the target of each link; not what Python caches."""
    return {
        str(path.relative_to(environment)): str(path.readlink())
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in environment.rglob("*")
        if (path.is_symlink() or path.is_file()) and "__pycache__" not in path.parts
    }


def _leftovers(person: Sandbox) -> list[str]:
    return sorted(path.name for path in person.cems_home.iterdir() if path.name.startswith(("env.", "proof-")))


def test_a_release_takes_the_place_of_what_runs_with_memories_daemon_and_all(
    person: Sandbox, index: ReleaseIndex, wheel: Path, installed: Installation
) -> None:
    variables = _publish(index, wheel)
    shared = installed.sandbox.program.parents[1]
    before = _content(shared)
    assert person.cems("add", FACT).returncode == 0
    assert _json(person, "status")["daemon"]["version"] != NEXT
    told = _json(person, "update", "--check", env=variables)
    assert (told["newest"], told["updated"]) == (NEXT, False)
    assert _content(person.cems_home / "env") == before
    done = person.cems("update", "--yes", env=variables, timeout=900)
    assert done.returncode == 0, done
    assert f"CEMS {NEXT} is in place of" in done.stdout
    assert person.cems("--version").stdout.strip() == f"cems {NEXT}"
    # It runs already; on a busy machine it is still loading.
    assert _json(person, "daemon", "start")["started"] is False
    status = _json(person, "status")
    assert (status["daemon"]["version"], status["memories"]["live"]) == (NEXT, 1)
    assert FACT in person.cems("search", "port of the staging database").stdout
    assert _leftovers(person) == []
    # Scripts of the new environment start its own interpreter.
    script = (person.cems_home / "env/bin/cems").read_text()
    assert script.startswith(f"#!{person.cems_home}/env/bin/python")
    # The old environment's files were linked, not copied: none was written into.
    assert _content(shared) == before
    assert _json(person, "update", env=variables)["newest"] is None


def test_a_release_that_does_not_work_here_changes_nothing(
    person: Sandbox, index: ReleaseIndex, wheel: Path, tmp_path: Path
) -> None:
    broken = _broken(wheel, tmp_path, "cems/core/service/runtime.py", "raise RuntimeError('not on this machine')\n")
    variables = _publish(index, broken)
    assert person.cems("add", FACT).returncode == 0
    before = _content(person.cems_home / "env")
    done = person.cems("update", "--yes", env=variables, timeout=900)
    assert done.returncode == 1, done
    assert "trying it out failed" in done.stderr
    assert "goes on working" in done.stderr
    assert _content(person.cems_home / "env") == before
    assert _leftovers(person) == []
    assert FACT in person.cems("search", "port of the staging database").stdout


def test_an_update_that_is_killed_leaves_what_runs_and_can_be_done_again(
    person: Sandbox, index: ReleaseIndex, wheel: Path
) -> None:
    variables = _publish(index, wheel)
    before = _content(person.cems_home / "env")
    process = subprocess.Popen(
        [person.program, "update", "--yes"],
        env={**person.environment, **variables},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while not list(person.cems_home.glob("env.next/lib/*/site-packages/cems-*.dist-info/RECORD")):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert _content(person.cems_home / "env") == before
    assert person.cems("add", FACT).returncode == 0
    done = person.cems("update", "--yes", env=variables, timeout=900)
    assert done.returncode == 0, done
    assert person.cems("--version").stdout.strip() == f"cems {NEXT}"
    assert _leftovers(person) == []


def test_by_itself_once_a_day_and_never_during_a_session(person: Sandbox, index: ReleaseIndex, wheel: Path) -> None:
    variables = _publish(index, wheel)
    assert person.cems("update", "--auto", env=variables).returncode == 0
    assert _json(person, "status")["update"] == {"newest": NEXT, "problem": None}
    assert person.cems("--version").stdout.strip() != f"cems {NEXT}"
    asked = len(index.asked)
    wanted = variables | {"CEMS_AUTO_UPDATE": "1"}
    assert person.cems("update", "--auto", env=wanted).returncode == 0
    assert len(index.asked) == asked, "the last look is not a day old"
    (person.cems_home / "update.json").unlink()
    done = person.cems("update", "--auto", env=wanted, timeout=900)
    assert done.returncode == 0, done
    assert person.cems("--version").stdout.strip() == f"cems {NEXT}"
    assert _json(person, "status")["update"] is None
