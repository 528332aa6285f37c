"""Names of the environment variables that say which agent runs us. Values of no other variable are ever read.

Imported by the hook process: standard library only, and none of it here.
"""

GUARD_VARIABLE = "CEMS_GUARD"
"""Set for background model calls that CEMS itself makes; every hook does nothing when it is there."""

AGENT_VARIABLES = (
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_PROJECT_DIR",
    "CURSOR_VERSION",
    "CURSOR_PROJECT_DIR",
    "CURSOR_TRACE_ID",
    "CURSOR_AGENT",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "COPILOT_CLI",
    "COPILOT_PROJECT_DIR",
    "GEMINI_CLI",
    "GEMINI_PROJECT_DIR",
    "GOOSE_TERMINAL",
    "OPENCODE",
    "PI_CODING_AGENT",
)
"""An explicit list, not prefixes: `CODEX_*` and the like also hold keys."""
