"""One gate rule, as a person writes it: `[severity] Tool: pattern — reason`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cems.core.rules.patterns import Call, Glob, Pattern, pattern_for

CATEGORY = "gate-rules"
Severity = Literal["block", "confirm", "warn"]
SEVERITIES: tuple[Severity, ...] = ("block", "confirm", "warn")
"""The strongest first."""
MAX_PATTERN = 300
MAX_REASON = 400

_SPELLINGS: Mapping[str, Severity] = {
    "block": "block", "deny": "block", "never": "block", "forbid": "block", "refuse": "block",
    "confirm": "confirm", "ask": "confirm", "warn": "warn", "warning": "warn", "tell": "warn",
}  # fmt: skip
_PREFIX = re.compile(r"\s*\[\s*([A-Za-z-]+)\s*\]\s*")
_TOOLS = re.compile(r"\s*([A-Za-z0-9_.*?-]+(?:\s*\|\s*[A-Za-z0-9_.*?-]+)*)\s*:(?!//)\s*(.*)\Z", re.DOTALL)
_QUOTED = re.compile(r"`([^`]+)`\s*(?:(?:—|–|--|-)\s*)?(.*)\Z", re.DOTALL)
_LONG_DASH = re.compile(r"(?:\s+[—–]+\s*|[—–]+\s+)")
_SHORT_DASH = re.compile(r"\s+--?\s+(?=.*\w)")
_ASKS = re.compile(
    r"\b(?:ask(?:ing)?|confirm(?:ation)?|approv(?:e|al)|permission|check with (?:me|us)|ok(?:ay)? (?:from|by) me|unless I)\b",
    re.IGNORECASE,
)
_FORBIDS = re.compile(r"\b(?:never|don['’]?t|do not|must not|forbidden|not allowed|no exceptions?)\b", re.IGNORECASE)
_WARNS = re.compile(r"\s*(?:be careful|careful|caution|warn(?:ing)?|note|mind|heads[ -]?up|remember)\b", re.IGNORECASE)
_TOOL_SPELLINGS = {"shell": "Bash", "terminal": "Bash", "command": "Bash", "fetch": "WebFetch"}
_CHANGES_FILES = frozenset(("edit", "write", "multiedit", "notebookedit"))
_HAS_A_PATH = _CHANGES_FILES | {"read", "notebookread"}
_BUILT_IN = re.compile(r"Bash|Edit|Write|Read|WebFetch|WebSearch|MultiEdit|NotebookEdit|mcp__.+")
_EXAMPLE = "such as `Bash: git push --force* — ask first`"


class BadRule(Exception):
    """The text is no gate rule; the message is one sentence that says why and what to write."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and the memory it is. `tools` are names, which may have wildcards."""

    tools: tuple[str, ...]
    pattern: str
    reason: str
    severity: Severity
    memory: str = ""
    valid_from: str = ""
    valid_to: str = ""

    @property
    def short_id(self) -> str:
        return self.memory[:10]

    @property
    def text(self) -> str:
        """The rule without severity and reason."""
        return f"{'|'.join(self.tools)}: {self.pattern}"

    def holds(self, call: Call) -> bool:
        """Whether the rule is about this call."""
        return any(_means(tool, call.tool) for tool in self.tools) and self._pattern(call.tool).holds(call)

    def _pattern(self, tool: str) -> Pattern:
        name = tool.lower()
        return pattern_for("command" if name == "bash" else "path" if name in _HAS_A_PATH else "text", self.pattern)


def parse(text: str, kind: str = "") -> Rule:
    """The rule in a memory's text. `kind`, the memory's, is the severity where the text names none. Raises BadRule.

    Without either the reason decides: one that speaks of asking means confirm, one that begins with a caution means warn;
    "never", any other reason and none mean block.
    """
    named = ""
    rest = text
    if prefix := _PREFIX.match(text):
        named, rest = prefix[1], text[prefix.end() :]
        if named.lower() not in _SPELLINGS:
            raise BadRule(f"[{named}] is no severity: write [block], [confirm] or [warn]")
    found = _TOOLS.match(rest)
    if found is None:
        raise BadRule(f"a rule begins with the tool and a colon, {_EXAMPLE}")
    tools = tuple(dict.fromkeys(_tool(name.strip()) for name in found[1].split("|")))
    pattern, reason = _parts(" ".join(found[2].split()))
    if not pattern:
        raise BadRule(f"the pattern is missing after `{found[1].strip()}:`; `*` holds for every call")
    if len(pattern) > MAX_PATTERN:
        raise BadRule(f"a pattern has at most {MAX_PATTERN} characters, this has {len(pattern)}")
    if len(reason) > MAX_REASON:
        raise BadRule(f"a reason has at most {MAX_REASON} characters, this has {len(reason)}")
    severity = _SPELLINGS.get(named.lower()) or _SPELLINGS.get(kind.strip().lower()) or severity_of(reason)
    return Rule(tools, pattern, reason, severity)


def severity_of(reason: str) -> Severity:
    """What a reason means where no severity is named."""
    if _FORBIDS.search(reason) and not re.search(
        r"\bwithout (?:asking|my|permission|approval)|\bunless\b", reason, re.IGNORECASE
    ):
        return "block"
    if _WARNS.match(reason):
        return "warn"
    return "confirm" if _ASKS.search(reason) else "block"


def is_written_as_rule(text: str) -> bool:
    """Whether a text that nobody called a rule is meant as one: a tool's name, a pattern, and a reason after a dash."""
    found = _TOOLS.match(_PREFIX.sub("", text, count=1))
    if found is None or not all(_BUILT_IN.fullmatch(name.strip()) for name in found[1].split("|")):
        return False
    try:
        return bool(parse(text).reason)
    except BadRule:
        return False


def with_severity(text: str, severity: str) -> str:
    """The rule's text with this severity in front. Raises BadRule for a word that is none, or where it names another."""
    wanted = _SPELLINGS.get(severity.strip().lower())
    if wanted is None:
        raise BadRule(f"{severity!r} is no severity: block, confirm or warn")
    prefix = _PREFIX.match(text)
    if prefix is None:
        return f"[{wanted}] {text.strip()}"
    if _SPELLINGS.get(prefix[1].lower(), wanted) != wanted:
        raise BadRule(f"the rule says [{prefix[1]}] itself; leave out one of the two")
    return text


def _parts(body: str) -> tuple[str, str]:
    """Pattern and reason. Backquotes around the pattern end every doubt."""
    if quoted := _QUOTED.match(body):
        return quoted[1].strip(), quoted[2].strip()
    if dash := _LONG_DASH.search(body):
        return body[: dash.start()].strip(), body[dash.end() :].strip()
    dashes = list(_SHORT_DASH.finditer(body))
    if len(dashes) > 1:
        raise BadRule(
            f"it is not clear which dash begins the reason: put the pattern in backquotes, `{body.split(' -')[0]} …` — reason"
        )
    if dashes:
        return body[: dashes[0].start()].strip(), body[dashes[0].end() :].strip()
    return body.strip(), ""


def _tool(name: str) -> str:
    return _TOOL_SPELLINGS.get(name.lower(), name)


def _means(wanted: str, tool: str) -> bool:
    """Whether a rule for `wanted` is about this tool: by its name, whatever its case; a rule for one of the tools that
    change files is for all of them, since agents change files by different ones."""
    one, other = wanted.lower(), tool.lower()
    return one == other or {one, other} <= _CHANGES_FILES or (("*" in one or "?" in one) and Glob(one).matches(other))
