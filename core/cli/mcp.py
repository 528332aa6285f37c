"""`cems mcp`: the MCP server on standard input and output, and the tokens of clients that come over HTTP."""

from typing import Annotated, Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, FAILED, NOTHING

Document = dict[str, Any]

_MCP_HELP = """\
Serve the memory as an MCP server.

Alone it speaks on standard input and output, as agents start it. A program that speaks MCP over HTTP needs a
token: it is for one project, and the daemon listens on this machine only, and only while there is a token.

\b
Examples:
  cems mcp token
  cems mcp tokens
  cems mcp revoke 3fa2c1d4
"""
_MAKE_HELP = """\
Make a token for an HTTP client in this project.

It is shown once and not kept. Whoever has it reads and writes this project's memories, and reads yours, as an
agent does: what it adds is unverified. Only a person can do this: it is refused from inside an agent.

\b
Examples:
  cems mcp token
  cems mcp token my-editor
"""
_TOKENS_HELP = "List the tokens of HTTP clients. Exit code 3 when there is none."
_REVOKE_HELP = """\
End a token, named by its id or its name. Only a person can do this: it is refused from inside an agent.

\b
Example:
  cems mcp revoke 3fa2c1d4
"""
_URL_HELP = "Print where HTTP clients connect to. Exit code 3 when there is no token yet."


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    group = typer.Typer(help=_MCP_HELP, rich_markup_mode=None, invoke_without_command=True)
    group.callback(invoke_without_command=True)(mcp)
    group.command("token", help=_MAKE_HELP)(token)
    group.command("tokens", help=_TOKENS_HELP)(tokens)
    group.command("revoke", help=_REVOKE_HELP)(revoke)
    group.command("url", help=_URL_HELP)(url)
    app.add_typer(group, name="mcp")


def mcp(context: typer.Context) -> int:
    """Serve the memory as an MCP server."""
    return serve() if context.invoked_subcommand is None else DONE


def serve() -> int:
    """Pass MCP messages between the agent and the daemon until the agent closes its end."""
    from cems.core.service import mcp_proxy

    result: object = mcp_proxy.main(str(asking.home().root))
    return result if isinstance(result, int) else DONE


def token(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="What the client is called in the history.", show_default=False)
    ] = "http",
    as_json: options.AsJson = False,
) -> int:
    """Make a token and say what the client needs."""
    made = asking.ask("token_add", {"name": name})
    if as_json:
        console.emit(made)
        return DONE
    console.say(f"a token for {console.one_line(str(made['project']))}, called {made['name']} ({made['id']})\n")
    console.say(f"    url     {made['url'] or '-'}")
    console.say(f"    header  Authorization: Bearer {made['token']}\n")
    console.say(f"It is not shown again. `cems mcp revoke {made['id']}` ends it.")
    return _with_problem(made)


def tokens(as_json: options.AsJson = False) -> int:
    """List the tokens."""
    found = asking.ask("tokens")
    listed: list[Document] = found["tokens"]
    if as_json:
        console.emit(found)
        return _with_problem(found, told=True) if listed else NOTHING
    if not listed:
        console.say("there is no token; `cems mcp token` makes one for this project")
        return _with_problem(found) or NOTHING
    for each in listed:
        used = f"used {console.minute(each['last_used'])}" if each["last_used"] else "not used since the daemon started"
        console.say(f"{console.bold(each['id'])}  {each['name']}  {console.one_line(str(each['project']), 80)}")
        made = console.day(each["created"])
        console.say(f"    {console.dim(f'made {made}, {used}')}")
    return _with_problem(found)


def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `cems mcp tokens` shows it, or the name.")],
    as_json: options.AsJson = False,
) -> int:
    """End a token."""
    ended = asking.ask("token_revoke", {"id": token_id})
    if as_json:
        console.emit(ended)
    else:
        console.say(f"ended: {ended['name']} ({ended['id']}) for {console.one_line(str(ended['project']))}")
    return DONE


def url(as_json: options.AsJson = False) -> int:
    """Print the address."""
    found = asking.ask("tokens")
    if as_json:
        console.emit({"url": found["url"], "problem": found["problem"]})
    elif found["url"]:
        console.say(found["url"])
    elif not found["problem"]:
        console.say("nobody is listened to while there is no token; `cems mcp token` makes one for this project")
    if found["problem"]:
        return _with_problem(found, told=as_json)
    return DONE if found["url"] else NOTHING


def _with_problem(found: Document, *, told: bool = False) -> int:
    if found["problem"] and not told:
        console.note(console.one_line(str(found["problem"]), 300))
    return FAILED if found["problem"] else DONE
