"""Who is asking: the caller's folder, agent and authority, decided by the daemon from the request's context.

An agent is told by the variables it sets, and by the processes the caller runs under; either is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cems.core.agent_env import AGENT_VARIABLES
from cems.core.service.ancestry import AGENTS, PEER, with_agents
from cems.core.service.context import BOUND


@dataclass(frozen=True, slots=True)
class Caller:
    """`client` is `cli`, `mcp`, `hook`, or empty for one that does not say; `agent` the name of the agent it runs under,
    if any; `project` the identity of the one project that its token is for, whatever its folder."""

    client: str = ""
    cwd: str = ""
    agent: str = ""
    session: str = ""
    version: str = ""
    tty: bool = False
    roots: tuple[str, ...] = ()
    project: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def person(self) -> bool:
        """Whether it is our own command line outside any agent."""
        return self.client == "cli" and not self.agent


class Typist(NamedTuple):
    """Who typed a command that a prompt hook has seen: the person where `agent` is empty. `present`: the person sits
    at the agent's interactive program."""

    agent: str
    present: bool


# More specific agents first: Copilot and Cursor also set Claude's variables for the hooks they borrow.
_AGENT_BY_PREFIX = {
    "COPILOT": "copilot",
    "CURSOR": "cursor",
    "CODEX": "codex",
    "GEMINI": "gemini",
    "GOOSE": "goose",
    "OPENCODE": "opencode",
    "PI_": "pi",
    "CLAUDE": "claude-code",
}
# Copilot, Cursor and Gemini set the first one too; a terminal inside Cursor sets the other for all a person runs in it.
_PROVES_NOTHING = {"CLAUDE_PROJECT_DIR", "CURSOR_TRACE_ID"}
# Says something by its value only: the process of Cursor that runs what its agent asks for.
_BY_VALUE = {"CURSOR_EXTENSION_HOST_ROLE": "agent-exec"}
_NAMED_BY_ITSELF = "AI_AGENT"
_UNKNOWN = "unknown"
_INTERACTIVE = "cli"


def caller_from(context: Mapping[str, str]) -> Caller:
    """The caller of a request whose `X-Cems-Context` header decoded to `context`.

    Called while the caller waits for its answer: its processes are looked at.
    """
    variables = {name: context[name] for name in AGENT_VARIABLES if name in context}
    return Caller(
        client=context.get("client", ""),
        cwd=context.get("cwd", ""),
        agent=next(_agents_in(variables), "") or context.get("ancestor_agent", "") or _agent_above(context),
        session=context.get("session", "") or variables.get("CLAUDE_CODE_SESSION_ID", ""),
        version=context.get("version", ""),
        tty=context.get("tty") == "1",
        project=context.get(BOUND, ""),
        roots=tuple(root for root in context.get("roots", "").split("\n") if root),
        variables=variables,
    )


def typist(agent: str, context: Mapping[str, str]) -> Typist:
    """Who typed what `agent`'s prompt hook has seen, by the hook's context.

    A model that runs an agent of its own (`claude -p "/remember …"` in its shell) is not the person: then there are two
    agents above the hook, or the variables of another one. Where nobody can tell, the interactive program's word counts.
    """
    present = context.get("CLAUDE_CODE_ENTRYPOINT") == _INTERACTIVE
    variables = {name: context[name] for name in AGENT_VARIABLES if name in context}
    if other := next((each for each in _agents_in(variables) if each not in (agent, _UNKNOWN)), ""):
        return Typist(other, False)
    if AGENTS in context:
        above = context[AGENTS].split()
        return Typist(above[1], False) if len(above) > 1 else Typist("", present)
    known = PEER not in context and present
    return Typist("" if known else _UNKNOWN, known)


def _agents_in(variables: Mapping[str, str]) -> Iterator[str]:
    """The agents these variables tell of, the most specific first."""
    telling = [
        name for name, value in variables.items() if name not in _PROVES_NOTHING and _BY_VALUE.get(name, value) == value
    ]
    for prefix, agent in _AGENT_BY_PREFIX.items():
        if any(name.startswith(prefix) for name in telling):
            yield agent
    if named := variables.get(_NAMED_BY_ITSELF, ""):
        known = (agent for agent in _AGENT_BY_PREFIX.values() if named.lower().startswith(agent.removesuffix("-code")))
        yield next(known, _UNKNOWN)


def _agent_above(context: Mapping[str, str]) -> str:
    """The agent that the caller's processes show; one that is gone before it could be looked at is nobody's person."""
    found = with_agents(context)
    if AGENTS in found:
        return next(iter(found[AGENTS].split()), "")
    return _UNKNOWN if PEER in context else ""
