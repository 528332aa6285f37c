"""Where CEMS is paused: projects, or everything, in which agents are given nothing and nothing is learnt.

`pauses.json` keeps each pause with its beginning and end, for what was said during one is not learnt after it either.
A file that cannot be read counts as a pause everywhere and at all times: privacy is what it is for. Standard library
only: the daemon's first stage uses it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cems.core.paths import PRIVATE_DIR, PRIVATE_FILE, Home
from cems.core.scope import project_name, project_scope

EVERYWHERE = "everywhere"
_VERSION = 1
# A folder that only its path identifies is paused with the folders below it.
_FOLDER = project_scope("path:")


class Paused(Exception):
    """An agent asked for something where CEMS is paused."""


class PausesDamaged(Exception):
    """The file cannot be read, so no pause can be added or ended by itself."""


@dataclass(frozen=True, slots=True)
class Pause:
    """`scope` is a project's or `everywhere`; times are ISO 8601 with offset, `until` is None while it lasts; `by` is
    `person` or the name of an agent."""

    scope: str
    since: str
    until: str | None = None
    by: str = "person"

    def concerns(self, scope: str | None) -> bool:
        """Whether it is a pause of this project (None: of a session in no project)."""
        if self.scope == EVERYWHERE or self.scope == scope:
            return True
        below = self.scope.rstrip("/") + "/"
        return scope is not None and self.scope.startswith(_FOLDER) and scope.startswith(below)

    def covers(self, moment: float) -> bool:
        """Whether it was in force at a Unix time; both ends count."""
        return _seconds(self.since) <= moment and (self.until is None or moment <= _seconds(self.until))


@dataclass(frozen=True, slots=True)
class Pauses:
    """All pauses there have been. `damage` says why they cannot be known; then everything is paused."""

    pauses: tuple[Pause, ...] = ()
    damage: str = ""

    def now(self, scope: str | None) -> Pause | None:
        """The pause in force for a session in this project; the widest where there are several."""
        if self.damage:
            return Pause(EVERYWHERE, _text(0.0))
        running = [pause for pause in self.running if pause.concerns(scope)]
        return min(running, key=lambda pause: pause.scope != EVERYWHERE, default=None)

    def covers(self, scope: str | None, moment: float) -> bool:
        """Whether what was said in this project at a Unix time was said during a pause."""
        return bool(self.damage) or any(pause.concerns(scope) and pause.covers(moment) for pause in self.pauses)

    @property
    def running(self) -> tuple[Pause, ...]:
        return tuple(pause for pause in self.pauses if pause.until is None)

    def as_json(self, scope: str | None) -> dict[str, Any] | None:
        """The pause in force here as `cems status` shows it; None for none."""
        pause = self.now(scope)
        if pause is None:
            return None
        return {**asdict(pause), "damage": self.damage or None}


class PauseFile:
    """The pauses of one home, read again when the file has changed. Thread safe."""

    def __init__(self, home: Home) -> None:
        self._path = home.pauses
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._pauses = Pauses()

    def read(self) -> Pauses:
        """The pauses as the file has them now; costs one look at it where it has not changed."""
        with self._lock:
            seen = _signature(self._path)
            if seen is None or seen != self._seen:
                self._pauses, self._seen = read_pauses(self._path), seen
            return self._pauses


def read_pauses(path: Path) -> Pauses:
    """What the file holds; no file is no pause, a link to nowhere is damage."""
    try:
        return Pauses(_parsed(path.read_bytes()))
    except FileNotFoundError:
        return Pauses(damage=f"{path} is a link to a file that is gone") if path.is_symlink() else Pauses()
    except OSError as error:
        return Pauses(damage=f"{path} cannot be read ({error.strerror})")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        return Pauses(damage=f"{path} cannot be understood ({str(error).splitlines()[0][:80]})")


def pause(home: Home, scope: str, by: str = "person") -> bool:
    """Begin a pause; False where this very scope is paused already. Raises PausesDamaged, OSError."""
    known = _undamaged(home)
    if any(each.scope == scope for each in known.running):
        return False
    _write(home.pauses, (*known.pauses, Pause(scope, _text(time.time()), None, by)))
    return True


def resume(home: Home, scope: str) -> bool:
    """End the pause of this very scope; False where there is none. Raises PausesDamaged, OSError.

    To resume everywhere also puts a damaged file aside. When its pauses were is not known any more, so nothing said
    before this moment will be learnt.
    """
    known = read_pauses(home.pauses)
    now = time.time()
    if known.damage and scope == EVERYWHERE:
        if os.path.lexists(home.pauses):
            home.pauses.replace(home.pauses.with_name(f"{home.pauses.name}.unreadable-{int(now)}"))
        _write(home.pauses, (Pause(EVERYWHERE, _text(0.0), _end(now)),))
        return True
    known = _undamaged(home)
    if not any(each.scope == scope for each in known.running):
        return False
    ended = [
        # A clock that was set back meanwhile must not make the pause one that never was.
        replace(each, until=_end(max(now, _seconds(each.since))))
        if each in known.running and each.scope == scope
        else each
        for each in known.pauses
    ]
    _write(home.pauses, tuple(ended))
    return True


def where(pause: Pause) -> str:
    """`in project github.com/org/repo`, or `everywhere`."""
    return EVERYWHERE if pause.scope == EVERYWHERE else f"in project {project_name(pause.scope)}"


def how_to_resume(pause: Pause) -> str:
    """The command with which a person ends it."""
    return "cems resume --all" if pause.scope == EVERYWHERE else "cems resume"


def _undamaged(home: Home) -> Pauses:
    known = read_pauses(home.pauses)
    if known.damage:
        raise PausesDamaged(f"{known.damage}, so CEMS is paused everywhere; `cems resume --all` sets it aside")
    return known


def _signature(path: Path) -> tuple[int, ...] | None:
    """Changes with the file; None where it cannot be looked at, which has a reason each time."""
    try:
        found = path.stat()
    except OSError:
        return None
    # The mode too: a file that became unreadable is damage, and one that became readable again is not.
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns)


def _parsed(data: bytes) -> tuple[Pause, ...]:
    document = json.loads(data.decode("utf-8"))
    if document["version"] != _VERSION:
        raise ValueError(f"its version is {str(document['version'])[:20]}, and this CEMS knows {_VERSION}")
    found = tuple(Pause(**each) for each in document["pauses"])
    for each in found:
        if not all(isinstance(text, str) and text for text in (each.scope, each.since, each.by)):
            raise ValueError("a pause lacks its scope, its beginning or who made it")
        _seconds(each.since)
        if each.until is not None:
            _seconds(each.until)
    return found


def _write(path: Path, pauses: tuple[Pause, ...]) -> None:
    # Through a link to where the person keeps it: a link is not replaced by a file.
    path = Path(os.path.realpath(path))
    path.parent.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
    document = {"version": _VERSION, "pauses": [asdict(each) for each in pauses]}
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _seconds(text: str) -> float:
    """The Unix time of an ISO instant. Raises ValueError for one without an offset: it could be any hour."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"the time {text} has no offset")
    return instant.timestamp()


def _text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _end(moment: float) -> str:
    # Written in milliseconds, cut off: the last of them belongs to the pause.
    return _text(moment + 0.001)
