"""`cems pause` and `cems resume`: projects, or everything, in which agents are given nothing and nothing is learnt."""

from typing import Annotated, Any

import typer

from cems.core import pauses
from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, FAILED, REFUSED, UNREACHABLE, CommandError, usage
from cems.core.paths import Home
from cems.core.pauses import EVERYWHERE, Pause

Document = dict[str, Any]

_PAUSE_HELP = """\
Pause CEMS in the project of this folder, until `cems resume`.

Agents are given nothing there and nothing is stored or learnt of what is said, also not afterwards.
Your own commands and your gate rules go on working. In a folder without a repository the folders
below it are paused too; a repository below it is a project of its own, and is not.

\b
Examples:
  cems pause
  cems pause --all
  cems pause --list
"""
_RESUME_HELP = """\
End the pause of the project of this folder; with --all the pause of everything.

A project that was paused by itself stays so when `cems resume --all` ends the pause of everything.
Only a person can do this: it is refused from inside an agent.

\b
Example:
  cems resume
"""
# The client's code for a daemon that could not load its second stage.
_BROKEN = "broken"


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    app.command("pause", help=_PAUSE_HELP)(pause)
    app.command("resume", help=_RESUME_HELP)(resume)


def pause(
    everywhere: Annotated[bool, typer.Option("--all", "-a", help="Everywhere, not only in this project.")] = False,
    listed: Annotated[bool, typer.Option("--list", "-l", help="Show what is paused; change nothing.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Begin a pause, or list them."""
    if listed and everywhere:
        raise usage("--list and --all exclude each other")
    if listed:
        return _list(as_json)
    home = asking.home()
    try:
        answer = asking.ask("pause", {"all": everywhere})
    except CommandError as error:
        if error.exit_code != UNREACHABLE and error.code != _BROKEN:
            raise
        # What a person wants kept private must not wait for a daemon to be mended; that one reads the file too.
        answer = _without_daemon(home, everywhere)
    if as_json:
        console.emit(answer)
        return DONE
    place = pauses.where(Pause(answer["scope"], ""))
    if not answer["changed"]:
        console.say(console.visible(f"already paused {place}"))
        return DONE
    end = pauses.how_to_resume(Pause(answer["scope"], ""))
    console.say(console.visible(f"paused {place}: agents are given nothing and nothing is learnt, until `{end}`"))
    console.say("A session that runs keeps what it was given before.")
    return DONE


def resume(
    everywhere: Annotated[bool, typer.Option("--all", "-a", help="The pause of everything.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """End a pause."""
    answer = asking.ask("resume", {"all": everywhere})
    still = answer.get("paused")
    if as_json:
        console.emit(answer)
        return DONE
    ended = Pause(answer["scope"], "")
    if answer["changed"]:
        console.say(console.visible(f"no longer paused {pauses.where(ended)}"))
    elif not still:
        console.say(console.visible(f"it was not paused {pauses.where(ended)}"))
    if still:
        here = Pause(still["scope"], still["since"])
        console.say(console.warning(console.visible(f"still paused {pauses.where(here)}; {_way_out(here, ended)}")))
    return DONE


def described(paused: Document) -> str:
    """`everywhere since 2026-03-01 14:05, by claude-code`, with what ends it."""
    if paused.get("damage"):
        return f"everywhere: {paused['damage']}; `cems resume --all` sets it aside"
    here = Pause(str(paused["scope"]), str(paused["since"]))
    by = "" if paused.get("by") == "person" else f", by {paused.get('by')}"
    return f"{pauses.where(here)} since {console.minute(here.since)}{by}; `{pauses.how_to_resume(here)}` ends it"


def _way_out(running: Pause, asked: Pause) -> str:
    if running.scope == EVERYWHERE or running.scope == asked.scope:
        return f"`{pauses.how_to_resume(running)}` ends that"
    return "`cems resume` in that folder ends it"


def _list(as_json: bool) -> int:
    answer = asking.ask("pauses")
    if as_json:
        console.emit(answer)
        return FAILED if answer.get("damage") else DONE
    if answer.get("damage"):
        console.say(console.warning(console.visible(described(answer["paused"]))))
        return FAILED
    rows = [
        [pauses.where(Pause(each["scope"], "")), f"since {console.minute(each['since'])}", f"by {each['by']}"]
        for each in answer["pauses"]
    ]
    console.say(console.visible(console.table(rows)) if rows else "nothing is paused")
    return DONE


def _without_daemon(home: Home, everywhere: bool) -> Document:
    from cems.core.scope import session_scope
    from cems.core.service.caller import caller_from
    from cems.core.service.client import cli_context

    # The daemon's own rule, which is not there to say it.
    caller = caller_from(cli_context())
    if everywhere and not caller.person:
        told = "to pause CEMS everywhere is a person's act: do it in a terminal, outside any agent"
        raise CommandError(told, exit_code=REFUSED, code="refused")
    project = session_scope(asking.working_folder()).project
    scope = EVERYWHERE if everywhere else project
    if scope is None:
        raise usage("this folder belongs to no project", "cems pause --all pauses everything")
    try:
        changed = pauses.pause(home, scope, caller.agent or "person")
    except pauses.PausesDamaged as error:
        raise CommandError(str(error), code="damaged") from None
    except OSError as error:
        raise CommandError(f"{home.pauses} cannot be written: {error.strerror}") from None
    known = pauses.read_pauses(home.pauses)
    return {"scope": scope, "changed": changed, "paused": known.as_json(project), "running": len(known.running)}
