"""Copilot's `PostToolUse`: a tool has run; its exit code is only in its text."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_post_tool_use` calls it."""
    hook_client.main("cems_post_tool_use", home)
