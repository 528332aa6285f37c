"""Index terms of a text: the same ones for what is stored and for what is asked, in SQLite's index and in LanceDB's.

Words are lower-cased Snowball stems without stop words. Identifiers count whole and in parts (`useQueryClient`,
`snake_case_name`, `kebab-case`), scripts without spaces as pairs of characters. Light: used in the first stage.
"""

from __future__ import annotations

import re
from functools import lru_cache

from py_rust_stemmers import SnowballStemmer

TERMS_VERSION = 1
"""Goes up when the same text gives other terms: every index is then made again."""

_MAX_TERM = 40
_WORD = re.compile(r"[^\W_]+(?:[_.\-/][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
# Han, kana, Thai, Lao, Khmer, Myanmar; Hangul has spaces, but its endings make pairs the better unit there too.
_UNSPACED = re.compile(r"[฀-໿က-႟ក-៿぀-ヿ㐀-䶿一-鿿가-힯豈-﫿]+")

STOP_WORDS = frozenset(
    ["a", "about", "above", "after", "again", "against", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because", "been", "before", "being", "below", "between", "both", "but", "by", "can", "cannot", "could", "did", "do", "does", "doing", "down", "during", "each", "few", "for", "from", "further", "get", "got", "had", "has", "have", "having", "he", "her", "here", "hers", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "itself", "just", "let", "me", "more", "most", "my", "myself", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or", "other", "our", "ours", "out", "over", "own", "please", "same", "she", "should", "so", "some", "such", "than", "that", "the", "their", "theirs", "them", "then", "there", "these", "they", "this", "those", "through", "to", "too", "under", "until", "up", "us", "use", "using", "very", "want", "was", "we", "were", "what", "when", "where", "which", "while", "who", "whom", "why", "will", "with", "would", "you", "your", "yours", "s", "t", "re", "ve", "ll", "d", "m", "don", "doesn", "didn", "isn", "aren", "wasn"]
)

_stemmer = SnowballStemmer("english")


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    return _stemmer.stem_word(word) if word.isascii() else word


def terms(text: str) -> list[str]:
    """The index terms of `text` in order, repeats included. Never raises; a text without words gives an empty list."""
    found: list[str] = []
    for match in _WORD.finditer(text):
        word = match.group()
        if _UNSPACED.search(word):
            found += _pairs(word)
            continue
        parts = [piece for part in _PART.findall(word) for piece in _split_case(part)]
        if len(parts) > 1:
            whole = "".join(parts).lower()
            if len(whole) <= _MAX_TERM and not all(part.isdigit() for part in parts):
                found.append(_stem(whole))
        found += [_stem(part.lower()[:_MAX_TERM]) for part in parts if part.lower() not in STOP_WORDS]
    return found


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
            found += [_stem(piece.lower()) for piece in _PART.findall(word[position : match.start()])]
        run = match.group()
        found += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
        position = match.end()
    if position < len(word):
        found += [_stem(piece.lower()) for piece in _PART.findall(word[position:])]
    return found
