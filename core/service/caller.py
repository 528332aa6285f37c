"""Who is asking: the caller's folder, agent and authority, decided by the daemon from the request's context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cems.core.agent_env import AGENT_VARIABLES

Client = Literal["hook", "cli", "mcp"]


@dataclass(frozen=True, slots=True)
class Caller:
    """`agent` is the name of the agent the caller runs under ("" for none); `person` is true for a CLI outside any."""

    client: str = "cli"
    cwd: str = ""
    agent: str = ""
    session: str = ""
    version: str = ""
    tty: bool = False
    roots: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def person(self) -> bool:
        return self.client == "cli" and not self.agent


_AGENT_BY_PREFIX = {
    "CLAUDE": "claude-code",
    "CURSOR": "cursor",
    "CODEX": "codex",
    "COPILOT": "copilot",
    "GEMINI": "gemini",
    "GOOSE": "goose",
    "OPENCODE": "opencode",
    "PI_": "pi",
}
# Copilot sets it too.
_PROVES_NOTHING = {"CLAUDE_PROJECT_DIR"}


def caller_from(context: Mapping[str, str]) -> Caller:
    """The caller of a request whose `X-Cems-Context` header decoded to `context`."""
    variables = {name: context[name] for name in AGENT_VARIABLES if name in context}
    agent = ""
    # More specific agents first: Copilot and Cursor also set Claude's variables for the hooks they borrow.
    for prefix in ("COPILOT", "CURSOR", "CODEX", "GEMINI", "GOOSE", "OPENCODE", "PI_", "CLAUDE"):
        if any(name.startswith(prefix) and name not in _PROVES_NOTHING for name in variables):
            agent = _AGENT_BY_PREFIX[prefix]
            break
    return Caller(
        client=context.get("client", "cli"),
        cwd=context.get("cwd", ""),
        agent=agent,
        session=context.get("session", "") or variables.get("CLAUDE_CODE_SESSION_ID", ""),
        version=context.get("version", ""),
        tty=context.get("tty") == "1",
        roots=tuple(root for root in context.get("roots", "").split("\n") if root),
        variables=variables,
    )
