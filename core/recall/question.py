"""From what was typed to what is searched for: pasted code, logs, tags and our own blocks go, the question stays.

Light: used in the daemon's first stage.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cems.core.recall.prose import sentences
from cems.core.recall.terms import terms

_FIRST_WORDS, _LAST_WORDS = 55, 25
_FIRST_CHARS, _LAST_CHARS = 480, 220
_WORD_CHARS = 80

_POINTED_AT = (
    "file|function|method|class|code|line|loop|test|error|bug|variable|component|snippet|block|page|module|query|regex|diff|change"
    "|commit|output|import|typo"
)
_DEIXIS = re.compile(
    rf"\b(?:this|that|the above|these|those) (?:{_POINTED_AT})\b"
    rf"|\bthe (?:loop|above)\b|\bthe (?:previous|last) (?:{_POINTED_AT}|one|step|message|answer|edit)\b"
    r"|\bline \d+\b|\bundo\b|\brevert that\b|\b(?:it|this|that)\s*[?.!]*$"
    r"|^(?:fix|explain|rename|refactor|format|simplify) (?:it|this|that)\b",
    re.IGNORECASE,
)
_POINTING = re.compile(r"\b(?:this|that|it|these|those|here|above|below)\b", re.IGNORECASE)
_MOST_POINTING = 3
_LANGUAGES = (
    r"python|javascript|typescript|java|rust|go|golang|ruby|php|c\+\+|c#|kotlin|swift|sql|bash|css|html|react|vue|angular|django|flask"
    r"|numpy|pandas|matplotlib|regex|git|excel|haskell|scala|perl|lua|dart|r"
)
_GENERIC_LANGUAGE = re.compile(rf"\b(?:in|with|using|for) (?:{_LANGUAGES})(?![\w+#-])", re.IGNORECASE)
_GENERAL_QUESTION = re.compile(
    r"\s*(?:what(?:['’]s| is| are) |who (?:is|was|invented)\b|explain\b|how (?:do|does|can) (?:i|one|you) |what does .{1,40} mean\b"
    r"|define\b|tell me about\b|give me an example\b|write (?:me )?an? )",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Question:
    """A cleaned prompt: `text` (at most about 100 tokens), its index terms, and what its wording says of its need.

    `pointing`: how many words point at what is in view, 3 at most. `cut`: the share of the prompt, 0 to 1, that was no
    question of its own (code, logs, what was too long).
    """

    text: str
    terms: tuple[str, ...]
    deixis: bool
    generic_language: bool
    general: bool
    pointing: int
    cut: float

    @property
    def empty(self) -> bool:
        return not self.terms


def ask(prompt: str) -> Question:
    """The question in a prompt. Never raises; a prompt that is all code gives what little is left, or an empty one."""
    text = clean(prompt)
    return Question(
        text=text,
        terms=tuple(terms(text)),
        deixis=bool(_DEIXIS.search(text)),
        generic_language=bool(_GENERIC_LANGUAGE.search(text)),
        general=bool(_GENERAL_QUESTION.match(text)),
        pointing=min(_MOST_POINTING, len(_POINTING.findall(text))),
        cut=1 - len(text) / len(prompt) if prompt else 0.0,
    )


def clean(prompt: str) -> str:
    """The sentences of the prompt in one line, cut to its first and last words (700 characters at most)."""
    words = [word[:_WORD_CHARS] for line in sentences(prompt) for word in line.split()]
    if len(words) <= _FIRST_WORDS + _LAST_WORDS:
        text = " ".join(words)
        if len(text) <= _FIRST_CHARS + _LAST_CHARS:
            return text
    first = _at_most(words[:_FIRST_WORDS], _FIRST_CHARS)
    last = _at_most(words[max(len(first), len(words) - _LAST_WORDS) :][::-1], _LAST_CHARS)[::-1]
    return " ".join([*first, *last])


def _at_most(words: list[str], chars: int) -> list[str]:
    """The words from the beginning that fit."""
    for count, word in enumerate(words):
        chars -= len(word) + 1
        if chars < -1:
            return words[:count]
    return words
