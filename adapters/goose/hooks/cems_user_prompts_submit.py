"""Goose's `UserPromptSubmit`: a prompt was sent and the model has not seen it yet.

What matters for it goes into the file that this process of Goose reads.
"""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_user_prompts_submit` calls it."""
    hook_client.main("cems_user_prompts_submit", home)
