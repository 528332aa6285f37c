"""Cursor's `sessionStart`: a conversation is new. Cursor does not wait for it: the first prompt may come before."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_session_start` calls it."""
    hook_client.main("cems_session_start", home)
