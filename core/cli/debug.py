"""`cems env` and `cems debug`: what to look at, or to send along, when something does not work."""

import platform
import shlex
import sqlite3
import sys
from typing import Any

import typer

from cems import __version__
from cems.core import config
from cems.core.cli import asking, console, doctor, options
from cems.core.cli.failures import DONE, FAILED, CommandError
from cems.core.cli.service import last_lines
from cems.core.paths import Home

Document = dict[str, Any]

_ENV_HELP = """\
Print the settings as environment variables.

What `cems config` shows, in a form that a shell reads. A variable that is set wins over config.toml.

\b
Example:
  cems env
"""
_DEBUG_HELP = """\
Print a report for whoever is to find out what does not work.

Versions, what `cems doctor` finds, settings that were changed, the ends of the logs. No memory and no
prompt is in it, but paths and names of projects are: read it before you send it to anybody.

\b
Example:
  cems debug > report.txt
"""
_LOG_LINES = 40


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    app.command("env", help=_ENV_HELP)(env)
    app.command("debug", help=_DEBUG_HELP)(debug)


def env(as_json: options.AsJson = False) -> int:
    """Print a line for each setting that has a value."""
    home = asking.home()
    values = {"CEMS_HOME": str(home.root)}
    values |= {row["env"]: _as_variable(row["value"]) for row in _settings(home) if row["value"] is not None}
    if as_json:
        console.emit({"variables": values})
        return DONE
    for name, value in values.items():
        console.say(f"{name}={shlex.quote(value)}")
    return DONE


def debug(as_json: options.AsJson = False) -> int:
    """Print the report; the exit code is the doctor's."""
    home = asking.home()
    checks, agents = doctor.checks()
    report: Document = {
        "versions": _versions(),
        "checks": checks,
        "agents": agents,
        "settings": _changed(home),
        "logs": {
            path.name: last_lines(path, _LOG_LINES)
            for path in (home.logs / "daemon.log", home.logs / "cli.log", home.hook_failures)
        },
    }
    if as_json:
        console.emit(report)
    else:
        _say(report)
    return DONE if all(check["ok"] for check in checks) else FAILED


def _say(report: Document) -> None:
    console.say(", ".join(f"{name} {version}" for name, version in report["versions"].items()))
    console.say()
    doctor.say_checks(report["checks"], report["agents"])
    changed = report["settings"]
    console.say()
    console.say(
        "settings: " + (", ".join(f"{key} = {value}" for key, value in changed.items()) or "all at their defaults")
    )
    for name, lines in report["logs"].items():
        console.say()
        console.say(f"{name}, its last {console.plural(len(lines), 'line')}")
        for line in lines:
            console.say(f"  {console.visible(line)}")


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {
        "cems": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "interpreter": sys.executable,
        "sqlite": sqlite3.sqlite_version,
    }
    for package in ("lancedb", "fastembed", "mcp"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def _changed(home: Home) -> dict[str, str]:
    try:
        rows = config.describe(home)
    except (config.ConfigError, OSError) as error:
        # The doctor's own row says what to do.
        return {"unreadable": str(error)}
    return {row["key"]: f"{_as_variable(row['value'])} ({row['origin']})" for row in rows if row["origin"] != "default"}


def _settings(home: Home) -> list[Document]:
    try:
        return config.describe(home)
    except config.ConfigError as error:
        raise CommandError(str(error)) from None


def _as_variable(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
