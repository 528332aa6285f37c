"""A command line taken apart into the simple commands that a shell would run. Nothing is expanded or run.

It is read as `sh` and `bash` read it, roughly: quotes, lists, pipes, subshells, substitutions, here-documents. What it
cannot be sure of it says (`complete`), and the caller then looks at the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Words = tuple[str, ...]

_MOST_DEPTH = 8
_MOST_COMMANDS = 400
"""Of one line, nested ones too; of a longer one the whole text is looked at."""

_PLAIN = re.compile(r"[^ \t\r\n'\"\\$`;&|<>(){}#]+")
_IN_DOUBLE_QUOTES = re.compile(r"[^\"\\$`]+")
_BRACE = re.compile(r"\$\{|\}")
_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_REDIRECTION = re.compile(r"&>>|&>|<<<|<<-?|<>|>>|>&|<&|>\||[<>]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_RESERVED = frozenset(
    (
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "in",
        "function",
        "!",
        "{",
        "}",
    )
)
_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "ash"))
_RUNS_A_TEXT = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*\Z")
# Programs that run another one: which of their options take a word of their own, and how many words come before it.
_RUNNERS: dict[str, tuple[frozenset[str], int]] = {
    "sudo": (
        frozenset(
            [
                "-u",
                "-g",
                "-h",
                "-p",
                "-C",
                "-T",
                "-r",
                "-t",
                "-U",
                "-R",
                "-D",
                "--user",
                "--group",
                "--host",
                "--prompt",
                "--chdir",
                "--chroot",
            ]
        ),
        0,
    ),
    "doas": (frozenset(("-u", "-C")), 0),
    "env": (frozenset(("-u", "-C", "--unset", "--chdir")), 0),
    "nice": (frozenset(("-n", "--adjustment")), 0),
    "ionice": (frozenset(("-c", "-n", "--class", "--classdata")), 0),
    "timeout": (frozenset(("-k", "-s", "--kill-after", "--signal")), 1),
    "xargs": (
        frozenset(
            ["-n", "-P", "-I", "-L", "-s", "-d", "-E", "-a", "--max-args", "--max-procs", "--delimiter", "--arg-file"]
        ),
        0,
    ),
    "time": (frozenset(("-f", "-o")), 0),
    "stdbuf": (frozenset(("-i", "-o", "-e")), 0),
    "exec": (frozenset(("-a",)), 0),
    "watch": (frozenset(("-n", "--interval")), 0),
    **dict.fromkeys(("nohup", "command", "builtin", "setsid", "busybox"), (frozenset(), 0)),
}
_GIT_OPTIONS_WITH_A_WORD = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")
)
_FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


@dataclass(slots=True)
class CommandLine:
    """The simple commands in a text, each in every form it may be meant by: as written, without what only runs it
    (`sudo`, `FOO=1`, `timeout 5`), by the program's name without its folder, `git` without the options before its
    subcommand. `complete`: whether the text could be taken apart to its end. `flat`: the text with single spaces.
    """

    flat: str
    commands: list[Words] = field(default_factory=list)
    complete: bool = True


class _Unclear(Exception):
    """The text is no command line that we understand."""


def take_apart(text: str) -> CommandLine:
    """The command line in a text; every text gives one. Time is linear in its length, for each of 8 levels of nesting."""
    line = CommandLine(" ".join(text.split()))
    found = _Found()
    try:
        _Reader(text, found, 0).read()
    except _Unclear:
        line.complete = False
    line.commands = list(found.forms)
    return line


def words_of(text: str) -> Words | None:
    """The words of a text that is one simple command without redirections; None for any other text."""
    if re.search(r"[;&|<>\n`]|\$\(", text):
        return None
    reader = _Reader(text, _Found(), 0)
    try:
        reader.read()
    except _Unclear:
        return None
    return reader.first


class _Found:
    """The forms of the commands in a line, each once, and how many commands there were."""

    def __init__(self) -> None:
        self.forms: dict[Words, None] = {}
        self.commands = 0


class _Reader:
    """Reads one text; what it finds goes to `found`, which readers of nested texts share."""

    def __init__(self, text: str, found: _Found, depth: int) -> None:
        if depth > _MOST_DEPTH:
            raise _Unclear
        self.text, self.found, self.depth = text, found, depth
        self.at = 0
        self.first: Words | None = None
        self._waiting: list[tuple[str, bool]] = []
        """Here-documents whose text begins after this line: their end, and whether tabs before it count."""
        self._shell_in_line = False

    def read(self) -> None:
        self._list("")

    def _nested(self, text: str) -> None:
        _Reader(text, self.found, self.depth + 1).read()

    def _list(self, closing: str) -> None:
        """Commands up to `closing`, or to the end of the text."""
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise _Unclear
        text, words = self.text, list[str]()
        while self.at < len(text):
            if blank := _BLANK.match(text, self.at):
                self.at = blank.end()
                continue
            char = text[self.at]
            if char == "\n":
                self.at += 1
                self._end(words)
                self._here_documents()
            elif char == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif redirection := _REDIRECTION.match(text, self.at):
                self.at = redirection.end()
                self._redirect(redirection[0], words)
            elif char in ";&|":
                self.at += 1
                self._end(words)
            elif text.startswith("((", self.at) and not words:
                self._skip_arithmetic()
            elif char == "(":
                self.at += 1
                self._end(words)
                self._list(")")
            elif char == ")":
                self.at += 1
                self._end(words)
                if closing == ")":
                    self.depth -= 1
                    return
                # `case` has them without a partner.
            else:
                word, literal = self._word()
                if literal and word in _RESERVED and not words:
                    continue
                words.append(word)
        if closing:
            raise _Unclear
        self._end(words)
        self._here_documents()
        self.depth -= 1

    def _end(self, words: list[str]) -> None:
        """A simple command ends here."""
        if not words:
            return
        command = tuple(words)
        words.clear()
        if self.first is None:
            self.first = command
        self.found.commands += 1
        if self.found.commands > _MOST_COMMANDS:
            raise _Unclear
        for form in self._forms(command):
            self.found.forms[form] = None

    def _word(self) -> tuple[str, bool]:
        """The next word without its quotes, and whether it had none."""
        text, start = self.text, self.at
        parts: list[str] = []
        literal = True
        while self.at < len(text):
            if plain := _PLAIN.match(text, self.at):
                self.at = plain.end()
                parts.append(plain[0])
                continue
            char = text[self.at]
            if char == "'":
                literal = False
                parts.append(self._until("'", self.at + 1))
            elif char == '"':
                literal = False
                parts.append(self._double_quoted())
            elif char == "\\":
                literal = False
                parts.append("" if text.startswith("\n", self.at + 1) else text[self.at + 1 : self.at + 2])
                self.at += 2
            elif char in "$`":
                parts.append(self._substitution())
            elif char in "{}" or (char == "#" and self.at > start):
                parts.append(char)
                self.at += 1
            elif char in "<>" and text.startswith("(", self.at + 1):
                parts.append(self._substitution())
            else:
                break
        return "".join(parts), literal

    def _double_quoted(self) -> str:
        parts: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            if plain := _IN_DOUBLE_QUOTES.match(self.text, self.at):
                self.at = plain.end()
                parts.append(plain[0])
                continue
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return "".join(parts)
            if char == "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                parts.append(escaped if escaped in '"\\$`' else "" if escaped == "\n" else f"\\{escaped}")
                self.at += 2
            else:
                parts.append(self._substitution())
        raise _Unclear

    def _substitution(self) -> str:
        """What begins with `$`, a backquote, `<(` or `>(`, as it is written; commands in it are found too."""
        text, start = self.text, self.at
        if text[start] == "`":
            inner = self._until("`", start + 1)
            self._nested(inner.replace("\\`", "`"))
        elif text.startswith("$((", start):
            self.at += 1
            self._skip_arithmetic()
        elif text.startswith("(", start + 1):
            self.at += 2
            # Its here-documents are its own.
            outer, self._waiting = self._waiting, []
            self._list(")")
            self._waiting = outer
        elif text.startswith("${", start):
            self.at = self._after_brace(start + 2)
        elif text.startswith("$'", start):
            return self._until("'", start + 2)
        else:
            self.at += 1
        return text[start : self.at]

    def _after_brace(self, at: int) -> int:
        open_braces = 1
        for found in _BRACE.finditer(self.text, at):
            open_braces += 1 if found[0] == "${" else -1
            if not open_braces:
                return found.end()
        raise _Unclear

    def _skip_arithmetic(self) -> None:
        end = self.text.find("))", self.at)
        if end < 0:
            raise _Unclear
        self.at = end + 2

    def _until(self, quote: str, at: int) -> str:
        """The text up to the closing quote; a backslash keeps a backquote (and the quote of `$'…'`) from closing."""
        escapes = quote == "`" or self.text[at - 2 : at] == "$'"
        end = self.text.find(quote, at)
        while escapes and end > at and self.text[end - 1] == "\\":
            end = self.text.find(quote, end + 1)
        if end < 0:
            raise _Unclear
        self.at = end + 1
        return self.text[at:end]

    def _redirect(self, operator: str, words: list[str]) -> None:
        if operator in ("<", ">") and self.text.startswith("(", self.at):
            # A process substitution: a word of the command.
            self.at -= 1
            words.append(self._substitution())
            return
        # `2>` names what is redirected; a file of digits before it would have a space.
        if words and words[-1].isdigit() and self.text[self.at - len(operator) - 1 : self.at - len(operator)].isdigit():
            words.pop()
        if blank := _BLANK.match(self.text, self.at):
            self.at = blank.end()
        target, _ = self._word()
        if operator in ("<<", "<<-"):
            self._waiting.append((target, operator == "<<-"))
        elif operator == "<<<" and words and _name(words[0]) in _SHELLS:
            self._nested(target)

    def _here_documents(self) -> None:
        """Pass over the texts that begin on this line; a shell among the line's commands runs them."""
        for end, tabs in self._waiting:
            lines: list[str] = []
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                line = self.text[self.at :] if stop < 0 else self.text[self.at : stop]
                self.at = len(self.text) if stop < 0 else stop + 1
                if (line.lstrip("\t") if tabs else line) == end:
                    break
                lines.append(line)
            if self._shell_in_line:
                self._nested("\n".join(lines))
        self._waiting.clear()
        self._shell_in_line = False

    def _forms(self, command: Words) -> Iterator[Words]:
        """The command as written, and what it is without its wrappings."""
        for _ in range(_MOST_DEPTH):
            yield command
            bare = _without_assignments(command)
            if not bare:
                return
            name = _name(bare[0])
            bare = (name, *bare[1:])
            yield bare
            if name in _SHELLS or name == "su":
                at = next((i for i, word in enumerate(bare) if i and _RUNS_A_TEXT.match(word)), 0)
                self._shell_in_line |= not at
                if at and at + 1 < len(bare):
                    self._nested(bare[at + 1])
                return
            if name == "eval":
                self._nested(" ".join(bare[1:]))
                return
            if name == "git":
                yield _without_git_options(bare)
                return
            if name == "find":
                for at in (i for i, word in enumerate(bare) if word in _FIND_RUNS):
                    yield from self._forms(_up_to_semicolon(bare[at + 1 :]))
                return
            if name not in _RUNNERS:
                return
            command = _run_by(bare)
            if not command:
                return


def _name(program: str) -> str:
    """A program's name without its folder."""
    return program.rpartition("/")[2] or program


def _without_assignments(words: Sequence[str]) -> Words:
    at = next((i for i, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words))
    return tuple(words[at:])


def _run_by(words: Words) -> Words:
    """What the runner in front runs."""
    with_a_word, before = _RUNNERS[words[0]]
    at = 1
    while at < len(words) and (words[at].startswith("-") or _ASSIGNMENT.match(words[at])):
        at += 2 if words[at] in with_a_word else 1
    return words[at + before :]


def _without_git_options(words: Words) -> Words:
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _GIT_OPTIONS_WITH_A_WORD else 1
    return ("git", *words[at:])


def _up_to_semicolon(words: Words) -> Words:
    at = next((i for i, word in enumerate(words) if word in (";", "+")), len(words))
    return words[:at]
