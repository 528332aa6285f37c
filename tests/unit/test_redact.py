"""What a memory must never hold: secrets and private spans. And what it must keep."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cems.core.redact import clean

FIXTURES = Path(__file__).parent.parent / "fixtures" / "redact"
# Secrets are kept in pieces, so that no scanner takes this repository for a leak.
PLANTED: list[dict[str, Any]] = json.loads((FIXTURES / "planted.json").read_text())
BENIGN = (FIXTURES / "benign.txt").read_text().splitlines()


def planted(case: dict[str, Any]) -> tuple[str, list[str]]:
    secrets = ["".join(parts) for parts in case["secrets"]]
    text = case["text"].replace("{{", "{").replace("}}", "}")
    for place, secret in enumerate(secrets):
        text = text.replace(f"{{{place}}}", secret)
    return text, secrets


def pieces(secret: str, size: int = 12) -> list[str]:
    return [secret[at : at + size] for at in range(0, max(1, len(secret) - size + 1), 4)]


def survives(secret: str, text: str) -> bool:
    return any(piece in text for piece in pieces(secret) if not piece.startswith("-----"))


@pytest.mark.parametrize("case", PLANTED, ids=lambda case: f"{case['kind']}: {case['text'][:30]}")
def test_a_planted_secret_is_replaced_by_its_kind(case: dict[str, Any]) -> None:
    text, secrets = planted(case)
    result = clean(text)
    assert case["kind"] in result.secrets
    assert f"[redacted:{case['kind']}]" in result.text
    assert not any(survives(secret, result.text) for secret in secrets)
    assert clean(result.text).text == result.text


@pytest.mark.parametrize("wrap", ["{}", "> {}", "  {}\n", "see `{}`", '{{"stdout": "{}"}}', "ü{}ü", "{}\ud83d"])
def test_a_secret_is_found_wherever_it_stands(wrap: str) -> None:
    for case in PLANTED:
        text, secrets = planted(case)
        quoted = json.dumps(text)[1:-1] if "stdout" in wrap else text
        result = clean(wrap.replace("{{", "{").replace("}}", "}").replace("{}", quoted))
        for secret in secrets:
            plain = json.dumps(secret)[1:-1] if "stdout" in wrap else secret
            assert not survives(plain, result.text), (wrap, case["kind"], result.text)


def test_there_are_thirty_kinds_and_two_hundred_look_alikes() -> None:
    assert len({case["kind"] for case in PLANTED}) >= 30
    assert len(set(BENIGN)) >= 200


@pytest.mark.parametrize("line", BENIGN)
def test_a_look_alike_is_kept_as_it_is(line: str) -> None:
    assert clean(line) == clean("") or clean(line).text == line
    assert clean(line).secrets == ()


def test_look_alikes_are_kept_together_and_in_json_too() -> None:
    page = "\n".join(BENIGN)
    assert clean(page).text == page
    for line in BENIGN:
        quoted = json.dumps({"type": "text", "text": line}, ensure_ascii=False)
        assert clean(quoted).text == quoted


def test_public_keys_and_certificates_are_kept() -> None:
    text = (FIXTURES / "public_key.pem.txt").read_text()
    assert clean(text).text == text


def test_several_secrets_in_one_text_are_each_replaced() -> None:
    text = "".join(f"{planted(case)[0]}\n\n" for case in PLANTED)
    result = clean(text)
    for case in PLANTED:
        for secret in planted(case)[1]:
            assert not survives(secret, result.text), case["kind"]
    assert len(result.secrets) >= len(PLANTED)
    assert clean(result.text).text == result.text


def test_what_stands_around_a_secret_is_kept() -> None:
    assert clean("export DB_PASSWORD=hunter2 && run").text == "export DB_PASSWORD=[redacted:password] && run"
    assert clean("psql postgres://app:hunter2@db/x").text == "psql postgres://app:[redacted:basic-auth]@db/x"
    assert clean('{"password": "hunter2", "a": 1}').text == '{"password": "[redacted:password]", "a": 1}'


# --- private spans


@pytest.mark.parametrize(
    ("text", "expected", "spans"),
    [
        ("a <private>x</private> b", "a  b", 1),
        ("a<private>x</private>b", "a b", 1),
        ("<PRIVATE>x</Private>b", "b", 1),
        ("a <private>x <private>y</private> z</private> b", "a  b", 1),
        ("a <private>x</private> b <private>y</private> c", "a  b  c", 2),
        ("a <private>x and so on", "a ", 1),
        ("a <private reason='salary'>x</private > b", "a  b", 1),
        ("a <private x", "a ", 1),
        ("a &lt;private&gt;x&lt;/private&gt; b", "a  b", 1),
        ("a &amp;lt;private&amp;gt;x&amp;lt;/private&amp;gt; b", "a  b", 1),
        ("a \\u003cprivate\\u003ex\\u003c/private\\u003e b", "a  b", 1),
        ("a <private>x<\\/private> b", "a  b", 1),
        ("a %3Cprivate%3Ex%3C%2Fprivate%3E b", "a  b", 1),
        ("a <private>x\ny\n</private>\nb", "a \nb", 1),
        ("a <private/> b", "a  b", 1),
        ("a <pri<private>x</private>vate>y</private> b", "a <pri vate>y</private> b", 1),
        ("a <private-note>x</private-note> b", "a <private-note>x</private-note> b", 0),
        ("a private matter </private> b", "a private matter </private> b", 0),
    ],
)
def test_private_spans_are_cut(text: str, expected: str, spans: int) -> None:
    assert (clean(text).text, clean(text).private_spans) == (expected, spans)


def test_a_private_span_that_stays_open_takes_all_that_follows() -> None:
    assert clean("a <private>x <private>y</private> z").text == "a "


OPENINGS = [
    "<private>",
    "<PRIVATE>",
    "<private class='x'>",
    "&lt;private&gt;",
    "\\u003cprivate\\u003e",
    "%3cprivate%3e",
]
CLOSINGS = ["</private>", "</PRIVATE >", "&lt;/private&gt;", "\\u003c/private\\u003e", "<\\/private>", "%3c/private%3e"]
TAGS = st.sampled_from([*OPENINGS, *CLOSINGS, "<pri", "vate>", "<", "&lt;", "</", "private"])
NOISE = st.text(max_size=12)
INNER = "QQhiddenQQ"


@given(
    before=st.lists(st.one_of(NOISE, TAGS), max_size=6).map("".join),
    opening=st.sampled_from(OPENINGS),
    inside=st.lists(st.one_of(NOISE, st.sampled_from([f"{o}x{c}" for o in OPENINGS for c in CLOSINGS])), max_size=5),
    closing=st.sampled_from([*CLOSINGS, ""]),
    after=st.lists(st.one_of(NOISE, TAGS), max_size=6).map("".join),
)
@settings(max_examples=400, deadline=None)
def test_private_text_never_survives(before: str, opening: str, inside: list[str], closing: str, after: str) -> None:
    result = clean(f"{before}{opening}{INNER}{''.join(inside)}{INNER}{closing}{after}")
    assert INNER not in result.text
    assert clean(result.text).text == result.text


# --- any text

PARTS = st.one_of(
    st.text(max_size=20),
    st.text(alphabet=st.characters(codec=None), max_size=10),
    st.sampled_from([planted(case)[0] for case in PLANTED]),
    st.sampled_from(["".join(part) for case in PLANTED for part in case["secrets"]]),
    st.sampled_from(BENIGN),
    st.sampled_from(
        ["password=", "token: ", '"', "'", "\\", "\\n", "\n", "[redacted:", "]", "://", "@", ":", "Bearer ", "-----BEGIN PRIVATE KEY-----",
         "-----END PRIVATE KEY-----", "eyJ", "AKIA", "sk-", "<private>", "</private>", "cookie: a=", "--password ", "İ", "\ud800", "a" * 40]
    ),
)  # fmt: skip


@given(st.lists(PARTS, max_size=8).map("".join))
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = clean(text)
    twice = clean(once.text)
    assert (twice.text, twice.secrets, twice.private_spans) == (once.text, (), 0)
    assert clean(text) == once


@pytest.mark.parametrize(
    "text", ["\ud800", "a\udfffb password=hunter2\ud83d", "\0\x0b\x85\u2028", "İ" * 50 + "password=hunter2"]
)
def test_odd_text_does_not_raise(text: str) -> None:
    assert "hunter2" not in clean(text).text


@pytest.mark.parametrize(
    "unit",
    ["password=", 'token="', "eyJ", "eyJaaaaaaaaaaa.", "sk-", "://a:", "aws ", "-----BEGIN PRIVATE KEY-----\n", "<private>x", "key ",
     "password ", "\\", "&amp;", "curl -u a", "cookie: ", "1234567890:", "AC", "//", "a" * 50 + " ", "\n", "password is "],
)  # fmt: skip
def test_time_grows_with_the_length_and_no_faster(unit: str) -> None:
    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        began = time.process_time()
        clean(text)
        return time.process_time() - began

    clean("warm password=hunter2")
    small, large = max(seconds(50_000), 0.01), seconds(400_000)
    assert large < 8 * small * 4
    assert large < 2.0


def test_a_megabyte_of_transcript_takes_less_than_two_seconds() -> None:
    page = ("\n".join(BENIGN) + "\n" + "The build failed because the cache key changed.\n" * 200) * 60
    text = page[:1_000_000]
    clean(text[:1000])
    began = time.process_time()
    clean(text)
    assert time.process_time() - began < 2.0
