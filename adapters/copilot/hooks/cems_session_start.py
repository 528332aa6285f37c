"""Copilot's `SessionStart`: a session is new or resumed. The profile is given."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_session_start` calls it."""
    hook_client.main("cems_session_start", home)
