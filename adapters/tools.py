"""One language for tools: Claude's names, and the text of a call that a gate rule's pattern is matched against.

Imported by the daemon's first stage, so: standard library only.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

MAX_SUBJECT = 32_768
"""Characters of a subject. Of a longer one the beginning and the end are kept: a command may follow a long here-document."""
_KEPT_OF_THE_END = 8_192

BASH, EDIT, WRITE, READ, WEB_FETCH, WEB_SEARCH = "Bash", "Edit", "Write", "Read", "WebFetch", "WebSearch"
CHANGES_FILES = frozenset({EDIT, WRITE, "MultiEdit", "NotebookEdit"})

COMMON_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("bash", "shell", "local_shell", "run_shell_command", "run_terminal_cmd", "terminal", "powershell",
                     "exec_command", "unified_exec", "container.exec", "developer__shell", "shell_command"), BASH),
    **dict.fromkeys(("edit", "edit_file", "multiedit", "replace", "str_replace", "str_replace_editor", "apply_patch", "patch",
                     "search_replace", "text_editor", "developer__text_editor", "developer__edit", "notebookedit"), EDIT),
    **dict.fromkeys(("write", "write_file", "create", "create_file", "developer__write"), WRITE),
    **dict.fromkeys(("read", "read_file", "view", "view_file", "read_many_files", "notebookread"), READ),
    **dict.fromkeys(("webfetch", "web_fetch", "fetch"), WEB_FETCH),
    **dict.fromkeys(("websearch", "web_search", "google_web_search"), WEB_SEARCH),
    **dict.fromkeys(("grep", "search_file_content", "rg"), "Grep"),
    **dict.fromkeys(("glob", "find"), "Glob"),
    **dict.fromkeys(("agent", "task", "subagent"), "Agent"),
}  # fmt: skip
"""What several agents call their built-in tools, in lower case, and Claude's name for each."""

_COMMAND_KEYS = ("command", "cmd", "script", "commands")
_PATH_KEYS = (
    "file_path",
    "filePath",
    "path",
    "filename",
    "absolute_path",
    "notebook_path",
    "target_file",
    "file",
    "paths",
)
_PATCH_KEYS = ("patch", "patchText", "input", "diff", "command", "content")
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
_SHELLS = re.compile(r"(?:.*/)?(?:ba|z|da|k)?sh\Z")
_RUNS_A_TEXT = re.compile(r"-[a-z]*c\Z")


def ask_in_words(title: str, text: str) -> str:
    """The refusal that stands for a question where the agent called `title` cannot ask its person: the model asks. The
    adapter has `cannot_ask = True`, so that the person's plain yes lets the same call through."""
    return (
        f"{text}\n{title} cannot ask the person here, so the call is refused for now. Say in your answer what you want to run "
        "and why, and end your turn. Run it again only after they answered yes, and exactly as it is: another call is asked anew."
    )


def canonical(agent_names: Mapping[str, str], name: str) -> str:
    """Claude's name for a tool: the agent's own table first, then the names that agents share; `name` itself where
    neither knows it. Names of tool servers stay as they are: the adapter knows its form of them, see `mcp_tool`."""
    return agent_names.get(name) or COMMON_NAMES.get(name.lower(), name)


def mcp_tool(server: str, tool: str) -> str:
    """The name of a tool server's tool."""
    return f"mcp__{server}__{tool}"


def subject(tool: str, tool_input: Mapping[str, Any] | str) -> str:
    """What a rule for the tool (its canonical name) is matched against, at most MAX_SUBJECT characters.

    `Bash`: the command line, also where it comes as a list of words. Tools that read or change files: the path, of
    several one a line (a patch names them in its text). `WebFetch`: the URL; `WebSearch`: the query. Else, and where
    nothing of that is in it, the input as compact JSON. An input that is a text is taken as it is, or as JSON.
    """
    if isinstance(tool_input, str):
        tool_input = _unpacked(tool_input)
    found = ""
    if tool == BASH:
        found = _command(tool_input)
    elif tool in CHANGES_FILES or tool == READ:
        found = "\n".join(dict.fromkeys(_paths(tool_input)))
    elif tool in (WEB_FETCH, WEB_SEARCH):
        found = _first_text(tool_input, ("url",) if tool == WEB_FETCH else ("query",))
    return _cut(found or _text_of(tool_input))


def _unpacked(text: str) -> Mapping[str, Any]:
    """A model's arguments as they travel, a JSON object in a text; any other text is a command or a patch."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"input": text, "command": text}


def _command(tool_input: Mapping[str, Any]) -> str:
    for key in _COMMAND_KEYS:
        value = tool_input.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            shell = len(value) > 2 and _SHELLS.match(value[0]) and _RUNS_A_TEXT.match(value[1])
            return str(value[2]) if shell else shlex.join(value)
    return ""


def _paths(tool_input: Mapping[str, Any]) -> Iterator[str]:
    for key in _PATH_KEYS:
        value = tool_input.get(key)
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, str) and each:
                yield each
    for key in _PATCH_KEYS:
        value = tool_input.get(key)
        # As a list it is the words of a call, `["apply_patch", "*** Begin Patch …"]`.
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, str) and "*** " in each:
                yield from _PATCHED.findall(each)
    edits = tool_input.get("edits")
    for edit in edits if isinstance(edits, list) else ():
        if isinstance(edit, dict):
            yield from (edit[key] for key in _PATH_KEYS if isinstance(edit.get(key), str) and edit[key])


def _first_text(tool_input: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((tool_input[key] for key in keys if isinstance(tool_input.get(key), str)), "")


def _text_of(tool_input: Mapping[str, Any]) -> str:
    try:
        return json.dumps(tool_input, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return ""


def _cut(text: str) -> str:
    return (
        text
        if len(text) <= MAX_SUBJECT
        else f"{text[: MAX_SUBJECT - _KEPT_OF_THE_END - 1]}\n{text[-_KEPT_OF_THE_END:]}"
    )
