"""What a hook told us, in one form for every agent. Standard library only: the daemon's first stage uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

EventKind = Literal[
    "session_start", "prompt", "stop", "session_end", "pre_compact", "pre_tool", "post_tool", "subagent_start"
]


COMMAND_MARK = "[CEMS command]"
"""Begins the part of a typed command's prompt that is for the model: some agents put a text of ours in the place of what the
person typed (`/remember …` from a command file), and what was typed stands before this mark."""


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One event of one agent's session.

    `source` is the agent's word for why a session starts (`startup`, `resume`, `clear`, `compact`, `fork`) or ends; `compact`
    of a `pre_compact` says that no start will tell when the context has been compacted.
    `last_message` is what the assistant said last, where the event tells. `machine_turn` marks a prompt that no person typed
    (a background task's notice, a tool's echo, a subagent's task). `held`: this version of the agent drops context given
    with this event, so it has to wait for the session's next tool, or prompt that is not held. `tool` is Claude's word for
    the tool (`Bash`, `Edit`, `mcp__server__tool`), whatever the agent calls it; `subject` what it is about to work on: a
    command line, a path, else the input as JSON. `replayed`: the agent shows its model again what it was given at this
    session's earlier starts, so that it must not be given a second time; of a `pre_compact`: after the compaction too.
    """

    agent: str
    kind: EventKind
    session: str
    cwd: str
    prompt: str = ""
    turn: str = ""
    source: str = ""
    transcript: str = ""
    machine_turn: bool = False
    tool: str = ""
    subject: str = ""
    last_message: str = ""
    held: bool = False
    replayed: bool = False


class ContextFile(bytes):
    """What `render` returns for an agent that takes no context from a hook's output but reads a file of ours, which
    `cems run` has named to it. Nothing else is printed."""


class Verdict(NamedTuple):
    """What the person's rules say of a tool call: refuse it, ask the person, or let it run and tell the model `text`."""

    severity: Literal["block", "confirm", "warn"]
    text: str


class HookAgent(Protocol):
    """The part of an agent's adapter that the daemon uses to read its hooks and to answer in its shape."""

    @property
    def name(self) -> str: ...

    def recognises(self, variables: Mapping[str, str], payload: Mapping[str, Any]) -> bool:
        """Whether a hook with these agent variables and this input was run by this agent."""

    def parse(self, script: str, payload: Mapping[str, Any]) -> HookEvent | None:
        """The event, or None for an input this agent is not known to send (then nothing is answered)."""

    def render(self, event: HookEvent, context: str) -> bytes:
        """Bytes for the hook's standard output that put `context` in front of the model; empty for no context."""

    def render_verdict(self, event: HookEvent, verdict: Verdict) -> bytes:
        """Bytes for the standard output of a `pre_tool` hook; empty where this agent cannot do what the verdict says.

        Where an agent cannot ask its person, `confirm` refuses and tells the model to ask (`adapters.tools.ask_in_words`); its
        adapter has `cannot_ask = True`, and the person's plain yes in the next prompt then lets the same call through.
        """

    def context_limit(self, event: HookEvent) -> int:
        """The most UTF-16 units of context this agent passes on whole for this event."""
