"""`cems config`: each setting, its value and where the value comes from."""

from typing import Annotated, Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, FAILED, USAGE, CommandError

Document = dict[str, Any]

_HELP = """\
Show or change the settings.

A setting comes from the environment, else from config.toml, else it has its default.

\b
Examples:
  cems config
  cems config get token_budget
  cems config set token_budget 1200
  cems config unset token_budget
"""

_Key = Annotated[str, typer.Argument(metavar="KEY", help="A setting's name, as `cems config` lists it.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    config = typer.Typer(help=_HELP, rich_markup_mode=None, no_args_is_help=False)
    config.callback(invoke_without_command=True, help=_HELP)(show_all)
    config.command("get", help="Print one setting's value.")(get)
    # A value may begin with a dash.
    config.command(
        "set",
        help="Write one setting to config.toml; comments there stay.",
        context_settings={"ignore_unknown_options": True},
    )(set_)
    config.command("unset", help="Take one setting out of config.toml.")(unset)
    app.add_typer(config, name="config")


def show_all(context: typer.Context, as_json: options.AsJson = False) -> int:
    """Print all settings, unless a subcommand follows."""
    if context.invoked_subcommand:
        return DONE
    rows = _described(FAILED)
    if as_json:
        console.emit({"settings": rows, "file": str(asking.home().config)})
        return DONE
    for row in rows:
        origin = row["origin"] if row["origin"] != "environment" else row["env"]
        console.say(f"{console.bold(row['key'])} = {_shown(row['value'])}  {console.dim(f'({origin})')}")
        console.say(console.paragraphs(str(row.get("help") or "")))
    console.say()
    console.say(console.dim(f"file: {asking.home().config}; environment: CEMS_ and the name in capitals"))
    return DONE


def get(key: _Key, as_json: options.AsJson = False) -> int:
    """Print one value, and with --json its origin too."""
    row = _row(_known(key), USAGE)
    if as_json:
        console.emit(row)
    else:
        console.say(_shown(row["value"]))
    return DONE


def set_(
    key: _Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The new value.")],
    as_json: options.AsJson = False,
) -> int:
    """Write one setting."""
    from cems.core import config

    home, name = asking.home(), _known(key)
    home.create()
    try:
        parsed = config.set_value(home, name, value)
    except config.ConfigError as error:
        raise CommandError(str(error), exit_code=USAGE) from None
    return _told(name, f"{name} = {_shown(parsed)}", as_json)


def unset(key: _Key, as_json: options.AsJson = False) -> int:
    """Remove one setting from the file."""
    from cems.core import config

    home, name = asking.home(), _known(key)
    try:
        removed = config.unset_value(home, name)
    except config.ConfigError as error:
        raise CommandError(str(error), exit_code=USAGE) from None
    return _told(
        name,
        f"{name} taken out of {home.config}" if removed else f"{name} was not set in {home.config}",
        as_json,
    )


def _told(name: str, text: str, as_json: bool) -> int:
    if not as_json:
        console.say(text)
    # Read back: another value in the file, or the environment, may still decide otherwise.
    row = _row(name, FAILED)
    if as_json:
        console.emit(row)
    elif row["origin"] == "environment":
        console.note(f"{row['env']} in the environment wins over the file")
    elif asking.is_running(asking.home()):
        console.say("the running daemon uses it from its next start: cems daemon stop")
    return DONE


def _known(key: str) -> str:
    """The name of an existing setting, also when its environment variable was given."""
    from cems.core.config import Settings

    name = key.strip().lower().removeprefix("cems_").replace("-", "_")
    if name in Settings.model_fields:
        return name
    from difflib import get_close_matches

    near = get_close_matches(name, list(Settings.model_fields), n=1)
    hint = f"did you mean {near[0]}?" if near else "cems config lists them"
    raise CommandError(f"there is no setting {key!r}", exit_code=USAGE, next_step=hint)


def _row(name: str, exit_code: int) -> Document:
    return next(row for row in _described(exit_code) if row["key"] == name)


def _described(exit_code: int) -> list[Document]:
    from cems.core import config

    try:
        return config.describe(asking.home())
    except config.ConfigError as error:
        raise CommandError(str(error), exit_code=exit_code) from None


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else console.visible(str(value))
