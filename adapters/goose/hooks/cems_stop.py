"""Goose's `Stop`: the model has finished its turn. What it said last is kept for a bare yes; nothing is answered."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_stop` calls it."""
    hook_client.main("cems_stop", home)
