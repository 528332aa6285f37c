"""`cems status`: one page on how things are, with or without a daemon."""

import json
from pathlib import Path
from typing import Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, UNREACHABLE, CommandError
from cems.core.paths import Home

Document = dict[str, Any]

_HELP = """\
Show how CEMS is, on one page.

Daemon, memories, embedding, review queue, hooks, agents, and the project of this folder. Does not
start the daemon.

\b
Examples:
  cems status
  cems status --json
"""
_NOT_RUNNING = "not running"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def register(app: typer.Typer) -> None:
    """Add this module's command to the application."""
    app.command("status", help=_HELP)(status)


def status(as_json: options.AsJson = False) -> int:
    """Print the daemon's own account, or what can be told without it."""
    home = asking.home()
    problem = ""
    try:
        answer = asking.ask("status", start=False, timeout=10.0)
    except CommandError as error:
        if error.exit_code != UNREACHABLE:
            raise
        answer = without_daemon(home)
        problem = error.message if asking.is_running(home) else ""
    if as_json:
        console.emit(answer)
        return DONE
    console.say(
        console.table([(console.dim(name), value) for name, value in _page(answer, problem) if value])
    )
    return DONE


def without_daemon(home: Home) -> Document:
    """The status document, as far as it can be told from files. Counts of memories are unknown: null."""
    from cems import __version__

    failure = last_start_failure(home)
    return {
        "daemon": {
            "pid": None,
            "version": __version__,
            "state": _NOT_RUNNING,
            "last_start_failure": failure or None,
        },
        "memories": {"total": None, "live": None, "pending_index": None},
        "embedding": {"model": None, "state": "unknown", "reason": "the daemon is not running"},
        "review": None,
        "hook_failures": hook_failure_count(home),
        "agents": wired_agents(home),
        "scope": {"project": _project_here()},
        "home": str(home.root),
    }


def hook_failure_count(home: Home) -> int:
    """How many hook calls have failed since the file was last emptied; one line each."""
    try:
        return home.hook_failures.read_bytes().count(b"\n")
    except OSError:
        return 0


def last_start_failure(home: Home) -> str:
    """Why the daemon failed to start the last time; empty when it did not fail."""
    from cems.core.service.logs import read_start_failure

    failure = read_start_failure(home)
    return console.one_line(failure[1], 300) if failure else ""


def wired_agents(home: Home) -> Document:
    """The agents that setup has wired, by name, as install.conf has them."""
    try:
        record = json.loads(home.install_conf.read_bytes())
        agents = record.get("agents")
    except (OSError, ValueError, AttributeError):
        return {}
    if isinstance(agents, dict):
        return agents
    return {str(name): {"wired": True} for name in agents} if isinstance(agents, list) else {}


def span(seconds: float) -> str:
    """`42 s`, `5 min`, `2 h 5 min`, `3 d 4 h`."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def daemon_line(daemon: Document) -> str:
    """`ready, pid 1234, up 5 min, 310 MiB, started by hook`."""
    state = str(daemon.get("state") or "unknown")
    if state == _NOT_RUNNING:
        failure = daemon.get("last_start_failure")
        return (
            f"not running; last start failed: {failure}"
            if failure
            else "not running; any command or hook starts it"
        )
    parts = [
        {"keyword": "answering by words alone until the model is loaded"}.get(state, state),
        f"pid {daemon['pid']}" if daemon.get("pid") else "",
        f"version {daemon['version']}" if daemon.get("version") else "",
        f"up {span(daemon['uptime_s'])}" if isinstance(daemon.get("uptime_s"), int | float) else "",
        f"{daemon['rss_mib']:.0f} MiB" if isinstance(daemon.get("rss_mib"), int | float) else "",
        f"started by {daemon['started_by']}" if daemon.get("started_by") else "",
    ]
    return console.visible(", ".join(part for part in parts if part))


def _page(answer: Document, problem: str) -> list[tuple[str, str]]:
    daemon: Document = answer.get("daemon") or {}
    runs = daemon.get("state") != _NOT_RUNNING
    scope: Document = answer.get("scope") or {}
    project = scope.get("project")
    failures = int(answer.get("hook_failures") or 0)
    review = answer.get("review")
    return [
        ("home", console.visible(str(answer.get("home") or ""))),
        (
            "daemon",
            console.warning(f"runs, but does not answer: {problem}") if problem else daemon_line(daemon),
        ),
        (
            "here",
            console.scope_words(_as_scope(str(project)))
            if project
            else "no project; only what holds everywhere (user)",
        ),
        ("memories", _memories(answer.get("memories") or {}) if runs else ""),
        ("embedding", _embedding(answer.get("embedding") or {}) if runs else ""),
        ("review", _review(review) if isinstance(review, int) else ""),
        (
            "hooks",
            console.warning(f"{console.plural(failures, 'failure')}; see cems doctor")
            if failures
            else "no failures",
        ),
        ("agents", _agents(answer.get("agents") or {})),
    ]


def _memories(counts: Document) -> str:
    live, total, pending = counts.get("live"), counts.get("total"), counts.get("pending_index")
    here = counts.get("here", counts.get("in_scope"))
    if here is None and isinstance(counts.get("by_scope"), dict):
        here = sum(value for value in counts["by_scope"].values() if isinstance(value, int))
    parts = [
        f"{here:,} seen from here" if isinstance(here, int) else "",
        f"{live:,} live" if isinstance(live, int) else "",
        f"{total:,} with what was corrected" if isinstance(total, int) and total != live else "",
        f"{pending:,} not yet in the index" if isinstance(pending, int) and pending else "",
    ]
    return ", ".join(part for part in parts if part)


def _embedding(embedding: Document) -> str:
    state, reason = str(embedding.get("state") or "unknown"), str(embedding.get("reason") or "")
    name = console.visible(str(embedding.get("model") or "no model"))
    if state in {"ready", "ok"}:
        return name
    because = f": {console.one_line(reason, 200)}" if reason else ""
    if state in {"loading", "starting"}:
        return f"{name}, loading; until then memories are found by words alone"
    return console.warning(f"memories are found by words alone, without meaning ({name}, {state}{because})")


def _review(count: int) -> str:
    return (
        f"{console.plural(count, 'memory', 'memories')} waiting for your word" if count else "nothing waits"
    )


def _agents(agents: Document) -> str:
    if not agents:
        return "none wired; cems setup finds them"
    return ", ".join(f"{console.visible(name)}{_agent_state(state)}" for name, state in agents.items())


def _agent_state(state: object) -> str:
    words = state.get("state") or state.get("status") if isinstance(state, dict) else state
    return f" ({console.one_line(words, 60)})" if isinstance(words, str) and words else ""


def _as_scope(project: str) -> str:
    return project if project.startswith("project:") else f"project:{project}"


def _project_here() -> str | None:
    from cems.core.scope import session_scope

    folder = asking.working_folder()
    return session_scope(folder).project if folder and Path(folder).is_dir() else None
