"""Goose's `PreToolUse`: a tool is about to run. The person's gate rules may refuse it."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_pre_tool_use` calls it."""
    hook_client.main("cems_pre_tool_use", home)
