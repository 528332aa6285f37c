"""What a memory's neighbours in its session say for it: the answer often stands beside the words that were asked for. Light.

Memories of one session are in order: by their place in it, else by when they were told. Where the order is known, a
memory is ranked by its own evidence, that of the two before and after it, and that of its whole session. The gate does
not look at this: a neighbour may lift what is relevant above what is not, never something into a prompt.

The weights were fitted on half of LoCoMo's conversations and reported on the other half (docs/benchmarks.md).
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cems.core.recall import lookup
from cems.core.recall.candidate import Candidate
from cems.core.recall.lexical import Weights
from cems.core.recall.question import Question

if TYPE_CHECKING:
    from cems.core.recall.engine import Within

TURN = "turn"
"""The kind of a memory that is one turn of a conversation as it was said, `Speaker: text`."""

_LOOKED_AT = 24
_SESSIONS = 16
_ROWS = 2_000
_REACH = 2
_NAME_CHARS = 40
_ASKS_WHEN = re.compile(r"\s*when\b|.*\bhow long\b", re.IGNORECASE | re.DOTALL)
_SAYS_WHEN = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|week|weekend|month|year|since|recently|20\d\d"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september|october"
    r"|november|december)\b",
    re.IGNORECASE,
)

_FACT = {
    "cosine": 0.78, "overlap": 0.07, "hubness": -0.77, "length": 0.08, "overlap_1": 0.17, "overlap_2": 0.10,
    "session_cosine": 0.56, "session_overlap": 0.13,
}  # fmt: skip
_TURN = {
    "cosine": 0.46, "overlap": 0.14, "hubness": -0.06, "length": 0.08, "asks": -0.02, "overlap_2": 0.21,
    "overlap_before": 0.13, "best_near": 0.09, "answers": 0.26, "next": 0.08, "speaker": 0.20, "time": 0.18,
    "session_cosine": 0.39, "session_overlap": 0.16,
}  # fmt: skip


class SessionContext:
    """The order of the memories in the sessions that the best candidates come from."""

    def __init__(
        self, connection: sqlite3.Connection, candidates: Sequence[Candidate], within: Within, weights: Weights
    ) -> None:
        """Reads them; `candidates` are in the order of their scores. Empty where none of these has a session."""
        self._weights = weights
        self._order: dict[str, list[str]] = defaultdict(list)
        self._found: dict[str, set[str]] = {}
        self._at: dict[str, tuple[str, int]] = {}
        best = [candidate for candidate in candidates if session_of(candidate)][:_LOOKED_AT]
        sessions = list(dict.fromkeys(map(session_of, best)))[:_SESSIONS]
        for memory, session, words in lookup.session_rows(connection, sessions, within.scopes, _ROWS, within.condition):
            self._at[memory] = session, len(self._order[session])
            self._order[session].append(memory)
            self._found[memory] = weights.terms.intersection(words.split())
        self.neighbours = list(
            dict.fromkeys(each for candidate in best for each in self._around(candidate.id, -_REACH, _REACH))
        )
        """The ids of the memories that stand beside the best candidates, these included."""

    def rank(self, candidates: Sequence[Candidate], question: Question) -> None:
        """Set the rank of each candidate whose place in its session is known; the others keep theirs, the score.

        What the sessions give is moved so that it adds nothing on average: knowing its place is no merit of a memory.
        """
        known = {candidate.id: candidate for candidate in candidates}
        nearest: dict[str, float] = defaultdict(float)
        for candidate in candidates:
            nearest[session_of(candidate)] = max(nearest[session_of(candidate)], candidate.cosine or 0.0)
        words = {
            session: self._overlap(self._order[session])
            for session in {self._at[each][0] for each in known if each in self._at}
        }
        for kind in (False, True):
            placed = [each for each in candidates if each.id in self._at and (each.row["kind"] == TURN) is kind]
            ranks = [
                sum(
                    (_TURN if kind else _FACT).get(name, 0.0) * value
                    for name, value in {
                        **self._evidence(each, known),
                        **(self._said(each, known, question) if kind else {}),
                        "session_cosine": nearest[session_of(each)],
                        "session_overlap": words[session_of(each)],
                    }.items()
                )
                for each in placed
            ]
            shift = sum(each.score - rank for each, rank in zip(placed, ranks, strict=True)) / (len(placed) or 1)
            for each, rank in zip(placed, ranks, strict=True):
                each.rank = rank + shift
                # Only a turn says little alone; a fact beside what was asked for is another fact.
                each.nearby = self._overlap(self._around(each.id, -1, 1)) if kind else 0.0

    def _evidence(self, candidate: Candidate, known: dict[str, Candidate]) -> dict[str, float]:
        near = [
            _base(known[each])
            for each in self._around(candidate.id, -_REACH, _REACH)
            if each in known and each != candidate.id
        ]
        return {
            "cosine": candidate.cosine or 0.0,
            "overlap": candidate.overlap,
            "hubness": candidate.hubness or 0.0,
            "length": candidate.length,
            "overlap_1": self._overlap(self._around(candidate.id, -1, 1)),
            "overlap_2": self._overlap(self._around(candidate.id, -_REACH, _REACH)),
            "overlap_before": self._overlap(self._around(candidate.id, -_REACH, 0)),
            "best_near": max(near, default=0.0),
        }

    def _said(self, candidate: Candidate, known: dict[str, Candidate], question: Question) -> dict[str, float]:
        """What only a turn of a conversation has: who says it, whether it asks, whether the one before asked."""
        content = str(candidate.row["content"])
        speaker, parted, _ = content.partition(": ")
        before = known.get(next(iter(self._around(candidate.id, -1, -1)), ""))
        after = known.get(next(iter(self._around(candidate.id, 1, 1)), ""))
        named = bool(parted) and 0 < len(speaker) <= _NAME_CHARS and speaker.lower() in question.text.lower()
        return {
            "asks": float("?" in content),
            "answers": _base(before) if before is not None and "?" in str(before.row["content"]) else 0.0,
            "next": _base(after) if after is not None else 0.0,
            "speaker": float(named),
            "time": float(bool(_ASKS_WHEN.match(question.text)) and bool(_SAYS_WHEN.search(content))),
        }

    def _around(self, memory: str, first: int, last: int) -> list[str]:
        """The memories from `first` to `last` places after this one, in its session."""
        if memory not in self._at:
            return []
        session, place = self._at[memory]
        return self._order[session][max(0, place + first) : max(0, place + last + 1)]

    def _overlap(self, memories: Iterable[str]) -> float:
        return self._weights.overlap(set().union(*(self._found[each] for each in memories)))[0]


def session_of(candidate: Candidate) -> str:
    """The session a candidate comes from; empty for none."""
    return str((candidate.row.get("source") or {}).get("session") or "")


def _base(candidate: Candidate) -> float:
    """How relevant one memory alone looks, for the use of its neighbours."""
    cosine = candidate.cosine or 0.0
    return 0.55 * cosine + 0.45 * candidate.overlap - 0.30 * (candidate.hubness or 0.0) + 0.03 * candidate.length
