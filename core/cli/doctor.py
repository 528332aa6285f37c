"""`cems doctor` and `cems health`: is everything as it must be, and if not, what to do."""

from typing import Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.agent_table import agent_table
from cems.core.cli.failures import DONE, FAILED
from cems.core.paths import Home

Document = dict[str, Any]

_DOCTOR_HELP = """\
Check everything, and say what to do about each problem.

Looks at the installation, the daemon, the store and each agent: found, version, connected, trusted,
when its last hook ran and memory last reached it. Starts the daemon if it is not running. Exit code 0 when all is well, 1 otherwise.

\b
Examples:
  cems doctor
  cems doctor --json
"""
_HEALTH_HELP = """\
Say in one line whether all is well: `cems doctor` in short.

Exit code 0 when it is, 1 otherwise; `cems doctor` has the details.
"""


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    app.command("doctor", help=_DOCTOR_HELP)(doctor)
    app.command("health", help=_HEALTH_HELP)(health)


def doctor(as_json: options.AsJson = False) -> int:
    """Print every check."""
    found, agents = checks()
    problems = [check for check in found if not check["ok"]]
    if as_json:
        console.emit({"ok": not problems, "checks": found, "agents": agents})
    else:
        say_checks(found, agents)
    return FAILED if problems else DONE


def say_checks(found: list[Document], agents: list[Document]) -> None:
    """Each check in a line, with what to do; then the agents, then the sum of it."""
    titles = {agent["title"] for agent in agents}
    # An agent's row of the table says all that is to say where nothing is wrong.
    shown = [check for check in found if not check["ok"] or check["name"] not in titles]
    width = max(len(str(check["name"])) for check in shown)
    for check in shown:
        mark = "ok     " if check["ok"] else console.warning("problem")
        detail = console.one_line(str(check.get("detail") or ""), 300)
        console.say(f"{mark}  {console.visible(str(check['name'])).ljust(width)}  {detail}".rstrip())
        if not check["ok"] and check.get("fix"):
            console.say(f"{' ' * 9}{' ' * width}  -> {console.one_line(str(check['fix']), 300)}")
    for line in agent_table(agents):
        console.say(line)
    problems = sum(not check["ok"] for check in found)
    console.say()
    console.say(f"{console.plural(problems, 'problem')} found" if problems else "all is well")


def health(as_json: options.AsJson = False) -> int:
    """Print one line."""
    found, _ = checks()
    problems = [check for check in found if not check["ok"]]
    if as_json:
        console.emit({"ok": not problems, "checks": len(found), "problems": problems})
    elif problems:
        names = ", ".join(str(check["name"]) for check in problems)
        console.say(f"{console.plural(len(problems), 'problem')}: {console.one_line(names, 200)} (cems doctor)")
    else:
        console.say(f"all is well ({len(found)} checks)")
    return FAILED if problems else DONE


def checks() -> tuple[list[Document], list[Document]]:
    """All checks, and the reports on agents that came with some of them."""
    from cems.core.cli import local_checks

    home = asking.home()
    # First, though shown second: a daemon that comes up withdraws the note about an earlier one that did not.
    daemon = local_checks.daemon(home)
    found = [*local_checks.files_and_settings(home), *daemon, *_contributed(home)]
    agents = [check.pop("agent") for check in found if "agent" in check]
    return [{"name": "?", "ok": False, "detail": "", "fix": "", **check} for check in found], agents


def _contributed(home: Home) -> list[Document]:
    """The checks of other packages (entry points `cems.doctor`); one that fails to run is a problem itself."""
    from importlib.metadata import entry_points

    found: list[Document] = []
    for entry in sorted(entry_points(group="cems.doctor"), key=lambda entry: entry.name):
        try:
            found += entry.load()(home)
        except Exception as error:  # noqa: BLE001 - what the doctor examines may be broken
            detail = f"{entry.value} could not run: {type(error).__name__}: {error}"
            found.append({"name": entry.name, "ok": False, "detail": detail, "fix": "reinstall it, or report this"})
    return found
