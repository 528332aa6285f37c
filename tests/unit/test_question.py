"""What is left of a prompt to search for: the sentence stays, what was pasted goes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cems.core.recall.prose import looks_like_code
from cems.core.recall.question import ask, clean

SENTENCE = "why does the upload fail on staging since monday"

DIFF = """\
diff --git a/load.py b/load.py
index 1234567..89abcde 100644
--- a/load.py
+++ b/load.py
@@ -1,5 +1,6 @@ def load
 import os
-    return cache.get(key)
+    value = cache.get(key)
+    # fall back to the database when nothing is cached
+    return value or load_from_db(key)"""

TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/app/main.py", line 12, in <module>
    start the whole thing
  File "/srv/app/run.py", line 7, in run
    raise ValueError("bad")
    ^^^^^^^^^^^^^^^^^^^^^^^
"""

NODE_TRACE = """\
    at UserList (src/UserList.tsx:14:22)
    at async Promise.all (index 0)
    at java.util.concurrent.FutureTask.run(FutureTask.java:264)"""

LOG = """\
2026-11-02T10:11:12Z INFO worker started the whole queue again
[10:11:14] WARN slow query on the invoices table took very long
INFO: the server listens on all interfaces now"""

TYPESCRIPT = """\
export const useUser = (id: string) => {
  const { data, error } = useQuery(['user', id], () => fetchUser(id));
  if (error) throw error
  return data
}
await db.connect()
logger.info("starting the server on this port", port)"""

PYTHON = '''\
class Cache:
    """Keeps what was read a moment ago."""

    def get(self, key: str) -> str | None:
        # The oldest entry goes first when there is no room left.
        value = self._items[key]
        return value'''

CONSTANTS = '''\
NAMES = (
    "TZ",
    # The system keyring is reached through it.
    "DBUS_SESSION_BUS_ADDRESS",
)
"""The only variables a daemon gets: never an agent's.

They are handed on as they are.
"""
# Many hooks fire at once, and a broken one must not be restarted by every call.
ENDINGS = ("_KEY", "_TOKEN", "_SECRET")'''

JSON = '{\n  "name": "app",\n  "version": "1.0.0",\n  "scripts": {\n    "build": "vite build everything"\n  }\n}'

SQL = """\
SELECT u.id, u.name, count(o.id) AS orders
FROM users u
LEFT JOIN orders o ON o.user_id = u.id
WHERE u.active = true
GROUP BY u.id;"""

YAML = "services:\n  db:\n    image: postgres:16\n    ports:\n      - 5432:5432\n    restart: always"

PASTED = {
    "diff": DIFF,
    "Python traceback": TRACEBACK,
    "JavaScript and Java frames": NODE_TRACE,
    "log": LOG,
    "TypeScript": TYPESCRIPT,
    "Python": PYTHON,
    "constants and their comments": CONSTANTS,
    "JSON": JSON,
    "SQL": SQL,
    "YAML": YAML,
}


@pytest.mark.parametrize("pasted", PASTED.values(), ids=PASTED)
@pytest.mark.parametrize(
    "arranged",
    ["{said}\n\n{pasted}", "{pasted}\n\n{said}", "{said}\n```\n{pasted}\n```", "~~~py\n{pasted}\n~~~ {said}"],
)
def test_what_was_pasted_goes_and_the_sentence_stays(pasted: str, arranged: str) -> None:
    assert clean(arranged.format(said=SENTENCE, pasted=pasted)) == SENTENCE


def test_a_fence_that_was_never_closed_does_not_swallow_the_question() -> None:
    assert clean(f"fix\n```\nfoo();\n{SENTENCE}") == f"fix {SENTENCE}"


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("- deploy with blue/green (ask ops)\n- use uv (not pip)", "deploy with blue/green (ask ops) use uv (not pip)"),
        ("1. Add a column (nullable)\n2. Backfill it", "Add a column (nullable) Backfill it"),
        ("what does `useQueryClient()` return?", "what does useQueryClient() return?"),
        ("from now on import things lazily", "from now on import things lazily"),
        ("SELECT queries are slow, what did we decide?", "SELECT queries are slow, what did we decide?"),
        ("if (and only if) the tests pass, deploy", "if (and only if) the tests pass, deploy"),
        ("> what port does the API use?", "what port does the API use?"),
        ("部署到生产环境前要做什么（先审批）？", "部署到生产环境前要做什么（先审批）？"),
        ("retry()", "retry()"),
        ("Error: timeout", "Error: timeout"),
    ],
)
def test_sentences_that_look_a_little_like_code_are_kept(prompt: str, said: str) -> None:
    assert clean(prompt) == said


def test_of_a_prompt_that_is_all_code_what_reads_most_like_words_is_asked() -> None:
    log = "2026-11-02 10:11:12 ERROR could not reach the payment service\n" * 5
    assert "payment service" in clean(log)


@pytest.mark.parametrize(
    "tag",
    ["cems-memory", "cems-profile", "system-reminder", "task-notification", "command-name", "private", "CEMS-Memory"],
)
def test_machine_blocks_and_private_spans_are_not_searched_for(tag: str) -> None:
    block = f'<{tag} note="x">the database listens on 5433</{tag.lower()}>'
    nested = f"<{tag}>{block}{block}</{tag}>"
    assert clean(f"{nested} {SENTENCE}") == SENTENCE


def test_a_block_cut_off_before_its_end_is_dropped_to_the_end() -> None:
    assert clean(f"{SENTENCE}\n<cems-memory>\n- [m_1] the database") == SENTENCE
    assert clean(f"{SENTENCE} <private>my password is") == SENTENCE


def test_a_tag_that_is_only_spoken_of_hides_nothing() -> None:
    assert clean("the <system-reminder> tag is in my log, why?") == "the tag is in my log, why?"


def test_a_long_prompt_keeps_its_beginning_and_its_end() -> None:
    words = [f"word{i}" for i in range(500)]
    kept = clean(" ".join(words)).split()
    assert kept[0] == "word0"
    assert kept[-1] == "word499"
    assert len(kept) <= 80


@given(st.text(st.characters(exclude_categories=()), max_size=400))
def test_cleaning_never_raises_and_gives_little_storable_text(prompt: str) -> None:
    question = ask(prompt)
    assert len(question.text) <= 700
    question.text.encode("utf-8")


@given(
    st.lists(
        st.sampled_from(
            ["```", "~~~", "<private>", "</private>", "<cems-memory ", ">", "\n", "- ", "foo();", "@@ ", "a b"]
        )
    )
)
def test_broken_markup_in_any_order_never_raises(parts: list[str]) -> None:
    ask("".join(parts))


SLOW = {
    "spaces": "x " + " " * 200_000 + "y",
    "open tags": "<private" * 25_000,
    "tags never closed": "see <system-reminder> " * 9_000,
    "fences": "``` " * 50_000,
    "ticks": "`a" * 100_000,
    "arrows": "=>" * 100_000 + " x",
    "frames": "at x(" * 40_000,
    "one word": "a" * 200_000,
    "hyphens": "a-" * 100_000,
    "lines of code": "foo(\n" * 40_000,
    "brackets": "[(" * 100_000,
    "empty lines": "\n" * 200_000,
    "Chinese": "部署" * 100_000,
    "prose": "the quick brown fox jumps over the lazy dog. " * 4_500,
}


@pytest.mark.parametrize("prompt", SLOW.values(), ids=SLOW)
def test_200_kb_are_cleaned_in_less_than_half_a_second(prompt: str) -> None:
    best = min(_seconds(prompt) for _ in range(3))
    assert best < 0.5


def _seconds(prompt: str) -> float:
    began = time.perf_counter()
    ask(prompt)
    return time.perf_counter() - began


@pytest.mark.parametrize(
    "prompt", ["rename this function", "what is wrong on line 12", "undo", "simplify it", "speed up the loop"]
)
def test_a_prompt_about_what_is_on_the_screen_is_seen_as_such(prompt: str) -> None:
    assert ask(prompt).deixis


@pytest.mark.parametrize(
    "prompt", ["what was the last decision on logging", "close the loophole in the login", "deploy to staging"]
)
def test_a_prompt_about_the_project_is_not(prompt: str) -> None:
    assert not ask(prompt).deixis


def test_a_language_named_in_general_is_seen_and_a_word_that_begins_like_one_is_not() -> None:
    assert ask("sort a list in Python").generic_language
    assert ask("parse JSON in C++ quickly").generic_language
    assert ask("a dictionary in C# please").generic_language
    assert not ask("what is left for go-live").generic_language
    assert not ask("the rules for results").generic_language


def test_general_knowledge_questions_are_seen() -> None:
    assert ask("what is a monad").general
    assert ask("how do I exit vim").general
    assert not ask("deploy the api").general


def test_code_is_told_from_words_line_by_line() -> None:
    assert looks_like_code("const x = foo(bar);")
    assert looks_like_code("timeout := 30")
    assert not looks_like_code("set the timeout to thirty seconds")


@pytest.mark.parametrize(
    ("prompt", "pointing"),
    [
        ("which port does the staging database use", 0),
        ("why is this slow", 1),
        ("move it here and delete that one above", 3),
        ("iterate over the thistles", 0),
    ],
)
def test_words_that_point_at_what_is_in_view_are_counted_to_three(prompt: str, pointing: int) -> None:
    assert ask(prompt).pointing == pointing


def test_how_much_of_a_prompt_was_no_question_is_told() -> None:
    assert ask(SENTENCE).cut == 0
    assert ask(f"{SENTENCE}\n\n{DIFF}").cut == pytest.approx(1 - len(SENTENCE) / len(f"{SENTENCE}\n\n{DIFF}"))
    assert ask("").cut == 0


@given(st.text(max_size=300))
def test_the_share_cut_is_a_share(prompt: str) -> None:
    assert 0 <= ask(prompt).cut <= 1
