"""Secrets that are known by their shape: vendors' tokens, private keys, credentials in URLs and headers.

Half of the table is detect-secrets' (its plugins' expressions, run on short pieces of lines as that library does; some of
them need quadratic time on long ones). The other half is what it lacks, in version 1.5. Every expression here is
bounded or possessive, so that a text of any make is searched in linear time.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from cems.core.redact import MARKER, Finding
from cems.core.secret_names import is_placeholder, looks_random

# A token starts a word, or follows an escaped line break in JSON text.
_B = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_URL_SAFE = r"[A-Za-z0-9_-]"
_END = r"(?![A-Za-z0-9_-])"


class _Shape(NamedTuple):
    """`hints`: one of them is in the text (lower case) wherever the expression can match. Group `v` is the secret."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    accept: Callable[[str], bool] | None = None


def _bot_token(value: str) -> bool:
    return all(re.search(kind, value.partition(":")[2]) for kind in ("[a-z]", "[A-Z]", "[0-9]")) and _varied(value)


def _token(kind: str, *prefixes: str, tail: str = r"[A-Za-z0-9_-]{20,}+") -> _Shape:
    start = "|".join(re.escape(prefix) for prefix in prefixes)
    return _Shape(kind, tuple(p.lower() for p in prefixes), re.compile(rf"{_B}(?:{start}){tail}"), _varied)


def _varied(value: str) -> bool:
    """Not an example made of one repeated letter (`sk-ant-xxxxxxxx`), nor one cut with dots."""
    return not re.search(r"([A-Za-z0-9*.])\1{7}", value) and not re.search(
        r"(?i)your[_-]|example[_-]|placeholder", value
    )


def _mixed(value: str) -> bool:
    return looks_random(value) and _varied(value)


_TOKENS = (
    _token("anthropic-key", "sk-ant-"),
    _token("openrouter-key", "sk-or-"),
    _token("openai-key", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"),
    _Shape("openai-key", ("sk-",), re.compile(rf"{_B}sk-[A-Za-z0-9]{{32,}}+{_END}"), _mixed),
    _token("google-key", "AIza", tail=r"[A-Za-z0-9_-]{35,}+"),
    _token("google-oauth", "ya29.", "GOCSPX-", "1//0", tail=r"[A-Za-z0-9_.-]{20,}+"),
    _token("github-token", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", tail=r"[A-Za-z0-9_.-]{36,}+"),
    _token("github-token", "github_pat_", tail=r"\w{22,}+"),
    _token(
        "gitlab-token", "glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "glcbt-", "glptt-", "glimt-", "glagent-", "gloas-",
        tail=r"[A-Za-z0-9_.-]{20,}+",
    ),
    _token("npm-token", "npm_", tail=rf"[A-Za-z0-9]{{36,}}+{_END}"),
    _token("pypi-token", "pypi-AgE", tail=r"[A-Za-z0-9_-]{40,}+"),
    _token("rubygems-key", "rubygems_", tail=r"[a-f0-9]{48}"),
    _token("docker-token", "dckr_pat_", "dckr_oat_"),
    _token("slack-token", "xoxb-", "xoxa-", "xoxp-", "xoxe-", "xoxo-", "xoxr-", "xoxs-", "xoxc-", "xoxd-", "xapp-",
           tail=r"[A-Za-z0-9%./+=-]{10,}+"),
    _Shape("slack-webhook", ("hooks.slack.com",), re.compile(
        r"(?i)https://hooks\.slack(?:-gov)?\.com/(?P<v>(?:services|workflows|triggers)/[A-Za-z0-9_/-]{16,}+)")),
    _Shape("discord-webhook", ("/api/webhooks/",), re.compile(
        r"(?i)discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/(?P<v>\d{10,25}/[A-Za-z0-9_-]{40,}+)")),
    _Shape("discord-token", (".",), re.compile(
        rf"{_B}[MNO][A-Za-z0-9_-]{{23,27}}\.[A-Za-z0-9_-]{{6}}\.[A-Za-z0-9_-]{{27,45}}{_END}"), _mixed),
    _Shape("telegram-token", (":",), re.compile(
        rf"(?<![A-Za-z0-9:.])(?:bot)?(?P<v>\d{{8,10}}:[A-Za-z0-9_-]{{35}}){_END}"), _bot_token),
    _token("stripe-key", "sk_live_", "rk_live_", "sk_test_", "rk_test_", tail=r"[A-Za-z0-9]{16,}+"),
    _token("stripe-webhook", "whsec_", tail=r"[A-Za-z0-9+/=]{20,}+"),
    _Shape("twilio-key", ("sk",), re.compile(rf"{_B}SK[a-f0-9]{{32}}{_END}")),
    _token("huggingface-token", "hf_", "api_org_", tail=rf"[A-Za-z0-9]{{30,}}+{_END}"),
    _token("digitalocean-token", "dop_v1_", "doo_v1_", "dor_v1_", tail=r"[a-f0-9]{64}"),
    _token("databricks-token", "dapi", tail=rf"[a-f0-9]{{32}}(?:-\d)?{_END}"),
    _token("vault-token", "hvs.", "hvb.", "hvr."),
    _token("onepassword-token", "ops_eyJ", tail=r"[A-Za-z0-9+/=_-]{50,}+"),
    _Shape("onepassword-key", ("a3-",), re.compile(
        rf"{_B}A3-[A-Z0-9]{{6}}-(?:[A-Z0-9]{{11}}|[A-Z0-9]{{6}}-[A-Z0-9]{{5}})-[A-Z0-9]{{5}}-[A-Z0-9]{{5}}-[A-Z0-9]{{5}}")),
    _Shape("age-key", ("age-secret-key-",), re.compile(r"(?i)AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{50,}+")),
    _Shape("kubeadm-token", ("kubeadm", "--token"), re.compile(
        r"--token[ =](?P<v>[a-z0-9]{6}\.[a-z0-9]{16})(?![a-z0-9])")),
    _token("linear-key", "lin_api_", "lin_oauth_"), _token("notion-token", "ntn_", tail=r"[A-Za-z0-9]{40,}+"),
    _token("figma-token", "figd_", "figu_"), _token("supabase-key", "sbp_", "sb_secret_"),
    _token("netlify-token", "nfp_"), _token("vercel-token", "vcp_", "vck_", "vercel_blob_rw_"),
    _token("fly-token", "FlyV1 fm", "fm2_", "fm1r_", "fo1_", tail=r"[A-Za-z0-9_+/=,-]{20,}+"),
    _token("doppler-token", "dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit.", tail=r"[A-Za-z0-9._-]{40,}+"),
    _token("grafana-token", "glsa_", "glc_", tail=r"[A-Za-z0-9+/=_-]{20,}+"),
    _token("planetscale-token", "pscale_tkn_", "pscale_pw_", "pscale_oauth_"),
    _token("postman-key", "PMAK-"), _token("shopify-token", "shpat_", "shpca_", "shppa_", "shpss_", tail=r"[a-fA-F0-9]{32}"),
    _token("atlassian-token", "ATATT3", "ATCTT3", tail=r"[A-Za-z0-9_=-]{50,}+"), _token("groq-key", "gsk_"),
    _token("xai-key", "xai-", tail=r"[A-Za-z0-9]{40,}+"), _token("perplexity-key", "pplx-", tail=r"[A-Za-z0-9]{32,}+"),
    _token("replicate-token", "r8_", tail=r"[A-Za-z0-9]{37}"), _token("sentry-token", "sntrys_", "sntryu_", tail=r"[\w+/=]{40,}+"),
    _token("newrelic-key", "NRAK-", "NRII-", tail=r"[A-Za-z0-9_-]{20,}+"), _token("tailscale-key", "tskey-"),
    _token("pulumi-token", "pul-", tail=rf"[a-f0-9]{{40}}{_END}"), _token("langsmith-key", "lsv2_pt_", "lsv2_sk_"),
    _token("pinecone-key", "pcsk_"), _token("circleci-token", "CCIPAT_"), _token("buildkite-token", "bkua_", "bkct_"),
    _token("alibaba-key", "LTAI", tail=rf"(?=[A-Za-z]{{0,24}}\d)[A-Za-z0-9]{{16,26}}{_END}"),
    _token("crates-token", "cio", tail=rf"[A-Za-z0-9]{{32}}{_END}"), _token("mapbox-token", "sk.eyJ", tail=r"[A-Za-z0-9._-]{40,}+"),
    _token("aws-bedrock-key", "ABSK", tail=r"[A-Za-z0-9+/=]{80,}+"),
    _token("aws-session-token", "FwoGZXIvYXdz", "IQoJb3JpZ2lu", tail=r"[A-Za-z0-9+/=%]{60,}+"),
    _Shape("terraform-token", (".atlasv1.",), re.compile(r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}+")),
    _Shape("airtable-token", ("pat",), re.compile(rf"{_B}pat[A-Za-z0-9]{{14}}\.[a-f0-9]{{64}}")),
    _Shape("azure-devops-token", ("azdo",), re.compile(rf"{_B}[A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}{_END}")),
    _Shape("azure-secret", ("q~",), re.compile(rf"(?<![A-Za-z0-9~._-])[A-Za-z0-9~._-]{{3}}\dQ~[A-Za-z0-9~._-]{{31,34}}{_END}")),
    _Shape("azure-key", ("accesskey=", "accountkey="), re.compile(
        r"(?i)(?:SharedAccessKey|AccountKey)=(?P<v>[A-Za-z0-9+/=]{40,}+)")),
    _Shape("url-signature", ("sig=", "signature="), re.compile(
        r"(?i)[?&;](?:amp;)?(?:sig|X-Amz-Signature|X-Goog-Signature|Signature)=(?P<v>[A-Za-z0-9%+/=_~-]{32,}+)")),
    _Shape("password-hash", ("$2", "$argon2", "$6$", "$5$", "$y$"), re.compile(
        r"\$(?:2[abxy]\$\d\d\$[./A-Za-z0-9]{53}|argon2(?:id|i|d)\$[A-Za-z0-9$=,+/]{40,}+|[56y]\$[./A-Za-z0-9$=]{40,}+)")),
    # A JWT's header and payload are JSON objects. The signature may be cut, but a payload tells enough.
    _Shape("jwt", ("eyj",), re.compile(
        r"eyJ[A-Za-z0-9_-]{10,600}\.(?:eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_.-]*+)?|[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{16,}+)")),
)  # fmt: skip

_CONTEXT = (
    _Shape("aws-secret-key", ("aws", "secret"), re.compile(
        r"(?i:aws|secret)[^\n]{0,40}?(?<![A-Za-z0-9/+=.])(?P<v>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=.])"), _mixed),
    _Shape("basic-auth", ("://",), re.compile(
        r"""[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/?#@:'"<>`\\]{0,200}:(?P<v>[^\s/?#@'"<>`\\]{1,300})@(?=[\w\[$%{-])"""),
        lambda value: not is_placeholder(value)),
    _Shape("basic-auth", ("://",), re.compile(r"://(?P<v>[A-Za-z0-9_.~-]{20,300})(?::|:x-oauth-basic)?@[\w-]"), _mixed),
    _Shape("authorization", ("authorization", "bearer"), re.compile(
        r"""(?i)(?:authorization\\{0,4}["']?\s{0,4}[:=,]\s{0,4}\\{0,4}["'`]?(?:(?:bearer|basic|token|digest|apikey|bot|key)[ =]{1,4})?|bearer[ =]{1,4})"""
        r"""(?P<v>[A-Za-z0-9._~+/=:-]{8,}+)"""), lambda value: looks_random(value) and not is_placeholder(value)),
    _Shape("curl-user", ("curl",), re.compile(
        r"""curl\s[^\n]{0,300}?\s(?:-u|--user)[ =]?["']?[^\s:"'$]{1,100}:(?P<v>[^\s"']{3,200})"""), lambda value: not is_placeholder(value)),
    _Shape("password", ("mysql", "mariadb", "sshpass"), re.compile(
        r"""(?:(?:mysql|mysqldump|mysqladmin|mariadb)\s[^\n|;]{0,200}?\s-p|sshpass\s+-p\s?)["']?(?P<v>[^\s"'$<-][^\s"']{2,200})"""),
        lambda value: not is_placeholder(value)),
    _Shape("password", ("identified",), re.compile(
        r"(?i)identified\s{1,8}(?:with\s{1,8}\S{1,40}\s{1,8})?by\s{1,8}(?:password\s{1,8})?'(?P<v>[^'\n]{3,200})'"), lambda value: not is_placeholder(value)),
    _Shape("password", ("login",), re.compile(r"\blogin\s{1,8}\S{1,100}\s{1,8}password\s{1,8}(?P<v>\S{3,200})"),
        lambda value: not is_placeholder(value)),
    _Shape("password", ("private-lines",), re.compile(r"Private-Lines: \d{1,4}\s{1,4}(?P<v>(?:[A-Za-z0-9+/=]{1,64}\s{1,2}){1,200}+)")),
    _Shape("session-cookie", ("sess", ".sid", "aspxauth", "remember"), re.compile(
        r"(?i)(?:phpsessid|jsessionid|asp\.net_sessionid|connect\.sid|sessionid|laravel_session|_session|session|\.aspxauth|remember_(?:me|token))"
        r"=(?P<v>[A-Za-z0-9%._~+/-]{16,}+)"), looks_random),
)  # fmt: skip

_COOKIE_HEADER = re.compile(r"(?i)(?:set-)?cookie\\{0,4}[\"']?\s{0,4}:\s{0,4}(?P<pairs>[^\n\r]{8,4096})")
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


def find(text: str) -> Iterator[Finding]:
    """Findings in no order; they may overlap."""
    lowered = text.lower()
    for rank, shape in enumerate(_TOKENS + _CONTEXT):
        if any(hint in lowered for hint in shape.hints):
            yield from _matches(text, shape, rank)
    yield from _library_matches(text)
    if "cookie" in lowered:
        yield from _cookies(text)
    if "PRIVATE KEY" in text:
        yield from _private_keys(text)


def _matches(text: str, shape: _Shape, rank: int) -> Iterator[Finding]:
    named = "v" in shape.pattern.groupindex
    for match in shape.pattern.finditer(text):
        if shape.accept is None or shape.accept(match["v"] if named else match[0]):
            start, end = match.span("v" if named else 0)
            yield Finding(start, end, shape.kind, rank)


def _cookies(text: str) -> Iterator[Finding]:
    for header in _COOKIE_HEADER.finditer(text):
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
    patterns: tuple[re.Pattern[str], ...]
    accept: Callable[[str], bool] | None


# module, class, our kind, where in a text it is worth trying, what a match must be besides
_LIBRARY: tuple[tuple[str, str, str, str, Callable[[str], bool] | None], ...] = (
    ("aws", "AWSKeyDetector", "aws-access-key", r"A3T|ABIA|ACCA|AKIA|ASIA|(?i:aws)", lambda v: bool(re.search(r"\d", v))),
    ("artifactory", "ArtifactoryDetector", "artifactory-token", r"AKC[A-Za-z0-9]{10}", looks_random),
    ("azure_storage_key", "AzureStorageKeyDetector", "azure-key", r"AccountKey=", None),
    ("basic_auth", "BasicAuthDetector", "basic-auth", r"://", lambda v: not is_placeholder(v.rsplit(":", 1)[-1].rstrip("@"))),
    ("cloudant", "CloudantDetector", "cloudant-key", r"(?i)cloudant|clou", looks_random),
    ("discord", "DiscordBotTokenDetector", "discord-token", rf"\.{_URL_SAFE}{{6}}\.", _mixed),
    ("github_token", "GitHubTokenDetector", "github-token", r"gh[pousr]_", _varied),
    ("gitlab_token", "GitLabTokenDetector", "gitlab-token", r"gl[a-z]{2,5}-|GR1348941", _varied),
    ("ibm_cloud_iam", "IbmCloudIamDetector", "ibm-key", r"(?i)ibm", looks_random),
    ("ibm_cos_hmac", "IbmCosHmacDetector", "ibm-key", r"(?i)secret[-_]?(?:access)?[-_]?key", None),
    ("jwt", "JwtTokenDetector", "jwt", r"eyJ[A-Za-z0-9_=-]{8}", None),
    ("mailchimp", "MailchimpDetector", "mailchimp-key", r"-us\d", looks_random),
    ("npm", "NpmDetector", "npm-token", r":_authToken=", lambda v: not is_placeholder(v.rsplit("=", 1)[-1])),
    ("openai", "OpenAIDetector", "openai-key", r"T3BlbkFJ", None),
    ("pypi_token", "PypiTokenDetector", "pypi-token", r"pypi-AgE", None),
    ("sendgrid", "SendGridDetector", "sendgrid-key", r"SG\.", _varied),
    ("slack", "SlackDetector", "slack-token", r"(?i)xox[abposr]-|hooks\.slack\.com", _varied),
    ("softlayer", "SoftlayerDetector", "softlayer-key", r"(?i)softlayer", looks_random),
    ("square_oauth", "SquareOAuthDetector", "square-secret", r"sq0csp-", _varied),
    ("stripe", "StripeDetector", "stripe-key", r"[rs]k_live_", _varied),
    ("telegram_token", "TelegramBotTokenDetector", "telegram-token", r"\d{8,10}:", _bot_token),
    ("twilio", "TwilioKeyDetector", "twilio-key", r"(?:AC|SK)[a-f0-9]{32}", None),
)  # fmt: skip
# Not used: `private_key` marks only the header line (`_private_keys` takes the block), `keyword` and the two high-entropy
# plugins are what `secret_names` does with more care for prose, `ip_public` finds no secrets.

_BEFORE, _AFTER = 100, 400


@cache
def library_shapes() -> tuple[_LibraryShape, ...]:
    """The library's detectors; a class it no longer has raises here, at import, and in the tests."""
    shapes = []
    for module, name, kind, hint, accept in _LIBRARY:
        detector = getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), name)()
        if name == "JwtTokenDetector":
            accept = detector.is_formally_valid
        shapes.append(_LibraryShape(kind, re.compile(hint), tuple(detector.denylist), accept))
    return tuple(shapes)


def _library_matches(text: str) -> Iterator[Finding]:
    for shape in library_shapes():
        tried = -1
        for hint in shape.hint.finditer(text):
            if hint.start() < tried:
                continue
            low, high = _piece(text, hint.start())
            tried = max(hint.start() + 1, high - _BEFORE)
            for pattern in shape.patterns:
                for match in pattern.finditer(text[low:high]):
                    yield from _library_finding(text, shape, low, match)


_BREAK = re.compile(r"\n| {8}")


def _piece(text: str, place: int) -> tuple[int, int]:
    """A bounded part of the line around `place`, with no long run of blanks in it."""
    low = max(0, place - _BEFORE)
    for found in _BREAK.finditer(text, low, place):
        low = found.end()
    stop = _BREAK.search(text, place, place + _AFTER)
    return low, stop.start() if stop else min(len(text), place + _AFTER)


def _library_finding(text: str, shape: _LibraryShape, low: int, match: re.Match[str]) -> Iterator[Finding]:
    # A group is the value beside a name; a group that is only a prefix (GitHub's) is not the whole secret.
    group = max((i for i, part in enumerate(match.groups(), 1) if part and len(part) >= 8), default=0)
    start, end = match.span(group)
    value = match[group].strip("\"' :=")
    if MARKER.search(match[0]) or (shape.accept and not shape.accept(value)):
        return
    start, end = start + low, end + low
    inside_word = text[start : start + 1].isalnum() and text[start - 1 : start].isalnum() and start > 0
    if inside_word and text[max(0, start - 2) : start] not in ("\\n", "\\r", "\\t") and not group:
        return
    if text[end - 1].isalnum():
        run = re.compile(r"[A-Za-z0-9_-]*").match(text, end)
        end = run.end() if run else end
    yield Finding(start, end, shape.kind, 200)
