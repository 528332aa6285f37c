"""What a version of Cursor can do. The editor counts 3.20.17, `cursor-agent` by dates: 2026.09.02-4057e58."""

from __future__ import annotations

import re

Version = tuple[int, int, int]

FIRST_WITH_EVENTS = "2.5"
"""2.4 brought the tool and session events. One event that a version does not know kills the whole hooks file, the
person's own hooks too, so one version is left between."""

_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_DATED = 2000
_EVENTS: tuple[Version, Version] = ((2, 5, 0), (2026, 3, 1))
_PROMPT: Version = (3, 20, 17)
_START: tuple[Version, Version] = ((3, 20, 17), (2026, 7, 17))


def parsed(version: str) -> Version | None:
    """The numbers a version begins with; None where it does not."""
    found = _NUMBERS.match(version)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def knows_the_events(version: str) -> bool:
    """Whether this version, as it is installed, knows every event we write. Unknown ones update themselves: yes."""
    return (found := parsed(version)) is None or _since(found, *_EVENTS)


def takes_prompt_context(version: str) -> bool:
    """Whether context given with a prompt reaches the model: shown for the editor since 3.20.17, for nothing else."""
    return (found := parsed(version)) is not None and _PROMPT <= found < (_DATED, 0, 0)


def takes_start_context(version: str) -> bool:
    """Whether context given at a session's start reaches the model; it did not in the editor's 3.12.17."""
    return (found := parsed(version)) is not None and _since(found, *_START)


def _since(found: Version, editor: Version, dated: Version) -> bool:
    return found >= (dated if found[0] >= _DATED else editor)
