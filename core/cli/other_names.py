"""The names by which people who come from an earlier system know our commands."""

OTHER_NAMES = {"remember": "add", "recall": "search", "delete": "forget", "update": "edit"}
"""Other name -> ours. `update` is `edit` with an ID only; without one it updates the program."""


def help_of(name: str, text: str) -> str:
    """A command's help as its other name shows it: with a first line that says whose name it is."""
    ours = OTHER_NAMES[name]
    given = f"cems {name} ID" if name == "update" else f"cems {name}"
    return f"`{given}` is the other name of `cems {ours}`.\n\n{text}"
