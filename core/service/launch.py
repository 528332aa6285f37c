"""Starting the daemon, detached and with a clean environment, and the text of the launchers under
`<CEMS_HOME>/bin`.

The hook process starts daemons too, so only built-ins are imported at the top.
"""

import sys
from time import time

from cems.core.agent_env import GUARD_VARIABLE

if sys.platform == "win32":
    import nt as system
else:
    import posix as system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Literal

DAEMON_VARIABLES = frozenset(
    (
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "TZ",
        "TMPDIR",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        # The system keyring is reached through it.
        "DBUS_SESSION_BUS_ADDRESS",
        # Windows cannot start a program or find its user's folders without these.
        "SYSTEMROOT",
        "SYSTEMDRIVE",
        "WINDIR",
        "COMSPEC",
        "PATHEXT",
        "TEMP",
        "TMP",
        "USERPROFILE",
        "USERNAME",
        "APPDATA",
        "LOCALAPPDATA",
        "PROGRAMDATA",
    )
)
"""The only variables a daemon gets, with those of `DAEMON_PREFIXES`: never an agent's, never a key."""

DAEMON_PREFIXES = ("LC_", "XDG_", "CEMS_")
SECRET_NAMES = ("CEMS_CREDENTIALS",)
SECRET_ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_PASSPHRASE")

START_MARKER = "daemon.starting"
START_PAUSE = 3.0
"""Seconds in which nobody starts a second daemon: many hooks fire at once, and a broken one must not be
restarted by every tool call."""

SUCCESSOR_WAIT = 10.0
"""Seconds a successor waits for its predecessor to finish what runs and to let go of the lock."""

DAEMON_CODE = (
    "import sys; parent = {parent!a}; parent in sys.path or sys.path.insert(0, parent); "
    "from cems.core.service.daemon import run; run()"
)
MAX_SHEBANG = 120


def allowed(name: str) -> bool:
    """Whether the daemon gets the environment variable `name`."""
    upper = name.upper()
    if upper == GUARD_VARIABLE or upper.startswith(SECRET_NAMES) or upper.endswith(SECRET_ENDINGS):
        return False
    return upper in DAEMON_VARIABLES or upper.startswith(DAEMON_PREFIXES)


def daemon_command(home: str, interpreter: str, *options: str) -> "list[str]":
    """The command that runs this very copy of the program as the daemon of `home`, installed or not."""
    # `-I` keeps the folder it is started in, PYTHONPATH and the user's site-packages out; so the folder that
    # holds this package is passed along.
    parent = package_parent()
    code = DAEMON_CODE.format(parent=parent)
    return [interpreter, "-I", "-X", "utf8", "-c", code, "--home", home, *options]


def package_parent() -> str:
    """The folder that has to be on `sys.path` for `import cems`."""
    file = sys.modules["cems"].__file__ or ""
    for separator in ("/", "\\"):
        folder, found, _ = file.rpartition(f"{separator}cems{separator}")
        if found:
            return folder
    raise ImportError(f"cems is not imported from a folder: {file}")


def spawn_daemon(home: str, interpreter: str, *, wait_lock: float = 0.0) -> bool:
    """Start a daemon for `home` and return at once; False when one was started less than three seconds ago.

    With `wait_lock` it waits that many seconds for a running daemon to leave. The process has its own
    session, no file of ours and only the variables of `allowed`. Raises OSError when the interpreter cannot
    be run.
    """
    # A successor starts in any case, and keeps others from starting one meanwhile.
    if not _first_to_start(home) and not wait_lock:
        return False
    options = ("--wait-lock", f"{wait_lock:g}") if wait_lock else ()
    command = daemon_command(home, interpreter, *options)
    if sys.platform == "win32":
        _spawn_on_windows(home, command)
        return True
    environment = {
        name: value for name, value in system.environ.items() if allowed(name.decode("utf-8", "surrogateescape"))
    }
    environment[b"CEMS_HOME"] = home.encode("utf-8", "surrogateescape")
    nowhere = [
        (system.POSIX_SPAWN_OPEN, 0, "/dev/null", system.O_RDONLY, 0),
        (system.POSIX_SPAWN_OPEN, 1, "/dev/null", system.O_WRONLY, 0),
        (system.POSIX_SPAWN_OPEN, 2, "/dev/null", system.O_WRONLY, 0),
    ]
    try:
        system.posix_spawn(interpreter, command, environment, file_actions=nowhere, setsid=True)
    except NotImplementedError:
        # An old C library; the daemon makes its own session as its first act.
        system.posix_spawn(interpreter, command, environment, file_actions=nowhere)
    return True


def _first_to_start(home: str) -> bool:
    marker = f"{home}/{START_MARKER}"
    flags = system.O_WRONLY | system.O_CREAT | system.O_EXCL
    for _ in range(2):
        try:
            system.close(system.open(marker, flags, 0o600))
        except FileExistsError:
            try:
                if 0 <= time() - system.stat(marker).st_mtime < START_PAUSE:
                    return False
                system.unlink(marker)
            except FileNotFoundError:
                pass
        else:
            return True
    return False


def _spawn_on_windows(home: str, command: "list[str]") -> None:
    import os
    import subprocess

    environment = {name: value for name, value in os.environ.items() if allowed(name)}
    environment["CEMS_HOME"] = home
    flags = 0
    if sys.platform == "win32":
        # No console window of its own, and no share in the agent's Ctrl+C.
        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    subprocess.Popen(
        command,
        env=environment,
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=True,
        creationflags=flags,
    )


def launcher_source(
    interpreter: "Path", package_parent: "Path", home: "Path", target: "Literal['hook', 'mcp']"
) -> bytes:
    """The text of `<home>/bin/cems-hook` or `cems-mcp`: the same bytes for the same arguments, any path
    allowed.
    """
    module = {"hook": "hook_client", "mcp": "mcp_proxy"}[target]
    entry = {"hook": "run", "mcp": "main"}[target]
    program = (
        "import sys\n"
        f"sys.path.append({_literal(str(package_parent))})\n"
        f"from cems.core.service.{module} import {entry}\n"
        f"{entry}({_literal(str(home))})\n"
    )
    shebang = f"#!{interpreter} -IS\n"
    if len(_bytes(shebang)) < MAX_SHEBANG and not any(character.isspace() for character in str(interpreter)):
        return _bytes(shebang + program)
    # The kernel cuts a shebang at the first space and at 127 bytes; a shell does not.
    import shlex

    return _bytes(f'#!/bin/sh\nexec {shlex.quote(str(interpreter))} -IS -c {shlex.quote(program)} "$@"\n')


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _literal(path: str) -> str:
    """Python source for `path`, in ASCII; also right where the interpreter's file system encoding is not
    UTF-8.
    """
    if path.isascii():
        return ascii(path)
    return f'{_bytes(path)!r}.decode(sys.getfilesystemencoding(), "surrogateescape")'
