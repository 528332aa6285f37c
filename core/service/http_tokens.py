"""Tokens of MCP clients that come over HTTP: each is bound to one project, and only its digest is kept.

`http-tokens.json` (0600) also keeps the port, so that a client's address stays the same. A file that cannot be read admits
nobody.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from cems.core.memories import AmbiguousId, NothingMatched, Unusable
from cems.core.paths import PRIVATE_FILE, Home

_VERSION = 1
_PREFIX = "cems_"
_ID_DIGITS = 8
_MOST = 50
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z")


@dataclass(frozen=True, slots=True)
class Token:
    """`project` is an identity, as in the scope's name; `folder` where the token was made, for the person to know it by."""

    id: str
    name: str
    project: str
    folder: str
    created: str
    digest: str


class TokensDamaged(Exception):
    """The file cannot be read. The message says what to do."""


class HttpTokens:
    """The tokens of one home. What changes them is the daemon, on its event loop."""

    def __init__(self, home: Home) -> None:
        """Read the file. `damage` says why it could not be read; then there is no token."""
        self._path = home.http_tokens
        self.port = 0
        self.all: tuple[Token, ...] = ()
        self.damage = ""
        try:
            self.port, self.all = _read(self._path)
        except TokensDamaged as error:
            self.damage = str(error)

    def bearer(self, token: str) -> Token | None:
        """Whose token this is. Every one is compared, in constant time."""
        digest = _digest(token)
        found = [each for each in self.all if hmac.compare_digest(each.digest, digest)]
        return found[0] if found else None

    def add(self, name: str, project: str, folder: str) -> tuple[Token, str]:
        """Make a token; its text is returned once and kept nowhere. Raises Unusable, TokensDamaged, OSError."""
        if not _NAME.match(name):
            raise Unusable("the name must be 1 to 32 lowercase letters, digits and hyphens, such as my-editor")
        if len(self.all) >= _MOST:
            raise Unusable(f"there are {_MOST} tokens already; `cems mcp revoke ID` ends one")
        text = _PREFIX + secrets.token_urlsafe(32)
        created = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        token = Token(secrets.token_hex(_ID_DIGITS // 2), name, project, folder, created, _digest(text))
        self._write((*self.all, token), self.port)
        return token, text

    def revoke(self, prefix: str, among: Sequence[Token]) -> Token:
        """End the one of these tokens whose id begins so, or whose name is this. Raises NothingMatched, AmbiguousId,
        TokensDamaged, OSError.
        """
        wanted = prefix.strip().lower()
        found = [each for each in among if wanted and (each.id.startswith(wanted) or each.name == wanted)]
        if not found:
            raise NothingMatched(f"no token {wanted[:40]!r}; `cems mcp tokens` lists them")
        if len(found) > 1:
            raise AmbiguousId(f"{wanted} could be {', '.join(each.id for each in found)}; write the id")
        self._write(tuple(each for each in self.all if each.id != found[0].id), self.port)
        return found[0]

    def keep_port(self, port: int) -> None:
        """The port that clients are told, from now on."""
        if port != self.port:
            self._write(self.all, port)

    def _write(self, tokens: tuple[Token, ...], port: int) -> None:
        if self.damage:
            raise TokensDamaged(self.damage)
        document = {"version": _VERSION, "port": port, "tokens": [asdict(each) for each in tokens]}
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
        with os.fdopen(file, "w", encoding="utf-8") as out:
            json.dump(document, out, indent=1)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(self._path)
        self.all, self.port = tokens, port


def public(token: Token) -> dict[str, str]:
    """What may be shown of a token."""
    return {name: value for name, value in asdict(replace(token, digest="")).items() if name != "digest"}


def _digest(token: str) -> str:
    # 256 random bits: there is nothing to guess that a slow hash would protect.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> tuple[int, tuple[Token, ...]]:
    try:
        document = json.loads(path.read_bytes())
        if document["version"] != _VERSION:
            raise ValueError(f"version {document['version']}")
        tokens = tuple(Token(**{name: str(value) for name, value in each.items()}) for each in document["tokens"])
        return int(document["port"]), tokens
    except FileNotFoundError:
        return 0, ()
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise TokensDamaged(
            f"{path} cannot be read ({type(error).__name__}), so no HTTP client is let in; move it away and make new tokens"
        ) from error
