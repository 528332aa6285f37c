"""Codex CLI (supported first class: hooks, tools, skills, all set up and taken out by CEMS; the person trusts the hooks)."""
