"""What every test stands on: a throwaway home, a shared installation, and the end of each process it starts.

The suite never touches the real home. `HOME` is a temporary folder, the default `CEMS_HOME` cannot be made at
all (a test names its own), and reaching for an agent's or our own files in the real home raises.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e import programs
from tests.e2e.pins import PROGRAMS
from tests.fakes import throwaway
from tests.fakes.home_guard import HomeGuard, real_homes
from tests.fakes.installation import Installation, InstallFailed, given_program, install
from tests.fakes.orphan import leave_agents
from tests.fakes.sandbox import Sandbox

pytest_plugins = ["tests.e2e.fixtures"]

# What a person does is tested here, also where an agent runs the tests.
leave_agents()
_WORKER = "PYTEST_XDIST_WORKER" in os.environ
_guard = HomeGuard(real_homes(), programs.REPOSITORY)
_left_out: list[str] = []
_left_running: dict[int, str] = {}


def _redirect() -> Path:
    """Point this process into a folder of its own; returns the folder the processes of one run share."""
    shared = os.environ.get("CEMS_TEST_ROOT") if _WORKER else None
    root = Path(shared or tempfile.mkdtemp(prefix="ct-"))
    own = root / os.environ.get("PYTEST_XDIST_WORKER", "main")
    (own / "home").mkdir(parents=True)
    (root / "r").mkdir(mode=0o700, exist_ok=True)
    # A file where a folder would have to be: nobody can make the default CEMS_HOME, not even as root.
    no_default = own / "a-test-names-its-own-CEMS_HOME"
    no_default.touch()
    throwaway.clean(os.environ)
    os.environ["HOME"] = str(own / "home")
    os.environ["CEMS_HOME"] = str(no_default / ".cems")
    os.environ["XDG_RUNTIME_DIR"] = str(root / "r")
    os.environ["CEMS_TEST_ROOT"] = str(root)
    # Commits in tests need a name; the person's own git configuration is out of reach.
    for role in ("AUTHOR", "COMMITTER"):
        os.environ[f"GIT_{role}_NAME"] = "A Tester"
        os.environ[f"GIT_{role}_EMAIL"] = "tester@example.invalid"
    return root


_root = _redirect()
_guard.start()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The guard's own test first: without it no other result means anything.
    items.sort(key=lambda item: item.path.name != "test_guard.py")


@pytest.fixture(autouse=True)
def _real_home_untouched() -> Iterator[None]:
    before = len(_guard.violations)
    yield
    touched = _guard.violations[before:]
    assert not touched, f"the real home was reached for: {touched}"


@pytest.fixture
def home_guard() -> Iterator[HomeGuard]:
    """The guard itself, for its own tests; what they make it stop is forgotten at their end."""
    before = len(_guard.violations)
    yield _guard
    del _guard.violations[before:]


@pytest.fixture(scope="session")
def session_root() -> Path:
    """The folder of this run, short enough for sockets; everything started below it is ended with the run."""
    return _root


@pytest.fixture(scope="session")
def installed(session_root: Path) -> Installation:
    """CEMS as `./install.sh` of this tree leaves it in an empty home, with no agent on the machine."""
    try:
        return install(session_root)
    except InstallFailed as error:
        pytest.fail(f"install.sh failed: {error}", pytrace=False)


@pytest.fixture
def make_sandbox(installed: Installation, session_root: Path) -> Iterator[Callable[[], Sandbox]]:
    """Makes homes that share the installed program; CEMS is not set up in them yet."""
    made: list[Sandbox] = []

    def make() -> Sandbox:
        # Resolved: macOS has its temporary folder behind a link, and programs report their real folder.
        home = Path(tempfile.mkdtemp(prefix="h", dir=session_root)).resolve()
        environment = throwaway.child_environment(home, session_root / "r")
        made.append(Sandbox(home, session_root / "r", installed.sandbox.program, environment))
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.end()


@pytest.fixture
def sandbox(make_sandbox: Callable[[], Sandbox]) -> Sandbox:
    """A home with CEMS set up in it and no agent."""
    made = make_sandbox()
    made.cems("setup", "--yes", "--no-prove").ok()
    return made


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        _left_out.append(f"{report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _WORKER:
        return
    # Each sandbox ended its own; what is left but the shared installation's daemon was leaked by a test.
    throwaway.end_processes(_root / "i")
    _left_running.update(throwaway.end_processes(_root))
    survivors = throwaway.processes_under(_root)
    _left_running.update({pid: f"{command} (still running)" for pid, command in survivors.items()})
    if _left_running and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _left_running:
        terminalreporter.section("PROCESSES LEFT BEHIND", sep="!", red=True, bold=True)
        for pid, command in _left_running.items():
            terminalreporter.line(f"{pid}: {command}", red=True)
    if _left_out:
        terminalreporter.section(f"LEFT OUT: {len(_left_out)} tests did not run", sep="!", yellow=True, bold=True)
        for line in _left_out:
            terminalreporter.line(line, yellow=True)
    if given_program():
        terminalreporter.line(f"NOT INSTALLED BY install.sh: CEMS_TEST_PROGRAM={given_program()}", yellow=True)
    for name in PROGRAMS:
        terminalreporter.line(f"{name}: {_state(name)}")


def _state(name: str) -> str:
    try:
        return f"the real program, {PROGRAMS[name].version}, {programs.find(name)}"
    except programs.ProgramMissing as error:
        return f"NO REAL PROGRAM: {error}"


def pytest_unconfigure() -> None:
    if not _WORKER:
        throwaway.remove(_root)
