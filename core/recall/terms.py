"""Index terms of a text: the same ones for what is stored and for what is asked, in SQLite's index and in LanceDB's.

Words are lower-cased Snowball stems without stop words. Identifiers count whole and in parts (`useQueryClient`,
`snake_case_name`, `kebab-case`), scripts without spaces as pairs of characters. Light: used in the first stage.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from py_rust_stemmers import SnowballStemmer

TERMS_VERSION = 2
"""Goes up when the same text gives other terms: every index is then made again."""

_MAX_TERM = 40
# Accents and vowel signs are part of their word; Python counts only letters and digits as such.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
    "\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a03\u0a3c-\u0a4d\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b4d\u0b82\u0bbe-\u0bcd\u0c00-\u0c04"
    "\u0c3c-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d81-\u0d83\u0dca-\u0ddf\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc"
    "\u0ec8-\u0ece\u0f71-\u0f84\u102b-\u103e\u1056-\u1059\u17b6-\u17d3\u3099\u309a"
)
_LETTERS = rf"(?:[^\W_]|[{_MARKS}])+"
_WORD = re.compile(rf"{_LETTERS}(?:[_.\-/]{_LETTERS})*")
_PART = re.compile(_LETTERS)
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
# Thai, Lao, Tibetan, Myanmar, Khmer, kana, Han; Hangul has spaces, but its endings make pairs the better unit there too.
_UNSPACED = re.compile(
    r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    r"\U00020000-\U0003ffff]+"
)

STOP_WORDS = frozenset([
    "a", "about", "above", "after", "again", "against", "all", "also", "am", "an", "and", "any", "are", "as",
    "at", "be", "because", "been", "before", "being", "below", "between", "both", "but", "by", "can", "cannot",
    "could", "did", "do", "does", "doing", "down", "during", "each", "few", "for", "from", "further", "get",
    "got", "had", "has", "have", "having", "he", "her", "here", "hers", "him", "his", "how", "i", "if", "in",
    "into", "is", "it", "its", "itself", "just", "let", "me", "more", "most", "my", "myself", "no", "nor", "not",
    "now", "of", "off", "on", "once", "only", "or", "other", "our", "ours", "out", "over", "own", "please",
    "same", "she", "should", "so", "some", "such", "than", "that", "the", "their", "theirs", "them", "then",
    "there", "these", "they", "this", "those", "through", "to", "too", "under", "until", "up", "us", "use",
    "using", "very", "want", "was", "we", "were", "what", "when", "where", "which", "while", "who", "whom", "why",
    "will", "with", "would", "you", "your", "yours", "s", "t", "re", "ve", "ll", "d", "m", "don", "doesn", "didn",
    "isn", "aren", "wasn",
])  # fmt: skip

_stemmer = SnowballStemmer("english")


def _stem(word: str) -> str:
    return _stemmer.stem_word(word) if word.isascii() else word


def terms(text: str) -> list[str]:
    """The index terms of `text` in order, repeats included. Never raises; a text without words gives an empty list."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return [term for match in _WORD.finditer(text) for term in _terms_of(match.group())]


@lru_cache(maxsize=20_000)
def _terms_of(word: str) -> tuple[str, ...]:
    if _UNSPACED.search(word):
        return tuple(_pairs(word))
    found: list[str] = []
    parts = [piece for part in _PART.findall(word) for piece in _split_case(part)]
    if len(parts) > 1:
        whole = "".join(parts).lower()
        if len(whole) <= _MAX_TERM and not all(part.isdigit() for part in parts):
            found.append(_stem(whole))
    found += [_term(part) for part in parts if part.lower() not in STOP_WORDS]
    return tuple(found)


def _term(piece: str) -> str:
    return _stem(piece.lower()[:_MAX_TERM])


def _split_case(part: str) -> list[str]:
    if part.islower() or part.isdigit() or not part.isascii():
        return [part]
    pieces = _CAMEL.findall(part)
    # `iOS`, `v2`, `2FA`: fragments of one letter say nothing alone.
    return pieces if pieces and all(len(piece) > 1 for piece in pieces) else [part]


def _pairs(word: str) -> list[str]:
    found: list[str] = []
    position = 0
    for match in _UNSPACED.finditer(word):
        if match.start() > position:
            found += [_term(piece) for piece in _PART.findall(word[position : match.start()])]
        run = match.group()
        found += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
        position = match.end()
    if position < len(word):
        found += [_term(piece) for piece in _PART.findall(word[position:])]
    return found
