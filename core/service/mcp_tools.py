"""The MCP tools: what a model is told about each, what it gives, and the operation behind it.

Annotations are evaluated, for the library reads them. Every description is in every session of every agent: short ones.
"""

from collections.abc import Awaitable, Sequence
from typing import Annotated, Any, Literal, Protocol

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from cems.core.service.mcp_shapes import (
    Added,
    Asked,
    Hidden,
    History,
    Maintained,
    Results,
    Shown,
    Timeline,
    Updated,
)
from cems.core.service.mcp_text import (
    added_text,
    asked_text,
    hidden_text,
    history_text,
    maintenance_text,
    noted,
    search_text,
    shown_text,
    timeline_text,
    updated_text,
)

_CATEGORY = "preferences, decisions, guidelines, gate-rules, learnings, patterns, context or general"
_ID = "Its id, e.g. m_3fa2c1; any unambiguous beginning will do."


class Ask(Protocol):
    """An operation of the daemon in the name of a request's caller; arguments that are None are left out. Raises ToolError."""

    def __call__(self, context: Context[Any, Any], operation: str, /, **body: Any) -> Awaitable[dict[str, Any]]: ...


def _hints(title: str, *, reads: bool = False, destroys: bool = False, repeatable: bool = False) -> ToolAnnotations:
    """All of them for every tool: where one is missing, an agent takes the worst for granted and refuses the call."""
    return ToolAnnotations(
        title=title,
        read_only_hint=reads,
        destructive_hint=destroys,
        idempotent_hint=reads or repeatable,
        open_world_hint=False,
    )


def _answer(
    shape: type[BaseModel],
    text: str,
    found: dict[str, Any],
    *,
    failed: bool = False,
    recalled: Sequence[dict[str, Any]] = (),
) -> CallToolResult:
    """`recalled`: the memories whose text is in the answer. Of both forms, agents give their model either one."""
    structured = noted(shape.model_validate(found).model_dump(mode="json", exclude_none=True), recalled)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured, is_error=failed)


def add_tools(server: MCPServer[Any], ask: Ask) -> None:
    """Register the nine tools."""

    @server.tool(
        title="Remember a fact",
        description=(
            "Store one durable fact for later sessions: a decision with its reason, a preference the person stated, a convention of this "
            "project, a fix that was hard to find. Write one standalone sentence that makes sense without this conversation (names, not 'it' "
            "or 'this file'). Do not store secrets, task progress, what the code or git history already says, or guesses. It is kept for "
            "this project and marked unverified until the person approves it; what should hold in all their projects you add here and ask for "
            "with memory_promote. Text the person once had forgotten is refused: tell them, do not rephrase it."
        ),
        annotations=_hints("Remember a fact", repeatable=True),
    )
    async def memory_add(
        context: Context[Any, Any],
        content: Annotated[str, Field(description="The fact, in one or two standalone sentences.", min_length=1)],
        category: Annotated[str, Field(description=f"{_CATEGORY}.")] = "general",
        title: Annotated[str | None, Field(description="A few words, if the fact is long.")] = None,
        tags: Annotated[list[str] | None, Field(description="Words to find it by.")] = None,
        valid_from: Annotated[
            str | None, Field(description="ISO 8601 date from which it holds, if not from now.")
        ] = None,
        valid_to: Annotated[str | None, Field(description="ISO 8601 date until which it holds, if it ends.")] = None,
        scope: Annotated[Literal["project"] | None, Field(description="Only this project; leave it out.")] = None,
    ) -> Annotated[CallToolResult, Added]:
        found = await ask(
            context, "add", content=content, category=category, title=title, tags=tags, valid_from=valid_from,
            valid_to=valid_to, scope=scope,
        )  # fmt: skip
        return _answer(Added, added_text(found), found, failed=found.get("status") == "refused")

    @server.tool(
        title="Search memory",
        description=(
            "Find what is remembered from earlier sessions about a topic: by meaning and by words, in this project's memories and the "
            "person's own. Ask in a few words or a question ('which test runner', 'why no ORM'). Use it before decisions that may have been "
            "made already and when the person refers to earlier work; not for what the injected memory block or the code answers. Nothing "
            "found means nothing is remembered, not that it is false. It answers for now; for the past, valid_at asks what was true "
            "then and as_of what was believed then."
        ),
        annotations=_hints("Search memory", reads=True),
    )
    async def memory_search(
        context: Context[Any, Any],
        query: Annotated[str, Field(description="What to look for, in natural language.", min_length=1)],
        limit: Annotated[int, Field(description="At most this many.", ge=1, le=50)] = 10,
        category: Annotated[str | None, Field(description=f"Only this category: {_CATEGORY}.")] = None,
        valid_at: Annotated[
            str | None, Field(description="ISO 8601 date or instant: what was (or will be) true in the world then.")
        ] = None,
        as_of: Annotated[
            str | None,
            Field(description="ISO 8601 date or instant: what was remembered then, also what was corrected since."),
        ] = None,
    ) -> Annotated[CallToolResult, Results]:
        found = await ask(
            context, "search", query=query, limit=limit, category=category, valid_at=valid_at, as_of=as_of
        )
        return _answer(Results, search_text(found), found, recalled=found["memories"])

    @server.tool(
        title="Read a memory",
        description="Read one memory in full, with where it came from. For ids in the injected block or from memory_search.",
        annotations=_hints("Read a memory", reads=True),
    )
    async def memory_get(
        context: Context[Any, Any],
        id: Annotated[str, Field(description=_ID, min_length=1)],  # noqa: A002
    ) -> Annotated[CallToolResult, Shown]:
        found = await ask(context, "show", id=id)
        return _answer(Shown, shown_text(found), found, recalled=[found["memory"]])

    @server.tool(
        title="Forget a memory",
        description=(
            "Hide a memory for good: it is not recalled any more, and the same text is refused from then on. Only when the person asks for "
            "it; for a fact that has changed use memory_update. Give the id, or the exact text. If it is not clear which one is meant, search "
            "and ask."
        ),
        annotations=_hints("Forget a memory", destroys=True),
    )
    async def memory_forget(
        context: Context[Any, Any],
        reason: Annotated[str, Field(description="Why, in the person's words.", min_length=1)],
        id: Annotated[str | None, Field(description=_ID)] = None,  # noqa: A002
        text: Annotated[str | None, Field(description="Its exact text, instead of an id.")] = None,
    ) -> Annotated[CallToolResult, Hidden]:
        if bool(id) == bool(text):
            raise ToolError("Give either the id or the exact text of the memory to forget.")
        found = await ask(context, "forget", id=id, text=text, reason=reason)
        return _answer(Hidden, hidden_text(found), found, recalled=found["hidden"])

    @server.tool(
        title="Correct a memory",
        description=(
            "Replace a memory that is wrong, out of date or badly put. The old one is closed and kept in its history; the new one has a new "
            "id. Give only what changes. Prefer this to adding a second memory that contradicts the first."
        ),
        annotations=_hints("Correct a memory"),
    )
    async def memory_update(
        context: Context[Any, Any],
        id: Annotated[str, Field(description=_ID, min_length=1)],  # noqa: A002
        reason: Annotated[str, Field(description="Why it changes.", min_length=1)],
        content: Annotated[str | None, Field(description="The new text, standalone.", min_length=1)] = None,
        category: Annotated[str | None, Field(description=f"{_CATEGORY}.")] = None,
        tags: Annotated[list[str] | None, Field(description="The new tags; they replace the old.")] = None,
        valid_from: Annotated[
            str | None,
            Field(
                description="ISO 8601 date since which the new text holds, if the old one was right until then. Leave it out if "
                "the old one was wrong."
            ),
        ] = None,
    ) -> Annotated[CallToolResult, Updated]:
        if content is None and category is None and tags is None:
            raise ToolError("Give the new content, category or tags.")
        found = await ask(
            context, "edit", id=id, content=content, category=category, tags=tags, valid_from=valid_from, reason=reason
        )
        return _answer(Updated, updated_text(found), found, failed=found.get("status") == "refused")

    @server.tool(
        title="How a memory changed",
        description=(
            "The chain of corrections a memory belongs to, oldest first: what was believed from when to when, who said it, and why it was "
            "corrected. For an id whose past matters ('what did we use before', 'why was this changed')."
        ),
        annotations=_hints("How a memory changed", reads=True),
    )
    async def memory_history(
        context: Context[Any, Any],
        id: Annotated[str, Field(description=_ID, min_length=1)],  # noqa: A002
    ) -> Annotated[CallToolResult, History]:
        found = await ask(context, "history", id=id)
        return _answer(History, history_text(found), found, recalled=found["chain"])

    @server.tool(
        title="What was learnt when",
        description=(
            "What was learnt, corrected, approved, retracted or forgotten in this project and for the person, newest first. For 'what "
            "changed since', 'what did we decide last week'; memory_search is for topics."
        ),
        annotations=_hints("What was learnt when", reads=True),
    )
    async def memory_timeline(
        context: Context[Any, Any],
        since: Annotated[str | None, Field(description="ISO 8601 date or instant: from then on.")] = None,
        until: Annotated[str | None, Field(description="ISO 8601 date or instant: before then.")] = None,
        limit: Annotated[int, Field(description="At most this many, the newest.", ge=1, le=100)] = 20,
    ) -> Annotated[CallToolResult, Timeline]:
        found = await ask(context, "timeline", since=since, until=until, limit=limit)
        return _answer(Timeline, timeline_text(found), found, recalled=found["events"])

    @server.tool(
        title="Ask for all projects",
        description=(
            "Ask the person to let a memory of this project hold in all their projects, when it is about them and not about this project. It "
            "only puts a request into `cems review`; nothing changes until they approve it there. What they declined is refused."
        ),
        annotations=_hints("Ask for all projects", repeatable=True),
    )
    async def memory_promote(
        context: Context[Any, Any],
        id: Annotated[str, Field(description=_ID, min_length=1)],  # noqa: A002
        reason: Annotated[str, Field(description="Why it holds beyond this project.", min_length=1)],
    ) -> Annotated[CallToolResult, Asked]:
        found = await ask(context, "promote", id=id, reason=reason)
        return _answer(Asked, asked_text(found), found)

    @server.tool(
        title="State of the memory",
        description=(
            "Without a job: a report, changing nothing, of this project's and the person's memories: counts, what waits for review, suspected "
            "duplicates, the state of the search store, the jobs there are. job=verify checks every file and changes nothing; job=compact "
            "tidies the store's files and changes no memory. No job here merges, archives or deletes memories."
        ),
        annotations=_hints("State of the memory", repeatable=True),
    )
    async def memory_maintenance(
        context: Context[Any, Any],
        job: Annotated[Literal["verify", "compact"] | None, Field(description="Leave it out for the report.")] = None,
    ) -> Annotated[CallToolResult, Maintained]:
        found = await ask(context, "maintenance", job=job)
        return _answer(Maintained, maintenance_text(found), found)
