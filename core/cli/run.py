"""`cems run`: start an agent that takes no hook's output, so that each prompt's memories reach it all the same."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cems.core.agent_env import CONTEXT_PID
from cems.core.agent_launch import make_context_file
from cems.core.cli import asking, console
from cems.core.cli.failures import CommandError, usage
from cems.core.service.adapters import load_agents, registered_agents

_HELP = """\
Start an agent so that memories reach it with each prompt.

For agents that throw away what a hook prints: Goose. The others need no help; start them as ever. What stands after
the agent's name goes to the agent as it is, and its exit code comes back.

\b
Examples:
  cems run goose session
  alias goose='cems run goose'     a line for your shell's profile
"""
_AS_IT_IS = {"ignore_unknown_options": True, "allow_interspersed_args": False}

Name = Annotated[str, typer.Argument(metavar="AGENT", help="goose")]
Words = Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENTS]...", help="For the agent, as they are.")]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("run", help=_HELP, context_settings=_AS_IT_IS)(run)


def run(agent: Name, words: Words = None) -> int:
    """Become the agent: its process is ours, with our terminal and our signals."""
    adapter = _adapter(agent)
    if os.name != "posix":
        raise CommandError("a program cannot become another one on Windows", next_step=f"start {agent} as ever")
    home, notes, variables = asking.home(), list[str](), dict[str, str]()
    try:
        context = make_context_file(home)
        variables[CONTEXT_PID] = str(os.getpid())
    except OSError as problem:
        # The agent is what the person wants; without us it is less, and still all of it.
        context = home.run / "none"
        notes.append(f"{adapter.title} gets no memories with a prompt: {problem.filename}: {problem.strerror}")
    launch = adapter.launch(Path.home(), os.environ, context)
    if launch.program is None:
        raise CommandError(f"the program of {adapter.title} was not found", next_step="install it, or see your PATH")
    notes += [launch.note] if launch.note else []
    for note in notes:
        console.note(note)
    return _become(launch.program, words or [], {**os.environ, **variables, **launch.variables})


def _adapter(name: str) -> Any:
    """The adapter of an agent that has to be started by us. Raises CommandError."""
    targets = registered_agents()
    if name not in targets:
        raise usage(f"there is no agent named {name!r}. Known: {', '.join(sorted(targets))}")
    adapter = load_agents({name: targets[name]}).get(name)
    if not hasattr(adapter, "launch"):
        raise usage(f"{name} needs no help: memories reach it as it is, so start it by its own command")
    return adapter


def _become(program: Path, words: list[str], environ: dict[str, str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # Python ignores it, and what it ignores stays ignored in the program it becomes.
    for name in ("SIGPIPE", "SIGXFSZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execve(program, [str(program), *words], environ)  # noqa: S606 - the words go as they are, through no shell
    except OSError as problem:
        raise CommandError(f"{program} cannot be run: {problem.strerror}") from None
