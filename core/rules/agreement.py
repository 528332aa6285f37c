"""Asking first where the agent cannot ask by itself: a refusal, the model's question, and the person's next prompt.

A rule that wants to be asked refuses the call; the model is told to ask. Where the person's next prompt says yes, the
rules that refused since the prompt before are silent until the prompt after. Kept in memory only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from dataclasses import dataclass, field

_YES = re.compile(
    r"\s*(?:yes|yep|yeah|yup|y|ok|okay|sure|go|go ahead|go for it|do it|do that|do so|please do|proceed|confirm(?:ed)?|"
    r"approved?|allowed|agreed|you may|I (?:agree|confirm|approve|allow it))\b",
    re.IGNORECASE,
)
_NOT_YET = re.compile(
    r"\?|\b(?:no|not|never|stop|wait|but|instead|without|except|first|before|unless|cannot|\w+n['’]?t)\b", re.IGNORECASE
)
_MOST = 120
_SAME_MOMENT = 2.0


def agrees(prompt: str) -> bool:
    """Whether a prompt is a plain yes: it begins with one, is short, and takes nothing back."""
    return len(prompt) <= _MOST and bool(_YES.match(prompt)) and not _NOT_YET.search(prompt)


@dataclass(slots=True)
class Agreement:
    """What one session's person was asked, and agreed to."""

    _asked: set[str] = field(default_factory=set)
    _agreed: frozenset[str] = frozenset()
    _since: float = 0.0

    @property
    def open(self) -> bool:
        """Whether the next prompt may be an answer."""
        return bool(self._asked)

    def ask(self, rules: Collection[str]) -> None:
        """These rules refused a call; the model asks the person."""
        self._asked.update(rules)

    def hear(self, *, yes: bool) -> None:
        """The person sent a prompt. The same yes may be told twice, by two files of hooks."""
        now = time.monotonic()
        if self._asked or not yes or now - self._since > _SAME_MOMENT:
            self._agreed, self._since = frozenset(self._asked if yes else ()), now
            self._asked.clear()

    def covers(self, rules: Collection[str]) -> bool:
        return self._agreed.issuperset(rules)
