"""Secrets that are known by their shape: vendors' tokens, private keys, credentials in URLs and headers.

Half of the knowledge is detect-secrets' (its plugins' expressions, run on short pieces of lines as that library does; some
of them need quadratic time on long ones). The other half is what version 1.5 lacks. Every expression is tried only
where a literal part of it stands, and is bounded or possessive, so that any text is searched in linear time.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from cems.core.redact import MARKER, Finding
from cems.core.secret_names import is_basic, is_placeholder, looks_random

Accept = Callable[[str], bool]

# Kind, prefixes, what follows: tokens that say themselves what they are.
_TOKENS = r"""
airtable-token      pat                                         [A-Za-z0-9]{14}\.[a-f0-9]{64}
alibaba-key         LTAI                                        (?=[A-Za-z]{0,24}\d)[A-Za-z0-9]{16,26}(?![A-Za-z0-9_-])
anthropic-key       sk-ant-                                     [A-Za-z0-9_-]{20,}+
artifactory-token   AKC                                         [A-Za-z0-9]{60,}+
atlassian-token     ATATT3,ATCTT3                               [A-Za-z0-9_=-]{50,}+
aws-access-key      AKIA                                        [A-Z0-9]{16}(?![A-Za-z0-9])
aws-bedrock-key     ABSK                                        [A-Za-z0-9+/=]{80,}+
aws-session-token   FwoGZXIvYXdz,IQoJb3JpZ2lu                   [A-Za-z0-9+/=%]{60,}+
buildkite-token     bkua_,bkct_                                 [A-Za-z0-9_-]{20,}+
circleci-token      CCIPAT_                                     [A-Za-z0-9_-]{20,}+
crates-token        cio                                         [A-Za-z0-9]{32}(?![A-Za-z0-9_-])
databricks-token    dapi                                        [a-f0-9]{32}(?:-\d)?(?![A-Za-z0-9_-])
digitalocean-token  dop_v1_,doo_v1_,dor_v1_                     [a-f0-9]{64}
docker-token        dckr_pat_,dckr_oat_                         [A-Za-z0-9_-]{20,}+
doppler-token       dp.pt.,dp.st.,dp.ct.,dp.sa.,dp.scim.        [A-Za-z0-9._-]{40,}+
figma-token         figd_,figu_                                 [A-Za-z0-9_-]{20,}+
fly-token           fm2_,fm1r_,fo1_                             [A-Za-z0-9_+/=,-]{20,}+
github-token        ghp_,gho_,ghu_,ghs_,ghr_                    [A-Za-z0-9_]{36,}+(?:\.[A-Za-z0-9_-]{10,}+)*+
github-token        github_pat_                                 \w{22,}+
gitlab-token        glpat-,gldt-,glft-,glsoat-,glrt-            [A-Za-z0-9_-]{20,}+(?:\.[A-Za-z0-9_-]{6,}+)*+
gitlab-token        glcbt-,glptt-,glimt-,glagent-,gloas-        [A-Za-z0-9_-]{20,}+
google-key          AIza                                        [A-Za-z0-9_-]{35,}+
google-oauth        ya29.,GOCSPX-,1//0                          [A-Za-z0-9_-]{20,}+
grafana-token       glsa_,glc_                                  [A-Za-z0-9+/=_-]{20,}+
groq-key            gsk_                                        [A-Za-z0-9]{40,}+
heroku-key          HRKU-                                       [A-Za-z0-9_-]{30,}+
huggingface-token   hf_,api_org_                                [A-Za-z0-9]{30,}+(?![A-Za-z0-9_-])
jwt                 eyJ  [A-Za-z0-9_-]{10,600}\.(?:eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)*+|[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_.-]{16,}+)
langsmith-key       lsv2_pt_,lsv2_sk_                           [A-Za-z0-9_-]{20,}+
linear-key          lin_api_,lin_oauth_                         [A-Za-z0-9_-]{20,}+
mapbox-token        sk.eyJ                                      [A-Za-z0-9_-]{20,}+(?:\.[A-Za-z0-9_-]++)*+
netlify-token       nfp_                                        [A-Za-z0-9_-]{20,}+
newrelic-key        NRAK-,NRII-                                 [A-Za-z0-9_-]{20,}+
notion-token        ntn_                                        [A-Za-z0-9]{40,}+
npm-token           npm_                                        [A-Za-z0-9]{36}(?![A-Za-z0-9_-])
onepassword-key     A3-     [A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}
onepassword-token   ops_eyJ                                     [A-Za-z0-9+/=_-]{50,}+
openai-key          sk-                                         [A-Za-z0-9]{32,}+(?![A-Za-z0-9_-])
openai-key          sk-proj-,sk-svcacct-,sk-admin-,sk-None-     [A-Za-z0-9_-]{20,}+
openrouter-key      sk-or-                                      [A-Za-z0-9_-]{20,}+
perplexity-key      pplx-                                       [A-Za-z0-9]{32,}+
pinecone-key        pcsk_                                       [A-Za-z0-9_-]{20,}+
planetscale-token   pscale_tkn_,pscale_pw_,pscale_oauth_        [A-Za-z0-9_.-]{20,}+
postman-key         PMAK-                                       [A-Za-z0-9_-]{20,}+
pulumi-token        pul-                                        [a-f0-9]{40}(?![A-Za-z0-9_-])
pypi-token          pypi-AgE                                    [A-Za-z0-9_-]{40,}+
replicate-token     r8_                                         [A-Za-z0-9]{37}
rubygems-key        rubygems_                                   [a-f0-9]{48}
sentry-token        sntrys_,sntryu_                             [\w+/=]{40,}+
shopify-token       shpat_,shpca_,shppa_,shpss_                 [a-fA-F0-9]{32}
slack-token         xoxb-,xoxa-,xoxp-,xoxe-,xoxe.,xoxo-         [A-Za-z0-9%./+=-]{10,}+
slack-token         xoxr-,xoxs-,xoxc-,xoxd-,xapp-               [A-Za-z0-9%./+=-]{10,}+
stripe-key          sk_live_,rk_live_,sk_test_,rk_test_         [A-Za-z0-9]{16,}+
stripe-webhook      whsec_                                      [A-Za-z0-9+/=]{20,}+
supabase-key        sbp_,sb_secret_                             [A-Za-z0-9_-]{20,}+
tailscale-key       tskey-                                      [A-Za-z0-9_-]{20,}+
twilio-key          SK,AC                                       [a-f0-9]{32}(?![A-Za-z0-9_-])
vault-token         hvs.,hvb.,hvr.                              [A-Za-z0-9_-]{20,}+
vercel-token        vcp_,vck_,vercel_blob_rw_                   [A-Za-z0-9_-]{20,}+
xai-key             xai-                                        [A-Za-z0-9]{40,}+
password-hash       $2a$,$2b$,$2x$,$2y$                         \d\d\$[./A-Za-z0-9]{53}
password-hash       $argon2id$,$argon2i$,$argon2d$              [A-Za-z0-9$=,+/]{40,}+
password-hash       $5$,$6$,$y$                                 [./A-Za-z0-9$=]{40,}+
"""


class _Shape(NamedTuple):
    """`pattern` is matched `back` characters before each of `hints` (in lower case); its group `v` is the secret.

    `near` has to stand before it on the same line.
    """

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    accept: Accept
    back: int = 0
    near: re.Pattern[str] | None = None
    starts_word: bool = True


def _varied(value: str) -> bool:
    """Not an example: one letter repeated (`sk-ant-xxxxxxxx`), or a word that says so."""
    return not re.search(r"([A-Za-z0-9*.])\1{7}|(?i:your[_-]|example[_-]|placeholder)", value[:400])


def _mixed(value: str) -> bool:
    return looks_random(value) and _varied(value)


def _real(value: str) -> bool:
    return not is_placeholder(value)


def _bot_token(value: str) -> bool:
    return _varied(value) and all(re.search(k, value.partition(":")[2]) for k in ("[a-z]", "[A-Z]", r"\d"))


def _prefixed(row: str) -> _Shape:
    kind, prefixes, tail = row.split(None, 2)
    starts = "|".join(re.escape(prefix) for prefix in prefixes.split(","))
    hints = tuple(prefix.lower() for prefix in prefixes.split(","))
    return _Shape(kind, hints, re.compile(rf"(?:{starts}){tail}"), _mixed if prefixes == "sk-" else _varied)


def _around(kind: str, hints: str, pattern: str, accept: Accept = _varied, back: int = 0, near: str = "") -> _Shape:
    before = re.compile(near, re.IGNORECASE) if near else None
    return _Shape(kind, tuple(hints.split("|")), re.compile(pattern), accept, back, before, starts_word=False)


_AROUND = (
    _around("slack-webhook", "hooks.slack", r"(?i)hooks\.slack(?:-gov)?\.com/(?P<v>[a-z]{5,10}/[A-Za-z0-9_/-]{16,}+)"),
    _around("discord-webhook", "/webhooks/", r"/webhooks/(?P<v>\d{15,25}/[A-Za-z0-9_-]{40,}+)", near="discord"),
    _around("age-key", "age-secret-key-", r"(?i)AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{50,}+"),
    _around("kubeadm-token", "--token", r"--token[ =](?P<v>[a-z0-9]{6}\.[a-z0-9]{16})(?![a-z0-9])", near="kubeadm"),
    _around("terraform-token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}+", back=14),
    _around("azure-devops-token", "azdo", r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}(?![A-Za-z0-9])", back=76),
    _around("azure-secret", "q~", r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])", back=4),
    _around("azure-key", "accesskey=|accountkey=", r"(?i)(?:access|account)key=(?P<v>[A-Za-z0-9+/=]{40,}+)"),
    _around(
        "url-signature",
        "?sig=|&sig=|;sig=|?signature=|&signature=|x-amz-signature=|x-goog-signature=",
        r"(?i)[?&;]?[a-z-]{3,16}=(?P<v>[A-Za-z0-9%+/=_~-]{32,}+)",
    ),
    _around(
        "basic-auth",
        "://",
        r"""://[^\s/?#@:'"<>`\\]{0,200}:(?P<v>[^\s/?#@'"<>`\\]{1,300})@(?=[\w\[$%{-])""",
        _real,
    ),
    _around("basic-auth", "://", r"(?:(?<=http)|(?<=https))://(?P<v>[A-Za-z0-9_.~-]{20,300})(?::|:x-oauth-basic)?@[\w-]", _mixed),
    _around(
        "authorization",
        "authorization|bearer",
        r"""(?i)(?:authorization\\{0,4}["'`]?\s{0,4}[:=,]\s{0,4}\\{0,4}["'`]?(?:(?:bearer|basic|token|digest|apikey|bot|key)[ =]{1,4})?"""
        r"""|bearer[ =]{1,4})(?P<v>[A-Za-z0-9._~+/=:-]{8,}+)""",
        lambda value: looks_random(value) and _varied(value),
    ),
    _around("authorization", "basic ", r"(?i)basic {1,4}(?P<v>[A-Za-z0-9+/]{8,2000}={0,2})", is_basic),
    _around("password", " -a", r""" -a ["']?(?P<v>[^\s"'$<-][^\s"']{2,200})""", _real, near="redis-cli"),
    _around("curl-user", " -u| --user", r""" -(?:u|-user)[ =]?["']?[^\s:"'$]{1,100}:(?P<v>[^\s"']{3,200})""", _real, near="curl"),
    _around("password", " -p", r""" -p["']?(?P<v>[^\s"'$<-][^\s"']{2,200})""", _real, near="mysql|mariadb"),
    _around("password", "sshpass -p", r"""sshpass -p ?["']?(?P<v>[^\s"'$<-][^\s"']{2,200})""", _real),
    _around(
        "password",
        "identified ",
        r"(?i)identified +(?:with +\S{1,40} +)?by +(?:password +)?'(?P<v>[^'\n]{3,200})'",
        _real,
    ),
    _around("password", "login ", r"login \S{1,100}\s{1,8}password\s{1,8}(?P<v>\S{3,200})", _real),
    _around("private-key", "private-lines: ", r"Private-Lines: \d{1,4}\s{1,4}(?P<v>(?:[A-Za-z0-9+/=]{1,64}\s{1,2}){1,200}+)"),
    _around(
        "session-cookie",
        "sessid=|sessionid=|_session=|connect.sid=|.aspxauth=|remember_me=|remember_token=",
        r"(?i)[a-z._]{5,14}=(?P<v>[A-Za-z0-9%._~+/-]{16,}+)",
        looks_random,
    ),
)  # fmt: skip
_SHAPES = (*map(_prefixed, _TOKENS.strip().splitlines()), *_AROUND)

_SECRET_ACCESS_KEY = re.compile(r"(?<![A-Za-z0-9/+=.])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=.])")
_AWS_WORD = re.compile(r"(?i)aws|secret")
_COOKIE_HEADER = re.compile(r"cookie\\{0,4}[\"']?\s{0,4}:\s{0,4}(?P<pairs>[^\n\r]{8,4096})")
_COOKIE_PAIR = re.compile(r"(?<![\w.-])[\w.$-]{1,80}=(?P<v>[^\s;,\"'\\<>]{8,})")

_PEM_TAG = re.compile(
    r"(?P<begin>-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----)"
    r"|-{4,5} ?END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
)
# A line of base64, a header or nothing, with whatever an editor, a diff or a quotation puts before it.
_PEM_LINE = re.compile(
    r"[\s>|*#+\"',:\d\u2192-]{0,16}(?:[A-Za-z0-9+/=]{0,200}|[A-Z][A-Za-z-]{3,12}: [^\n]{0,100})[\s\"',\\]{0,8}"
)
_LINE_BREAK = re.compile(r"\r?\n|(?:\\{1,4}r)?\\{1,4}n")
_KEY_TEXT = re.compile(r"[A-Za-z0-9+/]{16}")
_LONGEST_PEM = 40_000
_CONTEXT = 300


def find(text: str) -> Iterator[Finding]:
    """Findings in no order; they may overlap."""
    # The one letter whose lower case is longer would move every place behind it.
    lowered = text.replace("\u0130", "i").lower()
    for rank, shape in enumerate(_SHAPES):
        yield from _matches(text, lowered, shape, rank)
    yield from _library_matches(text, lowered)
    if "aws" in lowered or "secret" in lowered:
        yield from _secret_access_keys(text)
    if "cookie" in lowered:
        yield from _cookies(text, lowered)
    if "PRIVATE KEY" in text:
        yield from _private_keys(text)


def _matches(text: str, lowered: str, shape: _Shape, rank: int) -> Iterator[Finding]:
    group = "v" if "v" in shape.pattern.groupindex else 0
    for hint in shape.hints:
        place = lowered.find(hint)
        while place >= 0:
            after = place + len(hint)
            if not shape.starts_word or _starts_word(text, place):
                match = shape.pattern.match(text, max(0, place - shape.back))
                if match:
                    # Past it also when it is refused: the next hint may be inside, and so on.
                    after = max(after, match.end())
                    if shape.accept(match[group]) and _is_near(text, place, shape.near):
                        yield Finding(match.start(group), match.end(group), shape.kind, rank)
            place = lowered.find(hint, after)


def _starts_word(text: str, place: int) -> bool:
    """Whether a word begins here; one may follow an escaped line break in JSON text."""
    before = text[place - 1 : place] if place else ""
    return not (before.isascii() and before.isalnum()) or (
        place > 1 and text[place - 2 : place] in ("\\n", "\\r", "\\t")
    )


def _is_near(text: str, place: int, near: re.Pattern[str] | None) -> bool:
    if near is None:
        return True
    low = max(0, place - _CONTEXT)
    return bool(near.search(text, max(low, text.rfind("\n", low, place)), place))


def _secret_access_keys(text: str) -> Iterator[Finding]:
    for match in _SECRET_ACCESS_KEY.finditer(text):
        line = text[max(0, match.start() - 50) : match.start()].rpartition("\n")[2]
        if _AWS_WORD.search(line) and _mixed(match[0]) and not re.fullmatch(r"[0-9a-f]+", match[0]):
            yield Finding(*match.span(), "aws-secret-key", 100)


def _cookies(text: str, lowered: str) -> Iterator[Finding]:
    for header in _COOKIE_HEADER.finditer(lowered):
        for pair in _COOKIE_PAIR.finditer(text, *header.span("pairs")):
            if looks_random(pair["v"]):
                yield Finding(*pair.span("v"), "session-cookie", 300)


def _private_keys(text: str) -> Iterator[Finding]:
    tags = [*_PEM_TAG.finditer(text), None]
    for tag, following in pairwise(tags):
        if tag is None or not tag["begin"]:
            continue
        limit = min(len(text), tag.end() + _LONGEST_PEM)
        if following and not following["begin"] and following.start() < limit:
            body, end = following.start(), following.end()
        else:
            body = end = _end_of_key_lines(text, tag.end(), min(limit, following.start()) if following else limit)
        # A header that is only talked about has no key below it.
        if _KEY_TEXT.search(text, tag.end(), body):
            yield Finding(tag.start(), end, "private-key", 0)


def _end_of_key_lines(text: str, start: int, limit: int) -> int:
    """Where a key without its last line (cut by a tool's limit) ends."""
    end = position = start
    while position < limit:
        found = _LINE_BREAK.search(text, position, limit)
        stop = found.start() if found else limit
        if not _PEM_LINE.fullmatch(text, position, stop):
            break
        end = stop
        position = found.end() if found else limit
    return end


class _LibraryShape(NamedTuple):
    kind: str
    hint: re.Pattern[str]
    literal: str
    patterns: tuple[re.Pattern[str], ...]
    accept: Accept | None


def _password_part(value: str) -> bool:
    return _real(value.rsplit(":", 1)[-1].rsplit("=", 1)[-1].rstrip("@"))


# Module, class, our kind, where a match is worth trying, a part of that in lower case, what a match must be besides.
_LIBRARY: tuple[tuple[str, str, str, str, str, Accept | None], ...] = (
    ("aws", "AWSKeyDetector", "aws-access-key", r"A3T|ABIA|ACCA|AKIA|ASIA|(?i:aws)", "a", lambda v: bool(re.search(r"\d", v))),
    ("artifactory", "ArtifactoryDetector", "artifactory-token", r"AKC[A-Za-z0-9]{10}", "akc", looks_random),
    ("azure_storage_key", "AzureStorageKeyDetector", "azure-key", r"AccountKey=", "accountkey", None),
    ("basic_auth", "BasicAuthDetector", "basic-auth", r"://[^\s/:@]{1,99}:", "://", _password_part),
    ("cloudant", "CloudantDetector", "cloudant-key", r"(?i)clou", "clou", looks_random),
    ("discord", "DiscordBotTokenDetector", "discord-token", r"\.[\w-]{6}\.[\w-]{27}", ".", _mixed),
    ("github_token", "GitHubTokenDetector", "github-token", r"gh[pousr]_", "gh", _varied),
    ("gitlab_token", "GitLabTokenDetector", "gitlab-token", r"gl[a-z]{2,5}-|GR1348941", "g", _varied),
    ("ibm_cloud_iam", "IbmCloudIamDetector", "ibm-key", r"(?i)ibm", "ibm", looks_random),
    ("ibm_cos_hmac", "IbmCosHmacDetector", "ibm-key", r"(?i)secret[-_]?(?:access)?[-_]?key", "secret", None),
    ("jwt", "JwtTokenDetector", "jwt", r"eyJ[A-Za-z0-9_=-]{8}", "eyj", None),
    ("mailchimp", "MailchimpDetector", "mailchimp-key", r"-us\d", "-us", looks_random),
    ("npm", "NpmDetector", "npm-token", r":_authToken=", ":_authtoken", _password_part),
    ("openai", "OpenAIDetector", "openai-key", r"T3BlbkFJ", "t3blbkfj", None),
    ("pypi_token", "PypiTokenDetector", "pypi-token", r"pypi-AgE", "pypi-age", None),
    ("sendgrid", "SendGridDetector", "sendgrid-key", r"SG\.", "sg.", _varied),
    ("slack", "SlackDetector", "slack-token", r"(?i)xox[abposr]-|hooks\.slack\.com", "o", _varied),
    ("softlayer", "SoftlayerDetector", "softlayer-key", r"(?i)softlayer", "softlayer", looks_random),
    ("square_oauth", "SquareOAuthDetector", "square-secret", r"sq0csp-", "sq0csp", _varied),
    ("stripe", "StripeDetector", "stripe-key", r"[rs]k_live_", "k_live_", _varied),
    ("telegram_token", "TelegramBotTokenDetector", "telegram-token", r"(?<!\d)\d{8,10}:[\w-]{35}", ":", _bot_token),
    ("twilio", "TwilioKeyDetector", "twilio-key", r"(?:AC|SK)[a-f0-9]{32}", "", None),
)  # fmt: skip
# Not used: `private_key` marks only the header line (`_private_keys` takes the block), `keyword` and the two high-entropy
# plugins are what `secret_names` does with more care for prose, `ip_public` finds no secrets.

_FIXED_LENGTH = frozenset(("aws-access-key", "twilio-key", "mailchimp-key", "telegram-token"))
_BEFORE, _AFTER = 100, 400
_BREAK = re.compile(r"\n| {8}")
_REST_OF_TOKEN = re.compile(r"[A-Za-z0-9_-]*+")


@cache
def library_shapes() -> tuple[_LibraryShape, ...]:
    """The library's detectors. Raises ImportError or AttributeError for one that it no longer has."""
    shapes = []
    for module, name, kind, hint, literal, accept in _LIBRARY:
        detector = getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), name)()
        if name == "JwtTokenDetector":
            accept = detector.is_formally_valid
        shapes.append(_LibraryShape(kind, re.compile(hint), literal, tuple(detector.denylist), accept))
    return tuple(shapes)


def _library_matches(text: str, lowered: str) -> Iterator[Finding]:
    for shape in library_shapes():
        if shape.literal not in lowered:
            continue
        tried = -1
        for hint in shape.hint.finditer(text):
            if hint.start() < tried:
                continue
            low, high = _piece(text, hint.start())
            tried = high - _BEFORE
            piece = text[low:high]
            for pattern in shape.patterns:
                for match in pattern.finditer(piece):
                    yield from _library_finding(text, shape, low, match)


def _piece(text: str, place: int) -> tuple[int, int]:
    """A bounded part of the line around `place`, with no long run of blanks in it."""
    low = max(0, place - _BEFORE)
    for found in _BREAK.finditer(text, low, place):
        low = found.end()
    stop = _BREAK.search(text, place, place + _AFTER)
    return low, stop.start() if stop else min(len(text), place + _AFTER)


def _library_finding(text: str, shape: _LibraryShape, low: int, match: re.Match[str]) -> Iterator[Finding]:
    # A group at the end is the value beside a name; one at the start is only a token's prefix (GitHub's).
    group = max((i for i, part in enumerate(match.groups(), 1) if part and match.end(i) >= match.end() - 1), default=0)
    if MARKER.search(match[0]) or (shape.accept and not shape.accept(match[group].strip("\"' :="))):
        return
    start, end = match.start(group) + low, match.end(group) + low
    letters = text[start].isalpha() or text[start - 1 : start].isdigit()
    if not group and text[start].isalnum() and letters and not _starts_word(text, start):
        return
    if text[end - 1].isalnum():
        rest = _REST_OF_TOKEN.match(text, end)
        if rest and rest[0] and shape.kind in _FIXED_LENGTH:
            return
        end = rest.end() if rest else end
    yield Finding(start, end, shape.kind, 200)
