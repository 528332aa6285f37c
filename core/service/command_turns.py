"""Commands of ours that a person types at an agent's prompt: carried out in the second stage, answered in time. Light."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Protocol

from cems.core.events import COMMAND_MARK, HookEvent
from cems.core.recall.render import note
from cems.core.scope import SessionScope

logger = logging.getLogger("cems.hooks")

COMMAND = re.compile(
    rf"\s*/(?:cems:)?(remember|recall|forget|share|context)(?:\s+|:\s*|\Z)(.*?)(?:{re.escape(COMMAND_MARK)}.*)?\Z",
    re.DOTALL,
)
"""A prompt that is one: its name, and what was typed after it."""

SECONDS = 0.7
"""How long a prompt waits for its command to be carried out; it is carried out all the same."""


class Commands(Protocol):
    """What the person typed to CEMS itself (`/remember …`): done in the second stage, where memory can be changed."""

    async def run(
        self, name: str, text: str, event: HookEvent, scope: SessionScope, variables: Mapping[str, str], limit: int
    ) -> str:
        """The answer for the model, ready to stand in its context, of at most `limit` UTF-16 units; empty for none."""


class CommandsUnavailable(Exception):
    """The second stage did not come up; the message is a sentence for the person."""


class CommandTurns:
    """Runs the commands of one event loop; `accept` and `give_up` may be called from any thread."""

    def __init__(self) -> None:
        self._commands: Commands | None = None
        self._no_commands = ""
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._running: set[asyncio.Task[str]] = set()

    @property
    def busy(self) -> bool:
        """Whether something a person typed is still being carried out."""
        return bool(self._running)

    def accept(self, commands: Commands) -> None:
        """The second stage is there."""
        self._commands = commands
        self._wake()

    def give_up(self, reason: str) -> None:
        """The second stage will not come: commands are answered with the reason."""
        self._no_commands = reason
        self._wake()

    async def run(
        self, name: str, text: str, event: HookEvent, scope: SessionScope, context: Mapping[str, str], limit: int
    ) -> str:
        work = asyncio.create_task(self._carried_out(name, text, event, scope, context, limit))
        # The loop itself holds tasks weakly, and the hook leaves at its deadline: what was typed is carried out all the same.
        self._running.add(work)
        work.add_done_callback(self._running.discard)
        try:
            return await asyncio.wait_for(asyncio.shield(work), SECONDS)
        except TimeoutError:
            return note("CEMS has taken this and carries it out as soon as its daemon has started; do not do it again.")

    async def _carried_out(
        self, name: str, text: str, event: HookEvent, scope: SessionScope, context: Mapping[str, str], limit: int
    ) -> str:
        try:
            commands = await self._when_ready()
            return await commands.run(name, text, event, scope, context, limit)
        except CommandsUnavailable as error:
            return note(f"CEMS did not do this: {error}")
        except Exception as error:  # noqa: BLE001 - a person must hear that what they typed was not done
            logger.error("/%s failed (%s)", name, type(error).__name__)
            return note(
                f"CEMS could not do this ({type(error).__name__}); `cems doctor` says what to do. Tell the person."
            )

    async def _when_ready(self) -> Commands:
        if self._commands is None and not self._no_commands:
            ready = asyncio.Event()
            self._waiting.append((asyncio.get_running_loop(), ready))
            # It may have come in between, from the other thread.
            if self._commands is None and not self._no_commands:
                await ready.wait()
        if self._commands is None:
            raise CommandsUnavailable(self._no_commands)
        return self._commands

    def _wake(self) -> None:
        while self._waiting:
            loop, ready = self._waiting.pop()
            loop.call_soon_threadsafe(ready.set)
