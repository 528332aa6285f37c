"""Claude Code (supported first class: hooks, tools, skills, all set up and taken out by CEMS)."""
