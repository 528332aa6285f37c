"""Names of the environment variables that say which agent runs us. Values of no other variable are ever read.

Imported by the hook process: standard library only, and none of it here.
"""

GUARD_VARIABLE = "CEMS_GUARD"
"""Set for background model calls that CEMS itself makes; every hook does nothing when it is there."""

CONTEXT_PID = "CEMS_CONTEXT_PID"
"""Set by `cems run`, and inherited by the agent's hooks: the pid of the agent's process, which reads a file of ours; see
`cems.core.service.context_file`."""

AGENT_VARIABLES = (
    # In the shells and hooks of Claude Code.
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_PROJECT_DIR",
    # The first two in the shells of Cursor's agent, the next two in its hooks, the last in every terminal in Cursor.
    "CURSOR_AGENT",
    "CURSOR_EXTENSION_HOST_ROLE",
    "CURSOR_VERSION",
    "CURSOR_PROJECT_DIR",
    "CURSOR_TRACE_ID",
    # Codex gives its hooks nothing of its own, but its launcher's mark is inherited.
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CODEX_CI",
    "CODEX_THREAD_ID",
    "CODEX_MANAGED_BY_NPM",
    "CODEX_MANAGED_BY_BUN",
    "COPILOT_CLI",
    "COPILOT_AGENT_SESSION_ID",
    "COPILOT_PROJECT_DIR",
    "GEMINI_CLI",
    "GEMINI_SESSION_ID",
    "GEMINI_PROJECT_DIR",
    "GOOSE_TERMINAL",
    "OPENCODE",
    "OPENCODE_CLIENT",
    "OPENCODE_PID",
    "PI_CODING_AGENT",
    # What several agents set beside their own, to their name.
    "AI_AGENT",
)
"""An explicit list, not prefixes: `CODEX_*` and the like also hold keys, and settings that a person's shell exports."""
