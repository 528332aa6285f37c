"""Copilot's `UserPromptSubmit`: a prompt was sent, a person's or a subagent's task."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_user_prompts_submit` calls it."""
    hook_client.main("cems_user_prompts_submit", home)
