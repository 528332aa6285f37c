"""The real parts these tests share with the unit tests, and a machine with a running daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes import machine as machines
from tests.fakes.ancestors import Ancestors
from tests.unit.conftest import bundled, home, journal, memories, open_journal, place

__all__ = ["bundled", "home", "journal", "memories", "open_journal", "place"]


@pytest.fixture(scope="session")
def machine(session_root: Path) -> Iterator[machines.Machine]:
    """One daemon for all: each test works in projects of its own."""
    with machines.running(session_root) as made:
        yield made


@pytest.fixture
def above(tmp_path: Path) -> Ancestors:
    """Programs with the names of agents."""
    return Ancestors(tmp_path / "programs")
