"""Codex's `SessionStart`: a session starts, is resumed, cleared or compacted.

It warms the daemon up and puts the person's profile in front of the first prompt.
"""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_session_start` calls it."""
    hook_client.main("cems_session_start", home)
