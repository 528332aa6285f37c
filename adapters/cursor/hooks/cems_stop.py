"""Cursor's `stop`: the agent's loop has ended. Nothing is answered: that would start it again."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_stop` calls it."""
    hook_client.main("cems_stop", home)
