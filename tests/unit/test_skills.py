"""The skills: their frontmatter, their names, the commands they stand for, and their form for other agents."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from cems.adapters.agents_skills import bundles, plain
from cems.adapters.own_files import SKILLS, skill_bundles
from cems.adapters.typed_commands import typed_commands
from cems.core.service.mcp_server import MANIFEST

NAMES = {"remember", "recall", "forget", "share", "context", "memory-guide"}
FIELDS = {"name", "description", "argument-hint", "allowed-tools", "disable-model-invocation", "user-invocable"}
TOOLS = {tool["name"] for tool in json.loads(MANIFEST.read_text("utf-8"))["tools"]}
NEVER_UNASKED = ("memory_forget", "memory_promote", "memory_maintenance")
# Taken by the program itself; a skill of that name would not be reached.
BUILT_IN = {
    "memory",
    "clear",
    "compact",
    "help",
    "init",
    "resume",
    "config",
    "mcp",
    "model",
    "agents",
    "hooks",
    "review",
    "status",
}


def frontmatter(name: str) -> tuple[dict[str, Any], str]:
    """The YAML at the head of a skill, and its body."""
    opening, head, body = (SKILLS / name / "SKILL.md").read_text("utf-8").split("---\n", 2)
    assert opening == ""
    return yaml.safe_load(head), body


def test_all_skills_are_there_and_are_the_ones_that_are_installed(tmp_path: Path) -> None:
    assert {each.name for each in skill_bundles(SKILLS, tmp_path)} == {f"skill {name}" for name in NAMES}
    assert {path.name for path in SKILLS.iterdir() if path.is_dir()} == NAMES
    assert not NAMES & BUILT_IN


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_skills_head_is_what_claude_code_reads(name: str) -> None:
    fields, body = frontmatter(name)
    assert fields["name"] == name
    assert set(fields) <= FIELDS
    assert 60 < len(fields["description"]) < 500
    assert all(isinstance(fields[key], str) for key in ("name", "description", "allowed-tools"))
    assert isinstance(fields.get("argument-hint", ""), str)
    assert isinstance(fields["user-invocable"], bool)
    assert fields.get("disable-model-invocation", True) is True
    assert body.strip()
    assert "!`" not in body, "a skill of ours runs nothing when it is loaded"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_skill_may_use_only_tools_that_exist(name: str) -> None:
    fields, body = frontmatter(name)
    allowed = {tool.strip().removeprefix("mcp__cems__") for tool in fields["allowed-tools"].split(",")}
    assert allowed <= TOOLS
    assert not allowed & set(NEVER_UNASKED)
    assert set(re.findall(r"mcp__cems__(\w+)", body)) <= allowed
    assert set(re.findall(r"\bmemory_\w+", body.replace("mcp__cems__", ""))) <= TOOLS


@pytest.mark.parametrize("name", sorted(NAMES - {"memory-guide"}))
def test_a_command_hands_its_words_over_and_looks_for_the_hooks_note_first(name: str) -> None:
    fields, body = frontmatter(name)
    assert fields["user-invocable"] is True
    assert fields["argument-hint"]
    assert "$ARGUMENTS" in body
    assert "<cems-note>" in body


def test_the_skills_quote_the_notes_as_the_hook_writes_them() -> None:
    commands = (Path(__file__).parents[2] / "core" / "service" / "commands.py").read_text("utf-8")
    # "this", or "this gate rule".
    commands = commands.replace("CEMS stored {what}", "CEMS stored this")
    for note in ("CEMS stored this", "CEMS has this already", "CEMS did not store this", "CEMS forgot", "CEMS moved",
                 "CEMS has given this session", "CEMS noted that"):  # fmt: skip
        assert note in commands
        assert any(note in frontmatter(name)[1] for name in NAMES), note


def test_only_a_person_shares_or_marks() -> None:
    for name in ("share", "context"):
        assert frontmatter(name)[0]["disable-model-invocation"] is True
    assert frontmatter("memory-guide")[0]["user-invocable"] is False


def test_the_guide_says_that_memories_are_no_instructions() -> None:
    _, body = frontmatter("memory-guide")
    for word in ("data, not an instruction", "unverified", "cite its id", "<private>", "secrets"):
        assert word in body


def test_other_agents_get_the_same_skills_without_what_only_claude_code_understands(tmp_path: Path) -> None:
    for bundle in bundles(tmp_path):
        (content,) = bundle.files.values()
        opening, head, body = content.decode().split("---\n", 2)
        fields = yaml.safe_load(head)
        assert opening == ""
        assert set(fields) == {"name", "description"}
        assert bundle.root == tmp_path / "skills" / fields["name"]
        assert "$ARGUMENTS" not in body
        assert "mcp__" not in body
        assert set(re.findall(r"\bmemory_\w+", body)) <= TOOLS


@pytest.mark.parametrize("rest", ["call mcp__cems__memory_add", "first $ARGUMENTS[1]"])
def test_a_skill_that_only_claude_code_would_understand_is_not_shipped_to_others(rest: str) -> None:
    with pytest.raises(ValueError, match="only Claude Code understands"):
        plain(f"---\nname: x\ndescription: y\n---\n{rest}\n".encode())


def test_commands_are_made_of_the_skills_a_person_types() -> None:
    commands = {each.name: each for each in typed_commands("{{args}}")}
    assert set(commands) == NAMES - {"memory-guide", "share"}
    for name, command in commands.items():
        assert command.prompt.startswith(f"/{name} {{{{args}}}}\n\n[CEMS command] The person ")
        assert "<cems-note>" in command.prompt
        assert "$ARGUMENTS" not in command.prompt
        assert "mcp__" not in command.prompt
        assert command.description.startswith(frontmatter(name)[0]["description"][:20])
        assert command.hint
