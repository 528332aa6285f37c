"""How TOML spells a value of ours on one line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dotted(keys: Iterable[str]) -> str:
    return ".".join(key if _BARE.fullmatch(key) else _text(key) for key in keys)


def spell(value: Any) -> str:
    """Text, numbers, true and false, lists and mappings of them. TypeError for others: TOML has no null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(spell, value))}]"
    if isinstance(value, dict):
        inside = ", ".join(f"{dotted((key,))} = {spell(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _text(value: str) -> str:
    """A basic string: JSON's, and DEL escaped as well."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
