"""What somebody said, of the text a transcript keeps: what we or the agent's program put in, and what is private, is cut. Light."""

from __future__ import annotations

from cems.core.events import COMMAND_MARK
from cems.core.spans import Spans

_OURS = ("cems-memory", "cems-profile", "cems-note")
# What agents' programs write into a prompt, or around what a hook of ours gave: Claude Code and Cursor, Copilot, Goose,
# Gemini CLI, Codex.
_PUT_IN = (
    "system-reminder", "system_reminder", "system_notification", "turn-context", "hook_context", "session_context",
    "persisted-output", "environment_context", "user_instructions", "current_datetime", "user-prompt-submit-hook",
)  # fmt: skip

# Private spans go first: what stands in one must not be freed by the end of a block that began inside it.
_PRIVATE = Spans(("private",))
_BY_PERSON = Spans((*_OURS, *_PUT_IN))
_BY_ASSISTANT = Spans(_OURS)
_BY_TOOL = Spans((*_OURS, "system-reminder", "system_reminder", "hook_context"))


def by_person(text: str) -> str:
    """What the person typed: without private spans, blocks of ours and of the agent's program, and what follows the mark of
    a typed command of ours. A block that is not closed reaches to the end. "" where nothing is left."""
    return _said(text.partition(COMMAND_MARK)[0], _BY_PERSON)


def by_assistant(text: str) -> str:
    """What the assistant wrote, without private spans and blocks of ours it repeats."""
    return _said(text, _BY_ASSISTANT)


def by_tool(text: str) -> str:
    """What a tool gave back, without private spans and what hooks and programs add to it."""
    return _said(text, _BY_TOOL)


def _said(text: str, blocks: Spans) -> str:
    return writable(blocks.cut(_PRIVATE.cut(text)[0])[0].strip())


def writable(text: str) -> str:
    """The text, half a surrogate pair in it as U+FFFD: what no file, store or model takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
