"""What of a prompt is said, and what is pasted: code, diffs, logs and machine blocks go, sentences stay.

Pasted code is what ruins retrieval most. Every step is linear in the length of the prompt. Light.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby

_HEAD_CHARS, _TAIL_CHARS = 150_000, 50_000
_HEAD_LINES, _TAIL_LINES = 1_500, 500
_JUDGED_CHARS = 2_000
_SENTENCE_WORDS = 5
_PHRASE_WORDS = 3
_SHORT_PROMPT_LINES = 2
_MOST_FALLBACK_LINES = 3

_TAG = re.compile(
    r"<(/?)(cems-[a-z]+|system[-_]reminder|task-notification|local-command-[a-z]+|command-[a-z]+|bash-[a-z]+"
    r"|persisted-output|environment_context|user_instructions|turn-context|hook_context|private)\b[^<>]{0,400}>",
    re.IGNORECASE,
)
_FENCE = re.compile(r"`{3,}|~{3,}")
_FENCE_OR_STRING = re.compile(r"`{3,}|~{3,}|\"{3}")
_QUOTES = '"""'
_LONG_INLINE = re.compile(r"`[^`\n]{81,}`")
_INLINE_CODE = re.compile(r"`([^`\n]{1,80})`")
_LIST_MARKER = re.compile(r"^(?:[-*+•]|\d{1,3}[.)]|>+)\s+(?=\S)")

_OUTPUT = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d"
    r"|\[(?i:info|warn|warning|error|debug|trace)\]|(?:INFO|WARN|WARNING|DEBUG|TRACE)\s*[:|\[]"
    r"|Traceback \(most|File \".*\", line|at (?:async )?(?:new )?\S+ \(\S*:\d+(?::\d+)?\)|at (?:async )?\S+ \(index \d+\)|at [\w.$<>/]+\([^()]*\)$|at \S+:\d+:\d+$"
    r"|[^\s:]+:\d+:\d+\b|\d+\s*\||>\s*\d+\s*\||npm (?:ERR!|WARN) |#\d+ \[|FAIL |PASS |✓|✗|●|\^[\^~]*$|[~^]{3,}$"
)
_DIFF_HEAD = re.compile(r"diff --git |@@ |index [0-9a-f]{6,}\.\.|--- (?:a/|/dev/null)|\+\+\+ (?:b/|/dev/null)")
_DIFF_BODY = ("+", "-", " ", "\\", "\t")
_INDENT = ("  ", "\t")
_DEEP = ("    ", "\t")
_PAIR = re.compile(r"\s*(?:- )?[\w.\-/]+:(?:\s+\S+)?$")
_LINES_OF_DATA = 4
_LINES_OF_CODE = 3
_QUERY = re.compile(
    r"SELECT\s+(?:\*|DISTINCT\b|[\w.]+(?:\s+AS\s+\w+)?\s*(?:,|$)|\w+\()|(?:INSERT INTO|DELETE FROM|UPDATE|CREATE (?:TABLE|INDEX|UNIQUE)|ALTER TABLE) \S+"
)
_QUERY_GOES_ON = re.compile(
    r"(?:FROM|WHERE|(?:LEFT |RIGHT |INNER |OUTER |CROSS |FULL )*JOIN|ON|AND|OR|GROUP BY|ORDER BY|HAVING|LIMIT|VALUES|SET|UNION)\b"
)
_CODE_START = re.compile(
    r"import |from \S+ import|export |def |class |function\b|const |let |var |return\b|if ?\(|for ?\(|while ?\(|public |private "
    r"|protected |static |async def|@\w+|#include|package |using |</?\w+[^>]*>|\{|\}|\)|\]|//|/\*|\*|#!|\$ "
)
_STATEMENT = re.compile(
    r"[\w.$\[\]'\"]+(?: ?: ?[\w.\[\], |]+)? ?(?:[-+*/|&:]|\?\?)?=(?!=) ?(?:\S+$|[\"'(\[{].*[\"')\]},;]$)"  # an assignment
    r"|[\"'][^\"']*[\"'],?$|\"{3}"  # a string
    r"|(?:await |return |yield |self\.)?[\w.$]+\([^()]*(?:\([^()]*\)[^()]*)*\)[;:]?$"  # nothing but a call
    r"|(?:export |pub |async )*(?:def|fn|func|function)\*? ?[\w$]*[(<]|class \w+(?:\(.*\))?:$"  # a definition
    r"|[\"'][\w.$/@-]+[\"']\s*:\s*\S"  # a member of a JSON object
    r"|(?:SELECT\b.* FROM|INSERT INTO \S+|UPDATE \S+ SET|DELETE FROM \S+|CREATE (?:TABLE|INDEX|UNIQUE)|ALTER TABLE) "
)
_COMMENT = re.compile(r"\s*(?://|/\*|\*/|#+ |--\s|<!--)")
_CODE_END = re.compile(r"[{};,\[(]\s*$|\)\s*[{:;]\s*$|=>[^\s=]*$|/>$")
_SYMBOLS = re.compile(r"[{}()\[\];=<>|&$\\^~*+]")
_WORD = re.compile(r"(?<!\S)[(\"“'‘]?[^\W\d_]+(?:['’-][^\W\d_]+)*[)\"”'’]?[,.?!:;]*(?!\S)")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")


def sentences(prompt: str) -> list[str]:
    """The lines of a prompt that somebody wrote. Never raises; of a prompt that is all code, what reads most like words."""
    if len(prompt) > _HEAD_CHARS + _TAIL_CHARS:
        prompt = f"{prompt[:_HEAD_CHARS]}\n{prompt[-_TAIL_CHARS:]}"
    text = _without_blocks(prompt.encode("utf-8", "replace").decode("utf-8"))
    lines = text.splitlines()
    if len(lines) > _HEAD_LINES + _TAIL_LINES:
        lines = [*lines[:_HEAD_LINES], *lines[-_TAIL_LINES:]]
    lines = [_INLINE_CODE.sub(r"\1", _LONG_INLINE.sub(" ", line)) for line in _without_fences(lines)]
    kept = [_LIST_MARKER.sub("", line.strip()) for line in _without_pasted(lines)]
    if kept:
        return kept
    lines = [line for line in lines if line.strip()]
    if len(lines) <= _SHORT_PROMPT_LINES:
        # `retry()` alone, or one line of a log: it is the question.
        return lines
    return [line for line in lines if _word_count(line[:_JUDGED_CHARS]) >= _PHRASE_WORDS][:_MOST_FALLBACK_LINES]


def looks_like_code(line: str) -> bool:
    """Whether one line is code or a program's output rather than somebody's words."""
    text = " ".join(line[:_JUDGED_CHARS].split())
    if not text or _OUTPUT.match(text) or _DIFF_HEAD.match(text):
        return True
    text = _LIST_MARKER.sub("", text)
    if _STATEMENT.match(text):
        return True
    words = _word_count(text)
    ends_as_code = bool(_CODE_END.search(text))
    if words >= _SENTENCE_WORDS and not ends_as_code:
        return False
    symbols = len(_SYMBOLS.findall(text))
    indented = line.startswith(_INDENT)
    if _CODE_START.match(text) and (symbols or ends_as_code or indented):
        return True
    return (ends_as_code and symbols >= 1 and words < _SENTENCE_WORDS) or symbols * 6 > len(text)


def _word_count(text: str) -> int:
    """Plain words; two characters of a script without spaces count as one."""
    return len(_WORD.findall(text)) + len(_UNSPACED.findall(text)) // 2


def _without_blocks(text: str) -> str:
    """Without what machines put into a prompt and what a person marked private.

    A block that is never closed ends with the prompt, unless its tag is only spoken of in a sentence.
    """
    openers: defaultdict[str, list[re.Match[str]]] = defaultdict(list)
    cuts: list[tuple[int, int]] = []
    for tag in _TAG.finditer(text):
        waiting = openers[tag[2].lower()]
        if not tag[1]:
            waiting.append(tag)
        elif waiting:
            cuts.append((waiting.pop().start(), tag.end()))
        else:
            cuts.append(tag.span())
    for name, waiting in openers.items():
        for tag in waiting:
            before = text[max(0, tag.start() - 100) : tag.start()].rpartition("\n")[2]
            starts_line = not before.strip()
            cuts.append((tag.start(), len(text) if starts_line or name == "private" else tag.end()))
    return "\n".join(_between(text, cuts))


def _between(text: str, cuts: Iterable[tuple[int, int]]) -> Iterable[str]:
    position = 0
    for start, end in sorted(cuts):
        if start > position:
            yield text[position:start]
        position = max(position, end)
    yield text[position:]


def _without_fences(lines: Sequence[str]) -> list[str]:
    """Without fenced code. A fence that is never closed hides nothing: its lines are judged one by one."""
    # A paste that begins inside a string has its quotes the wrong way round: what is text cannot be told by them.
    mark_of = _FENCE_OR_STRING if sum(line.count(_QUOTES) for line in lines) % 2 == 0 else _FENCE
    kept: list[str] = []
    fence = ""
    inside: list[str] = []
    for line in lines:
        position = 0
        said: list[str] = []
        for mark in mark_of.finditer(line):
            if not fence:
                said.append(line[position : mark.start()])
                fence, inside = mark.group(), []
            elif mark.group().startswith(fence):
                fence = ""
            else:
                continue
            position = mark.end()
        if fence:
            inside.append(line[position:])
        else:
            said.append(line[position:])
        if said:
            kept.append(" ".join(said))
    return [*kept, *inside] if fence else kept


def _without_pasted(lines: Iterable[str]) -> list[str]:
    """The lines that are not code, output, or the inside of a diff, a query or a stack trace."""
    judged: list[tuple[str, bool]] = []
    for blank, paragraph in groupby(lines, key=lambda line: not line.strip()):
        if not blank:
            judged += _judged(list(paragraph))
    # Comments in pasted code read like sentences; the depth they stand at tells, and the sign before them.
    much_code = sum(pasted for _, pasted in judged) >= _LINES_OF_CODE
    return [
        line
        for line, pasted in judged
        if not (pasted or (much_code and (line.startswith(_DEEP) or _COMMENT.match(line))))
    ]


def _judged(paragraph: Sequence[str]) -> Iterable[tuple[str, bool]]:
    """Each line and whether it was pasted; `key: value` lines were when most of the paragraph is such data or code."""
    code = list(_inside_of_something(paragraph))
    pairs = [bool(_PAIR.match(line)) for line in paragraph]
    data = sum(map(max, code, pairs))
    pasted_data = data >= _LINES_OF_DATA and data * 2 > len(paragraph)
    return zip(
        paragraph, [known or (pair and pasted_data) for known, pair in zip(code, pairs, strict=True)], strict=True
    )


def _inside_of_something(paragraph: Sequence[str]) -> Iterable[bool]:
    """Whether each line looks like code, or continues a diff, a query or a stack frame."""
    inside: tuple[str, ...] = ()
    query = False
    for line in paragraph:
        text = line.lstrip()
        if _DIFF_HEAD.match(line):
            inside = _DIFF_BODY
        elif inside and line.startswith(inside):
            # A frame is followed by one line of its code, a diff's head by all of its lines.
            inside = inside if inside is _DIFF_BODY else ()
            yield True
            continue
        elif text.startswith('File "'):
            inside = _INDENT
        else:
            inside = ()
        query = bool(_QUERY.match(text) or (query and _QUERY_GOES_ON.match(text)))
        yield query or looks_like_code(line)
