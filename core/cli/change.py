"""`cems edit`, `forget`, `pin`, `unpin` and `share`: changing what is remembered."""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, NOTHING, REFUSED, USAGE, CommandError, usage
from cems.core.cli.other_names import help_of

Document = dict[str, Any]

_EDIT_HELP = """\
Correct a memory.

The old one is closed, not overwritten: `cems show` still finds it, prompts no longer do.
The correction has an id of its own. Without TEXT and options your editor opens ($VISUAL or $EDITOR).

\b
Examples:
  cems edit m_1a2b3c4d "Staging listens on port 8081" --reason "moved in May"
  cems edit 1a2b -c decisions --tag ports
  cems edit 1a2b "Bob is on call" --valid-from 2026-06-01

With --valid-from the old text was right until then: it is still found with `cems search --valid-at`.
"""
_FORGET_HELP = """\
Forget memories for good.

What was forgotten is refused from then on, whoever says it again.

Exit code 3 when nothing matched; then nothing was hidden.

\b
Examples:
  cems forget m_1a2b3c4d
  cems forget 1a2b 77ef --reason "never true"
  cems forget "Staging listens on port 8080"
"""
_LIFT_HELP = """\
Allow a forgotten text again.

It is not remembered by this, only no longer refused. Only a person can do this: it is refused from inside
an agent.

\b
Example:
  cems lift "Staging listens on port 8080"
"""
_PIN_HELP = """\
Put memories in front of the agent at every session start.

\b
Example:
  cems pin m_1a2b3c4d
"""
_UNPIN_HELP = """\
Undo `cems pin`.

\b
Example:
  cems unpin m_1a2b3c4d
"""
_SHARE_HELP = """\
Let memories of this project hold in all your projects.

Only a person can do this: it is refused from inside an agent.

\b
Example:
  cems share m_1a2b3c4d
"""


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    app.command("edit", help=_EDIT_HELP)(edit)
    app.command("forget", help=_FORGET_HELP)(forget)
    app.command("delete", help=help_of("delete", _FORGET_HELP), hidden=True)(forget)
    app.command("lift", help=_LIFT_HELP)(lift)
    app.command("pin", help=_PIN_HELP)(pin)
    app.command("unpin", help=_UNPIN_HELP)(unpin)
    app.command("share", help=_SHARE_HELP)(share)


def register_update(app: typer.Typer) -> None:
    """Add `cems update ID …`, the other name of `cems edit`; without an ID it is the program's update."""
    app.command("update", help=help_of("update", _EDIT_HELP), hidden=True)(edit)


def edit(
    memory_id: options.Id,
    words: options.Words = None,
    category: options.Category = None,
    title: options.Title = None,
    tags: options.Tags = None,
    valid_from: options.ValidFrom = None,
    valid_to: options.ValidTo = None,
    reason: options.Reason = None,
    as_json: options.AsJson = False,
) -> int:
    """Send a correction and say what replaces what."""
    changes = options.given(
        category=category,
        title=title and options.readable(title),
        tags=[options.readable(tag) for tag in tags or ()],
        valid_from=options.instant(valid_from, "--valid-from"),
        valid_to=options.instant(valid_to, "--valid-to"),
    )
    if words or not changes:
        if words or not console.is_terminal(sys.stdin):
            content = options.text_from(words, what="the new text", example='cems edit 1a2b "The new text"')
        else:
            old = str(asking.ask("show", {"id": memory_id})["memory"]["content"])
            content = edited(old)
            if content == old.strip("\n"):
                return _unchanged(memory_id, as_json)
        changes["content"] = content
    answer = asking.ask("edit", {"id": memory_id, **changes, **options.given(reason=reason)})
    refused = answer.get("status") == "refused"
    if as_json:
        console.emit(answer)
    elif refused:
        console.note(f"not changed: {console.one_line(str(answer.get('reason') or 'refused'), 300)}")
    else:
        new, replaced = str(answer.get("id") or ""), str(answer.get("replaced") or memory_id)
        console.say(f"corrected: {console.bold(console.short_id(new))} replaces {console.short_id(replaced)}")
        if answer.get("reason") and answer["reason"] != reason:
            console.say(f"    {console.one_line(str(answer['reason']), 200)}")
    return REFUSED if refused else DONE


def forget(
    memory_ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID|TEXT",
            help="Ids as shown by list and search, a beginning is enough; or one whole text in quotes.",
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="TEXT", help="Forget what says exactly this, in any case and spacing."),
    ] = None,
    reason: options.Reason = None,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> int:
    """Hide memories and keep their values from coming back."""
    if memory_ids and text is None and len(memory_ids) == 1 and len(memory_ids[0].split()) > 1:
        # No id has a space in it.
        text, memory_ids = memory_ids[0], None
    if bool(memory_ids) == (text is not None):
        raise usage("name the memories to forget either by ID or with --text", "e.g. cems forget 1a2b")
    asks = console.is_terminal(sys.stdin) and console.is_terminal(sys.stderr) and not yes and not as_json
    target: Document
    if text is not None:
        target = {"text": options.text_from([text], what="the text to forget", example="cems forget --text …")}
    else:
        ids = list(dict.fromkeys(memory_ids or ()))
        # All in one operation: one mistyped id must not leave the job half done.
        target = {"ids": ids} if len(ids) > 1 else {"id": ids[0]}
    at_stake = _at_stake(target) if asks else []
    if len(at_stake) > 1 and not _agreed(at_stake):
        console.note("nothing was forgotten")
        return DONE
    answer = asking.ask("forget", {**target, **options.given(reason=reason)})
    hidden, tombstones = answer.get("hidden") or [], int(answer.get("tombstones") or 0)
    if as_json:
        console.emit({"hidden": hidden, "tombstones": tombstones})
    elif hidden or tombstones:
        for memory in hidden:
            name = console.bold(console.short_id(str(memory.get("id") or "")))
            console.say(f"forgot {name}  {console.one_line(str(memory.get('content') or ''), 80)}")
        if not hidden:
            console.say("nothing was remembered of it; from now on it is refused")
    else:
        console.note("nothing matched; nothing was forgotten")
    return DONE if hidden or tombstones else NOTHING


def lift(words: options.Words = None, reason: options.Reason = None, as_json: options.AsJson = False) -> int:
    """Take back a tombstone."""
    text = options.text_from(words, what="the forgotten text", example='cems lift "Port 8080 is for staging"')
    answer = asking.ask("lift", {"text": text, **options.given(reason=reason)})
    if as_json:
        console.emit(answer)
    else:
        console.say("that may be remembered again")
    return DONE


def pin(memory_ids: options.Ids, as_json: options.AsJson = False) -> int:
    """Pin memories."""
    return _pin(memory_ids, pinned=True, as_json=as_json)


def unpin(memory_ids: options.Ids, as_json: options.AsJson = False) -> int:
    """Unpin memories."""
    return _pin(memory_ids, pinned=False, as_json=as_json)


def share(memory_ids: options.Ids, as_json: options.AsJson = False) -> int:
    """Widen memories from this project to all of the person's projects."""
    answers = [asking.ask("share", {"id": memory_id}) for memory_id in memory_ids]
    if as_json:
        console.emit(answers[0] if len(answers) == 1 else {"memories": answers})
        return DONE
    for answer in answers:
        name = console.bold(console.short_id(str(answer.get("id") or "")))
        console.say(f"{name} now holds in all your projects")
    return DONE


def _pin(memory_ids: list[str], *, pinned: bool, as_json: bool) -> int:
    answers = [asking.ask("pin", {"id": memory_id, "pinned": pinned}) for memory_id in memory_ids]
    if as_json:
        console.emit(answers[0] if len(answers) == 1 else {"memories": answers})
        return DONE
    for answer in answers:
        name = console.bold(console.short_id(str(answer.get("id") or "")))
        console.say(f"{'pinned' if answer.get('pinned') else 'unpinned'} {name}")
    return DONE


def _at_stake(target: Document) -> list[Document]:
    """What forgetting `target` would hide, to ask the person about: the ids, or what has the text's value."""
    if "text" not in target:
        return [asking.ask("show", {"id": memory_id})["memory"] for memory_id in target.get("ids", ())]
    from cems.core.value import normalise

    try:
        found = asking.ask("search", {"query": target["text"], "limit": 100, "include_closed": True})
    except CommandError as error:
        # A text without a single word cannot be searched for; it can be forgotten.
        if error.exit_code != USAGE:
            raise
        return []
    value = normalise(target["text"])
    return [memory for memory in found["memories"] if normalise(memory["content"]) == value]


def _agreed(memories: list[Document]) -> bool:
    console.note(f"{console.plural(len(memories), 'memory', 'memories')} would be forgotten:")
    for memory in memories:
        name = console.short_id(str(memory.get("id") or ""))
        console.note(f"  {name}  {console.one_line(str(memory.get('content') or ''), 80)}")
    return console.confirm("Forget them?")


def edited(old: str) -> str:
    """`old` after the person's editor. Raises CommandError when it is emptied or the editor fails."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("notepad" if os.name == "nt" else "vi")
    descriptor, name = tempfile.mkstemp(prefix="cems-", suffix=".txt")
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(old if old.endswith("\n") else old + "\n")
        finished = subprocess.run([*shlex.split(editor), name], check=False)
        if finished.returncode != 0:
            raise CommandError(f"{editor} left with code {finished.returncode}; nothing was changed")
        content = path.read_text(encoding="utf-8", errors="replace").strip("\n")
    except (OSError, ValueError) as error:
        raise CommandError(
            f"cannot run the editor {editor!r}: {error}", next_step="set EDITOR, or give the text"
        ) from None
    finally:
        path.unlink(missing_ok=True)
    if not content.strip():
        raise usage("the text is empty; nothing was changed", "cems forget removes a memory")
    return content


def _unchanged(memory_id: str, as_json: bool) -> int:
    if as_json:
        console.emit({"id": memory_id, "replaced": None, "status": "unchanged", "reason": "the text is the same"})
    else:
        console.say("the text is the same; nothing was changed")
    return DONE
