"""The command `cems`: runs one command, and turns what went wrong into one line and an exit code.

Standard library only at the top: `cems mcp` must not pay for typer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cems.core.cli import console, failures


def run() -> None:
    """Entry point of the console script."""
    sys.exit(main(sys.argv[1:]))


def main(words: Sequence[str]) -> int:
    """Run one command line (without the program's name); returns the exit code and never raises."""
    as_json = wants_json(words)
    command = " ".join(["cems", *words[:1]]) if words and not words[0].startswith("-") else "cems"
    try:
        console.prepare_streams()
        code = _dispatch(list(words))
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except KeyboardInterrupt:
        return failures.INTERRUPTED
    except (BrokenPipeError, console.ReaderGone):
        return failures.leave_broken_pipe()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else failures.DONE if leaving.code is None else 1
    except failures.CommandError as error:
        return _reported(error, as_json)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a person sees a sentence, the log the trace
        if message := usage_message(error):
            return _reported(failures.usage(message, f"see `{_help_for(error, command)} --help`"), as_json)
        return failures.report_unexpected(error, command, as_json)
    return code


def wants_json(words: Sequence[str]) -> bool:
    """Whether the command line asks for JSON, also when it cannot be parsed any further."""
    options = list(words)
    return "--json" in (options[: options.index("--")] if "--" in options else options)


def usage_message(error: Exception) -> str:
    """The sentence of a command-line error; empty for any other exception.

    Known by its shape: the class has been in `click` and in a private copy of it inside typer.
    """
    if getattr(error, "exit_code", None) != failures.USAGE or not hasattr(error, "format_message"):
        return ""
    message = str(error.format_message()).strip()
    return (message[:1].lower() + message[1:]).rstrip(".")


def _dispatch(words: list[str]) -> int:
    if words == ["mcp"]:
        from cems.core.cli.mcp import serve

        return serve()
    from cems.core.cli.application import application

    command = application(words)
    try:
        result = command.main(args=words or ["--help"], prog_name="cems", standalone_mode=False)
    except RuntimeError as error:
        # typer's Abort: end of input, or an interrupt, in a prompt of an extension's command.
        if type(error).__name__ == "Abort":
            raise KeyboardInterrupt from error
        raise
    return result if isinstance(result, int) else failures.DONE


def _reported(error: failures.CommandError, as_json: bool) -> int:
    try:
        code = failures.report(error, as_json)
        sys.stdout.flush()
    except (BrokenPipeError, console.ReaderGone):
        return failures.leave_broken_pipe()
    return code


def _help_for(error: Exception, command: str) -> str:
    return getattr(getattr(error, "ctx", None), "command_path", command)


if __name__ == "__main__":
    run()
