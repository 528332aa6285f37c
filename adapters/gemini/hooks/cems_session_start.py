"""Gemini's `SessionStart`: a session starts, is resumed or cleared. The person's profile goes in front of the first prompt."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_session_start` calls it."""
    hook_client.main("cems_session_start", home)
