"""Pi: reads what our extension in it sends, and where its configuration is.

Imported by the daemon's first stage, so: standard library, and the wiring (`config.py`) only when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cems.adapters.plugin_agent import PluginAgent

if TYPE_CHECKING:
    from pathlib import Path


class Pi(PluginAgent):
    """The adapter; see `cems.adapters.base.Agent`."""

    name = "pi"
    title = "Pi"
    uses_shared_skills = True

    tool_names: Mapping[str, str] = {"find": "Glob"}

    def transcript_folders(self, home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
        """Its sessions word by word."""
        from cems.adapters.base import Machine
        from cems.adapters.pi import detect

        return (detect.config_dir(Machine(home, environ)) / "sessions",)


AGENT = Pi()
