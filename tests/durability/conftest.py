"""What the durability tests share: a home, and real daemons for it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.daemon_nursery import Nursery

from cems.core.paths import Home


@pytest.fixture
def home(session_root: Path) -> Home:
    """Below the folder of the run, whose processes are ended with it."""
    made = Home(Path(tempfile.mkdtemp(prefix="d", dir=session_root)) / ".cems")
    made.create()
    return made


@pytest.fixture(scope="session")
def _nursery(session_root: Path) -> Iterator[Nursery]:
    made = Nursery(session_root)
    yield made
    made.end()


@pytest.fixture
def nursery(_nursery: Nursery) -> Iterator[Nursery]:
    """With no daemon; none is left by a test."""
    yield _nursery
    _nursery.leave_none()
