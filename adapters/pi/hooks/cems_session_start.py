"""Run by our plugin at its `session_start`: a session starts, is resumed or compacted. The person's profile is put in front of the model."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_session_start` calls it."""
    hook_client.main("cems_session_start", home)
