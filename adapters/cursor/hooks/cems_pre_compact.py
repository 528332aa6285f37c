"""Cursor's `preCompact`: the conversation is about to be summarised."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_pre_compact` calls it."""
    hook_client.main("cems_pre_compact", home)
