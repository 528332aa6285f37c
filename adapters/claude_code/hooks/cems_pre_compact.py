"""Claude Code's `PreCompact`: the context is about to be summarised, and what we put into it lost."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_pre_compact` calls it."""
    hook_client.main("cems_pre_compact", home)
