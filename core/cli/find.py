"""`cems search`, `cems list` and `cems show`: looking at memories."""

from typing import Annotated, Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, NOTHING, usage
from cems.core.cli.other_names import help_of

Document = dict[str, Any]

_SEARCH_HELP = """\
Find memories by meaning and by words.

Sees what the project of this folder and you everywhere remember. Exit code 3 when nothing is found.

\b
Examples:
  cems search how do we deploy
  cems search "retry policy" -c decisions -n 3 --json
  cems search who is on call --valid-at 2026-03-01
  cems search which database --as-of 2026-03-01
"""
_LIST_HELP = """\
List memories, newest first.

\b
Examples:
  cems list -c preferences
  cems list --all -n 200
  cems list --as-of "2026-03-01 18:00"
"""
_SHOW_HELP = """\
Show one memory in full, with its history.

\b
Examples:
  cems show m_1a2b3c4d
  cems show 1a2b --json
"""

_InCategory = Annotated[str | None, typer.Option("--category", "-c", metavar="NAME", help="Only this category.")]
_OnlyScope = Annotated[
    options.ScopeName | None,
    typer.Option("--scope", "-s", help="Only project (of this folder) or user (everywhere)."),
]
_Closed = Annotated[bool, typer.Option("--all", "-a", help="Also what was corrected, has expired or is archived.")]
_ValidAt = Annotated[
    str | None, typer.Option("--valid-at", metavar="WHEN", help="What is true of that date or ISO 8601 time.")
]
_AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="WHEN", help="What was believed at that date or time, also if corrected since."),
]


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    app.command("search", help=_SEARCH_HELP)(search)
    app.command("recall", help=help_of("recall", _SEARCH_HELP), hidden=True)(search)
    app.command("list", help=_LIST_HELP)(list_)
    app.command("show", help=_SHOW_HELP)(show)


def search(
    words: Annotated[list[str] | None, typer.Argument(metavar="QUERY", help="What to look for.")] = None,
    category: _InCategory = None,
    scope: _OnlyScope = None,
    closed: _Closed = False,
    valid_at: _ValidAt = None,
    as_of: _AsOf = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="At most so many.")] = 10,
    as_json: options.AsJson = False,
) -> int:
    """Print the memories that fit a query, best first."""
    query = options.text_from(words, what="the query", example="cems search how do we deploy")
    chosen = options.given(
        category=category, scope=scope and scope.value, include_closed=closed, **_asked(valid_at, as_of, closed)
    )
    answer = asking.ask("search", {"query": query, "limit": limit, **chosen})
    memories = answer.get("memories") or []
    if as_json:
        console.emit(answer)
        return DONE if memories else NOTHING
    if answer.get("mode") == "keyword":
        reason = str(answer.get("reason") or "the embedding model is not loaded; `cems status` says more")
        console.note(f"found by words alone: {console.one_line(reason, 200)}")
    _say_time(answer)
    if not memories:
        console.say(f"nothing found for {console.one_line(query, 60)!r}{_considered(answer)}")
        return NOTHING
    _say_found(memories)
    return DONE


def list_(
    category: _InCategory = None,
    scope: _OnlyScope = None,
    closed: _Closed = False,
    valid_at: _ValidAt = None,
    as_of: _AsOf = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="At most so many.")] = 50,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Where the page before ended.")
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Print one page of memories."""
    asked = _asked(valid_at, as_of, closed)
    chosen = options.given(
        cursor=cursor, category=category, scope=scope and scope.value, include_closed=closed, **asked
    )
    answer = asking.ask("list", {"limit": limit, **chosen})
    if as_json:
        console.emit(answer)
        return DONE
    memories = answer.get("memories") or []
    _say_time(answer)
    if not memories:
        filtered = category or scope or cursor or asked
        console.say("no memory fits" if filtered else 'no memories here yet; `cems add "…"` makes one')
        return DONE
    _say_found(memories)
    if answer.get("next"):
        total = (answer.get("coverage") or {}).get("total")
        of = f" of {total:,}" if isinstance(total, int) else ""
        more = f"cems list --cursor {answer['next']}{_repeated(category, scope, closed, asked)}"
        console.say(console.dim(f"{len(memories)}{of}; more: {more}"))
    return DONE


def show(memory_id: options.Id, as_json: options.AsJson = False) -> int:
    """Print one memory and what happened to it."""
    answer = asking.ask("show", {"id": memory_id})
    if as_json:
        console.emit(answer)
        return DONE
    memory: Document = answer["memory"]
    console.say(console.memory_heading(memory, full_id=True))
    if memory.get("title"):
        console.say(f"    {console.bold(console.one_line(str(memory['title'])))}")
    forgotten = memory.get("state") == "hidden"
    console.say(console.paragraphs("(forgotten)" if forgotten else str(memory.get("content") or "")))
    console.say()
    rows = [(console.dim(name), value) for name, value in _facts(memory) if value]
    console.say(console.table(rows))
    history = answer.get("history") or []
    if history:
        console.say()
        console.say("History")
        console.say(console.table([_event(event) for event in history]))
    return DONE


def _facts(memory: Document) -> list[tuple[str, str]]:
    source: Document = memory.get("source") or {}
    by = " ".join(str(source[key]) for key in ("actor", "agent") if source.get(key))
    confidence = memory.get("confidence")
    return [
        ("kind", console.visible(str(memory.get("kind") or ""))),
        ("tags", console.visible(", ".join(memory.get("tags") or ()))),
        ("valid", _span(memory.get("valid_from"), memory.get("valid_to"))),
        ("recorded", console.minute(memory.get("recorded_at"))),
        ("closed", console.minute(memory.get("expired_at"))),
        ("corrected by", console.short_id(str(memory.get("closed_by") or ""))),
        ("archived", console.minute(memory.get("archived_at"))),
        ("confidence", f"{confidence:g}" if isinstance(confidence, int | float) else ""),
        ("said by", console.visible(by)),
        ("session", console.visible(str(source.get("session") or ""))),
        ("quote", console.one_line(str(source.get("quote") or ""))),
        ("tokens", str(memory.get("tokens") or "")),
        ("model", console.visible(str(memory.get("model") or ""))),
    ]


def _span(since: str | None, until: str | None) -> str:
    if not since and not until:
        return ""
    return " ".join(
        part for part in (since and f"from {console.minute(since)}", until and f"until {console.minute(until)}") if part
    )


def _event(event: Document) -> tuple[str, str, str, str]:
    return (
        f"    {console.minute(event.get('at'))}",
        console.visible(str(event.get("op") or "")),
        console.visible(str(event.get("actor") or "")),
        console.one_line(str(event.get("reason") or "")),
    )


def _considered(answer: Document) -> str:
    considered = (answer.get("coverage") or {}).get("considered")
    return f" among {console.plural(considered, 'memory', 'memories')}" if isinstance(considered, int) else ""


def _asked(valid_at: str | None, as_of: str | None, closed: bool) -> dict[str, str]:
    """The times that are asked about, by the name the daemon knows them by."""
    if closed and (valid_at or as_of):
        raise usage("--all asks about now", "leave it out with --valid-at and --as-of")
    times = {"valid_at": options.instant(valid_at, "--valid-at"), "as_of": options.instant(as_of, "--as-of")}
    return {name: time for name, time in times.items() if time}


def _say_time(answer: Document) -> None:
    """Which time the answer is about, when it is not the present."""
    at: Document = answer.get("at") or {}
    asked = (("believed", at.get("as_of")), ("true", at.get("valid_at")))
    said = " and ".join(f"{what} at {console.minute(time)}" for what, time in asked if time)
    if said:
        console.say(console.dim(f"what was {said}"))


def _say_found(memories: list[Document]) -> None:
    for memory in memories:
        console.say_memories([memory])
        now: Document = memory.get("now") or {}
        if now.get("state") == "closed":
            by = f", by {console.short_id(str(now['closed_by']))}" if now.get("closed_by") else ""
            console.say(console.dim(f"    closed since, at {console.minute(now.get('expired_at'))}{by}"))
        elif now.get("valid_to", memory.get("valid_to")) != memory.get("valid_to"):
            console.say(console.dim(f"    known since to end at {console.minute(now.get('valid_to'))}"))


def _repeated(category: str | None, scope: options.ScopeName | None, closed: bool, asked: dict[str, str]) -> str:
    parts = [
        f" -c {category}" if category else "",
        f" -s {scope.value}" if scope else "",
        " --all" if closed else "",
        *(f" --{name.replace('_', '-')} {time}" for name, time in asked.items()),
    ]
    return "".join(parts)
