"""The marks stand on the same parts as the acceptance tests."""

from __future__ import annotations

from tests.acceptance.conftest import above, bundled, home, journal, machine, memories, open_journal, place

__all__ = ["above", "bundled", "home", "journal", "machine", "memories", "open_journal", "place"]
