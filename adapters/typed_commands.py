"""Our commands for agents that have command files: `/remember …` typed there becomes a prompt that our hook still reads as
the person's own words, and that tells the model what to do with the hook's answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cems.adapters.agents_skills import plain
from cems.adapters.own_files import SKILLS, Bundle
from cems.core.events import COMMAND_MARK

_HEAD = re.compile(r"\A---\n(.*?)\n---\n\s*(.*)\Z", re.DOTALL)
_FIELD = re.compile(r"^([\w-]+): (.*)$", re.MULTILINE)


# Widening wants the person in front of a program that says so; of these agents none does.
_NOT_HERE = ("share",)


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """`hint` says what to type after the name; `prompt` is what the model gets."""

    name: str
    description: str
    hint: str
    prompt: str


def command_bundles(folder: Path, arguments: str) -> Iterator[Bundle]:
    """The commands as Markdown files in `folder`, a form that several agents read."""
    for command in typed_commands(arguments):
        text = (
            f"---\ndescription: {json.dumps(command.description, ensure_ascii=False)}\n"
            f"argument-hint: {json.dumps(command.hint, ensure_ascii=False)}\n---\n{command.prompt}"
        )
        yield Bundle(
            f"command {command.name}", f"the command /{command.name}", folder, {Path(f"{command.name}.md"): text.encode()},
            own_folder=False,
        )  # fmt: skip


def typed_commands(arguments: str) -> Iterator[TypedCommand]:
    """Those a person types, made from the skills. The agent puts the words after the name where `arguments` stands
    (`$ARGUMENTS`, `{{args}}`)."""
    for path in sorted(SKILLS.glob("*/SKILL.md")):
        whole, plainly = path.read_bytes(), plain(path.read_bytes())
        head, parts = _HEAD.match(whole.decode("utf-8")), _HEAD.match(plainly.decode("utf-8"))
        if head is None or parts is None:
            raise ValueError(f"{path} has no head")
        fields = dict(_FIELD.findall(head[1]))
        name = path.parent.name
        if fields.get("user-invocable") != "true" or name in _NOT_HERE:
            continue
        prompt = f"/{name} {arguments}\n\n{COMMAND_MARK} {parts[2]}"
        yield TypedCommand(name, fields["description"], fields["argument-hint"].strip('"'), prompt)
