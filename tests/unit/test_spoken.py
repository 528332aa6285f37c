"""Our own blocks, those of agents' programs and private spans are nobody's words, in any form an agent gives them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cems.core.events import COMMAND_MARK
from cems.core.learn import spoken
from cems.core.recall.render import note

BLOCK = '<cems-memory note="Notes from earlier work.">\n- [m_1 decisions] SECRET uses tabs\n</cems-memory>'
FORMS = {
    "as we give it": BLOCK,
    "profile": BLOCK.replace("memory", "profile"),
    "note": note("SECRET was stored"),
    "upper case": BLOCK.upper(),
    "Gemini CLI": f"<hook_context>{BLOCK.replace('<', '&lt;').replace('>', '&gt;')}</hook_context>",
    "escaped alone": BLOCK.replace("<", "&lt;").replace(">", "&gt;"),
    "escaped twice": BLOCK.replace("<", "&amp;lt;").replace(">", "&amp;gt;"),
    "as JSON": BLOCK.replace("<", "\\u003c").replace(">", "\\u003e"),
    "as JSON with slashes": BLOCK.replace("/", "\\/"),
    "Goose": f"<turn-context>\n<current-time>now</current-time>\n{BLOCK}\n</turn-context>",
    "Copilot": f"<system_reminder>\n{BLOCK}\n</system_reminder>",
    "Claude Code": f"<system-reminder>\nUserPromptSubmit hook additional context: {BLOCK}\n</system-reminder>",
    "only the program's": "<system-reminder>SECRET</system-reminder>",
    "private": "<private>SECRET</private>",
    "private inside": "<cems-note>a <private>b</private> SECRET</cems-note>",
    "a stray end inside": "<cems-memory>a </cems-note> SECRET</cems-memory>",
    "not closed inside": "<cems-memory>a <cems-note> SECRET</cems-memory>",
    "private over an end": "<cems-memory>a <private> b</cems-memory> SECRET</private></cems-memory>",
    "empty": "<cems-note/>",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_block_is_not_what_the_person_said(form: str) -> None:
    assert spoken.by_person(f"We use tabs.\n{form}\nAnd spaces in YAML.").split() == [
        "We",
        "use",
        "tabs.",
        "And",
        "spaces",
        "in",
        "YAML.",
    ]
    assert spoken.by_person(form) == ""


@pytest.mark.parametrize("depth", [1, 2, 5, 123])
@pytest.mark.parametrize("form", ["as we give it", "escaped alone", "Copilot", "private"])
def test_blocks_inside_blocks_are_cut_to_the_outermost_end(form: str, depth: int) -> None:
    begin, _, rest = FORMS[form].partition("SECRET")
    assert spoken.by_person(f"before {begin * depth}SECRET{rest * depth} after") == "before  after"


@pytest.mark.parametrize("tag", ["cems-memory", "cems-profile", "cems-note", "private", "turn-context", "hook_context"])
def test_a_block_that_is_not_closed_reaches_to_the_end(tag: str) -> None:
    assert spoken.by_person(f"kept <{tag} note='x'>\n- SECRET\nmore") == "kept"
    assert spoken.by_person(f"kept &lt;{tag}") == "kept"


def test_what_only_looks_like_a_block_stays() -> None:
    for text in (
        "a <b>bold</b> word",
        "cems-memory is its tag",
        "if a < b and c > d",
        "</cems-memory> alone",
        "<cems-memory-x>",
    ):
        assert spoken.by_person(text) == text


def test_the_assistant_may_name_a_program_s_tag_and_a_tool_may_print_it() -> None:
    text = "Claude wraps it in <system-reminder> tags."
    assert spoken.by_assistant(text) == text
    assert spoken.by_assistant(f"As noted: {BLOCK} Done. <private>SECRET</private>") == "As noted:  Done."
    assert spoken.by_tool(f"exit 0\n{BLOCK}<system-reminder>SECRET</system-reminder>") == "exit 0"


def test_of_a_typed_command_of_ours_only_what_was_typed_is_said() -> None:
    assert spoken.by_person(f"/remember we use tabs\n{COMMAND_MARK} Store it with the tool.") == "/remember we use tabs"


def test_half_a_surrogate_pair_can_be_written() -> None:
    assert spoken.by_person("a\ud83d b") == "a\ufffd b"
    assert spoken.by_tool("\ud83d\ude00") == "\U0001f600"


PIECES = st.sampled_from(
    [*"<>/&; \n\\", "cems-memory", "private", "lt", "x", "cems-note", "hook_context", "</", "&lt;"]
)


@given(st.lists(PIECES).map("".join))
def test_any_text_is_cut_once_and_for_all(text: str) -> None:
    once = spoken.by_person(text)
    assert spoken.by_person(once) == once
    assert len(once) <= len(text)


@pytest.mark.parametrize(
    "piece", ["<cems-memory>", "</cems-memory>", "<private>", "<cems-note><cems-memory></cems-note>", "<cems-memory "]
)
def test_it_takes_linear_time(piece: str) -> None:
    begun = time.perf_counter()
    spoken.by_person(piece * 100_000)
    assert time.perf_counter() - begun < 5
