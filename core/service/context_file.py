"""The file in which an agent looks for context, where it does not take a hook's output: `<CEMS_HOME>/run/context-<pid>`.

`cems run` makes one for each process of the agent and says its pid to that process's hooks. A hook empties it at every
event and writes the answer to a prompt into it, where the daemon says that the answer goes there. Imported by the hook
process, so: built-ins only.
"""

import sys

if sys.platform == "win32":
    import nt as system
else:
    import posix as system

FOLDER = "run"
_NAME = "context-"


def path_of(home: str, pid: int) -> str:
    """Where the context of the process `pid` is put."""
    return f"{home}/{FOLDER}/{_NAME}{pid}"


def emptied(home: str, named: str) -> str:
    """The pid that the environment names, once its file is empty; "" where it has none."""
    if not (named.isascii() and named.isdigit() and len(named) < 20):
        return ""
    try:
        put(home, named, b"")
    except OSError:
        return ""
    return named


def put(home: str, pid: str, content: bytes) -> None:
    """Make `content` all that is in the file of `pid`. Raises OSError where that is not a file of our own that is there:
    a link is not followed, and nothing is made."""
    flags = system.O_WRONLY | getattr(system, "O_NOFOLLOW", 0) | getattr(system, "O_NONBLOCK", 0)
    file = system.open(path_of(home, int(pid)), flags)
    try:
        found = system.fstat(file)
        mine = sys.platform == "win32" or found.st_uid == system.geteuid()
        if found.st_mode & 0o170000 != 0o100000 or found.st_nlink != 1 or not mine:
            raise OSError("not a file of ours")
        system.ftruncate(file, 0)
        while content:
            content = content[system.write(file, content) :]
    finally:
        system.close(file)
