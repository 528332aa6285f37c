"""Run by our plugin at its `prompt`: a prompt was sent and the model has not seen it yet. What matters for it is put beside it."""

from cems.core.service import hook_client


def main(home: str) -> None:
    """Ask the daemon of `home` and end the process; the launcher `cems-hook cems_user_prompts_submit` calls it."""
    hook_client.main("cems_user_prompts_submit", home)
