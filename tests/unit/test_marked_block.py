"""A block between markers comes into a text and goes from it, and no other byte changes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cems.adapters.config_text import NotReadable
from cems.adapters.marked_block import BEGIN, END, MarkedText

# A busy machine is no reason to fail.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

TEXTS = st.lists(
    st.sampled_from(
        ["# Rules", "", "", "Use tabs.", "  ", "```", "<!-- note -->", "é日😀", "\x0c", "caf\udce9", "a\rb"]
    ),
    max_size=6,
)
CONTENTS = st.lists(st.sampled_from(["", "# Memory", "- one", "  ", "<!-- x -->", "é"]), max_size=4).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text = newline.join(draw(TEXTS)) + draw(st.sampled_from(["", newline, newline * 2, "  "]))
    return (draw(st.sampled_from(["", "\ufeff"])) + text).encode("utf-8", "surrogateescape")


@UNHURRIED
@given(files(), CONTENTS, CONTENTS)
def test_put_in_changed_and_taken_out_leaves_the_same_bytes(data: bytes, content: str, newer: str) -> None:
    before = MarkedText.parse(data)
    assert before.block is None
    first = before.with_block(content)
    assert first.block == content
    second = first.with_block(newer)
    assert second.block == newer
    assert bytes(second) == bytes(before.with_block(newer))
    assert bytes(MarkedText.parse(bytes(second)).without_block()) == data


@UNHURRIED
@given(files(), CONTENTS, files())
def test_text_written_around_the_block_stays(data: bytes, content: str, more: bytes) -> None:
    with_block = bytes(MarkedText.parse(data).with_block(content))
    added = b"" if with_block.endswith(b"\n") else b"\n"
    edited = MarkedText.parse(b"first\n" + with_block.removeprefix(b"\xef\xbb\xbf") + added + more)
    assert edited.block == content
    left = bytes(edited.without_block())
    assert left.startswith(b"first\n" + data.removeprefix(b"\xef\xbb\xbf"))
    assert left.endswith(more)
    assert b"cems" not in left


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", f"{BEGIN}\none\n\ntwo\n{END}\n"),
        (b"# Mine\n", f"# Mine\n\n{BEGIN}\none\n\ntwo\n{END}\n"),
        (b"# Mine", f"# Mine\n\n{BEGIN}\none\n\ntwo\n{END}"),
        (b"# Mine\r\n", f"# Mine\r\n\r\n{BEGIN}\r\none\r\n\r\ntwo\r\n{END}\r\n"),
        (b"x\n<!-- cems:begin v1 -->\nold\n<!-- cems:end -->  \ny", f"x\n{BEGIN}\none\n\ntwo\n{END}\ny"),
    ],
)
def test_the_block_takes_the_look_of_the_file(before: bytes, after: str) -> None:
    assert bytes(MarkedText.parse(before).with_block("one\n\ntwo\n")).decode() == after


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (f"a\n{BEGIN}\nours\n", 2, "does not end"),
        (f"a\nours\n{END}", 3, "without the line before it"),
        (f"{END}\nx\n{BEGIN}\n", 1, "before the block begins"),
        (f"{BEGIN}\nx\n{BEGIN}\n{END}\n", 3, "second block"),
        (f"{BEGIN}\n{END}\ny\n{BEGIN}\n{END}\n", 4, "second block"),
        (f"{BEGIN}\n{END}\n\n{END}\n", 4, "second block"),
    ],
)
def test_a_broken_marker_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(NotReadable) as refused:
        MarkedText.parse(text.encode())
    assert refused.value.line == line
    assert reason in refused.value.reason


def test_utf16_is_refused_and_a_marker_in_a_sentence_is_none() -> None:
    with pytest.raises(NotReadable, match="UTF-16"):
        MarkedText.parse("# Mine".encode("utf-16"))
    text = MarkedText.parse(f"The block starts with {BEGIN} and\n    ends with {END} .".encode())
    assert text.block is None
    assert text.without_block() is text


def test_content_with_a_marker_is_refused() -> None:
    with pytest.raises(ValueError, match="marker line"):
        MarkedText.parse(b"").with_block(f"x\n{END}\n")


def test_where_the_block_is() -> None:
    assert MarkedText.parse(f"a\r\n\r\n{BEGIN}\r\n{END}".encode()).line() == 3
