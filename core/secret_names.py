"""Secrets without a shape of their own, found beside the name they are given: `password=…`, `FOO_TOKEN: …`, `--api-key …`.

Names are judged by their words, values by what they could otherwise be: a placeholder, a reference to a variable, a type,
a path, an identifier, a word of prose. Nothing is redacted for its entropy alone.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, Literal

from cems.core.redact import MARKER, Finding

Category = Literal["password", "secret", "token", "api-key"]
# How the value is written: shell or .env line, `a=b` in a URL or connection string, `a = b` in code or ini, `a: b`,
# a command's option, a sentence.
Style = Literal["env", "compact", "spaced", "colon", "flag", "prose"]

_NAMES: tuple[tuple[Category, str], ...] = (
    ("password", r"pass(?:word|wd|phrase|code)|(?<=.)pass|pwd|pswd|^pw|passwort|keypass|storepass|contrase[nñ]a"),
    ("api-key", r"(?:api|app|access|secret|secretaccess|private|priv|auth|service|account|db|database|client|encryption|signing"
     r"|signature|master|shared|sharedaccess|storage|license|jwt|hmac|session|cookie|deploy|consumer|subscription|webhook|crypt"
     r"|cipher|aes|root|admin|user|project|ssh|gpg|token|fernet|bearer)keys?|clientkeydata|wgkey|presharedkey|keybase64"),
    ("secret", r"secret|credentials?|connectionstring|mnemonic|seedphrase"),
    ("token", r"(?<!next)(?<!page)(?<!pad)(?<!eos)(?<!bos)(?<!unk)(?<!cls)(?<!sep)(?<!mask)(?<!special)(?<!continuation)(?<!start)"
     r"(?<!end)(?<!first)(?<!last)(?<!max)(?<!min)(?<!stop)(?<!design)(?<!color)(?<!sync)token|jwt|bearer|authorization|_?auth"),
)  # fmt: skip
_WORD = re.compile(r"[A-Z]+(?![a-zñ])|[A-Z]?[a-zñ]+|\d+")
# Words after the telling one that leave the value a secret; any other (`password_policy`, `token_count`) makes it none.
_SUFFIXES = frozenset((
    "prod", "production", "dev", "development", "stage", "staging", "test", "testing", "live", "sandbox", "local",
    "value", "val", "raw", "plain", "plaintext", "text", "txt", "old", "new", "current", "primary", "secondary",
    "backup", "default", "string", "base", "b64", "base64", "bytes", "hex", "encoded", "encrypted", "enc", "salt",
    "data", "main", "admin", "user", "root",
))  # fmt: skip

_OPEN = r"""(?:\\{0,4}["'`]|[\])]){0,3}"""
_ASSIGNMENT = re.compile(
    rf"(?<![A-Za-z0-9_.$-])(?P<name>[A-Za-zñ_$.-][A-Za-z0-9ñ_.$-]{{1,120}}){_OPEN}"
    r"(?P<before>[ \t]{0,40})(?:(?P<colon>::?(?!=))|(?P<equal>=>|:=|\?=|[!=]?={1,3}))(?P<after>\s{0,40})"
)
# Between a name and its value in typed code: `password: str = "…"`, `const char *token[32] = …`.
_TYPE = re.compile(
    r"(?:Optional\[)?(?:str|string|String|bytes|SecretStr|&str|&'static str|char)\]?(?: \| (?:None|null|undefined))?\s{0,4}=\s{0,4}"
)
_FLAG = re.compile(r"(?<![A-Za-z0-9_-])--?(?P<name>[a-z][a-z0-9-]{2,60})[ \t]{1,8}(?=[^\s-])")
_PROSE = re.compile(
    r"(?i)(?<![A-Za-z0-9_])(?P<name>password|passphrase|passcode|pwd|secret|token|api[ _-]?key|access[ _-]?key|secret[ _-]?key)"
    r"(?:\s{1,4}(?:for|of|to|on)\s{1,4}[^\n.:;,]{1,60}?)?"
    r"(?:\s{1,4}(?:is|was|are|to|as)(?:\s{1,4}(?:now|still|set to|just))?:?|\s{0,4}[=:]|(?=\s{1,4}[\"'`]))\s{1,4}(?=\S)"
)
_QUOTED = re.compile(
    r"""(?P<escape>\\{0,4})(?P<quote>["'`])(?P<value>(?:(?!(?P=escape)(?P=quote))[^\n]){0,4000})(?P=escape)(?P=quote)"""
)
_PREFIXED_QUOTE = re.compile(r"""(?:[rbfu]{1,2}|@|\$)?(?=\\{0,4}["'`])|(?:[A-Za-z_.]{0,40}\()(?=\\{0,4}["'`])""")
_BARE = re.compile(r"""(?:(?!\\{1,4}[nrt"'`])[^\s"'`<>&,;|])+""")
_BARE_ENV = re.compile(r"""(?:(?!\\{1,4}[nrt"'`])[^\s"'`])+""")

_PLACEHOLDER = re.compile(
    r"(?ix) [<{\[(%&*@!#].* | \$.* | .*(?:\.\.\.|…|\*\*\*|\$\{|\{\{|%\(|xxxx|____).* | [x*.\-_#0?•]+"
    r" | (?:your|my|the|some|insert|enter|replace|add|put)[-_ ].* | .*(?:[-_]here|_goes_here|[-_]placeholder|example|changeme|change[-_]me|change[-_]it)"
    r" | (?:process\.env|os\.environ|os\.getenv|env|secrets|vars|import\.meta|config|settings|credentials|self|this|keyring|ctx|args|options|opts|params|req|request|res|response|data)[.\[(:].*"
    r" | (?:op|vault|file|https?|ssm|secretsmanager|arn|keychain|keyring|gcp|sops|ref):.*"
    r" | password\d?|passwd|passphrase|pass|pwd|secret|token|key|apikey|api[-_]key|access[-_]?token|credentials?|hidden|masked|redacted|removed|omitted"
    r" | test|testing|foo|bar|baz|foobar|dummy|fake|sample|demo|placeholder|todo|tbd|n/?a|none|null|nil|undefined|empty|unset|default|optional"
    r" | required|true|false|yes|no|on|off|enabled|disabled|string|str|text|int|integer|number|bool|boolean|bytes|buffer|object|array|any|never|void"
    r" | unknown|uuid|secretstr|optional|include|omit|same-origin|user:pass(?:word)?|username|root|admin|invalid|incorrect|expired|missing|wrong|valid"
    r" | ok|changed|reset|updated|stored|saved|sent|generated|rotated|revoked|encrypted|hashed|bearer|basic|digest|authentication|authorization|token-based"
)
_SECRETLIKE_WORDS = frozenset((
    "password", "passwords", "passwd", "passphrase", "pass", "pwd", "secret", "secrets", "token", "tokens", "key",
    "keys", "credential", "credentials", "auth", "name", "names", "id", "ids", "value", "field", "input", "param",
    "arg", "your", "my", "example", "sample", "placeholder", "tls", "cert", "certs", "certificate", "config",
    "file", "path", "env", "var", "csrf",
))  # fmt: skip
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z_$]*\d{0,2}(?:\[\w*\])?[!?]?")
_KEBAB = re.compile(r"[A-Za-z]+(?:[-_./:][A-Za-z]+)+\d{0,2}")
_DOTTED = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)+[!?]?")
_CALL = re.compile(r"(?:await |new |not )?[A-Za-z_$@!][\w$.:>?-]*[(\[{].*", re.DOTALL)
_FILE = re.compile(r"[\w.-]{1,80}\.(?:pem|key|txt|json|ya?ml|toml|env|crt|cer|pub|p12|py|ts|js|go|rs|sh)")
_HASH_LABEL = re.compile(
    r"(?i)(?:sha\d{1,3}|md\d|blake\w{1,3}|argon\w{0,3}|ssh-\w+|ecdsa-\S+|ed\d+|p-?\d{3}|[hrep]s\d{3}|aes\S*|pbkdf\d?\S*|rsa-?\d*|utf-?\d+"
    r"|base\d{2}|oauth\d?|http\d?|ipv\d|x\.?509|pkcs\d+|[a-z]\d{1,2}[a-z]?|python\d|node\d+|v\d+(?:\.\d+)*)(?:[:_-].*)?"
)
_FOREIGN_END = re.compile(r"[^\x00-\x7f].*", re.DOTALL)
_TELLING = re.compile(
    r"(?i)pass|pwd|pswd|(?<![A-Za-z])pw|key|secret|credential|token|auth|jwt|bearer|connectionstring|connection_string|mnemonic|seed|contrase"
)
_SHELL_STARTS = ("\n", "export ", "set ", "env ", "ENV ", "ARG ", "-e ", "\\n", "$env:")
# A value written without quotes that was looked at whole and refused is not looked into again beyond this length.
_LONG_BARE = 200
_Value = tuple[int, int, bool]


def find(text: str) -> Iterator[Finding]:
    """Findings in no order; they may overlap."""
    if not _TELLING.search(text):
        return
    done = 0
    for match in _ASSIGNMENT.finditer(text):
        category = _category(match["name"]) if match.start() >= done else None
        if category:
            low, high, accepted = _assigned(text, match, category)
            if accepted:
                yield Finding(low, high, category, 400)
            if accepted or high - low > _LONG_BARE:
                done = high
    styles: tuple[tuple[re.Pattern[str], Style], ...] = ((_FLAG, "flag"), (_PROSE, "prose"))
    for pattern, style in styles:
        for match in pattern.finditer(text):
            category = _category(match["name"])
            low, high, accepted = _value(text, match.end(), category, style) if category else (0, 0, False)
            if accepted and category:
                yield Finding(low, high, category, 400)


def looks_random(value: str) -> bool:
    """Whether `value` could be machine-made: long enough, of letters and digits, and not a word with a number."""
    letters = sum(character.isalpha() for character in value)
    digits = sum(character.isdigit() for character in value)
    if len(value) < 8 or not letters or is_placeholder(value):
        return False
    if digits:
        return not re.fullmatch(r"[A-Za-z]+[-_.]?\d{1,4}[a-z]*(?:[-_.][a-z]+)*", value) and not _HASH_LABEL.fullmatch(
            value
        )
    mixed = value != value.lower() and value != value.upper()
    return len(value) >= 20 and mixed and entropy(value) > 3.8 and not _KEBAB.fullmatch(value) and not _humps(value)


def is_placeholder(value: str) -> bool:
    """Whether `value` stands for a secret rather than being one."""
    return (
        not value.strip()
        or len(set(value)) < 3
        or bool(_PLACEHOLDER.fullmatch(value))
        or bool(MARKER.search(value))
        or "[redacted" in value.lower()
        or _library_filters(value)
    )


def entropy(value: str) -> float:
    """Shannon entropy in bits a character over the base64 alphabet, as detect-secrets counts it."""
    return float(_entropy_plugin().calculate_shannon_entropy(value))


@cache
def _entropy_plugin() -> Any:
    from detect_secrets.plugins.high_entropy_strings import Base64HighEntropyString

    return Base64HighEntropyString()


def _library_filters(value: str) -> bool:
    from detect_secrets.filters import heuristic

    return bool(heuristic.is_templated_secret(value)) or (
        len(value) > 5 and bool(heuristic.is_sequential_string(value))
    )


@cache
def _names() -> tuple[tuple[Category, re.Pattern[str]], ...]:
    from detect_secrets.plugins.keyword import DENYLIST

    # The library's words count too, for a name it knows and we do not.
    compiled = [(category, re.compile(rf"(?:{words})\Z")) for category, words in _NAMES]
    return (*compiled, ("secret", re.compile(rf"(?:{'|'.join(DENYLIST)})\Z")))


@lru_cache(maxsize=4096)
def _category(name: str) -> Category | None:
    if not _TELLING.search(name):
        return None
    words = [word.lower() for word in _WORD.findall(name[-80:])]
    while len(words) > 1 and (words[-1] in _SUFFIXES or words[-1].isdigit()):
        words.pop()
    if len(words) == 1 and words[0] == "pass":
        return "password" if name.isupper() else None
    joined = "".join(words)
    if "public" in joined:
        return None
    return next((category for category, pattern in _names() if pattern.search(joined)), None)


def _assigned(text: str, match: re.Match[str], category: Category) -> _Value:
    name, place = match["name"], match.end()
    if "\n" in match["after"]:
        return place, place, False
    style: Style = "spaced"
    if match["colon"]:
        style = "colon"
        typed = _TYPE.match(text, place)
        if typed:
            place, style = typed.end(), "spaced"
    elif not match["before"] and not match["after"]:
        before = text[max(0, match.start() - 8) : match.start()]
        starts_line = not before.strip(" \t") or before.endswith(_SHELL_STARTS)
        style = "env" if name.upper() == name or starts_line else "compact"
    return _value(text, place, category, style, name, match.start())


def _value(text: str, place: int, category: Category, style: Style, name: str = "", start: int = 0) -> _Value:
    """The value that begins at `place`, and whether it is a secret."""
    prefix = _PREFIXED_QUOTE.match(text, place)
    quoted = _QUOTED.match(text, prefix.end() if prefix else place)
    if quoted:
        low, high = quoted.span("value")
        called = prefix and "(" in prefix[0] and not prefix[0].lower().startswith(("secretstr", "str", "string"))
        return (
            low,
            place if called else high,
            not called and _is_secret(category, style, name, text[low:high], quoted=True),
        )
    bare = (_BARE if style == "compact" else _BARE_ENV).match(text, place, place + 4000)
    if not bare:
        return place, place, False
    if bare[0].startswith("[redacted:"):
        return place, bare.end(), False
    value = bare[0].rstrip(".,;:!?)]}" if style != "env" else ",;")
    end = place + len(value)
    if style == "colon" and not re.search(r"\d", value) and not _fills_line(text, start, end):
        return place, bare.end(), False
    if style == "compact" and text[end : end + 1] in (",", ")") and _IDENTIFIER.fullmatch(value):
        return place, bare.end(), False
    return place, end, _is_secret(category, style, name, value, quoted=False)


def _fills_line(text: str, start: int, end: int) -> bool:
    """Whether a name and its value are all that a line holds, as in YAML."""
    before = text[text.rfind("\n", max(0, start - 40), start) + 1 : start] if start > 0 else ""
    after = text[end : end + 2]
    return not before[-40:].strip(" \t-\"'>|") and (not after or after[0] in "\r\n")


@lru_cache(maxsize=4096)
def _is_secret(category: Category, style: Style, name: str, value: str, *, quoted: bool) -> bool:
    if len(value) < 4 or is_placeholder(value) or value.lower() == name.lower() or _docker_auth(name, value):
        return bool(value) and _docker_auth(name, value)
    if _stands_for_something_else(value, style, quoted=quoted):
        return False
    digits = any(character.isdigit() for character in value)
    letters = any(character.isalpha() for character in value)
    if category in ("token", "api-key"):
        return _is_token(style, value, quoted=quoted, digits=digits, letters=letters, name=name)
    if any(character.isspace() for character in value):
        words = {word.lower() for word in _WORD.findall(value)}
        return not words & _SECRETLIKE_WORDS and (
            (bool(re.search(r"(?i)phrase|mnemonic|seed", name)) and len(value.split()) >= 4)
            or (style == "env" and quoted and name.isupper() and len(value.split()) <= 6)
        )
    if style == "prose":
        return _prose_password(value, quoted=quoted, digits=digits)
    if value.isalpha():
        # `password: string`, `secret = clientSecret`: a word alone is a secret only where nothing else is written so.
        words = {word.lower() for word in _WORD.findall(value)}
        if words & _SECRETLIKE_WORDS or len(value) < 6 - 2 * (style == "env"):
            return False
        return quoted or style == "env" or (style in ("compact", "colon") and not value[0].isupper())
    if not digits and category == "secret" and _KEBAB.fullmatch(value):
        return False
    if not letters:
        return digits and (style in ("env", "flag", "compact") or quoted) and category == "password"
    return True


def _is_token(style: Style, value: str, *, quoted: bool, digits: bool, letters: bool, name: str) -> bool:
    if not letters or any(character.isspace() for character in value):
        return False
    value = _FOREIGN_END.sub("", value)
    if style == "prose":
        return looks_random(value) and len(value) >= 12
    if digits and (quoted or style in ("env", "flag", "colon", "compact")):
        return len(value) >= 6 + 2 * (style != "env") and not _HASH_LABEL.fullmatch(value)
    if style == "env" and name.isupper() and value.isalpha():
        return len(value) >= 8 and entropy(value) > 2.5
    return looks_random(value) and len(value) >= 12


def _prose_password(value: str, *, quoted: bool, digits: bool) -> bool:
    value = _FOREIGN_END.sub("", value)
    symbols = bool(re.search(r"[^\w\s.,:;-]", value))
    if _HASH_LABEL.fullmatch(value) or not re.search(r"[A-Za-z]", value):
        return False
    if quoted:
        return digits or symbols
    kinds = digits + symbols + (value != value.lower()) + (value != value.upper())
    if digits and len(value) >= 6 and re.fullmatch(r"[A-Za-z]{3,}\d{1,6}[!?]*", value):
        return True
    return len(value) >= 8 and digits and kinds >= 3 and not re.fullmatch(r"[A-Za-z]+-?\d+(?:[-/][A-Za-z]+)*", value)


def _stands_for_something_else(value: str, style: Style, *, quoted: bool) -> bool:
    """Code that yields the secret, a place that holds it, or a name for it."""
    if not quoted and style != "env" and (_CALL.fullmatch(value) or _DOTTED.fullmatch(value)):
        return True
    if not quoted and style == "env" and re.fullmatch(r"[A-Za-z_.]+\(.*\)?", value):
        return True
    if "://" in value or _is_path(value):
        return True
    if (
        not quoted
        and style in ("spaced", "compact")
        and _IDENTIFIER.fullmatch(value)
        and ("_" in value or _humps(value))
    ):
        return True
    if _KEBAB.fullmatch(value) or _humps(value):
        words = {word.lower() for word in _WORD.findall(value)}
        return bool(words & _SECRETLIKE_WORDS)
    return False


def _humps(value: str) -> bool:
    """camelCase or PascalCase: an identifier. Its words are long, or random letters would pass."""
    words = _WORD.findall(value.rstrip("0123456789"))
    return value.isalnum() and len(words) > 1 and len(value) / len(words) >= 3.5 and not any(w.isdigit() for w in words)


def _is_path(value: str) -> bool:
    if _FILE.fullmatch(value):
        return True
    parts = re.split(r"[/\\]", value)
    if len(parts) < 2 or not all(re.fullmatch(r"[\w.@+ ~:-]{0,60}", part) for part in parts):
        return False
    # Base64 has slashes too, but its pieces are no words.
    words = sum(bool(re.fullmatch(r"[.A-Z]?[a-z_.-]*\d{0,2}[a-z.]*|[A-Z]+:?", part)) for part in parts)
    rooted = value.startswith(("/", "~/", "./", "../"))
    return words == len(parts) or (rooted and words >= len(parts) - 1)


def _docker_auth(name: str, value: str) -> bool:
    """`"auth": "<base64 of user:password>"`, as in `~/.docker/config.json` and `.npmrc`."""
    return name.lower().strip("_.") == "auth" and is_basic(value)


def is_basic(value: str) -> bool:
    """Whether this is base64 of `user:password`."""
    if not re.fullmatch(r"[A-Za-z0-9+/]{8,2000}={0,2}", value) or len(value) % 4:
        return False
    try:
        return bool(re.fullmatch(rb"[!-9;-~]{1,200}:[ -~]{3,}", base64.b64decode(value)))
    except (binascii.Error, ValueError):
        return False
