"""Recorded sessions of each agent, laid into a home folder where the agent keeps them."""

from __future__ import annotations

import importlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from cems.core.learn.transcript import ReadsTranscripts, SessionSource

FIXTURES = Path(__file__).parents[1] / "fixtures"
CLAUDE_SESSION = "a77edd17-0788-46c2-97ec-4be0e6df1926"
CLAUDE_COMPACTED = "11111111-2222-4333-8444-555555555555"
PLACES = {
    "claude_code": {
        "session_with_tools.jsonl": f".claude/projects/-home-dev-code/{CLAUDE_SESSION}.jsonl",
        "session_resumed_compacted_with_hook_context.jsonl": f".claude/projects/-home-dev-code/{CLAUDE_COMPACTED}.jsonl",
        "subagent.jsonl": f".claude/projects/-home-dev-code/{CLAUDE_SESSION}/subagents/agent-a16f554cfbffac18f.jsonl",
    },
    "codex": {"rollout.jsonl": ".codex/sessions/2026/11/29/rollout-2026-11-29T22-49-55-01a22980.jsonl"},
    "cursor": {"session.jsonl": ".cursor/projects/home-dev-code/agent-transcripts/c0ffee/c0ffee.jsonl"},
    "copilot": {"events.jsonl": ".copilot/session-state/71acc6af-0f4f-4b65-bf59-c1f878e94447/events.jsonl"},
    "pi": {"session.jsonl": ".pi/agent/sessions/--home-dev-code-proj--/2026-11-29_01a22985.jsonl"},
    "gemini": {"session.jsonl": ".gemini/tmp/proj/chats/session-2026-11-29T22-58-26b653f7.jsonl"},
    "goose": {"sessions.json": ".local/share/goose/sessions/sessions.db"},
    "opencode": {"opencode.json": ".local/share/opencode/opencode.db"},
}
AGENTS = tuple(PLACES)
IN_FILES = tuple(agent for agent in AGENTS if agent not in ("goose", "opencode"))


def reader(agent: str) -> ReadsTranscripts:
    found: ReadsTranscripts = importlib.import_module(f"cems.adapters.{agent}.agent").AGENT.transcript_reader()
    return found


def lay(agent: str, home: Path) -> list[SessionSource]:
    """Put the agent's recorded sessions into `home`; the sources its reader finds there."""
    for name, place in PLACES[agent].items():
        recorded, path = FIXTURES / agent / "transcripts" / name, home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".db":
            fill(path, json.loads(recorded.read_text("utf-8")))
        else:
            shutil.copyfile(recorded, path)
    if agent == "gemini":
        (home / ".gemini/projects.json").write_text(json.dumps({"projects": {"/home/dev/code/proj": "proj"}}))
    return list(reader(agent).sessions(home, {}))


def fill(path: Path, dump: dict[str, Any]) -> None:
    """Make a database of the tables and rows of a dump."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in dump["schema"]:
            if "sqlite_sequence" not in statement:
                connection.execute(statement)
        if "session" not in dump and "sessions" not in dump:
            add(connection, "sessions", {"id": "20261129_1", "working_dir": "/home/dev/code/proj"})
        for table in ("session", "message", "part", "messages"):
            for row in dump.get(table, ()):
                add(connection, table, row)


def add(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    names = ", ".join(row)
    marks = ", ".join("?" for _ in row)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))  # noqa: S608
