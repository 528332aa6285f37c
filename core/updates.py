"""Looking for newer releases: when, and what was found the last time. Standard library only.

Nothing is looked for unless the person has named a release index (`update_index`), and the looking itself is done by
`cems update`, which the daemon starts at most once a day.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from typing import Any

from cems import __version__
from cems.core.paths import PRIVATE_FILE, Home
from cems.core.service.handover import is_newer

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class LastLook:
    """`checked` is a Unix time, 0 for never; `newest` the newest release there was then, "" for none above ours;
    `problem` what kept the last look, or the last update by itself, from being done."""

    checked: float = 0.0
    newest: str = ""
    problem: str = ""

    @property
    def newer(self) -> str:
        """The release to tell the person of; empty once this program is that one."""
        return self.newest if is_newer(self.newest, __version__) else ""

    def as_json(self) -> dict[str, Any] | None:
        """For `cems status`; None where there is nothing to tell."""
        return {"newest": self.newer or None, "problem": self.problem or None} if self.newer or self.problem else None


def last_look(home: Home) -> LastLook:
    """What the last look found; a file that cannot be read is none."""
    try:
        found = json.loads(home.update_note.read_bytes())
        look = LastLook(float(found["checked"]), str(found["newest"]), str(found["problem"]))
    except (OSError, ValueError, KeyError, TypeError):
        return LastLook()
    # A time to come is a clock that was set back: it must not keep us from looking for years.
    return look if look.checked <= time.time() else LastLook(0.0, look.newest, look.problem)


def note_look(home: Home, newest: str, problem: str = "") -> None:
    """Keep what was found now. Raises OSError."""
    text = json.dumps(asdict(LastLook(time.time(), newest, problem)))
    temporary = home.update_note.with_name(f"{home.update_note.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(home.update_note)


def due(home: Home, index: str, wanted: bool | None) -> bool:
    """Whether it is time to look: an index is named, looking is not switched off, and the last look is a day old."""
    return bool(index) and wanted is not False and time.time() - last_look(home).checked >= DAY
