"""`cems history`, `cems audit`, `cems retract` and `cems undo`: the past of a memory, and taking changes back."""

from typing import Annotated, Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, FAILED, usage

Document = dict[str, Any]

_HISTORY_HELP = """\
Show what a memory was corrected from and to.

The oldest first, each with the time in which it holds (valid) and in which it was believed.

\b
Examples:
  cems history m_1a2b3c4d
  cems history 1a2b --json
"""
_AUDIT_HELP = """\
Show every change and every refusal, or check that none was tampered with.

In the order in which they were written; the last ones, of this project and of you everywhere. The
number in front of an entry is what `cems undo` takes.

`cems audit verify` finds a changed, removed or inserted entry and names it (exit code 1). It prints
the digest of the last entry: keep it elsewhere, and --against checks that the journal still has it.

\b
Examples:
  cems audit
  cems audit m_1a2b3c4d
  cems audit --since 2026-05-01 --actor claude-code
  cems audit verify
"""
_RETRACT_HELP = """\
Close a memory without putting another in its place.

It is not forgotten: nothing is refused if you state it again. With --at it held until then, and is
still found with `cems search --valid-at`.

\b
Examples:
  cems retract m_1a2b3c4d --reason "we never did that"
  cems retract 1a2b --at 2026-05-01
"""
_UNDO_HELP = """\
Take back one change: an entry of `cems audit`, or the last change of a memory.

Brings back what a forget hid, reopens what was corrected, parts what was merged. Undoing the undo makes
the change again. A purge cannot be undone. Only a person can do this: it is refused from inside an agent.

\b
Examples:
  cems undo 42
  cems undo m_1a2b3c4d --reason "that was the other service"
"""
_VERIFY = "verify"


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    app.command("history", help=_HISTORY_HELP)(history)
    app.command("audit", help=_AUDIT_HELP)(audit)
    app.command("retract", help=_RETRACT_HELP)(retract)
    app.command("undo", help=_UNDO_HELP)(undo)


def history(memory_id: options.Id, as_json: options.AsJson = False) -> int:
    """Print the chain of corrections of one memory."""
    answer = asking.ask("history", {"id": memory_id})
    if as_json:
        console.emit(answer)
        return DONE
    for link in answer["chain"]:
        mark = "  <" if link["id"] == answer["id"] else ""
        console.say(f"{console.bold(console.short_id(link['id']))}  {_standing(link)}{console.dim(mark)}")
        content = "(forgotten)" if link["state"] == "hidden" else str(link["content"])
        console.say(console.paragraphs(content))
        rows = [(console.dim(name), text) for name, text in _link_facts(link) if text]
        console.say(console.table([("   ", *row) for row in rows], gap=" "))
    if answer.get("elsewhere"):
        console.say(console.dim(f"{answer['elsewhere']} more in other projects"))
    return DONE


def audit(
    what: Annotated[
        str | None, typer.Argument(metavar="[ID|verify]", help="Only this memory; or `verify`: check the journal.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="WHEN", help="From that date or time on.")] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="Only by person, agent, tool, …, or an agent's name.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="The last so many.")] = 50,
    against: Annotated[
        str | None, typer.Option("--against", metavar="HEAD", help="With verify: a head that was printed earlier.")
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Print the audit log, or what is wrong with it."""
    if what == _VERIFY:
        return _verify(against, as_json)
    if against:
        raise usage("--against belongs to verify", "cems audit verify --against HEAD")
    chosen = options.given(id=what, since=options.instant(since, "--since"), actor=actor)
    answer = asking.ask("audit", {"limit": limit, **chosen})
    if as_json:
        console.emit(answer)
        return DONE
    for entry in answer["entries"]:
        console.say(_entry_heading(entry))
        if entry.get("reason"):
            console.say(f"        {console.one_line(str(entry['reason']), 200)}")
        for line in _changes(entry):
            console.say(f"        {line}")
    total = (answer.get("coverage") or {}).get("total", 0)
    left = total - len(answer["entries"])
    notes = [f"{left:,} earlier (more with --limit)"] if left else []
    notes += [f"{answer['elsewhere']:,} in other projects"] if answer.get("elsewhere") else []
    if notes or not answer["entries"]:
        console.say(console.dim("; ".join([*([] if answer["entries"] else ["no entry fits"]), *notes])))
    return DONE


def retract(
    memory_id: options.Id,
    at: Annotated[str | None, typer.Option("--at", metavar="WHEN", help="It held until that date or time.")] = None,
    reason: options.Reason = None,
    as_json: options.AsJson = False,
) -> int:
    """Close one memory."""
    chosen = options.given(at=options.instant(at, "--at"), reason=reason and options.readable(reason))
    answer = asking.ask("retract", {"id": memory_id, **chosen})
    if as_json:
        console.emit(answer)
        return DONE
    memory: Document = answer["memory"]
    until = f": it held until {console.minute(memory.get('valid_to'))}" if at else ""
    console.say(f"retracted {console.bold(console.short_id(memory['id']))}{until}")
    return DONE


def undo(
    what: Annotated[str, typer.Argument(metavar="ENTRY|ID", help="An entry of the audit log, or a memory's id.")],
    reason: options.Reason = None,
    as_json: options.AsJson = False,
) -> int:
    """Undo one change and say what is back."""
    answer = asking.ask("undo", {"what": what, **options.given(reason=reason and options.readable(reason))})
    if as_json:
        console.emit(answer)
        return DONE
    for entry in answer["undone"]:
        console.say(f"undone: entry {entry['seq']}, {entry['op']} {console.short_id(str(entry['id']))}")
    for what_it_is, name in (("restored", "restored"), ("removed", "removed"), ("as before", "changed")):
        for memory in answer[name]:
            said = console.one_line(str(memory.get("content") or ""), 80)
            console.say(f"{what_it_is} {console.bold(console.short_id(memory['id']))}  {said}")
    return DONE


def _verify(against: str | None, as_json: bool) -> int:
    answer = asking.ask("audit_verify", options.given(against=against), timeout=600.0)
    if as_json:
        console.emit(answer)
        return DONE if answer["whole"] else FAILED
    for fault in answer["faults"]:
        name = f" ({fault['op_id']})" if fault["op_id"] else ""
        console.say(console.warning(f"entry {fault['seq']}{name}: {fault['problem']}"))
    if answer["whole"]:
        console.say(f"the journal is whole: {console.plural(answer['entries'], 'entry', 'entries')}")
    note = answer.get("after_note")
    if note is None and answer["entries"]:
        console.say("there is no note of the last entry in keys/journal-head; the next change writes one")
    console.say(console.dim(f"head {answer['head']}"))
    return DONE if answer["whole"] else FAILED


def _standing(link: Document) -> str:
    ended = link["state"] == "live" and link.get("closed")
    state = {"hidden": "forgotten"}.get(link["state"], "ended" if ended else link["state"])
    by = f", then {console.short_id(link['closed_by'])}" if link.get("closed_by") else ""
    return f"{state}{by}  {console.visible(link['category'])}  {console.scope_words(link['scope'])}  {link['trust']}"


def _link_facts(link: Document) -> list[tuple[str, str]]:
    closed: Document = link.get("closed") or {}
    who = f"{_who(closed)} at {console.minute(closed.get('at'))}" if closed else ""
    return [
        ("valid", _interval(link["valid"], "always")),
        ("believed", _interval(link["believed"], "")),
        ("said by", _who(link["source"])),
        ("closed by", who),
        ("because", console.one_line(str(closed.get("reason") or ""), 200)),
    ]


def _interval(interval: Document, always: str) -> str:
    since, until = console.minute(interval.get("from")), console.minute(interval.get("to"))
    return f"{since} – {until or '…'}" if since else f"until {until}" if until else always


def _who(told: Document) -> str:
    return console.visible(" ".join(str(told[name]) for name in ("actor", "agent") if told.get(name)))


def _entry_heading(entry: Document) -> str:
    parts = [
        console.bold(f"{entry['seq']:>6}"),
        console.minute(entry.get("at")),
        console.visible(str(entry.get("op") or "")),
        console.short_id(str(entry.get("id") or "")),
        console.scope_words(str(entry.get("scope") or "")),
        f"by {_who(entry)}",
        "undo" if entry.get("undoes") else "",
        "erased" if entry.get("erased") else "",
    ]
    return "  ".join(part for part in parts if part)


def _changes(entry: Document) -> list[str]:
    before, after = entry.get("before") or {}, entry.get("after") or {}
    lines = []
    for name, value in after.items():
        old = f"{_said(before[name])} → " if name in before else ""
        lines.append(f"{console.dim(name)}: {old}{_said(value)}")
    return lines


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return console.visible(" ".join(f"{name} {each}" for name, each in value.items()))
    if isinstance(value, list):
        return console.one_line(", ".join(map(str, value)))
    return "none" if value in (None, "") else console.one_line(str(value))
