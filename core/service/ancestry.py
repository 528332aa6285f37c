"""Which agents a process runs under, told by the programs of its ancestors; no environment is ever read. Light.

What an agent starts has the agent among its ancestors, whatever was taken out of its variables. Cursor is the exception:
a person's terminal there descends from the same program as its agent's shell does, so only the agent's own process counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple

PEER = "peer"
"""Context key: the pid at the other end of the socket, as the kernel tells it. Never taken from a caller."""
AGENTS = "agents"
"""Context key: what `agents_above` found for it. Absent where that cannot be told."""

_MAX_DEPTH = 64
_MAX_COMMAND = 4_096
_PS_SECONDS = 2.0
_PROGRAMS = {
    "claude": "claude-code",
    "cursor-agent": "cursor",
    "codex": "codex",
    "goose": "goose",
    "goosed": "goose",
    "copilot": "copilot",
    "gemini": "gemini",
    "opencode": "opencode",
    "pi": "pi",
}
_PLACES = {
    "/claude/versions/": "claude-code",
    "/@anthropic-ai/claude": "claude-code",
    "/cursor-agent/": "cursor",
    "/@openai/codex": "codex",
    "/@github/copilot": "copilot",
    "/@google/gemini-cli": "gemini",
    "/node_modules/opencode-": "opencode",
    "/pi-coding-agent/": "pi",
}
"""Parts of a program's path, where its file has another name: `…/@google/gemini-cli/dist/index.js`."""
_INTERPRETERS = ("node", "bun", "deno")
_BEFORE_A_VALUE = ("-r", "--require", "--import", "--loader", "--experimental-loader")


_SERVES_SCREENS = "--managed-daemon"
_WITHOUT_SCREEN = frozenset(("exec", "e", "review", "app-server", "mcp-server"))
"""Codex's words: what it starts for its screens, once for all of them, and what it runs as without one."""


class Process(NamedTuple):
    """One process: its parent's pid, its process group, and the agent it is, if any. `part`: `server` of an agent's screens,
    which may outlive the screen that started it, or `screen`; empty for anything else."""

    parent: int
    group: int
    agent: str
    part: str = ""


def agents_above(pid: int) -> tuple[str, ...] | None:
    """The agents that `pid` is or runs under, nearest first; None where the processes cannot be told.

    An agent's own helper processes are no second agent: they stay in its process group, or serve its screen.
    """
    look = _lookup()
    if look is None or pid <= 0:
        return None
    line = _line(pid, look)
    # A parent that ends while we look gives its children to another one: looked at once more.
    return _line(pid, look) if line is None else line


def nearest(pid: int, agent: str) -> int:
    """The pid of the first process of this agent that `pid` is or runs under; 0 for none, or where that cannot be told."""
    look = _lookup()
    for _ in range(_MAX_DEPTH):
        process = look(pid) if look and pid > 0 else None
        if process is None or process.agent == agent:
            return pid if process else 0
        pid = process.parent
    return 0


def ancestor_agent() -> str:
    """The nearest agent this process runs under; empty for none, or where it cannot be told."""
    return next(iter(agents_above(os.getpid()) or ()), "")


def with_agents(context: Mapping[str, str]) -> dict[str, str]:
    """The context with what the caller's processes say (`AGENTS`), while the caller is still there to be looked at."""
    if AGENTS in context:
        return dict(context)
    peer = context.get(PEER, "")
    line = agents_above(int(peer)) if peer.isdecimal() else None
    return dict(context) if line is None else {**context, AGENTS: " ".join(line)}


def agent_of(program: str, path: str = "", command: tuple[str, ...] = ()) -> str:
    """The agent that a process is, by its program's name, the path of its file, and its command line; empty for none."""
    names = [_name(each) for each in (program, path, *command[:1])]
    scripts = [_script(command)] if any(name.startswith(_INTERPRETERS) for name in names) else []
    names += [_name(script).partition(".")[0] for script in scripts]
    for name in names:
        if name in _PROGRAMS:
            return _PROGRAMS[name]
    for place, agent in _PLACES.items():
        if any(place in each.replace("\\", "/") for each in (path, *command[:1], *scripts)):
            return agent
    # Cursor's processes name themselves for what they do: `Cursor Helper (Plugin): extension-host (agent-exec)`.
    if any(name.lower().startswith("cursor") for name in names) and any("agent-exec" in each for each in command):
        return "cursor"
    return ""


def _script(command: tuple[str, ...]) -> str:
    """What an interpreter was told to run: its first argument that is no option and no option's value."""
    for before, word in pairwise(command):
        if not word.startswith("-") and before not in _BEFORE_A_VALUE and word not in ("run", "x"):
            return word
    return ""


def _name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


def _line(pid: int, look: Callable[[int], Process | None]) -> tuple[str, ...] | None:
    found: list[str] = []
    child: Process | None = None
    child_pid = 0
    for _ in range(_MAX_DEPTH):
        process = look(pid)
        if process is None:
            # Another user's process may be hidden from us. One that has ended is nobody's parent any more.
            again = look(child_pid) if child else None
            return tuple(found) if again and again.parent == pid else None
        helper = child is not None and child.agent == process.agent and _is_helper(child, process)
        if process.agent and not helper:
            found.append(process.agent)
        if process.parent <= 0:
            return tuple(found)
        child, child_pid, pid = process, pid, process.parent
    return None


def _is_helper(child: Process, parent: Process) -> bool:
    return child.group == parent.group or (child.part == "server" and parent.part == "screen")


def _part(agent: str, command: tuple[str, ...]) -> str:
    """A model can start another Codex from its shell, but that shell's parent is the server or `codex exec`, no screen."""
    if agent != "codex":
        return ""
    if not _WITHOUT_SCREEN.isdisjoint(command[1:]):
        return "server" if _SERVES_SCREENS in command else ""
    return "screen"


def _lookup() -> Callable[[int], Process | None] | None:
    if sys.platform == "linux":
        return _from_proc
    if sys.platform == "win32":
        return None
    table = _ps("-axo", "pid=,ppid=,pgid=,comm=")
    return listed(table, lambda pid: _ps("-o", "command=", "-p", str(pid))) if table else None


def _from_proc(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib is not needed for it
            head, _, rest = file.read(1_024).decode("utf-8", "replace").rpartition(")")
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            command = file.read(_MAX_COMMAND).decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    try:
        path = os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
    except OSError:
        # A kernel thread, or another user's.
        path = ""
    _, parent, group = rest.split()[:3]
    agent = agent_of(head.partition("(")[2], path, tuple(command))
    return Process(int(parent), int(group), agent, _part(agent, tuple(command)))


def listed(table: str, command: Callable[[int], str]) -> Callable[[int], Process | None]:
    """Looks processes up in what `ps -o pid=,ppid=,pgid=,comm=` printed. `command` gives the command line of one pid:
    asked only where the program is an interpreter, Cursor's or Codex."""
    rows = {
        int(fields[0]): (int(fields[1]), int(fields[2]), fields[3])
        for fields in (line.split(None, 3) for line in table.splitlines())
        if len(fields) == 4 and all(each.isdecimal() for each in fields[:3])
    }

    def look(pid: int) -> Process | None:
        if pid not in rows:
            return None
        parent, group, program = rows[pid]
        named = _name(program).lower()
        words = tuple(command(pid).split()) if named.startswith((*_INTERPRETERS, "cursor", "codex")) else ()
        agent = agent_of(program, program, words)
        return Process(parent, group, agent, _part(agent, words))

    return look


def _ps(*options: str) -> str:
    import subprocess

    try:
        done = subprocess.run(
            ["/bin/ps", *options], capture_output=True, timeout=_PS_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
