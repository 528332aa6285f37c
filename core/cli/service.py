"""`cems daemon` and `cems rebuild`: the process behind the memory."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, NOTHING, UNREACHABLE, CommandError

Document = dict[str, Any]

_DAEMON_HELP = """\
Start, stop and watch the daemon.

Hooks and commands start it when it is needed, and it leaves when it is idle.
"""
_START_HELP = """\
Start the daemon and wait until it answers.

\b
Examples:
  cems daemon start
  cems daemon start --foreground
"""
_STOP_HELP = "Stop the daemon and wait until it has left."
_RESTART_HELP = "Stop the daemon, also one that hangs, and start a new one."
_STATUS_HELP = "Say whether the daemon runs. Exit code 5 when it does not."
_LOGS_HELP = """\
Print the end of the daemon's log. No prompt's text is in it.

\b
Examples:
  cems daemon logs -n 200
  cems daemon logs -f
"""
_REBUILD_HELP = """\
Make the search index again from the journal.

Nothing is lost by it. Needed after the index was damaged or another embedding model was chosen.

\b
Example:
  cems rebuild
"""

_START_SECONDS = 60.0
_REBUILD_SECONDS = 6 * 3600.0
_POLL_SECONDS = 0.25
_TAIL_BYTES = 1 << 16


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    daemon = typer.Typer(help=_DAEMON_HELP, rich_markup_mode=None, no_args_is_help=True)
    daemon.callback()(_daemon)
    daemon.command("start", help=_START_HELP)(start)
    daemon.command("stop", help=_STOP_HELP)(stop)
    daemon.command("restart", help=_RESTART_HELP)(restart)
    daemon.command("status", help=_STATUS_HELP)(status)
    daemon.command("logs", help=_LOGS_HELP)(logs)
    app.add_typer(daemon, name="daemon")
    app.command("rebuild", help=_REBUILD_HELP)(rebuild)


def _daemon() -> None:
    """Start, stop and watch the daemon."""


def start(
    foreground: Annotated[bool, typer.Option("--foreground", "-f", help="Run in this terminal until Ctrl-C.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Start the daemon, or run it here."""
    home = asking.home()
    home.create()
    if foreground:
        if asking.is_running(home):
            raise CommandError("a daemon runs already", next_step="cems daemon stop")
        return _in_foreground(home.root)
    return _started(as_json, ran=asking.is_running(home))


def stop(as_json: options.AsJson = False) -> int:
    """Stop the daemon."""
    stopped = _stopped()
    if as_json:
        console.emit({"stopped": stopped})
    else:
        console.say("the daemon has left" if stopped else "the daemon was not running")
    return DONE


def restart(as_json: options.AsJson = False) -> int:
    """Replace the daemon by a new one."""
    _stopped()
    return _started(as_json, ran=False)


def status(as_json: options.AsJson = False) -> int:
    """Print the daemon's state."""
    from cems.core.cli.status import NOT_ANSWERING, NOT_RUNNING, current, daemon_line

    daemon: Document = current(asking.home()).get("daemon") or {}
    if as_json:
        console.emit({"daemon": daemon})
    else:
        console.say(daemon_line(daemon))
    return UNREACHABLE if daemon.get("state") in (NOT_RUNNING, NOT_ANSWERING) else DONE


def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="So many lines from the end.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is added, until Ctrl-C.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Print the daemon's log."""
    path = asking.home().logs / "daemon.log"
    found = last_lines(path, lines)
    if as_json:
        console.emit({"file": str(path), "lines": found})
        return DONE
    if not path.exists() and not follow:
        console.note(f"there is no log yet at {path}")
        return NOTHING
    for line in found:
        console.say(console.visible(line))
    if follow:
        _follow(path)
    return DONE


def rebuild(as_json: options.AsJson = False) -> int:
    """Rebuild the index and say how long it took."""
    with _seconds("rebuilding the index", shown=not as_json):
        answer = asking.ask("rebuild", timeout=_REBUILD_SECONDS)
    if as_json:
        console.emit(answer)
    else:
        count, seconds = int(answer.get("memories") or 0), float(answer.get("seconds") or 0.0)
        console.say(f"{console.plural(count, 'memory', 'memories')} indexed in {seconds:.1f} s")
    return DONE


def _started(as_json: bool, *, ran: bool) -> int:
    with _seconds("starting the daemon", shown=not as_json):
        daemon: Document = asking.ask("status", timeout=_START_SECONDS).get("daemon") or {}
    if as_json:
        console.emit({"daemon": daemon, "started": not ran})
    else:
        console.say(f"the daemon {'runs already' if ran else 'is up'}, pid {daemon.get('pid')}")
    return DONE


def _stopped() -> bool:
    from cems.core.service.client import stop_daemon

    with asking.translated():
        return stop_daemon(asking.home())


def _in_foreground(root: Path) -> int:
    # Run as the same clean process a hook would start, so that what is seen here is what happens there.
    import os
    import subprocess

    from cems.core.service.launch import allowed, daemon_command

    environment = {name: value for name, value in os.environ.items() if allowed(name)}
    environment["CEMS_HOME"] = str(root)
    command = daemon_command(str(root), sys.executable, "--foreground")
    with subprocess.Popen(command, env=environment, cwd=root) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                # The terminal sent it to the daemon too, which now shuts its files in order.
                continue


def last_lines(path: Path, count: int) -> list[str]:
    """The end of a text file; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            start, block = end, b""
            while start > 0 and block.count(b"\n") <= count:
                size = min(_TAIL_BYTES, start)
                start -= size
                file.seek(start)
                block = file.read(size) + block
    except OSError:
        return []
    return block.decode("utf-8", "replace").splitlines()[-count:] if count else []


def _follow(path: Path) -> None:
    """Print what is added to `path` for ever, also across its rotation."""
    position = path.stat().st_size if path.exists() else 0
    inode = path.stat().st_ino if path.exists() else 0
    while True:
        sys.stdout.flush()
        time.sleep(_POLL_SECONDS)
        try:
            found = path.stat()
            if found.st_ino != inode or found.st_size < position:
                inode, position = found.st_ino, 0
            if found.st_size > position:
                with path.open("rb") as file:
                    file.seek(position)
                    added = file.read()
                position += len(added)
                console.say(console.visible(added.decode("utf-8", "replace").rstrip("\n")))
        except FileNotFoundError:
            continue


@contextmanager
def _seconds(what: str, *, shown: bool) -> Iterator[None]:
    """Count the seconds on standard error while a person waits for more than a moment."""
    if not shown or not console.is_terminal(sys.stderr):
        yield
        return
    done = threading.Event()

    def count() -> None:
        started = time.monotonic()
        while not done.wait(1.0):
            sys.stderr.write(f"\r{what}, {time.monotonic() - started:.0f} s ")
            sys.stderr.flush()

    ticker = threading.Thread(target=count, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        done.set()
        ticker.join()
        sys.stderr.write("\r\x1b[K" if console.is_terminal(sys.stderr) else "")
