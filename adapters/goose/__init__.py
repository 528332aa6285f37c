"""Goose (hooks, tools, the shared skills and a block in its AGENTS.md, set up and taken out by CEMS)."""
