"""`cems status`: one page on how things are, with or without a daemon."""

import json
from pathlib import Path
from typing import Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.agent_table import agents_in_short, span
from cems.core.cli.failures import DONE, UNREACHABLE, CommandError
from cems.core.paths import Home
from cems.core.service.hook_failures import hook_failures
from cems.core.updates import last_look

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
NOT_RUNNING, NOT_ANSWERING = "not running", "not answering"
# The client's code for a daemon that could not load its second stage.
_BROKEN = "broken"
# What several agents share is recorded beside them, and is none.
_SHARED = ("agents-skills",)
_WEEK = 7 * 86_400


def register(app: typer.Typer) -> None:
    """Add this module's command to the application."""
    app.command("status", help=_HELP)(status)


def status(as_json: options.AsJson = False) -> int:
    """Print the daemon's own account, or what can be told without it."""
    answer = current(asking.home())
    if as_json:
        console.emit(answer)
        return DONE
    console.say(console.table([(console.dim(name), value) for name, value in _page(answer) if value]))
    return DONE


def current(home: Home) -> Document:
    """The status document. Where the daemon does not answer, `daemon.state` is `not running` or `not answering` (then
    with a `reason`) and what only it could tell is null.
    """
    try:
        answer = asking.ask("status", start=False, timeout=10.0)
        heard: Document = answer.pop("heard", None) or {}
        return {"agents": _with_times(wired_agents(home), heard), **answer}
    except CommandError as error:
        if error.exit_code != UNREACHABLE and error.code != _BROKEN:
            raise
        return _without_daemon(home, error.message)


def _with_times(agents: Document, heard: Document) -> Document:
    """Each agent with when its last hook, tool call and injection were; null for never."""
    never = {"last_hook": None, "last_tool": None, "last_injection": None}
    return {name: {**agent, **never, **heard.get(name, {})} for name, agent in agents.items()}


def _without_daemon(home: Home, problem: str) -> Document:
    from cems import __version__
    from cems.core.service.client import daemon_pid

    runs = asking.is_running(home)
    return {
        "daemon": {
            "pid": daemon_pid(home),
            "version": __version__,
            "state": NOT_ANSWERING if runs else NOT_RUNNING,
            "reason": problem if runs else None,
            "last_start_failure": last_start_failure(home) or None,
        },
        "memories": {"total": None, "live": None, "pending_index": None},
        "embedding": {"model": None, "state": "unknown", "reason": "the daemon does not answer"},
        "review": None,
        "hook_failures": len(hook_failures(home, _WEEK)),
        "agents": wired_agents(home),
        "scope": {"project": _project_here()},
        "paused": asking.paused(home),
        "update": last_look(home).as_json(),
        "home": str(home.root),
    }


def last_start_failure(home: Home) -> str:
    """Why the daemon failed to start the last time; empty when it did not fail."""
    from cems.core.service.logs import read_start_failure

    failure = read_start_failure(home)
    return console.one_line(failure[1], 300) if failure else ""


def wired_agents(home: Home) -> Document:
    """The agents that setup has wired, by name, each with its configuration folders, as install.conf has them."""
    try:
        entries = json.loads(home.install_conf.read_bytes())["agents"]
        agents: Document = {}
        for entry in entries:
            if entry["agent"] in _SHARED:
                continue
            agents.setdefault(str(entry["agent"]), {"folders": []})["folders"].append(str(entry["config_dir"]))
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return agents


def daemon_line(daemon: Document) -> str:
    """`ready, pid 1234, up 5 min, 310 MiB, started by hook`."""
    state = str(daemon.get("state") or "unknown")
    if state == NOT_ANSWERING:
        return console.warning(f"runs, but does not answer: {console.one_line(str(daemon.get('reason') or ''), 300)}")
    if state == NOT_RUNNING:
        failure = daemon.get("last_start_failure")
        return f"not running; last start failed: {failure}" if failure else "not running; any command or hook starts it"
    parts = [
        {"keyword": "answering by words alone until the model is loaded"}.get(state, state),
        f"pid {daemon['pid']}" if daemon.get("pid") else "",
        f"version {daemon['version']}" if daemon.get("version") else "",
        f"up {span(daemon['uptime_s'])}" if isinstance(daemon.get("uptime_s"), int | float) else "",
        f"{daemon['rss_mib']:.0f} MiB" if isinstance(daemon.get("rss_mib"), int | float) else "",
        f"started by {daemon['started_by']}" if daemon.get("started_by") else "",
    ]
    return console.visible(", ".join(part for part in parts if part))


def _page(answer: Document) -> list[tuple[str, str]]:
    daemon: Document = answer.get("daemon") or {}
    answers = daemon.get("state") not in (NOT_RUNNING, NOT_ANSWERING)
    scope: Document = answer.get("scope") or {}
    project = scope.get("project")
    failures = int(answer.get("hook_failures") or 0)
    review = answer.get("review")
    return [
        ("home", console.visible(str(answer.get("home") or ""))),
        ("daemon", daemon_line(daemon)),
        ("paused", _paused(answer.get("paused"))),
        (
            "here",
            console.scope_words(_as_scope(str(project)))
            if project
            else "no project; only what holds everywhere (user)",
        ),
        ("memories", _memories(answer.get("memories") or {}) if answers else ""),
        ("embedding", _embedding(answer.get("embedding") or {}) if answers else ""),
        ("review", _review(review) if isinstance(review, int) else ""),
        (
            "hooks",
            console.warning(f"{console.plural(failures, 'failure')}; see cems doctor") if failures else "no failures",
        ),
        ("update", _update(answer.get("update") or {})),
        ("agents", _agents(answer.get("agents") or {})),
    ]


def _update(found: Document) -> str:
    told = f"{console.visible(str(found['newest']))} is out; cems update installs it" if found.get("newest") else ""
    problem = console.warning(console.one_line(str(found["problem"]), 200)) if found.get("problem") else ""
    return "; ".join(part for part in (told, problem) if part)


def _paused(pause: Document | None) -> str:
    from cems.core.cli.pause import described

    return console.warning(console.visible(described(pause))) if pause else ""


def _memories(counts: Document) -> str:
    words = {
        "here": "seen from here",
        "live": "in all",
        "closed": "corrected",
        "archived": "archived",
        "hidden": "forgotten",
        "pending_index": "not yet in the index",
    }
    shown = [(counts.get(name), text) for name, text in words.items()]
    return ", ".join(
        f"{count:,} {text}"
        for count, text in shown
        if isinstance(count, int) and (count or text in ("seen from here", "in all"))
    )


def _embedding(embedding: Document) -> str:
    name = console.visible(str(embedding.get("model") or "none"))
    if embedding.get("state") in ("ready", "hybrid"):
        return name
    reason = console.one_line(str(embedding.get("reason") or f"the model is {name}"), 200)
    return console.warning(f"none: memories are found by words alone, not by meaning ({reason})")


def _review(count: int) -> str:
    return f"{console.plural(count, 'memory', 'memories')} waiting for your word" if count else "nothing waits"


def _agents(agents: Document) -> str:
    return agents_in_short(agents) or "none wired; cems setup finds them"


def _as_scope(project: str) -> str:
    return project if project.startswith("project:") else f"project:{project}"


def _project_here() -> str | None:
    from cems.core.scope import session_scope

    folder = asking.working_folder()
    return session_scope(folder).project if folder and Path(folder).is_dir() else None
