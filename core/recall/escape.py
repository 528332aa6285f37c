"""Stored text made harmless for a prompt: it cannot close our fence, open another, hide anything or end in half a character.

Light.
"""

from __future__ import annotations

import re
import unicodedata

from cems.core.value import normalise

_LINE_ENDS = re.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
# Control characters; direction marks; and what is drawn as nothing, in which text for the model alone could hide.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_ANGLE = re.compile("[<\u02c2\u1438\u2039\u2329\u276e\u27e8\u3008\ufe64\uff1c](?P<next>.{0,40})", re.DOTALL)
_LETTERS = re.compile(r"[a-z]+")
_FOREIGN = re.compile(r"[^\x00-\x7f].*", re.DOTALL)
# Tags that agents give a meaning: ours, and those their own programs write into prompts.
_TAGS = (
    "cems", "systemreminder", "systemmessage", "tasknotification", "localcommand", "commandname", "commandmessage",
    "commandargs", "commandcontents", "bashinput", "bashstdout", "bashstderr", "persistedoutput", "environmentcontext",
    "userinstructions", "turncontext", "hookcontext", "functioncalls", "functionresults", "antml",
)  # fmt: skip
_OUR_HEAD = re.compile(r"^([ \t]*(?:[-*+][ \t]*)?)\[(?=\s*m_)", re.MULTILINE)
_JOINER = "\u200d"
_LONGEST_CHARACTER = 64
_WORD_REACH = 80


def escape(text: str) -> str:
    """The text with its lines, without what cannot be seen, and with every tag that means something made plain."""
    visible = text.encode("utf-8", "replace").decode("utf-8")
    visible = _UNSEEN.sub(" ", _LINE_ENDS.sub("\n", visible))
    return _OUR_HEAD.sub(r"\1(", _without_tags(visible)).strip()


def cut(text: str, most: int) -> str:
    """At most `most` code points of the text: whole words, and always whole characters, however many points they have."""
    if len(text) <= most:
        return text
    reach = max(0, most - _WORD_REACH)
    space = max(text.rfind(end, reach, most + 1) for end in (" ", "\n", "\t"))
    if space > reach:
        return text[:space].rstrip()
    at = most
    while at > max(0, most - _LONGEST_CHARACTER) and _inside_character(text, at):
        at -= 1
    return text[:at].rstrip()


def _without_tags(text: str) -> str:
    parts: list[str] = []
    position = 0
    while match := _ANGLE.search(text, position):
        parts.append(text[position : match.start()])
        parts.append("&lt;" if _names_a_tag(match["next"]) else match.group()[0])
        position = match.start() + 1
    return "".join((*parts, text[position:]))


def _names_a_tag(following: str) -> bool:
    """Whether the letters after an angle spell such a tag in any case, script, spacing or decoration."""
    latin = "".join(_LETTERS.findall(_FOREIGN.sub("", following).lower()))
    if latin and not any(tag.startswith(latin) for tag in _TAGS):
        return latin.startswith(_TAGS)
    bare = "".join(c for c in unicodedata.normalize("NFKD", following) if not unicodedata.category(c).startswith("M"))
    return "".join(_LETTERS.findall(normalise(bare))).startswith(_TAGS)


def _inside_character(text: str, at: int) -> bool:
    """Whether the text would be cut between the code points of one visible character."""
    following = text[at]
    if text[at - 1] == _JOINER or following == _JOINER:
        return True
    if unicodedata.category(following) in ("Mn", "Me", "Mc") or "\U0001f3fb" <= following <= "\U0001f3ff":
        return True
    if not _is_flag_half(following):
        return False
    halves = 0
    while halves < at and _is_flag_half(text[at - 1 - halves]):
        halves += 1
    return halves % 2 == 1


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
