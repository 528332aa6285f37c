"""Options and arguments that several commands share, and how texts and times are read from them."""

import sys
from datetime import date, datetime, time
from enum import StrEnum
from typing import Annotated

import typer

from cems.core.cli import console
from cems.core.cli.failures import usage


class ScopeName(StrEnum):
    """Where a memory holds: in the project of this folder, or for the person everywhere."""

    PROJECT = "project"
    USER = "user"


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Category = Annotated[
    str | None,
    typer.Option("--category", "-c", metavar="NAME", help="Such as decisions, preferences, guidelines, learnings."),
]
Title = Annotated[str | None, typer.Option("--title", metavar="TEXT", help="A short heading.")]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", "-t", metavar="TAG", help="A tag; may be given several times.")
]
Kind = Annotated[str | None, typer.Option("--kind", metavar="NAME", help="Finer than the category, e.g. pattern.")]
InScope = Annotated[
    ScopeName | None,
    typer.Option("--scope", "-s", help="project (of this folder) or user (everywhere)."),
]
ForUser = Annotated[bool, typer.Option("--user", "-u", help="Short for --scope user.")]
Reason = Annotated[str | None, typer.Option("--reason", "-r", metavar="TEXT", help="Why; kept in the history.")]
ValidFrom = Annotated[
    str | None,
    typer.Option("--valid-from", metavar="WHEN", help="Since when it holds: a date or ISO 8601 time."),
]
ValidTo = Annotated[
    str | None,
    typer.Option("--valid-to", metavar="WHEN", help="Until when it holds (that moment not included)."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Words = Annotated[
    list[str] | None, typer.Argument(metavar="TEXT", help="The text; `-` or nothing reads it from a pipe.")
]
Ids = Annotated[list[str], typer.Argument(metavar="ID", help="Ids as shown by list and search; a beginning is enough.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="An id as shown by list and search; a beginning is enough.")]


def chosen_scope(scope: ScopeName | None, for_user: bool) -> str | None:
    """The scope asked for, None for the default. Raises a usage error for `--user --scope project`."""
    if for_user and scope is ScopeName.PROJECT:
        raise usage("--user and --scope project exclude each other")
    return "user" if for_user else scope.value if scope else None


def text_from(words: list[str] | None, *, what: str, example: str) -> str:
    """The text of a command: its words, or standard input for `-` and for no words in a pipe. Never empty."""
    if words and words != ["-"]:
        text = " ".join(words)
    elif not words and console.is_terminal(sys.stdin):
        raise usage(f"{what} is missing", f"e.g. {example}, or pipe it in")
    else:
        text = piped_text()
    text = readable(text).strip("\r\n")
    if not text.strip():
        raise usage(f"{what} is empty", f"e.g. {example}")
    return text


def piped_text() -> str:
    """All of standard input as UTF-8, whatever the locale; bytes that are not become U+FFFD."""
    if sys.stdin is None:
        return ""
    return sys.stdin.buffer.read().decode("utf-8-sig", "replace").replace("\r\n", "\n")


def readable(text: str) -> str:
    """`text` of an argument as Unicode: what the locale could not decode is tried as UTF-8, else U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()


def instant(text: str | None, option: str) -> str | None:
    """An ISO 8601 instant with offset. A date, or a time without an offset, is the person's local time."""
    if text is None:
        return None
    try:
        stripped = text.strip()
        if len(stripped) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(stripped), time()).astimezone().isoformat()
        return datetime.fromisoformat(stripped).astimezone().isoformat()
    except (ValueError, OverflowError):
        raise usage(f"{option}: {text!r} is not a date", "write 2026-01-31 or 2026-01-31T14:00:00+02:00") from None


def given(**values: object) -> dict[str, object]:
    """The values that were given; the daemon's defaults hold for the others."""
    return {name: value for name, value in values.items() if value is not None and value != [] and value is not False}
