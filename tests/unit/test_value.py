"""A value keeps one key however it is dressed up, and two values keep two."""

from __future__ import annotations

import stat
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cems.core import value
from cems.core.value import KeyLost, has_visible_text, load_value_key, normalise, value_key

KEY = b"k" * 32
LATIN_TEXT = st.text("abcdefghijklmnopqrstuvwxyz0123456789 .-_/", min_size=1).filter(lambda text: normalise(text) != "")
HAN = st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), min_size=1, max_size=12)
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u115f\u3164\u180e\ufe0f\U000e0041\x00\x07\x7f\x9f"
BIDI = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c"
# Drawn like these Latin letters; Cyrillic, Greek, Armenian, full width, mathematical, small capitals.
LOOK_ALIKES = {
    "a": "аαａ𝐚ᴀ", "c": "сｃ𝒄ᴄ", "e": "еεｅ𝖾ᴇ", "g": "ɡցｇ", "i": "іιｉ", "n": "ոηｎ", "o": "оοօｏ𝗼ᴏ", "p": "рρｐ", "s": "ѕｓꜱ",
    "t": "тτｔ", "u": "սυｕ", "v": "ѵνｖ", "x": "хχｘ", "y": "уγｙ", "l": "ӏｌⅼ",
}  # fmt: skip


def sprinkled(text: str, characters: str, every: int) -> str:
    return "".join(c + (characters[i % len(characters)] if i % every == 0 else "") for i, c in enumerate(text))


@given(st.text())
@example("a\u03aa\u0300")
@example("e\u200d\u0301")
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@given(st.text(st.characters(blacklist_categories=["Cs"])))
def test_composed_and_decomposed_text_are_one_value(text: str) -> None:
    assert normalise(unicodedata.normalize("NFD", text)) == normalise(unicodedata.normalize("NFC", text))


@given(LATIN_TEXT, st.sampled_from([str.upper, str.title, str.swapcase, str.casefold]))
def test_casing_makes_no_other_value(text: str, recase: object) -> None:
    assert callable(recase)
    assert normalise(recase(text)) == normalise(text)


@given(st.text(st.characters(whitelist_categories=["Ll", "Lu", "Lo", "Nd"])))
def test_casing_makes_no_other_value_in_any_one_script(text: str) -> None:
    for word in text:
        assert normalise(word.upper()) == normalise(word.lower()) == normalise(word)


@given(LATIN_TEXT, st.integers(1, 4))
def test_invisible_and_direction_characters_make_no_other_value(text: str, every: int) -> None:
    assert normalise(sprinkled(text, INVISIBLE, every)) == normalise(text)
    assert normalise(sprinkled(text, BIDI, every)) == normalise(text)


@given(LATIN_TEXT, st.randoms(use_true_random=False))
def test_look_alike_letters_make_no_other_value(text: str, random: object) -> None:
    choice = getattr(random, "choice")  # noqa: B009 - hypothesis types its generator loosely
    attacked = "".join(choice(LOOK_ALIKES[c]) if c in LOOK_ALIKES else c for c in text)
    assert normalise(attacked) == normalise(text)


def test_a_greek_or_cyrillic_capital_inside_a_latin_word_is_the_letter_it_looks_like() -> None:
    assert normalise("Νever use ΜySQL on Ηost В1") == "never use mysql on host в1"


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u3000", "\t", "\r\n", "\u2028", "\x0b", "  \n "])
def test_any_white_space_is_one_space(space: str) -> None:
    assert normalise(f"{space}use{space}tabs{space}") == "use tabs"


@pytest.mark.parametrize("dressed", ["Use tabs.", "«use tabs»", "use tabs!?", "`use tabs`", "(use tabs)", "use tabs。"])
def test_punctuation_at_the_edges_makes_no_other_value(dressed: str) -> None:
    assert normalise(dressed) == "use tabs"


def test_an_accent_behind_a_zero_width_joiner_is_composed() -> None:
    assert normalise("caf\u0435\u200d\u0301") == "café"


@given(HAN, HAN)
def test_two_chinese_texts_keep_two_keys(one: str, other: str) -> None:
    same = unicodedata.normalize("NFKC", one) == unicodedata.normalize("NFKC", other)
    assert (value_key(KEY, "user", one) == value_key(KEY, "user", other)) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("数据库用三号端口", "数据库用四号端口"), ("путь к дому", "путь к тому"), ("το σπίτι του", "το σπίτι τομ"), ("деплой в пятницу", "деплой в среду"),
        ("שלום", "שלוש"), ("ใช้แท็บ", "ใช้เว้นวรรค"), ("🙂", "🙃"), ("!", "?"), ("...", ""), ("1", "l"), ("x1", "xl"),
        ("қаһар", "қанар"), ("café", "cafe"),
    ],
)  # fmt: skip
def test_texts_that_differ_for_a_reader_keep_two_keys(one: str, other: str) -> None:
    assert value_key(KEY, "user", one) != value_key(KEY, "user", other)


def test_within_one_script_no_two_letters_fold_to_one() -> None:
    seen: dict[tuple[str, int], str] = {}
    for source, target in value._LOOK_ALIKES.items():
        script = unicodedata.name(chr(source)).split()[0]
        if script != "LATIN":  # those are the same Latin letter drawn otherwise
            assert seen.setdefault((script, target), chr(source)) == chr(source)


def test_a_character_that_this_python_does_not_know_yet_is_kept() -> None:
    assert normalise("a\U0001faf8") != normalise("a\U0001fadf\u0378")
    assert normalise("\u0378") == "\u0378"


@pytest.mark.parametrize("text", ["", " ", "\u200b\u2060", "\x00\x01", "\u3164", "\ud800", "\ue000"])
def test_text_of_nothing_visible_is_empty(text: str) -> None:
    assert not has_visible_text(text)


def test_the_key_tells_scope_and_text_apart() -> None:
    assert value_key(KEY, "ab", "c") != value_key(KEY, "a", "bc")
    assert value_key(KEY, "project:org/repo", "x") != value_key(KEY, "project:org/repo-2", "x")


def test_the_key_cannot_be_had_without_the_secret() -> None:
    assert value_key(b"1" * 32, "user", "x") != value_key(b"2" * 32, "user", "x")


def test_a_megabyte_is_normalised_in_time() -> None:
    for text in ("汉" * 500_000, "а" * 500_000 + "b", "a\u0301" * 250_000, ". " * 250_000):
        normalise(text)


def test_the_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    made = load_value_key(tmp_path / "keys", create=True)
    assert load_value_key(tmp_path / "keys", create=False) == made
    assert len(made) == 32
    assert stat.S_IMODE((tmp_path / "keys" / "value.key").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["value.key"]


def test_a_missing_secret_beside_a_journal_is_reported_and_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(KeyLost, match="restore it from a backup"):
        load_value_key(tmp_path, create=False)
    assert not list(tmp_path.iterdir())


def test_a_damaged_secret_is_reported_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "value.key").write_bytes(b"short")
    with pytest.raises(KeyLost, match="5 bytes, not 32"):
        load_value_key(tmp_path, create=True)
    assert (tmp_path / "value.key").read_bytes() == b"short"
