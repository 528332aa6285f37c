"""How a command fails: one line for a person, one JSON document for a program, a trace only in the log."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from cems.core.cli import console
from cems.core.paths import PRIVATE_DIR, PRIVATE_FILE, cems_home

DONE, FAILED, USAGE, NOTHING, REFUSED, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
_BROKEN_PIPE = 141
_MOST_LOG = 1 << 20

_CODE_NAMES = {
    FAILED: "error",
    USAGE: "usage",
    NOTHING: "not_found",
    REFUSED: "refused",
    UNREACHABLE: "unreachable",
}


class CommandError(Exception):
    """A command that could not do what was asked: what happened, what to do next, and the exit code."""

    def __init__(self, message: str, *, exit_code: int = FAILED, code: str = "", next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.code = code or _CODE_NAMES.get(exit_code, "error")
        self.next_step = next_step

    @property
    def sentence(self) -> str:
        return f"{self.message} ({self.next_step})" if self.next_step else self.message


def usage(message: str, next_step: str = "") -> CommandError:
    """The error for a command line that cannot be meant."""
    return CommandError(message, exit_code=USAGE, next_step=next_step)


def report(error: CommandError, as_json: bool) -> int:
    """Tell the caller about `error`; returns the exit code."""
    if as_json:
        console.emit({"error": {"code": error.code, "message": error.sentence}})
    else:
        console.note(" ".join(console.visible(error.sentence).split("\n")))
    return error.exit_code


def report_unexpected(error: BaseException, command: str, as_json: bool) -> int:
    """A fault of ours: one line, and the trace in `logs/cli.log` (or on standard error with CEMS_DEBUG=1)."""
    import traceback

    trace = "".join(traceback.format_exception(error))
    if os.environ.get("CEMS_DEBUG") == "1":
        sys.stderr.write(trace)
        where = "the trace is above"
    else:
        log = _append_to_log(command, trace)
        where = f"the trace is in {log}" if log else "run again with CEMS_DEBUG=1 for the trace"
    kind = type(error).__name__
    return report(CommandError(f"`{command}` failed unexpectedly: {kind}", code="internal", next_step=where), as_json)


def leave_broken_pipe() -> int:
    """The reader of our output has gone: be quiet, as `cat` is, and write nothing more, not even at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            try:
                os.dup2(devnull, stream.fileno())
            except (OSError, ValueError):
                continue
    os.close(devnull)
    return _BROKEN_PIPE


def _append_to_log(command: str, trace: str) -> Path | None:
    # The command's name only: its arguments may hold what a person wanted remembered.
    try:
        from cems import __version__

        log = cems_home().logs / "cli.log"
        log.parent.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
        too_long = log.exists() and log.stat().st_size > _MOST_LOG
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if too_long else os.O_APPEND)
        with os.fdopen(os.open(log, flags, PRIVATE_FILE), "w", encoding="utf-8", errors="backslashreplace") as file:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            python = platform.python_version()
            file.write(f"{now} cems {__version__} python {python} {platform.system()} `{command}`\n{trace}\n")
    except (OSError, RuntimeError):
        return None
    return log
