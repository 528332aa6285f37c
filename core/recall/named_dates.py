"""Days and months that a text names, so that a question about July is answered from what was told in July. Light.

English names of months, and ISO dates. A month without a year is that month of any year. What depends on the present
("yesterday") is left alone: the question does not say which day it is asked on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_NAMED = re.compile(
    rf"\b(?:(?P<before>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?(?: of)? )?(?P<month>{'|'.join(_MONTHS)})\b"
    r"(?: (?P<after>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?(?!\d))?(?:,? (?P<year>(?:19|20)\d\d))?",
    re.IGNORECASE,
)
_ISO = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])(?:-(?P<day>0[1-9]|[12]\d|3[01]))?\b")
# "may" and "march" are words of other kinds too: alone they count only with a capital letter.
_ALSO_WORDS = ("may", "march")

_TOLD_WITHIN = timedelta(days=9)
_TOLD_WITHIN_OF_MONTH = timedelta(days=45)
LATER = 0.4
"""How near a month that is just over is to one that is named."""


@dataclass(frozen=True, slots=True)
class NamedDate:
    """A day, or a whole month where `day` is 0; of any year where `year` is 0."""

    year: int
    month: int
    day: int = 0

    def nearness(self, told: date) -> float:
        """From 0 to 1: whether what was told on that day is told of this date. People tell of what has just happened, so a
        day counts for the nine days after it, and a month in part (LATER) for what is told soon after its end.
        """
        # What happened in a December is told in the January of the next year.
        years = (self.year,) if self.year else (told.year, max(1, told.year - 1))
        return max(self._nearness(told, year) for year in years)

    def _nearness(self, told: date, year: int) -> float:
        first = _date(year, self.month, self.day or 1)
        if self.day:
            return float(timedelta() <= told - first <= _TOLD_WITHIN)
        if (told.year, told.month) == (first.year, first.month):
            return 1.0
        return LATER if timedelta() < told - first <= _TOLD_WITHIN_OF_MONTH else 0.0


def named_dates(text: str) -> list[NamedDate]:
    """The dates named in a text, in order. Never raises."""
    iso = [NamedDate(int(each["year"]), int(each["month"]), int(each["day"] or 0)) for each in _ISO.finditer(text)]
    return iso + [
        NamedDate(
            int(each["year"] or 0),
            _MONTHS.index(each["month"].lower()) + 1,
            int(each["before"] or each["after"] or 0),
        )
        for each in _NAMED.finditer(text)
        if each["month"] not in _ALSO_WORDS or each["before"] or each["year"]
    ]


def _date(year: int, month: int, day: int) -> date:
    """The day; 31 June is the last of June."""
    for last in range(day, 27, -1):
        try:
            return date(year, month, last)
        except ValueError:
            continue
    return date(year, month, min(day, 28))
