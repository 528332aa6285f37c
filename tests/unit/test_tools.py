"""Tool names and the text of a call, the same for every agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cems.adapters.tools import MAX_SUBJECT, canonical, mcp_tool, subject

PATCH = """*** Begin Patch
*** Update File: src/app.py
*** Move to: src/main.py
@@
-a
+*** Add File: not-a-file.py
*** Add File: .env
+KEY=1
*** Delete File: old name.txt
*** End Patch
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Bash", "Bash"), ("bash", "Bash"), ("shell", "Bash"), ("run_shell_command", "Bash"), ("view", "Read"),
        ("apply_patch", "Edit"), ("write_file", "Write"), ("WebFetch", "WebFetch"), ("web_fetch", "WebFetch"),
        ("mcp__mem__recall", "mcp__mem__recall"), ("Sunrise", "Sunrise"), ("do_it", "Edit"),
    ],
)  # fmt: skip
def test_a_tool_has_claudes_name(name: str, expected: str) -> None:
    assert canonical({"do_it": "Edit"}, name) == expected


def test_an_agents_own_table_comes_first() -> None:
    assert canonical({"create": "Bash"}, "create") == "Bash"
    assert canonical({}, "create") == "Write"
    assert mcp_tool("mem", "recall") == "mcp__mem__recall"


@pytest.mark.parametrize(
    ("tool", "given", "expected"),
    [
        ("Bash", {"command": "git push", "description": "x"}, "git push"),
        ("Bash", {"cmd": "ls"}, "ls"),
        ("Bash", {"script": "ls\npwd"}, "ls\npwd"),
        ("Bash", {"command": ["bash", "-lc", "echo hello | cat"]}, "echo hello | cat"),
        ("Bash", {"command": ["/usr/bin/zsh", "-c", "ls"]}, "ls"),
        ("Bash", {"command": ["git", "commit", "-m", "two words"]}, "git commit -m 'two words'"),
        ("Bash", {"other": 1}, '{"other":1}'),
        ("Bash", {"command": [1, 2]}, '{"command":[1,2]}'),
        ("Bash", '{"command": "ls -l"}', "ls -l"),
        ("Bash", "ls -l", "ls -l"),
        ("Edit", {"file_path": "/p/.env", "old_string": "a", "new_string": "b"}, "/p/.env"),
        ("Write", {"path": "a.txt", "content": "see *** this"}, "a.txt"),
        ("Read", {"absolute_path": "/x"}, "/x"),
        ("Read", {"paths": ["a", "b", "a"]}, "a\nb"),
        ("NotebookEdit", {"notebook_path": "n.ipynb"}, "n.ipynb"),
        ("MultiEdit", {"edits": [{"path": "a"}, {"path": "b"}, 3]}, "a\nb"),
        ("Edit", {"input": PATCH}, "src/app.py\nsrc/main.py\n.env\nold name.txt"),
        ("Edit", {"command": ["apply_patch", PATCH]}, "src/app.py\nsrc/main.py\n.env\nold name.txt"),
        ("Edit", PATCH, "src/app.py\nsrc/main.py\n.env\nold name.txt"),
        ("WebFetch", {"url": "https://example.com/a", "prompt": "p"}, "https://example.com/a"),
        ("mcp__db__query", {"sql": "drop table ä", "n": 1}, '{"sql":"drop table ä","n":1}'),
        ("Grep", {"pattern": "x", "path": "y"}, '{"pattern":"x","path":"y"}'),
    ],
)  # fmt: skip
def test_the_subject_of_a_call(tool: str, given: Any, expected: str) -> None:
    assert subject(tool, given) == expected


def test_the_beginning_and_the_end_of_a_long_call_are_kept() -> None:
    text = subject("Bash", {"command": "begin" + "x" * 100_000 + "git push --force"})
    assert len(text) == MAX_SUBJECT
    assert text.startswith("begin")
    assert text.endswith("git push --force")


def test_what_json_cannot_write_is_no_error() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert subject("mcp__a__b", loop) == ""
    assert subject("Bash", json.dumps([1])) == "[1]"
