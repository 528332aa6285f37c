"""What our own adapters have in common. Imported by the daemon's first stage, so: standard library only, and an agent's
wiring and its reader (`detect.py`, `config.py`, `transcript.py` in its package) only when they are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from cems.adapters.base import AgentRecord, Detection, FileEdit, Launchers, Machine, WiredState, Wiring, Wish
    from cems.core.learn.transcript import ReadsTranscripts


class Adapter:
    """The part of `cems.adapters.base.Connects` that is the same for all: it asks the modules of the adapter's package, which
    has the agent's name."""

    name = ""

    def detect(self, machine: Machine) -> Detection:
        return cast("Detection", self._module("detect").detect(machine))

    def wire(self, machine: Machine, launchers: Launchers, wish: Wish) -> Wiring:
        return cast("Wiring", self._module("config").wire(machine, launchers, wish))

    def unwire(self, machine: Machine, launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
        return cast("tuple[FileEdit, ...]", self._module("config").unwire(machine, launchers, record))

    def wired(self, machine: Machine, launchers: Launchers, record: AgentRecord) -> WiredState:
        return cast("WiredState", self._module("config").wired(machine, launchers, record))

    def transcript_reader(self) -> ReadsTranscripts:
        """See `cems.core.learn.transcript.HasTranscripts`."""
        return cast("ReadsTranscripts", self._module("transcript").READER)

    def _module(self, name: str) -> Any:
        return import_module(f"cems.adapters.{self.name.replace('-', '_')}.{name}")


def text_at(payload: Mapping[str, Any], key: str) -> str:
    """The text at `key`, "" where there is none or something else."""
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def compact_json(answer: Mapping[str, Any]) -> bytes:
    """A hook's answer: ASCII, so that no host can misread it."""
    return json.dumps(answer, separators=(",", ":")).encode("ascii")


def whole_characters(text: str) -> str:
    """`text` without half characters, which a model's service refuses."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
