"""Asking first where the agent cannot ask by itself: a refusal, the model's question, and the person's next prompt.

A rule that wants to be asked refuses the call; the model is told to ask. Where the person's next prompt says yes, the very
calls that were refused since the prompt before run until the prompt after. Kept in memory only.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Collection
from dataclasses import dataclass, field

# What begins with one of the first may go on ("yes, push it"); "ok" and "go" begin orders too ("ok show me the log").
_YES = re.compile(
    r"\s*(?:(?:yes|yep|yeah|yup|y|go ahead|go for it|do it|do that|do so|please do|proceed|confirm(?:ed)?|approved?|allowed|agreed|"
    r"you may|I (?:agree|confirm|approve|allow it))\b|(?:ok|okay|sure|go)\b\s*(?:[.,;:!]|\Z|(?:yes|go|do|please|thanks?|sure)\b))",
    re.IGNORECASE,
)
_NOT_YET = re.compile(
    r"\?|\b(?:no|nope|nah|not|never|nothing|stop|wait|hold|cancel|abort|skip|leave|forget|later|tomorrow|rather|only|but|instead|"
    r"without|except|first|before|unless|cannot|\w+n['’]?t)\b",
    re.IGNORECASE,
)
_MOST = 120
_SAME_MOMENT = 2.0


def agrees(prompt: str) -> bool:
    """Whether a prompt is a plain yes: it begins with one, is short, and takes nothing back."""
    return len(prompt) <= _MOST and bool(_YES.match(prompt)) and not _NOT_YET.search(prompt)


@dataclass(slots=True)
class Agreement:
    """What one session's person was asked, and agreed to: rules, each for one call (its tool and subject, in a text)."""

    _asked: set[bytes] = field(default_factory=set)
    _agreed: frozenset[bytes] = frozenset()
    _since: float = 0.0

    @property
    def open(self) -> bool:
        """Whether the next prompt may be an answer."""
        return bool(self._asked)

    def ask(self, rules: Collection[str], call: str) -> None:
        """These rules refused a call; the model asks the person."""
        self._asked |= _questions(rules, call)

    def hear(self, *, yes: bool) -> None:
        """The person sent a prompt. The same yes may be told twice, by two files of hooks."""
        now = time.monotonic()
        if self._asked or not yes or now - self._since > _SAME_MOMENT:
            self._agreed, self._since = frozenset(self._asked if yes else ()), now
            self._asked.clear()

    def covers(self, rules: Collection[str], call: str) -> bool:
        return self._agreed >= _questions(rules, call)


def _questions(rules: Collection[str], call: str) -> set[bytes]:
    # A call may be a file long, and a session may have many refused.
    return {hashlib.sha256(f"{rule}\n{call}".encode("utf-8", "surrogatepass")).digest() for rule in rules}
