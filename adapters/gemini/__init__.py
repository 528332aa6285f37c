"""Gemini CLI: hooks, tools, skills and commands in its user settings."""
