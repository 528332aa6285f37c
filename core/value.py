"""A memory's value: its text in one spelling, and the keyed digest by which a forgotten value is known.

The digest is an HMAC, so that the list of forgotten values holds no copy of them and cannot be guessed at without
the key, which stays in `keys/`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import unicodedata
from pathlib import Path
from typing import NewType

ValueKey = NewType("ValueKey", str)

# Letters of other scripts that are drawn like Latin ones. Folded so that a look-alike cannot slip past a tombstone;
# both sides of every comparison are folded, so real Cyrillic or Greek text still differs where it reads differently.
_LOOK_ALIKES = str.maketrans(
    "аеорсухкмнтвіјѕһԁԛԝьгαεορτυνκιχβηρԍӏ",
    "aeopcyxkmhtbijshdqwbraeoptuvkixbhpgl",
)
_EDGE_PUNCTUATION = " \t.!?…;,:'\"`“”‘’«»()[]{}。！？、，"


def normalise(text: str) -> str:
    """One spelling of a value: NFKC, case folded, white space collapsed, no invisible or direction characters,
    look-alike letters folded, no punctuation at the edges. Text of any script keeps its letters."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    visible = "".join(
        " " if unicodedata.category(c) in ("Zs", "Zl", "Zp", "Cc") else c
        for c in folded
        if unicodedata.category(c) not in ("Cf", "Cs", "Co", "Cn")
        and not unicodedata.name(c, "").startswith("VARIATION SEL")
    )
    collapsed = " ".join(visible.translate(_LOOK_ALIKES).split())
    # A value that is nothing but punctuation keeps it: it must not share the empty value's key.
    return collapsed.strip(_EDGE_PUNCTUATION) or collapsed


def value_key(key: bytes, scope: str, text: str) -> ValueKey:
    """Hex HMAC-SHA256 of scope and normalised value. The scope's length is part of the message, so no two pairs meet."""
    scope_bytes = scope.encode("utf-8", "surrogatepass")
    message = len(scope_bytes).to_bytes(4, "big") + scope_bytes + normalise(text).encode("utf-8", "surrogatepass")
    return ValueKey(hmac.new(key, message, hashlib.sha256).hexdigest())


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
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    return data
