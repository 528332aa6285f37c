"""`cems review`: the memories that wait for the person's word, one at a time, and the verdict on each."""

import os
import re
import sys
from collections import Counter
from difflib import SequenceMatcher
from typing import Annotated, Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.change import edited
from cems.core.cli.failures import DONE, NOTHING, REFUSED, CommandError, usage

Document = dict[str, Any]

_HELP = """\
Decide about the memories that wait for your word.

What agents add is unverified, and what contradicts a trusted memory or comes close to something forgotten is
withheld, until you approve it. An agent may also ask that a memory hold in all your projects. One at a time:
a approve, e edit, r reject, m merge, s skip until tomorrow, q quit.
Only a person can do this, in a terminal: it is refused from inside an agent. --list may be read anywhere.

\b
Examples:
  cems review
  cems review --list
  cems review approve m_1a2b3c4d
  cems review --dispute m_1a2b3c4d --reason "moved in May"
"""
_SINGLE = {"approve": "approved", "reject": "rejected"}
_DONE = {"approve": "approved", "edit": "edited", "reject": "rejected", "merge": "merged", "skip": "skipped"}
_KEYS = {"a": "approve", "e": "edit", "r": "reject", "m": "merge", "s": "skip"}
_QUIT = ("q", "\x04", "")
_PROMOTION = "promotion"
_KINDS = {
    "conflict": "contradicts what you trust",
    "near-tombstone": "close to something forgotten",
    "promotion": "wants to hold in all your projects",
    "candidate": "unverified",
}
_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_MOST = 500
_NAME_COLUMNS = len("forgotten")
_OFFERED = 5
_ESCAPE = "\x1b"


def register(app: typer.Typer) -> None:
    """Add this module's command to the application."""
    app.command("review", help=_HELP)(review)


def review(
    verdict: Annotated[
        str | None, typer.Argument(metavar="[approve|reject]", help="A verdict on the memory named after it.")
    ] = None,
    memory_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="A beginning is enough.")] = None,
    listed: Annotated[bool, typer.Option("--list", "-l", help="Only print what waits.")] = False,
    skipped: Annotated[bool, typer.Option("--skipped", help="With what was skipped today.")] = False,
    disputed: Annotated[
        str | None, typer.Option("--dispute", metavar="ID", help="Withhold a trusted memory until it is reviewed.")
    ] = None,
    reason: options.Reason = None,
    as_json: options.AsJson = False,
) -> int:
    """Read the queue, give one verdict, or go through all of it."""
    if verdict is not None or disputed is not None:
        if verdict is not None and (disputed is not None or listed or verdict not in _SINGLE or memory_id is None):
            raise usage(
                "write `cems review approve ID` or `cems review reject ID`", "alone, `cems review` asks about each"
            )
        return _single(verdict or "dispute", memory_id or disputed or "", reason, as_json)
    if not listed and not as_json:
        _demand_terminal()
    answer = asking.ask("review", {"limit": _MOST, "skipped": skipped})
    if as_json:
        console.emit(answer)
        return DONE
    if listed:
        return _print(answer)
    if not answer["may_decide"]:
        who = console.one_line(str(answer.get("agent") or "an agent"))
        raise CommandError(
            f"{who} runs this shell, and a review is a person's act",
            exit_code=REFUSED,
            next_step="use your own terminal",
        )
    return _go_through(answer)


# -- reading -----------------------------------------------------------------------------------------------------------


def _print(answer: Document) -> int:
    items: list[Document] = answer["items"]
    for item in items:
        console.say(f"{console.memory_heading(item['memory'])}  {console.warning(_KINDS[item['kind']])}")
        console.say(console.paragraphs(str(item["memory"]["content"])))
        console.say(f"    {console.dim(console.one_line(str(item['reason']), 200))}")
    if items:
        console.say(f"\n{_waiting(len(items))}; cems review asks you about each")
    else:
        console.say(_nothing(answer))
    return DONE


def _waiting(count: int) -> str:
    return f"{console.plural(count, 'memory waits', 'memories wait')} for your word"


def _nothing(answer: Document) -> str:
    later = int(answer.get("skipped") or 0)
    if not later:
        return "nothing waits for your word here"
    return f"nothing else waits; {later} skipped today: back tomorrow, or now with cems review --skipped"


# -- one verdict -------------------------------------------------------------------------------------------------------


def _single(verdict: str, memory_id: str, reason: str | None, as_json: bool) -> int:
    _demand_terminal()
    answer = asking.ask("decide", {"verdict": verdict, "id": memory_id, **options.given(reason=reason)})
    if as_json:
        console.emit(answer)
    else:
        console.say(_told(_SINGLE.get(verdict, "disputed"), answer))
    return DONE


def _told(done: str, answer: Document) -> str:
    memory = str(answer["id"])
    others = [console.short_id(str(each)) for each in answer["closed"] if each != memory]
    closed = f"; closed by it: {', '.join(others)}" if others else ""
    said = f" ({answer['reason']})" if answer.get("reason") else ""
    return f"{done}: {console.bold(console.short_id(memory))}{closed}{said}"


def _demand_terminal() -> None:
    if not (console.is_terminal(sys.stdin) and console.is_terminal(sys.stdout)):
        raise CommandError(
            "a review is a person's act and needs a terminal",
            exit_code=REFUSED,
            next_step="run it in your own; `cems review --list` can be read anywhere",
        )


# -- one at a time -----------------------------------------------------------------------------------------------------


def _go_through(answer: Document) -> int:
    items: list[Document] = answer["items"]
    if not items:
        console.say(_nothing(answer))
        return DONE
    given: Counter[str] = Counter()
    for number, item in enumerate(items, start=1):
        _show(item, number, len(items))
        verdict = _decided(item)
        if not verdict:
            break
        given[verdict] += 1
    left = int(asking.ask("review", {"limit": 1, "skipped": True})["total"])
    told = ", ".join(f"{_DONE[verdict]} {given[verdict]}" for verdict in _DONE if given[verdict])
    console.say(f"\n{told or 'nothing was decided'}; {_waiting(left) if left else 'nothing waits any more'}")
    return DONE


def _show(item: Document, number: int, count: int) -> None:
    memory: Document = item["memory"]
    title = f"{number} of {count}"
    console.say(f"\n{console.dim('─' * console.columns())}")
    console.say(f"{console.bold(title)}  {console.warning(_KINDS[item['kind']])}")
    console.say(f"\n{console.memory_heading(memory)}")
    if memory.get("title"):
        console.say(f"    {console.bold(console.one_line(str(memory['title'])))}")
    console.say(f"{console.paragraphs(str(memory['content']))}\n")
    _row("said by", _who(memory))
    _row("in words", _quoted(memory))
    _row("why here", console.one_line(str(item["reason"]), 300))
    if against := item.get("against"):
        name = console.short_id(str(against["id"]))
        _row("against", f"{name}, {against['trust']}, from {_who(against)}")
        _row("changes", _word_diff(str(against["content"]), str(memory["content"])), styled=True)
    if tombstone := item.get("tombstone"):
        _row("forgotten", _grave(tombstone))


def _row(name: str, text: str, *, styled: bool = False) -> None:
    indent = " " * (_NAME_COLUMNS + 6)
    shown = text if styled else console.paragraphs(text, indent).lstrip()
    console.say(f"    {console.dim(name.ljust(_NAME_COLUMNS))}  {shown}")


def _who(memory: Document) -> str:
    source: Document = memory.get("source") or {}
    actor, agent = str(source.get("actor") or ""), str(source.get("agent") or "")
    name = {"agent": agent or "an agent", "tool": f"a tool of {agent or 'an agent'}", "person": "a person"}.get(
        actor, actor
    )
    session = f", session {str(source['session'])[:12]}" if source.get("session") and actor != "person" else ""
    return console.one_line(f"{name}{session}, {console.minute(memory.get('recorded_at'))}", 120)


def _quoted(memory: Document) -> str:
    quote = str((memory.get("source") or {}).get("quote") or "")
    return f"“{console.one_line(quote, 300)}”" if quote else "no source sentence was kept"


def _grave(tombstone: Document) -> str:
    who = str(tombstone.get("agent") or tombstone.get("actor") or "")
    alike = f", {tombstone['similarity']:.2f} alike" if tombstone.get("similarity") is not None else ""
    reason = f": {tombstone['reason']}" if tombstone.get("reason") else ", no reason given"
    lifted = " (lifted since)" if tombstone.get("lifted") else ""
    said = f"{tombstone['id']}  {console.day(tombstone['at'])}, by {who}{reason}{lifted}{alike}"
    return console.one_line(said, 300)


def _word_diff(old: str, new: str) -> str:
    """The new text with what went and what came marked, word by word, on one line."""
    before, after = (_WORD.findall(" ".join(console.visible(text).split())) for text in (old, new))
    pieces = []
    for kind, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        gone, come = "".join(before[i:j]), "".join(after[k:m])
        if kind == "equal":
            pieces.append(come)
        else:
            between = " " if gone.strip() and come.strip() and not gone.endswith(" ") else ""
            pieces += [console.removed(gone) if gone else "", between, console.inserted(come) if come else ""]
    return "".join(pieces)


def _decided(item: Document) -> str:
    """The verdict that was given and taken; empty to leave."""
    memory, against = str(item["memory"]["id"]), item.get("against")
    replaces = f" (closes {console.short_id(str(against['id']))})" if against else ""
    keys = f"a approve{replaces} · e edit · r reject · m merge · s skip · q quit"
    if item["kind"] == _PROMOTION:
        keys = "a approve for all projects · e edit, then approve · r leave it in this project · s skip · q quit"
    while True:
        key = _key(f"\n{keys}  ")
        if key in _QUIT:
            return ""
        verdict = _KEYS.get(key)
        if verdict is None or (verdict == "merge" and item["kind"] == _PROMOTION):
            continue
        try:
            given = _given(verdict, item)
            if given is None:
                continue
            answer = asking.ask("decide", {"verdict": verdict, "id": memory, **given})
        except CommandError as error:
            console.note(error.sentence)
            if error.exit_code == NOTHING:
                # Somebody else decided in the meantime.
                return "skip"
            continue
        if verdict == "skip":
            console.say("    skipped until tomorrow")
        else:
            console.say(f"    {_told(_DONE[verdict], answer)}")
        return verdict


def _given(verdict: str, item: Document) -> Document | None:
    """What the verdict needs to be told; None when the person thinks better of it."""
    match verdict:
        case "edit":
            return _edit(item)
        case "merge":
            return _merge(item)
    return {}


def _edit(item: Document) -> Document | None:
    """The person's text, and whether it takes the other memory's place; None when nothing was changed."""
    old = str(item["memory"]["content"])
    text = _new_text(old)
    if text == old:
        console.say("    the text is the same; nothing was changed")
        return None
    against = item.get("against")
    if not against:
        return {"content": text}
    name = console.short_id(str(against["id"]))
    return {"content": text, "replaces": _agreed(f"    Does it take the place of {name} too?")}


def _merge(item: Document) -> Document | None:
    """The other memory and the text of both; None when the person thinks better of it."""
    memory = item["memory"]
    other = str(item["against"]["id"]) if item.get("against") else _chosen(memory)
    if not other:
        return None
    text = str(asking.ask("propose", {"id": memory["id"], "other": other})["content"])
    console.say(f"    with {console.short_id(other)}, as:\n{console.paragraphs(text, '      ')}")
    key = _key("    y take this text · e edit it · any other key goes back  ")
    if key == "e":
        text = _new_text(text)
    return {"other": other, "content": text} if key in ("y", "e") else None


def _chosen(memory: Document) -> str:
    """One of the memories like this one, by its number, or another by its id; empty for none."""
    found = asking.ask("search", {"query": str(memory["content"])[:1_000], "limit": _OFFERED + 1})["memories"]
    others = [each for each in found if each["id"] != memory["id"] and each["scope"] == memory["scope"]][:_OFFERED]
    for number, other in enumerate(others, start=1):
        name = console.short_id(str(other["id"]))
        console.say(f"    {number}  {name}  {console.one_line(str(other['content']), 80)}")
    typed = _line("    merge with (a number, or an id; nothing goes back): ").strip()
    if typed.isdecimal() and 0 < int(typed) <= len(others):
        return str(others[int(typed) - 1]["id"])
    return typed


def _agreed(question: str) -> bool:
    return _key(f"{question} y/n  ") == "y"


def _new_text(old: str) -> str:
    """The text after the person's editor, or typed over the old one where no editor is set."""
    if os.environ.get("VISUAL") or os.environ.get("EDITOR") or "\n" in old:
        return edited(old)
    return _line("    new text: ", old).strip() or old


# -- the keyboard ------------------------------------------------------------------------------------------------------


def _line(prompt: str, prefilled: str = "") -> str:
    """A line typed by the person, beginning with `prefilled` where the line can be edited; empty at the end of input."""
    try:
        import readline
    except ImportError:
        readline = None  # type: ignore[assignment]
    sys.stdout.flush()
    if readline is not None:
        readline.set_startup_hook(lambda: readline.insert_text(prefilled))
    try:
        return input(prompt)
    except EOFError:
        return ""
    finally:
        if readline is not None:
            readline.set_startup_hook(None)


def _key(prompt: str) -> str:
    """One key, without Enter where the terminal allows it; empty at the end of input.

    What was typed ahead is thrown away: a verdict is given on what is seen.
    """
    sys.stdout.write(prompt)
    sys.stdout.flush()
    try:
        import termios
        import tty
    except ImportError:
        return sys.stdin.readline().strip()[:1].lower() or "\n"
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSAFLUSH)
        typed = os.read(terminal, 16).decode("utf-8", "replace")
    except KeyboardInterrupt:
        console.say()
        raise
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    key = "" if not typed else _ESCAPE if typed.startswith(_ESCAPE) else typed[0].lower()
    console.say(key if key.isprintable() else "")
    return key
