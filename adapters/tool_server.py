"""Our tool server in an agent's configuration: one member of the object that lists servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cems.adapters.base import AgentRecord, Launchers
from cems.adapters.document import Document

NAME = "cems"
_PROGRAM_KEYS = ("command", "cmd")


class ToolServer:
    """The entry `tools cems`, at `<servers>/cems`; see `cems.adapters.entries.Part`. In `entry`, the text `{cems-mcp}`
    stands for the program."""

    def __init__(self, document: Document, launchers: Launchers, servers: str, entry: Mapping[str, Any]) -> None:
        self.document = document
        self._program = str(launchers.mcp)
        self._servers = servers
        self._entry = entry
        self._name = f"tools {NAME}"

    @property
    def foreign(self) -> bool:
        """Whether another program has our name there."""
        found = self.document.get(self._servers, NAME)
        return found is not None and not self._is_ours(found)

    def wanted(self) -> list[str]:
        return [] if self.foreign else [self._name]

    def present(self) -> list[str]:
        return [self._name] if self._is_ours(self.document.get(self._servers, NAME)) else []

    def desired(self, _name: str) -> Any:
        return _filled(self._entry, self._program)

    def current(self, _name: str) -> Any:
        found = self.document.get(self._servers, NAME)
        return found if self._is_ours(found) else None

    def add(self, name: str) -> None:
        self.document.add_member(self._servers, NAME, value=self.desired(name))

    def replace(self, name: str) -> None:
        self.document.replace(self._servers, NAME, value=self.desired(name))

    def remove(self, _record: AgentRecord) -> None:
        if self.present():
            self.document.remove(self._servers, NAME)

    def made(self) -> tuple[str, ...]:
        return (f"/{self._servers}",)

    def summary(self, added: set[str]) -> str:
        return f"the tool server `{NAME}`" if self._name in added else ""

    def notes(self) -> list[str]:
        if not self.foreign:
            return []
        return [
            f"{self.document.path} already has a tool server named `{NAME}` that runs something else. "
            "It is left alone and ours is not added; rename or remove it and run `cems setup` again"
        ]

    def problems(self) -> list[str]:
        return [f"the tool server `{NAME}` in {self.document.path} runs something else"] if self.foreign else []

    def _is_ours(self, server: Any) -> bool:
        if not isinstance(server, dict):
            return False
        programs = [server.get(key) for key in _PROGRAM_KEYS]
        return any(
            found == self._program or (isinstance(found, list) and found[:1] == [self._program]) for found in programs
        )


def _filled(value: Any, program: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled(each, program) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, program) for each in value]
    return program if value == "{cems-mcp}" else value
