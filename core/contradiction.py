"""Whether a statement contradicts a memory: another number, name or answer in what is otherwise the same sentence. Light.

Conservative: a contradiction withholds what a machine wrote until a person decides, so what is merely alike is none. Two
sentences are compared when they share their subject, and contradict each other in one of three ways: a number differs, a
name differs where only one can stand ("the default branch is …", "use … for …"), or one denies what the other says.

By words alone. Nearness in meaning was measured on the pairs in tests/fixtures/contradiction and does not help: a quarter
of the contradictions lie under a cosine of 0.8, and so few of the others over it are mistaken that none is worth that.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher

from cems.core.claim import UNITS, Claim, Word, claims, listed
from cems.core.recall import lookup
from cems.core.recall.engine import is_valid
from cems.core.recall.terms import terms

_LOOKED_AT = 30


def _stems(words: str) -> frozenset[str]:
    """The keys of these words as they stand in a claim."""
    return frozenset(stem for word in words.split() for stem in terms(word) or [word])


_SCOPING = listed(
    "in on for at to of during under when if while within inside outside from except unless only through via as by with"
)
"""A word more in such a phrase says where or when it holds: `… is off`, `… is off in staging`."""
_BEING = _stems("listen run bind serve set use take need require sit live configure expect equal")
"""Verbs that say no more than `is` before a number."""
_NUMBERED = _stems(
    "# issue pr ticket bug test step phase chapter sprint milestone task shard worker level tier line page section case "
    "example row item layer option error status code http customer order user tenant commit build job run epic story team "
    "room slide migration rfc pep adr"
)
"""What carries its number as a name: another number is another thing."""
_DATE = re.compile(r"\d{4}-\d\d(?:-\d\d)?|(?:19|20)\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_PLANNED = _stems("deadline due freeze expires scheduled planned")
_IS = listed("is are be = 是")
_CHOOSING = _stems("use prefer choose pick adopt")
_PURPOSE = listed("for as")
_FUNCTIONS = _stems(
    "default manager branch database language framework runner owner name provider host region editor shell formatter "
    "linter license format style timezone unit tool library engine registry lead maintainer key path folder directory url "
    "domain bucket channel deadline primary user version model port"
)
"""Nouns of which a thing has one: the default branch, the owner."""
_PLACING = _stems(
    "written stored hosted deployed live kept keep named called owned maintained managed built build formatted linted "
    "licensed default published indent moved migrated switched authenticate sorted hashed go signed"
)
"""Verbs with one answer to where, how or by whom: `stored in`, `written in`, `owned by`."""
_DEPLOY = "deploy"
_NAMED_APART = _stems(
    "production prod staging development dev test ci local windows linux macos mac ubuntu debian ios android frontend "
    "backend client server web mobile api cli ui app release debug monday tuesday wednesday thursday friday saturday sunday"
)
"""Places and parts that hold side by side: what is so in staging may be otherwise in production."""
_MOST_NAMES = 3


def trusted_contradicted(
    connection: sqlite3.Connection, content: str, scopes: Sequence[str], without: Collection[str] = ()
) -> lookup.Row | None:
    """The live, trusted memory of these scopes, valid now, that `content` contradicts, found by its words; None for none.

    For the gateway: a machine's statement is then kept with trust `disputed` and `"conflicts_with": row["id"]` in the
    body of its `remember`; a person's stays trusted, and the outcome's reason names the older memory.
    """
    rows = lookup.keyword_rows(connection, terms(content), scopes, _LOOKED_AT)
    return find_contradiction(
        content, [row for row in rows if row["trust"] == "trusted" and is_valid(row) and row["id"] not in without]
    )


def find_contradiction(content: str, rows: Iterable[lookup.Row]) -> lookup.Row | None:
    """The first of the rows that `content` contradicts; None for none. Pure."""
    stated = list(claims(content))
    for row in rows:
        held = list(claims(row["content"]))
        if any(contradict(one, other) for one in stated for other in held):
            return row
    return None


def contradict(one: Claim, other: Claim) -> bool:
    """Whether the two cannot both hold."""
    common = one.content.keys() & other.content.keys()
    if 2 * len(common) < min(len(one.content), len(other.content)):
        return False
    if one.hedged or other.hedged or one.past != other.past or one.guards != other.guards:
        return False
    return _another_number(one, other) or _the_opposite(one, other) or _another_name(one, other)


def _another_number(one: Claim, other: Claim) -> bool:
    mine, theirs = _keys(one.numbers), _keys(other.numbers)
    first, second = list((mine - theirs).elements()), list((theirs - mine).elements())
    if len(first) != 1 or len(second) != 1 or _opposed(one, other):
        return False
    number = next(word for word in one.numbers if word.key == first[0])
    replaced = next(word for word in other.numbers if word.key == second[0])
    pair = (number, replaced)
    if any(_is_a_name(word) for word in pair) or _is_finer(*pair):
        return False
    if number.precedes != replaced.precedes and number.precedes and replaced.precedes:
        return False
    if len(one.numbers) > 1 and number.follows != replaced.follows:
        return False
    if any(_DATE.fullmatch(word.key) for word in pair) and not (_PLANNED & one.content.keys() & other.content.keys()):
        return False
    if one.past:
        # What was measured or happened once may be otherwise the next time.
        return False
    return _same_subject(one, other, without=_BEING)


def _the_opposite(one: Claim, other: Claim) -> bool:
    same_numbers = _keys(one.numbers) == _keys(other.numbers)
    return same_numbers and bool(_opposed(one, other)) and _same_subject(one, other)


def _another_name(one: Claim, other: Claim) -> bool:
    if _opposed(one, other) or _keys(one.numbers) != _keys(other.numbers) or one.past:
        return False
    mine, theirs = one.words, other.words
    matcher = SequenceMatcher(None, [word.key for word in mine], [word.key for word in theirs], autojunk=False)
    changes = [
        (mine[i:j], theirs[k:m], i, j)
        for kind, i, j, k, m in matcher.get_opcodes()
        if kind != "equal" and any(word.kind != "light" for word in (*mine[i:j], *theirs[k:m]))
    ]
    if len(changes) != 1:
        return False
    first, second, begin, end = changes[0]
    if not all(_are_names(names) for names in (first, second)) or not begin:
        return False
    return _has_one_answer(mine[:begin], mine[end:])


def _are_names(words: Sequence[Word]) -> bool:
    return (
        0 < len(words) <= _MOST_NAMES
        and all(word.kind == "word" and not word.denied for word in words)
        and not _NAMED_APART & {word.key for word in words}
    )


def _has_one_answer(before: Sequence[Word], after: Sequence[Word]) -> bool:
    """Whether only one name can stand between these words."""
    said = {word.key for word in before if word.kind == "word"}
    last = before[-1]
    if last.key in _CHOOSING:
        # `use … for caching`, `for caching use …`; a bare `use …` excludes nothing.
        later = [word for word in after if word.kind == "word"]
        return bool(later and later[0].phrase in _PURPOSE) or before[0].key in _PURPOSE
    if last.key in _IS:
        return bool(said & _FUNCTIONS)
    verb = before[-2].key if len(before) > 1 and last.kind == "light" else last.key
    return verb in _PLACING and (len(said) > 1 or verb == _DEPLOY)


def _same_subject(one: Claim, other: Claim, without: frozenset[str] = frozenset()) -> bool:
    """Whether one sentence speaks of what the other does, and at most adds a little to it."""
    mine = {key: word for key, word in one.content.items() if key not in without}
    theirs = {key: word for key, word in other.content.items() if key not in without}
    common = mine.keys() & theirs.keys()
    more = [word for key, word in (mine | theirs).items() if key not in common]
    if not common or (mine.keys() - common and theirs.keys() - common):
        return False
    return len(more) <= len(common) // 2 and not any(word.phrase in _SCOPING for word in more)


def _opposed(one: Claim, other: Claim) -> set[str]:
    """The words that one sentence says and the other denies."""
    mine, theirs = one.denials, other.denials
    return {key for key in mine.keys() & theirs.keys() if mine[key] != theirs[key]}


def _is_a_name(number: Word) -> bool:
    """`issue 12`, `#12`; not `retry jobs 3 times`."""
    return number.key.startswith("#") or (number.follows in _NUMBERED and number.precedes not in UNITS)


def _is_finer(number: Word, replaced: Word) -> bool:
    """`3.11` and `3.11.2`: the one is the other, said more exactly."""
    shorter, longer = sorted((number.key, replaced.key), key=len)
    return longer.startswith(f"{shorter}.")


def _keys(words: Iterable[Word]) -> Counter[str]:
    return Counter(word.key for word in words)
