"""`cems setup` and `cems uninstall`; added to the command line through the entry point `cems.commands`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cems.adapters.base import Agent, ConfigUnreadable, Machine
from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, FAILED, CommandError, usage
from cems.core.paths import Home
from cems.core.scope import session_scope
from cems.installer import agents as known_agents
from cems.installer import apply, outcome, show, undo, update_command
from cems.installer.agents import UnknownAgent
from cems.installer.check import agent_checks, this_machine
from cems.installer.files import CannotWrite, ChangedMeanwhile
from cems.installer.plan import Plan, plan_setup
from cems.installer.prove import prove, remove_leftovers
from cems.installer.record import InstallRecord, RecordUnreadable, first, load, save

__all__ = ["agent_checks", "register"]

_SETUP_HELP = """\
Connect the agents on this machine, and prove that it works.

Shows what it will write and where, before it writes. What you have taken out again stays out, unless
you say --repair or name the agent. Running it twice changes nothing.

\b
Examples:
  cems setup --dry-run
  cems setup --agent claude-code --no-permissions
"""
_UNINSTALL_HELP = """\
Disconnect every agent and remove the program. Your memories stay.

The agents' files become what they were before, to the byte where nobody has changed them since.
--purge-data removes the memories, the keys and the settings too; that cannot be undone.

\b
Examples:
  cems uninstall --agent codex
  cems uninstall
"""

Agents = Annotated[
    list[str] | None,
    typer.Option("--agent", metavar="NAME", help="Only this agent, found or not; repeatable."),
]
All = Annotated[bool, typer.Option("--all", help="Every agent that is found (the default).")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")]
NoPermissions = Annotated[
    bool, typer.Option("--no-permissions", help="Add no rules that let agents use the memory unasked.")
]
Repair = Annotated[bool, typer.Option("--repair", help="Also put back what was taken out by hand.")]
NoProve = Annotated[bool, typer.Option("--no-prove", help="Skip the round trip at the end.")]
ProjectRule = Annotated[
    bool, typer.Option("--project-rule", help="With --agent cursor: also put a small rule into this folder's project.")
]
OnlyAgents = Annotated[
    list[str] | None,
    typer.Option("--agent", metavar="NAME", help="Disconnect only this agent; the program stays. Repeatable."),
]
PurgeData = Annotated[bool, typer.Option("--purge-data", help="Remove the memories, keys and settings too, for good.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("setup", help=_SETUP_HELP)(setup)
    app.command("uninstall", help=_UNINSTALL_HELP)(uninstall)
    update_command.register(app)


def setup(
    agent: Agents = None,
    all_agents: All = False,
    dry_run: DryRun = False,
    yes: options.Yes = False,
    no_permissions: NoPermissions = False,
    repair: Repair = False,
    no_prove: NoProve = False,
    project_rule: ProjectRule = False,
    as_json: options.AsJson = False,
) -> int:
    """Detect, plan, show, ask, apply, verify, prove."""
    if agent and all_agents:
        raise usage("--agent and --all exclude each other")
    home, machine = asking.home(), this_machine()
    with _told():
        record = load(home) or first(home)
        agents = known_agents.named(agent or [])
        plan = plan_setup(
            home,
            machine,
            agents,
            record,
            insisted=frozenset(agent or ()),
            permissions=not no_permissions,
            repair=repair,
            project=_project(agents) if project_rule else None,
        )
    if not as_json:
        for line in show.plan_lines(plan, home, machine, in_full=dry_run):
            console.say(line)
    if dry_run:
        return outcome.tell_dry_run(plan, as_json)
    # Whoever runs this from a script has asked for it already.
    asks = plan.changes and not (yes or as_json) and console.is_terminal(sys.stdin)
    if asks and not console.confirm("Write this?"):
        raise CommandError("nothing was written")
    failed = _apply(home, machine, plan, record)
    if not (no_prove or as_json):
        console.say("Trying it out; this takes some seconds")
    proof = None if no_prove else prove(home, [each.agent for each in plan.agents if each.wiring], machine.environ)
    return outcome.tell(plan, failed, proof, as_json)


def _project(agents: Mapping[str, Agent]) -> Path:
    """The project of the folder this runs in, for agents that read a rule there."""
    if not all(getattr(agent, "reads_project_rules", False) for agent in agents.values()):
        raise usage("--project-rule goes with --agent cursor alone")
    folder = Path.cwd()
    if session_scope(str(folder)).project is None:
        raise usage(f"{folder} is no project; run this in the one that should have the rule")
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def _apply(home: Home, machine: Machine, plan: Plan, record: InstallRecord) -> list[str]:
    """Write everything; a problem of one agent does not keep the others from being set up."""
    problems = []
    with _told():
        apply.apply_launchers(home)
        save(home, record)
        record = apply.apply_link(home, plan.link, record)
    for agent in plan.agents:
        if agent.wiring is None:
            continue
        try:
            record = apply.apply_agent(home, machine, agent.agent, agent.wiring, record)
        except (CannotWrite, ChangedMeanwhile, OSError) as problem:
            problems.append(f"{agent.agent.title} is not set up: {problem}")
    return problems


def uninstall(
    agent: OnlyAgents = None,
    purge_data: PurgeData = False,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> int:
    """Take out what is ours everywhere, then remove the program; or take it out of some agents alone."""
    if agent and purge_data:
        raise usage("--agent and --purge-data exclude each other")
    if agent:
        return _disconnect(agent, yes=yes, as_json=as_json)
    home, machine = asking.home(), this_machine()
    asks = not (yes or as_json) and console.is_terminal(sys.stdin)
    if purge_data and not (yes or asks):
        raise usage("--purge-data removes every memory for good; add --yes if that is what you want")
    with _told():
        undo.check_home(home, machine)
        record = load(home)
        removals = undo.plan_removals(home, machine, known_agents.with_shared(known_agents.all_agents()), record)
    if not as_json:
        for removal in removals:
            for edit in removal.edits:
                console.say(f"{removal.agent.title}: {show.short(edit.path, machine)}: {edit.summary}")
        what = "everything, memories included" if purge_data else "the program; the memories stay"
        console.say(f"{show.short(home.root, machine)}: {what}")
    if asks and not console.confirm("Remove this?"):
        raise CommandError("nothing was removed")
    with _told():
        undo.take_out(home, machine, removals, record)
        with asking.translated():
            remove_leftovers(home)
            left = undo.remove_program(home, record, purge=purge_data)
    # The program's own files are gone: from here on nothing more may be imported.
    if as_json:
        files = [str(edit.path) for removal in removals for edit in removal.edits]
        console.emit({"removed": True, "files": files, "home": str(home.root), "left": left})
        return DONE
    place = show.short(home.root, machine)
    if not left:
        console.say(f"CEMS is gone, and {place} with it.")
    elif purge_data:
        console.say(f"CEMS is gone. Not ours, and left in {place}: {', '.join(left)}.")
    else:
        console.say(f"CEMS is gone. Your memories remain in {place}: {', '.join(left)}.")
        console.say(f"`rm -r {home.root}` removes them too; install.sh brings them back into use.")
    return DONE


def _disconnect(names: list[str], *, yes: bool, as_json: bool) -> int:
    home, machine = asking.home(), this_machine()
    with _told():
        agents = known_agents.named(names)
        record = load(home)
        removals = undo.plan_disconnection(home, machine, agents, record)
    edits = [(removal, edit) for removal in removals for edit in removal.edits]
    if not as_json:
        for removal, edit in edits:
            console.say(f"{removal.agent.title}: {show.short(edit.path, machine)}: {edit.summary}")
    asks = edits and not (yes or as_json) and console.is_terminal(sys.stdin)
    if asks and not console.confirm("Take this out?"):
        raise CommandError("nothing was changed")
    with _told():
        undo.disconnect(home, removals, agents, record or first(home))
    if as_json:
        console.emit({"disconnected": list(agents), "files": [str(edit.path) for _, edit in edits]})
        return DONE
    titles = ", ".join(each.title for each in agents.values())
    console.say(
        f"{titles}: {'disconnected' if edits else 'nothing of ours was there'}. `cems setup` leaves it alone from now on;"
    )
    console.say(f"`cems setup {' '.join(f'--agent {name}' for name in agents)}` connects it again.")
    return DONE


@contextmanager
def _told() -> Iterator[None]:
    """What a person can do something about, as a sentence and exit code 1."""
    try:
        yield
    except UnknownAgent as problem:
        raise usage(str(problem)) from None
    except (ConfigUnreadable, CannotWrite, ChangedMeanwhile, RecordUnreadable, undo.NotOurHome) as problem:
        raise CommandError(str(problem), exit_code=FAILED) from None
    except OSError as problem:
        raise CommandError(f"{problem.filename or 'a file'}: {problem.strerror or problem}") from None
