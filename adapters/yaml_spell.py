"""How YAML spells a value of ours: in a line (flow style), or in lines of its own (block style)."""

from __future__ import annotations

import json
import re
from typing import Any

# Text that needs no quotes in any version of YAML, in any place.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
# What JSON leaves as it is and YAML wants escaped, or takes for a line end.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def spell(value: Any) -> str:
    """In one line. TypeError for what JSON does not know either."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{spell(key)}: {spell(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(spell, value))}]"
    return json.dumps(value, allow_nan=False)


def member(key: str, value: Any, pad: str, unit: str) -> list[str]:
    """The lines of `key: value` after the indentation `pad`, deeper ones by `unit` more."""
    name = f"{pad}{spell(key)}:"
    if isinstance(value, dict) and value:
        return [name, *(line for inner, item in value.items() for line in member(inner, item, pad + unit, unit))]
    if isinstance(value, list) and value:
        return [name, *(f"{pad}{unit}- {spell(item)}" for item in value)]
    return [f"{name} {spell(value)}"]


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _ESCAPED.sub(lambda found: f"\\u{ord(found.group()):04x}", json.dumps(value, ensure_ascii=False))
