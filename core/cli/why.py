"""`cems why`: what a prompt would get, and why."""

import sys
from typing import Annotated, Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE

Document = dict[str, Any]

_HELP = """\
Show which memories a prompt would get, and why.

Every candidate comes with its score and the reason for or against it. Nothing is sent to an agent
and nothing is counted as shown.

\b
Examples:
  cems why "add a retry to the upload"
  cems why "add a retry to the upload" --session 5f1c… --json
"""


def register(app: typer.Typer) -> None:
    """Add this module's command to the application."""
    app.command("why", help=_HELP)(why)


def why(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="PROMPT", help="The prompt, as typed to the agent.")
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Count what this session has already been given."),
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Print the recall of one prompt step by step."""
    prompt = options.text_from(words, what="the prompt", example='cems why "add a retry to the upload"')
    answer = asking.ask("why", {"prompt": prompt, **options.given(session=session)})
    if as_json:
        console.emit(answer)
        return DONE
    candidates = answer.get("candidates") or []
    injected = answer.get("injected") or []
    if answer.get("mode") == "keyword":
        reason = str(answer.get("reason") or "the embedding model is not loaded; `cems status` says more")
        console.say(console.warning(f"found by words alone: {console.one_line(reason, 200)}"))
    elif answer.get("mode") == "skipped":
        console.say(f"nothing is looked up: {console.one_line(str(answer.get('reason') or ''), 200)}")
    if candidates:
        console.say(_candidate_table(candidates))
    else:
        console.say("no candidates")
    console.say()
    for line in _numbers(answer, injected):
        console.say(line)
    block = str(answer.get("block") or "")
    console.say()
    if block:
        console.say("The prompt gets:")
        console.say(console.paragraphs(block))
    else:
        console.say("The prompt gets nothing.")
    return DONE


def _candidate_table(candidates: list[Document]) -> str:
    heading = [console.dim(name) for name in ("id", "score", "prob.", "decision", "category", "content")]
    # In a pipe nobody counts columns.
    room = max(30, console.columns() - 60) if console.is_terminal(sys.stdout) else 100
    return console.table([heading, *(_row(candidate, room) for candidate in candidates)])


def _row(candidate: Document, room: int) -> list[str]:
    decision = console.visible(str(candidate.get("decision") or "-"))
    return [
        console.short_id(str(candidate.get("id") or "")),
        _number(candidate.get("score")),
        _number(candidate.get("probability")),
        console.bold(decision) if decision == "injected" else decision,
        console.visible(str(candidate.get("category") or "")),
        console.one_line(str(candidate.get("content") or ""), room),
    ]


def _numbers(answer: Document, injected: list[str]) -> list[str]:
    stages: Document = answer.get("stages") or {}
    lines = []
    if isinstance(stages.get("gate_threshold"), int | float):
        lines.append(f"gate    a probability of {stages['gate_threshold']:.2f} or more")
    budget, most = stages.get("token_budget"), stages.get("max_memories")
    safety = stages.get("token_safety")
    room = int(budget / safety) if isinstance(budget, int) and isinstance(safety, int | float) and safety else budget
    of = f" of {room:,}" if isinstance(room, int) else ""
    at_most = f", {most} at most" if isinstance(most, int) else ""
    tokens = int(answer.get("tokens") or 0)
    lines.append(f"budget  {tokens:,}{of} tokens for {console.plural(len(injected), 'memory', 'memories')}{at_most}")
    times = {name: value for name, value in stages.items() if name.endswith("_ms")}
    if times:
        took = ", ".join(f"{name.removesuffix('_ms')} {value:.1f} ms" for name, value in times.items())
        lines.append(f"stages  {took}")
    return lines


def _number(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, int | float) else "-"
