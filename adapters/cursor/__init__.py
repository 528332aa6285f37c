"""Cursor, the editor and its `cursor-agent` (hooks, tools and the shared skills, set up and taken out by CEMS)."""
