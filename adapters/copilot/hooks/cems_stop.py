"""Copilot's `Stop`: the turn of the agent, or of a subagent, has ended."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_stop` calls it."""
    hook_client.main("cems_stop", home)
