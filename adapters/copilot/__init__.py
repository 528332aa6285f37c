"""GitHub Copilot CLI (hooks, tools and the shared skills, set up and taken out by CEMS)."""
