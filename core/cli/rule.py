"""`cems rule`: what a person wants refused, asked or said before an agent runs a tool."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, NOTHING, REFUSED, USAGE, CommandError, usage
from cems.core.rules.rule import BadRule, Severity, parse, with_severity

Document = dict[str, Any]

_HELP = """\
Gate rules: refuse, ask or warn before an agent runs a tool.

A rule reads `Tool: pattern — reason`. Severities: block, confirm (ask first), warn.
It guards against a model's mistakes; it is no sandbox.
"""
_ADD_HELP = """\
Add a rule.

Tool is Bash, Edit, Write, Read, WebFetch, mcp__server__tool, several with `|`, or `*` for any. In the
pattern `*` is any text. Without --severity (or [block], [confirm], [warn] in front) the reason decides:
"ask first" is confirm, "careful …" is warn, everything else is block.

\b
Examples:
  cems rule add "Bash: git push --force* — ask first"
  cems rule add "Edit|Read: *.env — it holds keys" --user
  cems rule add "Bash: terraform apply* — look at the plan" --severity warn
"""
_LOAD_HELP = """\
Add the rules of a file, one a line; all of them or none.

Empty lines and lines that begin with # are left out. `-` reads a pipe.

\b
Example:
  cems rule load team-rules.txt
"""
_LIST_HELP = """\
List the rules that can be asked in this folder.

\b
Example:
  cems rule list
"""
_TEST_HELP = """\
Say which rules a call would meet and what the agent would be told. Nothing is run.

Exit code 3 when no rule is about it.

\b
Examples:
  cems rule test "git push --force origin"
  cems rule test --tool Edit config/.env
"""
_REMOVE_HELP = """\
Remove a rule. It may be added again later.

\b
Example:
  cems rule remove m_1a2b3c4d
"""
_SeverityOption = Annotated[
    str | None, typer.Option("--severity", metavar="NAME", help="block, confirm or warn, whatever the reason says.")
]
_LOAD_SECONDS = 300.0


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    rule = typer.Typer(help=_HELP, rich_markup_mode=None, no_args_is_help=True)
    rule.callback()(_rule)
    rule.command("add", help=_ADD_HELP)(add)
    rule.command("load", help=_LOAD_HELP)(load)
    rule.command("list", help=_LIST_HELP)(list_)
    rule.command("test", help=_TEST_HELP)(try_)
    rule.command("remove", help=_REMOVE_HELP)(remove)
    app.add_typer(rule, name="rule")


def _rule() -> None:
    """Gate rules: refuse, ask or warn before an agent runs a tool."""


def add(
    words: options.Words = None,
    severity: _SeverityOption = None,
    scope: options.InScope = None,
    user: options.ForUser = False,
    as_json: options.AsJson = False,
) -> int:
    """Add one rule."""
    text = options.text_from(words, what="the rule", example='cems rule add "Bash: git push --force* — ask first"')
    try:
        whole = with_severity(text, severity) if severity else text
        parse(whole)
    except BadRule as problem:
        raise usage(f"no gate rule: {problem}") from None
    return _sent([whole], options.chosen_scope(scope, user), as_json, one=True)


def load(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="One rule a line; `-` reads a pipe.")],
    severity: _SeverityOption = None,
    scope: options.InScope = None,
    user: options.ForUser = False,
    as_json: options.AsJson = False,
) -> int:
    """Add every rule of a file, or none."""
    rules, problems = [], []
    for number, line in _lines(path):
        try:
            whole = with_severity(line, severity) if severity else line
            parse(whole)
            rules.append(whole)
        except BadRule as problem:
            problems.append(f"line {number}: {problem}")
    if problems:
        first = "; ".join(problems[:20]) if as_json else problems[0]
        for told in problems[1:20] if not as_json else ():
            console.note(console.visible(told))
        counted = console.plural(len(problems), "line is no rule", "lines are no rules")
        raise CommandError(f"{first} ({counted}; nothing was added)", code="bad_line")
    if not rules:
        raise CommandError(f"{path} has no rule in it", exit_code=NOTHING)
    return _sent(rules, options.chosen_scope(scope, user), as_json)


def list_(scope: options.InScope = None, as_json: options.AsJson = False) -> int:
    """Print the rules of this folder and the person's own."""
    answer = asking.ask("rule_list", options.given(scope=scope and scope.value))
    rules: list[Document] = answer["rules"]
    if as_json:
        console.emit(answer)
    elif rules:
        _say(rules)
    else:
        console.say('no rules here yet; `cems rule add "Bash: git push --force* — ask first"` makes one')
    return DONE


def try_(
    words: Annotated[list[str] | None, typer.Argument(metavar="SUBJECT", help="A command line, path or input.")] = None,
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="Such as Bash, Edit, WebFetch.")] = "Bash",
    as_json: options.AsJson = False,
) -> int:
    """Ask the rules about one call."""
    subject = options.text_from(words, what="the call", example='cems rule test "git push --force origin"')
    answer = asking.ask("rule_test", {"tool": tool, "subject": subject})
    fires = answer["rules"]
    if as_json:
        console.emit(answer)
    elif fires:
        _say(fires)
        console.say()
        console.say(f"{_EFFECTS[answer['severity']]}; the agent is told:")
        console.say(console.paragraphs(answer["told"]))
    else:
        console.say("no rule is about this; it runs")
    return DONE if fires else NOTHING


def remove(
    rule_id: Annotated[str, typer.Argument(metavar="ID", help="An id as shown by `cems rule list`.")],
    reason: options.Reason = None,
    as_json: options.AsJson = False,
) -> int:
    """Remove one rule."""
    chosen = options.given(reason=reason and options.readable(reason))
    answer = asking.ask("rule_remove", {"id": rule_id, **chosen})
    rule: Document = answer["rule"]
    if as_json:
        console.emit(answer)
    else:
        console.say(f"removed {console.bold(console.short_id(rule['id']))}  {console.one_line(rule['content'], 80)}")
    return DONE


_EFFECTS: dict[Severity, str] = {"block": "it is refused", "confirm": "the person is asked", "warn": "it runs"}


def _sent(rules: list[str], scope: str | None, as_json: bool, *, one: bool = False) -> int:
    answer = asking.ask("rule_add", {"rules": rules, **options.given(scope=scope)}, timeout=_LOAD_SECONDS)
    results: list[Document] = answer["results"]
    refused = [each for each in results if each["status"] == "refused"]
    if as_json:
        console.emit(results[0] if one else answer)
        return REFUSED if refused else DONE
    for text, result in zip(rules, results, strict=True):
        _tell(text, result)
    return REFUSED if refused else DONE


def _tell(text: str, result: Document) -> None:
    reason = f": {console.one_line(result['reason'], 300)}" if result["reason"] else ""
    if result["status"] == "refused":
        console.note(f"not added, {console.one_line(text, 60)}{reason}")
        return
    name = console.bold(console.short_id(result["id"]))
    told = console.visible(f"{result['severity']} on {'|'.join(result['tools'])}: {result['pattern']}")
    where = console.scope_words(result["scope"])
    match result["status"]:
        case "added":
            console.say(f"rule {name} ({where}): {told}")
        case "duplicate":
            console.say(f"rule {name} is there already ({where}): {told}")
        case _:
            console.say(f"kept as candidate {name} ({where}): {told}")
            console.say("it stops nothing until a person approves it with `cems review`")
    if result["redacted"]:
        console.note("a secret or private part was cut out of it: look at the pattern")


def _say(rules: list[Document]) -> None:
    rows = []
    for rule in rules:
        state = "" if rule["in_force"] else _why_not(rule)
        rows.append(
            (
                console.bold(console.short_id(rule["id"])),
                rule["severity"] or "-",
                "project" if str(rule["scope"]).startswith("project:") else str(rule["scope"]),
                console.one_line(rule["content"], 90),
                f"({state})" if state else "",
            )
        )
    console.say(console.table(rows))
    for rule in rules:
        if rule["problem"]:
            console.note(f"{console.short_id(rule['id'])} is no rule: {rule['problem']}")


def _why_not(rule: Document) -> str:
    if rule["problem"]:
        return "no rule"
    return "waits for your word: cems review" if rule["trust"] != "trusted" else "not valid now"


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = options.piped_text() if str(path) == "-" else path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}", exit_code=USAGE) from None
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 at byte {error.start}; nothing was added") from None
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()
