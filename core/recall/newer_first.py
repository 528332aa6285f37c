"""Of two memories about one thing the newer stands first: what was changed since must not outrank what it was changed to.

A contradiction in so many words is settled when a memory is written. What is left are changes told in other words
("search is backed by Algolia", later "search uses Typesense"): the old one often has the very words of the prompt. Where
two candidates lie near each other, or the newer says that something the older names is gone, the newer is lifted over the
older in the list, and, where they lie very near or it says so, through the gate with it. Turns of a conversation are left as they are: they claim nothing.

Measured on the pairs of the coding set: of 1,787 pairs of memories in one project five of the seven nearest are such
changes. Light: no numpy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cems.core.recall.candidate import Candidate
from cems.core.recall.lookup import Row
from cems.core.recall.select import Cosine
from cems.core.recall.session_context import TURN

SAME_SUBJECT = 0.55
"""From this cosine on, two memories of a project are about one subject: enough for their order."""
SAME_THING = 0.65
"""From here on one would be given for the other: enough to pass the gate."""
_RELATED = 0.3
"""With a word of change, what is named in both is enough from here on."""
_OLDER_LOOKED_AT, _NEWER_LOOKED_AT = 10, 30
_SHARED_TERMS = 2
_CHANGED = re.compile(
    r"\b(?:removed|deleted|dropped|retired|deprecated|replaced|superseded|discontinued|abandoned|gone"
    r"|(?:migrated|moved|switched|changed|upgraded) (?:\w+ ){0,6}?(?:from|to|off|away)|instead of|rather than"
    r"|no longer|not (?:\w+ ){0,2}any ?more|used to be|do(?:es)? not reintroduce|don['’]t reintroduce|as of|since then)\b",
    re.IGNORECASE,
)


def newer_first(candidates: Sequence[Candidate], cosine: Cosine) -> None:
    """Lift `rank` and `probability` of a newer memory to those of an older one it may have replaced. `candidates` best
    first; sorting them again is the caller's. What no search found (its probability is 0) is left alone.
    """
    stated = [each for each in candidates[:_NEWER_LOOKED_AT] if each.row["kind"] != TURN and each.probability > 0]
    for older in stated[:_OLDER_LOOKED_AT]:
        for newer in stated:
            if newer.row["scope"] != older.row["scope"] or not _came_later(newer.row, older.row):
                continue
            near = cosine(newer, older)
            if near is None or near < _RELATED:
                continue
            told = _tells_of_change(newer.row, older.row)
            if told or near >= SAME_SUBJECT:
                # Equal ranks keep the order of the search: a little more decides.
                newer.rank = max(newer.rank, older.rank + 1e-6)
            if told or near >= SAME_THING:
                newer.probability = max(newer.probability, older.probability)


def _came_later(one: Row, other: Row) -> bool:
    """By when they began to hold, else by when they were recorded."""
    return _began(one) > _began(other)


def _began(row: Row) -> str:
    return str(row.get("valid_from") or row["recorded_at"])


def _tells_of_change(newer: Row, older: Row) -> bool:
    """Whether the newer has a word of change, and names what the older names."""
    shared = set(newer["terms"].split()) & set(older["terms"].split())
    return len(shared) >= _SHARED_TERMS and bool(_CHANGED.search(newer["content"]))
