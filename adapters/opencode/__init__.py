"""OpenCode: a plugin of ours, tools, skills and commands in its configuration folder."""
