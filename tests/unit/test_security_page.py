"""The security page names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "security.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`((?:unit|marks|acceptance|integration)/[\w/]+\.py)::([\w*]+)`", PAGE)))
FILES = sorted(set(re.findall(r"`((?:unit|marks|acceptance|negative_eval)/[\w/]+\.\w+)[`:]", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_is_there(file: str, name: str) -> None:
    written = re.findall(r"^ *def (test_\w+)", (TESTS / file).read_text("utf-8"), re.MULTILINE)
    assert any(each == name or (name.endswith("*") and each.startswith(name[:-1])) for each in written)


def test_the_page_names_tests_and_files_that_are_there() -> None:
    assert len(NAMED) > 25
    assert all((TESTS / file).is_file() for file in FILES)


@pytest.mark.parametrize(
    "threat", ["transcripts and tool output", "hostile repository", "user of the machine", "browser page", "sync peer"]
)
def test_each_threat_says_what_stops_it_and_what_does_not(threat: str) -> None:
    section = next(each for each in PAGE.split("\n### ") if threat in each.split("\n")[0])
    assert "shown by" in section
    assert "What this does not stop" in section
