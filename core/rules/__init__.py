"""Gate rules: what a person wants refused, asked or said before an agent runs a tool. Light: no pydantic.

`rule` reads one from a memory's text, `shell` takes a command line apart, `patterns` match, `guard` knows which rules
hold and what they say of a call.
"""
