"""The typer application: which module holds which command, the help page, and what other packages add."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cems.core.cli import console
from cems.core.cli.failures import DONE

_MODULES = {
    "remember": ("add", "remember"),
    "find": ("search", "recall", "list", "show"),
    "change": ("edit", "forget", "delete", "lift", "pin", "unpin", "share"),
    "review": ("review",),
    "purge": ("purge",),
    "rule": ("rule",),
    "history": ("history", "audit", "undo", "retract"),
    "why": ("why",),
    "status": ("status",),
    "doctor": ("doctor", "health"),
    "debug": ("env", "debug"),
    "pause": ("pause", "resume"),
    "run": ("run",),
    "settings": ("config",),
    "service": ("daemon", "rebuild"),
    "mcp": ("mcp",),
}
_MODULE_OF = {command: module for module, commands in _MODULES.items() for command in commands}
_SECTIONS = {
    "Memories": (
        "add",
        "search",
        "list",
        "show",
        "edit",
        "forget",
        "purge",
        "lift",
        "pin",
        "unpin",
        "share",
        "review",
        "retract",
        "undo",
        "rule",
    ),
    "Look inside": ("history", "audit", "why", "status", "doctor", "health", "config", "env", "debug"),
    "Run": ("run", "pause", "resume", "daemon", "rebuild", "mcp"),
}
_EXTENSIONS = "cems.commands"
_OTHER_SECTION = "Set up"

_HELP = "A memory for coding agents that lives on this machine."
_EPILOG = """\
Examples:

\b
  cems add "We deploy with make ship, never by hand" -c decisions
  cems search how do we deploy
  cems why "ship the new version"

Other names: remember = add, recall = search, delete = forget, update ID = edit.
Every command takes --json. `cems COMMAND --help` says more.

Exit codes:

\b
  0    done
  1    error
  2    the command line was wrong
  3    nothing matched
  4    refused: a forgotten value, another scope, or a person is needed
  5    the daemon cannot be reached
  130  interrupted
"""


class Page(TyperGroup):
    """The help page, with the commands in sections."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each section's commands; those of other packages come last."""
        named = {name for names in _SECTIONS.values() for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in named)
        for title, names in (*_SECTIONS.items(), (_OTHER_SECTION, others)):
            commands = [(name, self.get_command(ctx, name)) for name in names]
            shown = [(name, command) for name, command in commands if command and not command.hidden]
            if shown:
                rows = [(name.ljust(9), command.get_short_help_str(90)) for name, command in shown]
                with formatter.section(title):
                    formatter.write_dl(rows)


def application(words: Sequence[str]) -> Any:
    """The command group for one command line: only the module of its command, or all for help and typos.

    Looking for the commands of other packages costs some 60 ms: done only when the command is none of ours.
    """
    word = next((word for word in words if not word.startswith("-")), "")
    app = typer.Typer(
        cls=Page,
        help=_HELP,
        epilog=_EPILOG,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=False)(_root)
    if word in _MODULE_OF:
        _add_module(app, _MODULE_OF[word])
    elif _updates_memory(words):
        import_module("cems.core.cli.change").register_update(app)
    elif not word and {"--version", "-V"} & set(words):
        pass
    else:
        for module in _MODULES:
            _add_module(app, module)
        _add_extensions(app)
    return typer.main.get_command(app)


def _updates_memory(words: Sequence[str]) -> bool:
    """Whether it is `cems update ID …`: the program's update takes options without values only."""
    named = [word for word in words if not word.startswith("-") or word == "-"]
    return named[:1] == ["update"] and len(named) > 1


def _show_version(wanted: bool) -> None:
    if wanted:
        from cems import __version__

        console.say(f"cems {__version__}")
        raise typer.Exit(DONE)


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """A memory for coding agents that lives on this machine."""


def _add_module(app: typer.Typer, name: str) -> None:
    import_module(f"cems.core.cli.{name}").register(app)


def _add_extensions(app: typer.Typer) -> None:
    from importlib.metadata import entry_points

    for entry in sorted(entry_points(group=_EXTENSIONS), key=lambda entry: entry.name):
        try:
            _add_extension(app, entry.load())
        except Exception as error:  # noqa: BLE001 - somebody else's broken package must not stop our commands
            problem = f"{type(error).__name__}: {console.one_line(str(error))}"
            console.note(f"the commands of {entry.value} are missing: {problem}")


def _add_extension(app: typer.Typer, found: typer.Typer | Callable[[typer.Typer], None]) -> None:
    """Take over the commands of a typer app, or of a function that registers on one; our names stay ours."""
    theirs = found if isinstance(found, typer.Typer) else typer.Typer()
    if theirs is not found:
        found(theirs)
    for command in theirs.registered_commands:
        name = command.name or (command.callback.__name__.replace("_", "-") if command.callback else "")
        if name not in _MODULE_OF:
            app.registered_commands.append(command)
    for group in theirs.registered_groups:
        if group.name not in _MODULE_OF:
            app.registered_groups.append(group)
