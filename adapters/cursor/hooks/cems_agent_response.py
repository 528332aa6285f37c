"""Cursor's `afterAgentResponse`: what the assistant has just said."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_agent_response` calls it."""
    hook_client.main("cems_agent_response", home)
