"""OpenCode: reads what our plugin in it sends, and where its configuration is.

Imported by the daemon's first stage, so: standard library, and the wiring (`config.py`) only when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cems.adapters import tools
from cems.adapters.plugin_agent import PluginAgent

if TYPE_CHECKING:
    from pathlib import Path


_OUR_TOOLS = "cems_"


class OpenCode(PluginAgent):
    """The adapter; see `cems.adapters.base.Agent`."""

    name = "opencode"
    title = "OpenCode"
    uses_shared_skills = True
    cannot_ask = True

    def tool(self, name: str) -> str:
        # A server's tools are named `<server>_<tool>`, and a server's name may have an underscore too: only ours is sure.
        if name.startswith(_OUR_TOOLS):
            return tools.mcp_tool("cems", name.removeprefix(_OUR_TOOLS))
        return super().tool(name)

    def prompt(self, text: str) -> str:
        # `opencode run "say hi"` sends the quotes along.
        quoted = len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1]
        return text[1:-1] if quoted else text

    def transcript_folders(self, home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
        """The database of its sessions, and its copies of files before it changed them."""
        from cems.adapters.base import Machine
        from cems.adapters.opencode import detect

        return (detect.data_dir(Machine(home, environ)),)


AGENT = OpenCode()
