"""Goose's `SessionEnd`: the session is over."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_session_end` calls it."""
    hook_client.main("cems_session_end", home)
