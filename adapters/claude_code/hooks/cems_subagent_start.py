"""Claude Code's `SubagentStart`: a subagent starts with an empty context of its own."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_subagent_start` calls it."""
    hook_client.main("cems_subagent_start", home)
