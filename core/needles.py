"""Texts that are looked for in everything we keep: when a string holds one of them, and how they look as raw bytes."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cems.core.value import normalise

PURGED = "[purged]"
"""What stands where a text was cut out."""

_LEAST_RAW = 8
"""Bytes a text must have to be looked for in raw files: of fewer, binary files hold any by chance."""
_LEAST_LINE = 12
_PLAIN = re.compile(r"[\t\n\r\x20-\x7e]*\Z")
_LETTER = re.compile(
    "(?s).[\u0300-\u036f\u1ab0-\u1aff\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\u200b-\u200f\u2060-\u2064\u00ad\ufeff]*"
)
"""A letter with the marks and invisible characters that follow it."""


@dataclass(frozen=True, slots=True)
class Needle:
    """One text. `value` is its one spelling; `whole` means that only a string that says nothing else counts."""

    text: str
    value: str
    whole: bool = False

    def is_in(self, spelt: str) -> bool:
        """Whether a string, as `spelling` gives it, holds the text."""
        if self.whole:
            return normalise(spelt) == self.value
        return next(self.places(spelt), None) is not None

    def places(self, spelt: str) -> Iterator[int]:
        """Where in such a string it begins. A short one is a part of many words and numbers: it must stand by itself."""
        alone = len(self.value.encode()) < _LEAST_RAW
        at = spelt.find(self.value)
        while at >= 0:
            before, after = spelt[at - 1 : at] if at else "", spelt[at + len(self.value) :][:1]
            if not (alone and (_joins(before, self.value[0]) or _joins(self.value[-1], after))):
                yield at
            at = spelt.find(self.value, at + 1)


def needles_for(texts: Iterable[str], *, whole_up_to: int = 0) -> tuple[Needle, ...]:
    """A needle for each text that says anything; those of at most `whole_up_to` characters count only as a whole."""
    found: dict[str, Needle] = {}
    for text in texts:
        value = normalise(text)
        if value and value not in found:
            found[value] = Needle(text, value, len(value) <= whole_up_to)
    return tuple(found.values())


def lines_of(needles: Iterable[Needle]) -> tuple[Needle, ...]:
    """The lines of texts that have several, but for short ones, which say nothing of where they come from."""
    split = [(needle, needle.text.splitlines()) for needle in needles]
    lines = needles_for(line for _, lines in split if len(lines) > 1 for line in lines)
    known = {needle.value for needle, _ in split}
    return tuple(line for line in lines if len(line.value) >= _LEAST_LINE and line.value not in known)


def spelling(text: str) -> str:
    """The text in the spelling of needles; unlike a value's, what stands at its edges stays."""
    if _PLAIN.match(text):
        return " ".join(text.lower().split())
    # The bars keep the edges, whose punctuation `normalise` takes away.
    return normalise(f"|{text}|")[1:-1].strip()


def holds(text: str, needles: Iterable[Needle]) -> bool:
    """Whether a string holds one of the texts, in any case, white space and look-alike letters."""
    spelt = spelling(text)
    return any(needle.is_in(spelt) for needle in needles)


def strings_in(value: Any) -> Iterator[str]:
    """Every string in a JSON value, names of fields too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from strings_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from strings_in(each)


def anywhere_in(value: Any, needles: Iterable[Needle]) -> bool:
    """Whether a JSON value holds one of the texts in any of its strings."""
    return any(holds(text, needles) for text in strings_in(value))


def without(text: str, needles: Iterable[Needle]) -> str:
    """The text with each needle cut out; where it cannot be told which letters spell it, nothing of the text stays."""
    for needle in needles:
        if not needle.is_in(spelling(text)):
            continue
        if not needle.whole:
            spelt, origins = _traced(text)
            pieces, end = [], 0
            for at in needle.places(spelt):
                start = origins[at][0]
                if start >= end:
                    pieces += [text[end:start], PURGED]
                    end = origins[at + len(needle.value) - 1][1]
            text = "".join((*pieces, text[end:]))
        if needle.is_in(spelling(text)):
            return PURGED
    return text


def cut_everywhere(value: Any, needles: tuple[Needle, ...]) -> Any:
    """A JSON value with the texts cut out of its strings."""
    if isinstance(value, str):
        return without(value, needles)
    if isinstance(value, dict):
        return {without(name, needles): cut_everywhere(each, needles) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [cut_everywhere(each, needles) for each in value]
    return value


def says_nothing(text: str) -> bool:
    """Whether nothing of a text is left once the marks of what was cut are taken away."""
    return not re.sub(r"\W", "", normalise(text.replace(PURGED, "")))


def raw_forms(needles: Iterable[Needle]) -> dict[bytes, str]:
    """The bytes to look for in lower-cased files, each with the name of its form."""
    forms: dict[bytes, str] = {}
    for needle in needles:
        if needle.whole or len(needle.value.encode()) < _LEAST_RAW:
            continue
        core = needle.text.strip()
        spellings = dict.fromkeys((core, needle.value, core.casefold(), core.lower(), core.upper()))
        for each in list(spellings):
            spellings |= dict.fromkeys(unicodedata.normalize(form, each) for form in ("NFC", "NFD"))
        for text in spellings:
            escaped, kept = json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]
            written = {
                "utf-8": text.encode("utf-8", "surrogatepass"),
                "utf-16-le": text.encode("utf-16-le", "surrogatepass"),
                "utf-16-be": text.encode("utf-16-be", "surrogatepass"),
                "JSON": kept.encode("utf-8", "surrogatepass"),
                "escaped JSON": escaped.encode(),
                "JSON in JSON": json.dumps(escaped)[1:-1].encode(),
            }
            for name, data in written.items():
                forms.setdefault(data.lower(), name)
    return forms


def _joins(one: str, other: str) -> bool:
    return bool(one and other) and one.isascii() and other.isascii() and one.isalnum() and other.isalnum()


def _traced(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text's spelling, and for each letter of it the span of `text` that it comes from."""
    spelt, origins = "", []
    for letter in _LETTER.finditer(text):
        part = normalise(f"|{letter.group()}|")[1:-1]
        if part == " " and spelt[-1:] == " ":
            continue
        spelt += part
        origins += [letter.span()] * len(part)
    return spelt, origins
