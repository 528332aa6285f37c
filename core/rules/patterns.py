"""The patterns of gate rules: `*` is any text, `?` one character, everything else itself. No regular expression that
could take long: time is linear in the text for each part of a pattern between two stars.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

from cems.core.rules.shell import CommandLine, Words, take_apart, words_of

_SHORT_OPTIONS = re.compile(r"-[A-Za-z]{1,4}\Z")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://(?:www\.)?")


class Call:
    """One call of a tool: its canonical name, what it works on, and the folders that relative paths are of."""

    def __init__(self, tool: str, subject: str, folders: Sequence[str] = ()) -> None:
        self.tool = tool
        self.subject = subject
        self.folders = tuple(dict.fromkeys(each.rstrip("/") for each in folders if each.startswith("/")))

    @cached_property
    def command(self) -> CommandLine:
        return take_apart(self.subject)

    @cached_property
    def paths(self) -> list[Path]:
        return [Path.of(line, self.folders) for line in self.subject.split("\n") if line.strip()]


@dataclass(frozen=True, slots=True)
class Path:
    """One path in the forms a pattern may mean: `forms` as given, absolute, and relative to each folder it lies in;
    `parts` the names in it, from the folder down (from the root where it lies in none)."""

    forms: tuple[str, ...]
    parts: tuple[str, ...]

    @classmethod
    def of(cls, given: str, folders: Sequence[str]) -> Path:
        whole = os.path.normpath(os.path.join(folders[0], given)) if folders else os.path.normpath(given)  # noqa: PTH118
        inside = [whole[len(folder) + 1 :] for folder in folders if whole.startswith(f"{folder}/")]
        parts = max(inside, key=len, default=whole).split("/")
        return cls(tuple(dict.fromkeys((given, whole, *inside))), tuple(part for part in parts if part))


class Pattern(Protocol):
    def holds(self, call: Call) -> bool: ...


class Glob:
    """A pattern for a whole text."""

    def __init__(self, pattern: str) -> None:
        first, *rest = re.sub(r"\*+", "*", pattern).split("*")
        self._first = _Part(first)
        self._last = _Part(rest.pop()) if rest else None
        self._middle = [_Part(part) for part in rest]

    def matches(self, text: str) -> bool:
        at = self._first.starts(text)
        if self._last is None or at < 0:
            return at == len(text)
        end = self._last.ends(text, at)
        for part in self._middle:
            if end < 0 or at < 0:
                return False
            # The first place is the best one: what follows has the most room.
            at = part.find(text, at, end)
        return end >= 0 and at >= 0


class _Part:
    """The text between two stars; a question mark in it is any character."""

    def __init__(self, text: str) -> None:
        self._text = text
        single = "".join("." if char == "?" else re.escape(char) for char in text)
        self._any = re.compile(single, re.DOTALL) if "?" in text else None

    def starts(self, text: str) -> int:
        """Where it ends in a text that begins with it, else -1."""
        there = self._any.match(text) if self._any else text.startswith(self._text)
        return len(self._text) if there else -1

    def ends(self, text: str, after: int) -> int:
        """Where it begins in a text that ends with it, at `after` at the earliest, else -1."""
        at = len(text) - len(self._text)
        there = at >= after and (self._any.match(text, at) if self._any else text.endswith(self._text))
        return at if there else -1

    def find(self, text: str, start: int, end: int) -> int:
        """Where it ends when it comes first between the two places, else -1."""
        if self._any is not None:
            found = self._any.search(text, start, end)
            return found.end() if found else -1
        at = text.find(self._text, start, end)
        return at + len(self._text) if at >= 0 else -1


class CommandPattern:
    """Holds for a command line when one of its simple commands begins with the pattern; further words may follow.

    Options (`--force`, `-f`) may stand anywhere in the command, short ones together or apart. A pattern with `|`, `;`,
    `&`, `<` or `>` is looked for in the whole line, and so is every pattern where the line cannot be taken apart.
    """

    def __init__(self, pattern: str) -> None:
        pattern = f"{pattern[:-2]}*" if pattern.endswith(":*") else pattern
        words = words_of(pattern)
        text = " ".join(words or pattern.split())
        self._in_line = Glob(f"*{text}*")
        self._across = words is None
        self._whole, self._followed = Glob(text), Glob(f"{text} *")
        self._anchor = max(re.split(r"[*?\s]", (words or pattern.split() or [""])[0]), key=len)
        plain, options = _apart(words or ())
        while len(plain) > 1 and plain[-1] == "*":
            plain = plain[:-1]
        self._plain = CommandPattern(" ".join(plain)) if options and plain else None
        self._options = [_Option(word) for word in options]

    def holds(self, call: Call) -> bool:
        if self._anchor not in call.subject:
            return False
        line = call.command
        if self._across or not line.complete:
            return self._in_line.matches(line.flat) or (not self._across and any(map(self._begins, line.commands)))
        return any(map(self._begins, line.commands))

    def _begins(self, command: Words) -> bool:
        text = " ".join(command)
        if self._whole.matches(text) or self._followed.matches(text):
            return True
        if self._plain is None:
            return False
        plain, options = _apart(command)
        return all(option.among(options) for option in self._options) and self._plain._begins(tuple(plain))


class _Option:
    """One option of a pattern, which may be several short ones written together."""

    def __init__(self, word: str) -> None:
        self._globs = (Glob(word), Glob(f"{word}=*"))
        self._letters = frozenset(word[1:]) if _SHORT_OPTIONS.match(word) else frozenset()

    def among(self, options: Sequence[str]) -> bool:
        if any(glob.matches(option) for option in options for glob in self._globs):
            return True
        given = frozenset("".join(option[1:] for option in options if _SHORT_OPTIONS.match(option)))
        return bool(self._letters) and self._letters <= given


def _apart(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that are no options, and the options; after `--` there are none."""
    end = words.index("--") if "--" in words else len(words)
    options = [word for i, word in enumerate(words) if 0 < i < end and len(word) > 1 and word.startswith("-")]
    plain = [word for i, word in enumerate(words) if not (0 < i < end and len(word) > 1 and word.startswith("-"))]
    return plain, options


class PathPattern:
    """Holds for a path that it matches as written, absolute or from the project's folder, and for everything below.

    Without a slash it is matched against each name in the path, so `*.env` and `node_modules` hold in every folder.
    """

    def __init__(self, pattern: str) -> None:
        pattern = os.path.expanduser(pattern) if pattern.startswith("~") else pattern  # noqa: PTH111
        pattern = pattern.removeprefix("./")
        stripped = pattern.rstrip("/") or pattern
        self._by_name = "/" not in stripped
        self._globs: tuple[Glob, ...] = (Glob(stripped), Glob(f"{stripped}/*"))
        # `**/x` is also the `x` at the top.
        self._globs += tuple(Glob(stripped[3:] + end) for end in ("", "/*") if stripped.startswith("**/"))

    def holds(self, call: Call) -> bool:
        return any(self._matches(path) for path in call.paths)

    def _matches(self, path: Path) -> bool:
        texts: Iterator[str] = iter(path.parts if self._by_name else path.forms)
        return any(glob.matches(text) for text in texts for glob in self._globs)


class TextPattern:
    """Holds for any other tool's input: as a whole, or with no wildcard in it anywhere; a URL also without its scheme."""

    def __init__(self, pattern: str) -> None:
        wild = "*" in pattern or "?" in pattern
        self._globs = (Glob(pattern),) if wild else (Glob(f"*{pattern}*"),)

    def holds(self, call: Call) -> bool:
        texts = dict.fromkeys((call.subject, _SCHEME.sub("", call.subject, count=1)))
        return any(glob.matches(text) for text in texts for glob in self._globs)


_KINDS: Mapping[str, Callable[[str], Pattern]] = {"command": CommandPattern, "path": PathPattern, "text": TextPattern}


@lru_cache(maxsize=1024)
def pattern_for(kind: str, pattern: str) -> Pattern:
    """The pattern made ready; kept, since rules are read anew whenever a memory changes."""
    return _KINDS[kind](pattern)
