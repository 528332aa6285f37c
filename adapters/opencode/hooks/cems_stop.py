"""Run by our plugin at its `stop`: the model has finished its turn. Nothing is answered."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_stop` calls it."""
    hook_client.main("cems_stop", home)
