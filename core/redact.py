"""What must never be stored or sent: `<private>` spans are cut, secrets become `[redacted:<kind>]`.

The shapes of secrets come from the detect-secrets library and from `secret_shapes`; secrets that have no shape of their
own (passwords, home-made tokens) are found beside the name they are given (`secret_names`). Both tables and the library
are imported on first use (about 300 ms); `warm()` does it ahead of time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cems.core.spans import Spans


@dataclass(frozen=True, slots=True)
class Redacted:
    """Clean text; the kind of every secret replaced; how many private spans were cut."""

    text: str
    secrets: tuple[str, ...]
    private_spans: int


class Finding(NamedTuple):
    """A secret at `[start, end)`. `rank` breaks ties: of overlapping findings the lowest names the kind."""

    start: int
    end: int
    kind: str
    rank: int


MARKER = re.compile(r"\[redacted:[a-z0-9-]{1,40}\]")

_PRIVATE = Spans(("private",))

# A pass can free a secret that stood too close to another one. Ordinary text needs two passes.
_MOST_PASSES = 6


def clean(text: str) -> Redacted:
    """`text` without private spans and secrets.

    Deterministic, idempotent and linear in the length of the text. Never raises on odd text: lone surrogates, control
    characters and broken markup pass through. An unclosed `<private>` reaches to the end of the text.
    """
    text, private_spans = _PRIVATE.cut(text)
    kinds: list[str] = []
    for attempt in range(_MOST_PASSES + 1):
        findings = _find(text)
        if not findings:
            break
        if attempt == _MOST_PASSES:
            # Only text built for it comes here. The rest goes, so that what is returned is clean all the same.
            findings = [findings[0]._replace(end=len(text))]
        text = _replace(text, findings)
        kinds += (finding.kind for finding in findings)
    return Redacted(text, tuple(kinds), private_spans)


def warm() -> None:
    """Import the detectors now, in idle time, rather than in the first call of `clean`."""
    from cems.core import secret_names, secret_shapes

    secret_shapes.library_shapes()
    secret_names.entropy("warm")


def _find(text: str) -> list[Finding]:
    """All findings, sorted, disjoint, and outside the markers of an earlier pass."""
    from cems.core import secret_names, secret_shapes

    found = sorted([*secret_shapes.find(text), *secret_names.find(text)])
    if not found:
        return []
    merged: list[Finding] = []
    for finding in found:
        if merged and finding.start < merged[-1].end:
            before = merged[-1]
            best = min(before, finding, key=lambda candidate: candidate.rank)
            merged[-1] = Finding(before.start, max(before.end, finding.end), best.kind, best.rank)
        else:
            merged.append(finding)
    return [piece for finding in merged for piece in _outside_markers(text, finding)]


def _outside_markers(text: str, finding: Finding) -> Iterator[Finding]:
    position = finding.start
    for marker in [*MARKER.finditer(text, max(0, finding.start - 64), min(len(text), finding.end + 64)), None]:
        stop = min(marker.start(), finding.end) if marker else finding.end
        if position < stop and any(character.isalnum() for character in text[position:stop]):
            yield finding._replace(start=position, end=stop)
        if marker:
            position = max(position, marker.end())


def _replace(text: str, findings: list[Finding]) -> str:
    parts: list[str] = []
    position = 0
    for finding in findings:
        parts += (text[position : finding.start], f"[redacted:{finding.kind}]")
        position = finding.end
    return "".join([*parts, text[position:]])
