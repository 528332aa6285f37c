"""`cems update`: looking for a newer release, and putting it in place; by itself only as the person has set."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from cems import __version__
from cems.core import updates
from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, FAILED, REFUSED, CommandError, usage
from cems.core.config import ConfigError, Settings, load
from cems.core.paths import Home
from cems.core.service.caller import caller_from
from cems.core.service.client import cli_context
from cems.installer import environment, update
from cems.installer.environment import UpdateFailed
from cems.installer.release_index import IndexProblem, Release, newest

HELP = """\
Update CEMS to the newest release. With an ID: the other name of `cems edit`.

Looks in the release index that the setting `update_index` names, and nowhere without one. The release
is checked by its digest, installed into a copy of the environment and tried out there; only then does
it take the place of the one that runs. A checkout is upgraded with git pull && ./install.sh.

CEMS_AUTO_UPDATE=1 does this once a day when no session is alive; 0 looks for nothing; otherwise a newer
release is only mentioned in cems status.

\b
Examples:
  cems update --check
  cems update
  cems update m_1a2b3c4d "Staging listens on port 8081"
"""
_CHECKOUT = "a checkout is upgraded with `git pull && ./install.sh`"

Check = Annotated[bool, typer.Option("--check", help="Only say whether there is a newer release.")]
Auto = Annotated[bool, typer.Option("--auto", hidden=True, help="As the daemon runs it.")]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("update", help=HELP)(update_program)


def update_program(
    check: Check = False, yes: options.Yes = False, auto: Auto = False, as_json: options.AsJson = False
) -> int:
    """Look, ask, update."""
    if check and yes:
        raise usage("--check and --yes exclude each other")
    home = asking.home()
    settings = _settings(home)
    if auto:
        return _by_itself(home, settings)
    if not settings.update_index:
        raise CommandError(
            f"no release index is set, so nothing was looked for; {_CHECKOUT}",
            code="no_index",
            next_step="cems config set update_index URL names one",
        )
    release = _newest(home, settings.update_index)
    if release is None or check:
        return _tell(release, updated=False, trouble="", as_json=as_json)
    _may_update(home, release, yes=yes, as_json=as_json)
    try:
        done = update.update(home, release, (lambda _: None) if as_json else console.say)
    except (UpdateFailed, IndexProblem) as problem:
        raise CommandError(f"{problem}. CEMS {__version__} goes on working") from None
    return _tell(release, updated=True, trouble=done.trouble, as_json=as_json)


def _by_itself(home: Home, settings: Settings) -> int:
    """What the daemon starts: quiet, at most once a day, and never while a session is alive."""
    # An agent could name an index of its own in its environment.
    if not caller_from(cli_context()).person or not updates.due(home, settings.update_index, settings.auto_update):
        return DONE
    # Noted before anything is done: what fails is not tried again at once.
    updates.note_look(home, updates.last_look(home).newest)
    release = _newest(home, settings.update_index)
    if release is None or not settings.auto_update or not environment.is_ours(home) or update.sessions_alive(home):
        return DONE
    try:
        done = update.update(home, release, lambda _: None)
    except (UpdateFailed, IndexProblem) as problem:
        updates.note_look(home, release.version, f"the update to {release.version} failed: {problem}")
        return FAILED
    updates.note_look(home, release.version, done.trouble)
    return DONE


def _newest(home: Home, index: str) -> Release | None:
    """The newest release above ours, noted for `cems status`."""
    try:
        release = newest(index, __version__)
    except IndexProblem as problem:
        with suppress(OSError):
            updates.note_look(home, updates.last_look(home).newest, str(problem))
        raise CommandError(str(problem)) from None
    with suppress(OSError):
        updates.note_look(home, release.version if release else "")
    return release


def _may_update(home: Home, release: Release, *, yes: bool, as_json: bool) -> None:
    """Raise unless a person asks, from an installed CEMS, and no session would lose its daemon."""
    if not environment.is_ours(home):
        raise CommandError(f"{release.version} is out, but this CEMS does not run from {home.env}; {_CHECKOUT}")
    if not caller_from(cli_context()).person:
        raise CommandError(
            "to update CEMS is a person's act: do it in a terminal, outside any agent", exit_code=REFUSED
        )
    alive = update.sessions_alive(home)
    if alive and not yes:
        sessions = console.plural(alive, "session")
        raise CommandError(f"{sessions} of agents alive; nothing was changed", next_step="end them, or add --yes")
    asks = not (yes or as_json) and console.is_terminal(sys.stdin)
    if asks and not console.confirm(f"Update CEMS {__version__} to {release.version} from {release.url}?"):
        raise CommandError("nothing was changed")


def _tell(release: Release | None, *, updated: bool, trouble: str, as_json: bool) -> int:
    if as_json:
        document: dict[str, Any] = {
            "current": __version__,
            "newest": release.version if release else None,
            "updated": updated,
            "problem": trouble or None,
        }
        console.emit(document)
    elif release is None:
        console.say(f"CEMS {__version__} is the newest release")
    elif updated:
        console.say(f"CEMS {release.version} is in place of {__version__}")
    else:
        console.say(f"CEMS {release.version} is out, this is {__version__}; `cems update` installs it")
    if trouble and not as_json:
        console.note(f"its setup says: {console.visible(trouble)}")
    return FAILED if trouble else DONE


def _settings(home: Home) -> Settings:
    try:
        return load(home)
    except ConfigError as problem:
        raise CommandError(str(problem)) from None
