"""Hook calls that failed: one line each in `logs/hook-failures`, written by the hook process. Light."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cems.core.paths import Home


@dataclass(frozen=True, slots=True)
class HookFailure:
    """One call. `when` is a Unix time, `reason` the hook's word for it."""

    when: float
    script: str
    reason: str


def hook_failures(home: Home, seconds: float = float("inf")) -> list[HookFailure]:
    """Those of the last `seconds`, oldest first; lines of another shape are left out."""
    try:
        text = home.hook_failures.read_text("utf-8", "replace")
    except OSError:
        return []
    since = time.time() - seconds
    found = []
    for line in text.splitlines():
        when, _, rest = line.partition(" ")
        script, _, reason = rest.partition(" ")
        try:
            failure = HookFailure(float(when), script, reason or "failed")
        except ValueError:
            continue
        if failure.when > since:
            found.append(failure)
    return found
