"""Who is asking: the caller's folder, agent and authority, decided by the daemon from the request's context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cems.core.agent_env import AGENT_VARIABLES


@dataclass(frozen=True, slots=True)
class Caller:
    """`client` is `cli`, `mcp`, `hook`, or empty for one that does not say; `agent` the name of the agent it runs under,
    if any."""

    client: str = ""
    cwd: str = ""
    agent: str = ""
    session: str = ""
    version: str = ""
    tty: bool = False
    roots: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def person(self) -> bool:
        """Whether it is our own command line outside any agent."""
        return self.client == "cli" and not self.agent


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
# Copilot sets the first one too; a terminal inside Cursor sets the other for everything a person runs in it.
_PROVES_NOTHING = {"CLAUDE_PROJECT_DIR", "CURSOR_TRACE_ID"}


def caller_from(context: Mapping[str, str]) -> Caller:
    """The caller of a request whose `X-Cems-Context` header decoded to `context`."""
    variables = {name: context[name] for name in AGENT_VARIABLES if name in context}
    telling = [name for name in variables if name not in _PROVES_NOTHING]
    agent = next(
        (agent for prefix, agent in _AGENT_BY_PREFIX.items() if any(name.startswith(prefix) for name in telling)), ""
    )
    return Caller(
        client=context.get("client", ""),
        cwd=context.get("cwd", ""),
        agent=agent,
        session=context.get("session", "") or variables.get("CLAUDE_CODE_SESSION_ID", ""),
        version=context.get("version", ""),
        tty=context.get("tty") == "1",
        roots=tuple(root for root in context.get("roots", "").split("\n") if root),
        variables=variables,
    )
