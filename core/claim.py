"""What a sentence claims, in a form two sentences can be compared by: its words' stems, its numbers, what it denies. Light.

Heuristic, and made for the short standalone sentences that memories are; a sentence it does not understand is at worst
compared with too few others.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from cems.core.recall.terms import terms

_MOST_SENTENCES = 12


def listed(words: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(words.split())


_SENTENCE = re.compile(r"(?<=[.!?;])\s+|[。！？；]|\n")
_UNITS = {
    "s": "second", "sec": "second", "secs": "second", "second": "second", "seconds": "second", "ms": "millisecond",
    "min": "minute", "mins": "minute", "minute": "minute", "minutes": "minute", "h": "hour", "hour": "hour",
    "hours": "hour", "d": "day", "day": "day", "days": "day", "kb": "kb", "mb": "mb", "mib": "mib", "gb": "gb",
    "gib": "gib", "x": "time",
}  # fmt: skip
UNITS = frozenset({*_UNITS.values(), "time", "%"})
"""What a number counts or measures, in one spelling."""
_TOKEN = re.compile(
    rf"(?P<number>#?\bv?\d+(?:[.,:/-]\d+)*)(?=(?:{'|'.join(sorted(_UNITS, key=len, reverse=True))})\b|(?!\w))"
    r"|(?P<word>[\u3040-\u30ff\u3400-\u9fff]|\w+(?:['./_-]\w+)*)|(?P<pause>[,;:()])"
)
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_IDIOMS = (
    (re.compile(r"n['’]t\b"), " not"),
    (re.compile(r"['’]s\b"), ""),
    (re.compile(r"\b(?:not only|(?:do not|never) (?:forget|hesitate) to)\b"), ""),
    (re.compile(r"\b(?:no longer|not any ?more)\b"), "never"),
    (re.compile(r"\b(?:instead of|rather than)\b"), "insteadof"),
)
_NUMERALS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COUNTED = {word: str(number) for number, word in enumerate(_NUMERALS, start=2)}

_FILLERS = listed(
    "a an the we our ours i my you your this that these those please always now currently still just really "
    "already should must shall will would may can do does did any again ever also all every each "
    "的 了 要 止"
)
_LIGHT = listed(
    "is are be was were been has have had in on at to for of by with from as via through into onto about over under "
    "when if while within inside outside during except unless until only and or but because though although so then "
    "which than = 在 上 是 为 里"
)
_FORMS = {"using": "use", "uses": "use", "used": "use", "ca": "can", "wo": "will", "mandatory": "requir"}
_DENYING = listed(
    "not never no none nothing nobody without cannot nor neither avoid stop insteadof nicht kein keine keinen nie "
    "niemals jamais nunca não 不 别 勿 没 无 非 禁"
)
_DENYING_SHORTLY = listed("no without insteadof over kein keine keinen")
"""What these deny ends where the next phrase begins: `uv instead of pip for installs`."""
_ENDING = listed("but because though although while which so then")
_OPPOSITES = {
    "disabl": "enabl", "forbidden": "allow", "forbid": "allow", "disallow": "allow", "prohibit": "allow",
    "ban": "allow", "option": "requir", "exclud": "includ", "reject": "accept", "fail": "pass", "off": "on",
    "after": "before", "unsupport": "support", "unsaf": "safe", "opt-out": "opt-in", "false": "true",
    "unstabl": "stabl", "async": "sync", "close": "open", "descend": "ascend",
}  # fmt: skip
"""By stem: the one word says that the other does not hold."""
_ANYWHERE = listed(
    "disable enable forbid allow disallow prohibit ban exclude include reject accept require before after"
)
"""Opposites that count wherever they stand; adjectives count only as what is said (`users are disabled`), not as what
it is said of (`disabled users`)."""
_HEDGES = listed("maybe perhaps might consider considering proposed propose wonder possibly could")
_PAST = listed(
    "was were took had ran found saw measured crashed happened got became previously formerly earlier yesterday ago"
)
_GUARDS = listed("unless until except only if when")
_POINTING = listed("it they this that these those he she")
_KEPT_READ = 4_096
"""Sentences that stay read, some 10 MiB: each new memory is compared with the same older ones as the last, and reading
those was nine tenths of what adding a file of memories cost."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a sentence. `key` is its stem, or the number in one spelling; `phrase` the last preposition before it in
    its clause; `follows` and `precedes` the keys of its neighbours, fillers left out.
    """

    key: str
    kind: Literal["word", "number", "light"]
    denied: bool
    phrase: str = ""
    follows: str = ""
    precedes: str = ""


class Claim:
    """One sentence. `guards` are the words that make it hold in some cases only."""

    __slots__ = ("content", "denials", "guards", "hedged", "numbers", "past", "words")

    def __init__(self, words: tuple[Word, ...], *, past: bool, hedged: bool, guards: frozenset[str]) -> None:
        self.words = words
        self.past = past
        self.hedged = hedged
        self.guards = guards
        self.numbers = [word for word in words if word.kind == "number"]
        # The words that carry meaning, by key; and whether each is denied, but for those that are both said and denied.
        self.content = {word.key: word for word in words if word.kind == "word"}
        said = {(word.key, word.denied) for word in words if word.kind == "word"}
        self.denials = {key: denied for key, denied in said if (key, not denied) not in said}


def claims(text: str) -> Iterator[Claim]:
    """The claims of a text, sentence by sentence, at most 12. Questions make none."""
    sentences = [each.strip() for each in _SENTENCE.split(unicodedata.normalize("NFKC", text)) if each.strip()]
    for position, sentence in enumerate(sentences[:_MOST_SENTENCES]):
        first = sentence.partition(" ")[0].lower()
        if sentence.endswith("?") or (position and first in _POINTING):
            continue
        yield _claim(sentence)


@lru_cache(maxsize=_KEPT_READ)
def _claim(sentence: str) -> Claim:
    text = sentence.lower().replace("’", "'")
    for pattern, replacement in _IDIOMS:
        text = pattern.sub(replacement, text)
    tokens = list(_TOKEN.finditer(_UNSPACED.sub(r" \g<0> ", text)))
    raws = [match.group() for match in tokens]
    found: list[Word] = []
    guards = set(raws) & _GUARDS
    prefers = any(raw.startswith("prefer") for raw in raws)
    denied = shortly = spoken = False
    phrase = ""
    for index, match in enumerate(tokens):
        raw = match.group()
        if match["pause"] or raw in _ENDING:
            denied = shortly = False
            phrase = ""
            continue
        if raw in _DENYING or (raw == "over" and prefers):
            if denied:
                guards.add("denied twice")
            denied, shortly, spoken = True, raw in _DENYING_SHORTLY, False
            continue
        if raw in _FILLERS:
            continue
        word = _word(raw, match["number"] is not None, _ends_here(tokens, index))
        if word.kind == "light":
            if shortly and spoken:
                denied = shortly = False
            phrase = word.key
        spoken = True
        turned = word.denied != denied
        found.append(Word(word.key, word.kind, turned, phrase))
    return Claim(
        tuple(
            Word(each.key, each.kind, each.denied, each.phrase,
                 found[index - 1].key if index else "", found[index + 1].key if index + 1 < len(found) else "")
            for index, each in enumerate(found)
        ),
        past=bool(_PAST & set(raws)) or "used to" in text,
        hedged=bool(_HEDGES & set(raws)),
        guards=frozenset(guards),
    )  # fmt: skip


def _word(raw: str, is_number: bool, said_of_it: bool) -> Word:
    """The word by itself; `denied` for one that says the opposite of its key."""
    if is_number:
        return Word(_number(raw), "number", denied=False)
    if raw in _COUNTED:
        return Word(_COUNTED[raw], "number", denied=False)
    if raw == "on" and said_of_it:
        return Word("on", "word", denied=False)
    if raw in _LIGHT:
        return Word(raw, "light", denied=False)
    raw = _UNITS.get(raw, _FORMS.get(raw, raw))
    stems = terms(raw)
    key = stems[0] if len(stems) == 1 else raw
    if key in _OPPOSITES and (said_of_it or raw in _ANYWHERE):
        return Word(_OPPOSITES[key], "word", denied=True)
    return Word(key, "word", denied=False)


def _ends_here(tokens: list[re.Match[str]], index: int) -> bool:
    """Whether no word of meaning follows in the same phrase."""
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    return following is None or bool(following["pause"]) or following.group() in _LIGHT | _ENDING


def _number(raw: str) -> str:
    number = raw.removeprefix("v")
    return number.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+", number) else number
