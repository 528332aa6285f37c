"""What people and agents said of memories they were given moves the gate, within bounds. Light.

A mark moves its own memory, and all marks together move the bar a little for everything. The bounds are such that no
number of marks hides what is plainly asked for, or brings up what has nothing to do with a prompt: a forget does the
one, a pin the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Marks(NamedTuple):
    """How often something was marked as useful, and how often as not needed."""

    useful: int = 0
    noise: int = 0


Feedback = Callable[[Sequence[str]], Mapping[str, float]]
"""From ids of memories to the log-odds by which feedback moves each; those it says nothing of may be left out."""

MOST = 1.5
"""A memory is moved by at most this many log-odds by its own marks: from .30 down to .09 or up to .66."""
MOST_FOR_ALL = 0.7
"""Everything is moved by at most this many by all marks: from .30 down to .18 or up to .46."""
_USEFUL, _NOISE = 0.4, 0.8
_FEW = 20
"""So many marks are needed before their balance counts half."""


def of_memory(marks: Marks) -> float:
    """Log-odds from a memory's own marks. Noise weighs twice: what disturbed once is the complaint people make."""
    return max(-MOST, min(MOST, _USEFUL * marks.useful - _NOISE * marks.noise))


def of_all(marks: Marks) -> float:
    """Log-odds for every memory from the balance of all marks."""
    return MOST_FOR_ALL * (marks.useful - marks.noise) / (marks.useful + marks.noise + _FEW)
