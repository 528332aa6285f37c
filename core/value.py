"""A memory's value: its text in one spelling, and the keyed digest by which a forgotten value is known.

The digest is an HMAC, so that the list of forgotten values holds no copy of them and cannot be guessed at without
the key, which stays in `keys/`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import NewType

ValueKey = NewType("ValueKey", str)

# Letters drawn like Latin ones, so that a look-alike cannot slip past a tombstone. Both sides of every comparison are
# folded, and within one script no two letters fold to the same one: real Cyrillic or Greek still differs where it reads
# differently. Keys of forgotten values are kept for ever: changing a table needs a new key kind, not an edit.
_LOOK_ALIKES = str.maketrans(
    "аеорсухкмтіјѕһԁԛԝьгӏԍѵ" "αβγεηικνορτυχω" "ոսօհցզ" "ɑɡıᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ",
    "aeopcyxkmtijshdqwbrlgv" "abyenikvoptuxw" "nuohgq" "agiabcdefghijklmnoprstuvwyz",
)  # fmt: skip
# Capitals whose small letter is drawn otherwise: read as Latin only inside a word that has Latin letters.
_CAPITALS = str.maketrans("ΗΜΝΥΖВНҮ", "HMNYZBHY")
_WORD = re.compile(r"[^\W\d_]+")
_LATIN = re.compile("[A-Za-z]")
# Default_Ignorable_Code_Point of Unicode, and noncharacters: fixed ranges, so that the key of a text stays the same
# when a newer Python knows more characters.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\ufdd0-\ufdef\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\u0600-\u0605\u06dd\u070f\u08e2\ud800-\udfff\ue000-\uf8ff\U000f0000-\U0010ffff\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]"
)
_EDGE_PUNCTUATION = " \t.!?…;,:'\"`“”‘’«»()[]{}。！？、，"
_MOST_PASSES = 8


def normalise(text: str) -> str:
    """One spelling of a value: NFKC, case folded, white space collapsed, no invisible, control or direction characters,
    look-alike letters folded, no punctuation at the edges. Text of any script keeps its letters. Idempotent."""
    for _ in range(_MOST_PASSES):
        # What one step takes away can let the next one compose: `e`, zero-width joiner, accent.
        folded = _fold(text)
        if folded == text:
            break
        text = folded
    # A value that is nothing but punctuation keeps it: it must not share the empty value's key.
    return text.strip(_EDGE_PUNCTUATION) or text


def has_visible_text(text: str) -> bool:
    """Whether anything is left of the text without white space and invisible characters."""
    return bool(normalise(text))


def _fold(text: str) -> str:
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).replace("\u2800", " ")
    if not text.isascii():
        text = _WORD.sub(lambda word: _latin_capitals(word.group()), text)
    text = text.casefold().translate(_LOOK_ALIKES)
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _latin_capitals(word: str) -> str:
    return word.translate(_CAPITALS) if _LATIN.search(word) else word


def value_key(key: bytes, scope: str, text: str) -> ValueKey:
    """Hex HMAC-SHA256 of scope and normalised value. The scope's length is part of the message, so no two pairs meet."""
    return value_keys(key, (scope,), text)[0]


def value_keys(key: bytes, scopes: Iterable[str], text: str) -> list[ValueKey]:
    """The same value's key in each scope, in their order."""
    value = normalise(text).encode("utf-8", "surrogatepass")
    encoded = (scope.encode("utf-8", "surrogatepass") for scope in scopes)
    messages = (len(scope).to_bytes(4, "big") + scope + value for scope in encoded)
    return [ValueKey(hmac.new(key, message, hashlib.sha256).hexdigest()) for message in messages]


class KeyLost(Exception):
    """The journal exists but its key does not: forgotten values could not be recognised any more."""


def load_value_key(folder: Path, *, create: bool) -> bytes:
    """The 32-byte key of this CEMS_HOME, made (0600) where there is none yet and `create` allows it.

    Raises KeyLost when it is missing beside an existing journal: a new key would silently void every tombstone.
    """
    path = folder / "value.key"
    try:
        data = path.read_bytes()
        if len(data) == 32:
            return data
        raise KeyLost(f"{path} is damaged ({len(data)} bytes, not 32); restore it from a backup")
    except FileNotFoundError:
        if not create:
            raise KeyLost(
                f"{path} is missing: forgotten values cannot be recognised; restore it from a backup"
            ) from None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    data = secrets.token_bytes(32)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    # The journal is durable at once; a key that a power failure can still take away would void its tombstones.
    for each in (folder, folder.parent):
        _sync_folder(each)
    return data


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
