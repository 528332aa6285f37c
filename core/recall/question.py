"""From what was typed to what is searched for: pasted code, logs, tags and our own blocks go, the question stays.

Light: used in the daemon's first stage.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cems.core.recall.terms import terms

_MAX_CHARS = 200_000
_FIRST_WORDS, _LAST_WORDS = 55, 25
_WORDS_OF_A_SENTENCE = 3

_BLOCKS = re.compile(
    r"<(cems-[a-z]+|system-reminder|task-notification|local-command-[a-z]+|command-[a-z]+|persisted-output|environment_context"
    r"|user_instructions|system_reminder|turn-context|hook_context|private)\b[^>]*>.*?(?:</\1\s*>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_FENCES = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
_INLINE_CODE = re.compile(r"`([^`\n]{1,80})`")
_LONG_INLINE = re.compile(r"`[^`\n]{81,}`")
_LOG_LINE = re.compile(
    r"^\s*(\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|\[(?i:info|warn|warning|error|debug|trace)\]|(?i:info|warn|debug|trace)\s*[:|\[]"
    r"|File \"|Traceback |\s+at \S+ ?\(|\S+:\d+:\d+\b|\d+\s*\||>\s*\d+\s*\||npm (?:ERR!|WARN) |#\d+ \[|FAIL |PASS |✓|✗|●)"
)
_DIFF_LINE = re.compile(r"^(\+\+\+|---|@@|diff --git|index [0-9a-f]{6,}|[+-]\s*\S.*[;{}()=])")
_CODE_START = re.compile(
    r"^\s*(import |from \S+ import|export |def |class |function\b|const |let |var |return\b|if ?\(|for ?\(|while ?\(|public |private |protected "
    r"|static |async def|@\w+|#include|package |using |SELECT |INSERT |UPDATE |CREATE |DELETE FROM|</?\w+[^>]*>|\{|\}|\)|\]|//|/\*|\*|#!|\$ )"
)
_CODE_END = re.compile(r"[{};,\[(]\s*$|\)\s*[{:;]\s*$|=>\s*\S*$|/>$")
_SYMBOLS = re.compile(r"[{}()\[\];=<>|&$\\^~*+]")
_PLAIN_WORD = re.compile(r"(?<!\S)[A-Za-z][a-z'’]*[,.?!:;]*(?!\S)")

_DEIXIS = re.compile(
    r"\b(this|that|the above|these|those) (file|function|method|class|code|line|loop|test|error|bug|variable|component|snippet|block|test|"
    r"page|module|query|regex|diff|change|commit|output|import|typo)\b|\bthe (loop|above|previous|last) ?|\bon line \d+|\bline \d+\b|\bundo\b"
    r"|\brevert that\b|\b(it|this|that)\s*[?.!]*$|^(fix|explain|rename|refactor|format|simplify) (it|this|that)\b",
    re.IGNORECASE,
)
_LANGUAGES = (
    "python|javascript|typescript|java|rust|go|golang|ruby|php|c\\+\\+|c#|kotlin|swift|sql|bash|css|html|react|vue|angular|django|flask|numpy|"
    "pandas|matplotlib|regex|git|excel|haskell|scala|perl|lua|dart|r"
)
_GENERIC_LANGUAGE = re.compile(rf"\b(in|with|using|for) ({_LANGUAGES})\b", re.IGNORECASE)
_GENERAL_QUESTION = re.compile(
    r"^\s*(what('s| is| are) (a |an |the difference|the )?|who (is|was|invented)|explain\b|how (do|does|can) (i|one|you) |"
    r"what does .{1,40} mean|define\b|tell me about|give me an example|write (me )?(a |an )|why is the sky)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Question:
    """A cleaned prompt: `text` (at most about 100 tokens), its index terms, and what its wording says of its need."""

    text: str
    terms: tuple[str, ...]
    deixis: bool
    generic_language: bool
    general: bool

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
        general=bool(_GENERAL_QUESTION.search(text)),
    )


def clean(prompt: str) -> str:
    """The prompt without blocks, fences, code-looking and log lines, cut to its first and last words."""
    text = prompt[:_MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
    text = _FENCES.sub("\n", _BLOCKS.sub("\n", text))
    text = _INLINE_CODE.sub(r"\1", _LONG_INLINE.sub(" ", text))
    lines = text.splitlines()
    kept = [line for line in lines if not _looks_like_code(line)]
    if not kept:
        # All of it looks like code or output: what reads most like a sentence (an error's message) is the question.
        kept = [line for line in lines if len(_PLAIN_WORD.findall(line)) >= _WORDS_OF_A_SENTENCE][:3]
    words = " ".join(kept).split()
    if len(words) > _FIRST_WORDS + _LAST_WORDS:
        words = words[:_FIRST_WORDS] + words[-_LAST_WORDS:]
    return " ".join(word[:80] for word in words)


def _looks_like_code(line: str) -> bool:
    stripped = line.strip()
    if not stripped:
        return True
    if _LOG_LINE.match(line) or _DIFF_LINE.match(line):
        return True
    words = len(_PLAIN_WORD.findall(stripped))
    if words >= 5 and not _CODE_END.search(stripped):
        return False
    symbols = len(_SYMBOLS.findall(stripped))
    if _CODE_START.match(line) and (symbols or _CODE_END.search(stripped)):
        return True
    return (bool(_CODE_END.search(stripped)) and symbols >= 1 and words < 5) or symbols * 6 > len(stripped)
