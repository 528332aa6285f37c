"""Goose's `SessionStart`: a session starts or is taken up again.

The block in the global AGENTS.md is brought up to date.
"""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_session_start` calls it."""
    hook_client.main("cems_session_start", home)
