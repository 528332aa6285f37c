"""Pi: reads what our extension in it sends, and where its configuration is.

Imported by the daemon's first stage, so: standard library, and the wiring (`config.py`) only when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cems.adapters.plugin_agent import PluginAgent

if TYPE_CHECKING:
    from pathlib import Path

    from cems.adapters.base import AgentRecord, Detection, FileEdit, Launchers, Machine, WiredState, Wiring, Wish


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

    def detect(self, machine: Machine) -> Detection:
        from cems.adapters.pi import detect

        return detect.detect(machine)

    def wire(self, machine: Machine, launchers: Launchers, wish: Wish) -> Wiring:
        from cems.adapters.pi import config

        return config.wire(machine, launchers, wish)

    def unwire(self, machine: Machine, launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
        from cems.adapters.pi import config

        return config.unwire(machine, launchers, record)

    def wired(self, machine: Machine, launchers: Launchers, record: AgentRecord) -> WiredState:
        from cems.adapters.pi import config

        return config.wired(machine, launchers, record)


AGENT = Pi()
