"""What answers a cold daemon's first prompt imports nothing heavy, directly or through something else."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.real_parts import Place

from cems import __version__
from cems.core.policy import RecallPolicy, Snapshot, write_snapshot

SOURCE = Path(__file__).parents[2]
HEAVY = (
    "pydantic",
    "pydantic_core",
    "numpy",
    "starlette",
    "lancedb",
    "pyarrow",
    "fastembed",
    "onnxruntime",
    "tokenizers",
    "mcp",
    "typer",
)


def light_modules() -> list[str]:
    """Modules whose docstring says so."""
    found = []
    for path in sorted((SOURCE / "core").rglob("*.py")):
        said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        if "Light." in said or "Light:" in said or "Light;" in said:
            parts = path.relative_to(SOURCE).with_suffix("").parts
            found.append(".".join(("cems", *parts)))
    return found


def heavy_after(code: str) -> str:
    """Which heavy packages are loaded once `code` has run in an interpreter of its own."""
    check = f"\nimport sys; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code + check],
        env={**os.environ, "PYTHONPATH": str(SOURCE / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_modules_of_the_first_stage_say_that_they_are_light() -> None:
    names = {name.removeprefix("cems.core.") for name in light_modules()}
    assert {
        "recall.engine",
        "recall.lexical",
        "recall.select",
        "recall.render",
        "recall.question",
        "service.hooks",
        "service.sessions",
    } <= names
    assert not {"recall.hybrid", "recall.semantic", "service.operations"} & names


@pytest.mark.parametrize("module", light_modules())
def test_a_light_module_loads_nothing_heavy(module: str) -> None:
    assert heavy_after(f"import {module}") == ""


def test_the_first_stage_as_a_whole_answers_a_prompt_without_anything_heavy(place: Place) -> None:
    place.add("The staging database listens on port 5433.")
    write_snapshot(
        place.home, __version__, Snapshot(RecallPolicy(), {"claude-code": "cems.adapters.claude_code.agent:AGENT"})
    )
    event = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "cwd": str(place.alpha)}
    event["prompt"] = "which port does the staging database listen on"
    code = f"""
import asyncio, pathlib
from cems.core.paths import Home
from cems.core.service.hooks import open_stage_one
service = open_stage_one(Home(pathlib.Path({str(place.home.root)!r})))
answer = asyncio.run(service.answer("cems_user_prompts_submit", {{}}, {json.dumps(event).encode()!r}))
assert b"5433" in answer, answer
"""
    assert heavy_after(code) == ""


def test_the_check_itself_sees_what_is_heavy() -> None:
    assert "pydantic" in heavy_after("import cems.core.memory").split()
