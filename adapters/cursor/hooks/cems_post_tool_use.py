"""Cursor's `postToolUse`: a tool has run. What an older version would have dropped with the prompt goes here."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_post_tool_use` calls it."""
    hook_client.main("cems_post_tool_use", home)
