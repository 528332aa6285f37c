"""`cems add`: remember one thing, or many from a file of JSON lines."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, REFUSED, usage
from cems.core.cli.other_names import help_of

Document = dict[str, Any]

_ADD_HELP = """\
Remember something.

The text is one statement that makes sense on its own. It belongs to the project of this folder, or
to you everywhere with --user (and outside any project).

\b
Examples:
  cems add "We deploy with make ship, never by hand" -c decisions
  cems add --user "Answer in short sentences" -c preferences --pin
  git log -1 --format=%B | cems add - --tag release
  cems add --from-jsonl notes.jsonl

A line of --from-jsonl is a JSON object with `content` and, as wanted, category, title, kind, tags,
scope, valid_from, valid_to, recorded_at, pin, confidence, and session and place (a number): where it was said.
"""


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    app.command("add", help=_ADD_HELP)(add)
    app.command("remember", help=help_of("remember", _ADD_HELP), hidden=True)(add)


def add(
    words: options.Words = None,
    category: options.Category = None,
    title: options.Title = None,
    tags: options.Tags = None,
    kind: options.Kind = None,
    scope: options.InScope = None,
    user: options.ForUser = False,
    valid_from: options.ValidFrom = None,
    valid_to: options.ValidTo = None,
    pin: Annotated[bool, typer.Option("--pin", help="Put it in front of the agent at every session start.")] = False,
    from_jsonl: Annotated[
        Path | None,
        typer.Option("--from-jsonl", metavar="FILE", help="Remember each line of a JSON lines file; `-` for a pipe."),
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Remember one text, or each line of a file."""
    chosen = options.given(
        category=category,
        title=title and options.readable(title),
        kind=kind,
        tags=[options.readable(tag) for tag in tags or ()],
        scope=options.chosen_scope(scope, user),
        valid_from=options.instant(valid_from, "--valid-from"),
        valid_to=options.instant(valid_to, "--valid-to"),
        pin=pin,
    )
    if from_jsonl is not None:
        if words:
            raise usage("TEXT and --from-jsonl exclude each other")
        from cems.core.cli.jsonl import add_lines

        return add_lines(from_jsonl, defaults=chosen, as_json=as_json)
    content = options.text_from(words, what="the text to remember", example='cems add "Port 8081 is for staging"')
    answer = asking.ask("add", {"content": content, **chosen})
    if as_json:
        console.emit(answer)
    else:
        _tell(answer, chosen)
    return REFUSED if answer.get("status") == "refused" else DONE


def _tell(answer: Document, chosen: Document) -> None:
    status, reason = answer.get("status"), str(answer.get("reason") or "")
    name = console.bold(console.short_id(str(answer.get("id") or "")))
    because = f": {console.one_line(reason, 300)}" if reason else ""
    if status == "refused":
        console.note(f"not remembered{because}")
    elif status == "duplicate":
        console.say(f"already known as {name}{because}")
    else:
        where = console.scope_words(str(answer.get("scope") or _scope_here(chosen)))
        category = console.visible(str(answer.get("category") or chosen.get("category") or "general"))
        if status == "candidate":
            console.say(f"kept as candidate {name} ({where}, {category}){because}")
        else:
            console.say(f"remembered {name} ({where}, {category}){because}")
    redacted = int(answer.get("redacted") or 0)
    if redacted:
        parts = console.plural(redacted, "secret or private part", "secrets or private parts")
        console.say(f"{parts} cut out before anything was written")


def _scope_here(chosen: Document) -> str:
    from cems.core.scope import session_scope

    return "user" if chosen.get("scope") == "user" else session_scope(asking.working_folder()).default
