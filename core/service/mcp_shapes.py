"""What the MCP tools answer with, as their output schemas tell it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cems.core.service.caller import Caller

Call = Callable[[str, Mapping[str, Any], Caller], Awaitable[dict[str, Any]]]
"""An operation by name, its body, and who asks."""


class ToolAnswer(BaseModel):
    """Fields are those of the operation that answered; a memory always has the ones named below."""

    model_config = ConfigDict(extra="allow")


class Source(BaseModel):
    model_config = ConfigDict(extra="allow")

    actor: str = Field("", description="person, agent, tool, import or derived")
    agent: str | None = None


class Found(BaseModel):
    """A memory."""

    model_config = ConfigDict(extra="allow")

    id: str
    content: str
    title: str | None = None
    category: str = "general"
    tags: list[str] = []
    scope: str = ""
    trust: str = Field("", description="trusted, or candidate: not yet approved by the person")
    recorded_at: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    expired_at: str | None = Field(None, description="Set when a later memory replaced it")
    score: float | None = None
    source: Source | None = None


class Added(ToolAnswer):
    id: str | None = None
    status: str = Field(description="added, duplicate, candidate or refused")
    reason: str | None = None


class Results(ToolAnswer):
    memories: list[Found]
    coverage: dict[str, Any] = {}


class Shown(ToolAnswer):
    memory: Found
    history: list[dict[str, Any]] = []


class Hidden(ToolAnswer):
    hidden: list[dict[str, Any]]
    tombstones: int = 0


class Updated(Added):
    replaced: str | None = None


class History(ToolAnswer):
    id: str
    chain: list[dict[str, Any]]


class Timeline(ToolAnswer):
    events: list[dict[str, Any]]
    coverage: dict[str, Any] = {}


class Asked(ToolAnswer):
    id: str
    status: str = Field(description="asked, or waiting: it had been asked for before")


class Maintained(ToolAnswer):
    """The report, or what the job found."""

    job: str | None = None
    result: dict[str, Any] | None = None
