"""`cems purge`: erasing what was remembered, and saying where it still stands."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, FAILED, CommandError, usage

Document = dict[str, Any]

_SECONDS = 3_600.0
_MOST_NAMED = 20

_PURGE_HELP = """\
Erase memories: not hidden, gone.

`cems forget` hides a memory and keeps its value from coming back. This does the same and then erases
what it said from the journal, the store, the logs and the daily copies, with everything derived from
it; where another memory holds the same text, the text is cut out of it. Then all of CEMS_HOME is
searched for it, and the agents' own transcripts, which are not ours to change: they are named.

Only a person at a terminal can do this, outside any agent. It cannot be undone.

Exit code 0 when nothing is left in CEMS_HOME, 1 when something is.

\b
Examples:
  cems purge m_1a2b3c4d
  cems purge --text "the password is swordfish" --reason "leaked"
"""


def register(app: typer.Typer) -> None:
    """Add this module's command to the application."""
    app.command("purge", help=_PURGE_HELP)(purge)


def purge(
    memory_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Ids as shown by list and search; a beginning is enough."),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Erase this text wherever it stands.")
    ] = None,
    reason: options.Reason = None,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> int:
    """Ask, erase, search, report."""
    if bool(memory_ids) == (text is not None):
        raise usage("name what to erase either by ID or with --text", "e.g. cems purge 1a2b")
    target: Document = {"ids": list(dict.fromkeys(memory_ids or ()))}
    if text is not None:
        target = {"text": options.text_from([text], what="the text to erase", example="cems purge --text \u2026")}
    plan = asking.ask("purge_plan", target, timeout=_SECONDS)
    if not yes and not _agreed(plan):
        console.note("nothing was erased")
        return DONE
    done = asking.ask("purge", {**target, **options.given(reason=reason)}, timeout=_SECONDS)
    done["agents"] = _in_transcripts(done.get("texts") or [])
    if as_json:
        console.emit(done)
    else:
        _report(done)
    return FAILED if done.get("left") or done.get("problems") else DONE


def _agreed(plan: Document) -> bool:
    """Show what would be erased, and ask; a pipe cannot agree."""
    if not console.is_terminal(sys.stdin):
        raise CommandError("purge asks before it erases", next_step="run it in a terminal, or with --yes")
    purged, cut = plan.get("purged") or [], plan.get("cut") or []
    if purged:
        console.note(f"{console.plural(len(purged), 'memory', 'memories')} would be erased for good:")
        _list(purged)
    if cut:
        console.note(f"{console.plural(len(cut), 'other memory', 'other memories')} would have the text cut out:")
        _list(cut)
    if not purged and not cut:
        console.note("no memory holds that text; other entries and files would be cleaned of it")
    return console.confirm("Erase it? This cannot be undone.")


def _list(memories: list[Document]) -> None:
    for memory in memories[:_MOST_NAMED]:
        name, scope = console.short_id(str(memory.get("id") or "")), console.scope_words(str(memory.get("scope") or ""))
        console.note(f"  {name}  {scope}  {console.one_line(str(memory.get('content') or ''), 80)}")
    if len(memories) > _MOST_NAMED:
        console.note(f"  and {len(memories) - _MOST_NAMED} more")


def _report(done: Document) -> None:
    purged, cut = done.get("purged") or [], done.get("cut") or []
    left, agents = done.get("left") or [], done.get("agents") or []
    # Their ids only: what they said is not shown once more.
    console.say(
        f"erased {console.plural(len(purged), 'memory', 'memories')}, cut the text out of {len(cut)} more; "
        f"{console.plural(int(done.get('entries') or 0), 'entry', 'entries')} of the journal erased"
    )
    for memory in cut[:_MOST_NAMED]:
        name = console.bold(console.short_id(str(memory.get("id") or "")))
        console.say(f"  {name}  {console.one_line(str(memory.get('content') or ''), 80)}")
    if done.get("logs"):
        console.say(f"{console.plural(int(done['logs']), 'line')} taken out of our logs")
    for problem in done.get("problems") or []:
        console.note(console.one_line(str(problem), 300))
    for trace in left:
        console.note(f"still in CEMS_HOME: {console.one_line(str(trace['place']), 200)} ({trace['form']})")
    if not done.get("texts"):
        console.say("too short to be looked for in files as they are; rows of the databases were searched")
    elif not left:
        console.say("searched all of CEMS_HOME, files and rows: it is not there any more")
    for trace in agents:
        console.note(f"an agent's own record still holds it: {console.one_line(str(trace['place']), 300)}")
    if agents:
        console.note("those files are the agents'; remove them or the lines yourself if it must be gone from there too")


def _in_transcripts(texts: list[str]) -> list[Document]:
    """The agents' own files that hold one of the texts; searched here, where the person's environment names them."""
    from cems.core.needles import needles_for
    from cems.core.service.adapters import load_agents, registered_agents
    from cems.core.traces import search_files

    folders: dict[Path, None] = {}
    for name, agent in load_agents(registered_agents()).items():
        tell = getattr(agent, "transcript_folders", None)
        if tell is None:
            continue
        try:
            folders |= dict.fromkeys(tell(Path.home(), os.environ))
        except Exception as error:  # noqa: BLE001 - a third party's adapter; what it cannot name is not searched, and said
            console.note(f"the transcripts of {name} were not searched ({type(error).__name__})")
    found = search_files(folders, needles_for(texts)) if texts else []
    return [{"place": each.place, "form": each.form} for each in found]
