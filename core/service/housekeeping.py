"""What the daemon does on the side: finishes a purge that was cut short, keeps a daily copy of the journal, and has newer
releases looked for where the person wants that."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import threading
from typing import TYPE_CHECKING

from cems.core.backups import copy_daily
from cems.core.service.purge_operations import finish_purge
from cems.core.updates import due

if TYPE_CHECKING:
    from cems.core.service.operations import Operations

logger = logging.getLogger("cems.daemon")

_FIRST_SECONDS = 10.0
_AGAIN_SECONDS = 3_600.0
_LOOK_SECONDS = 300.0


async def keep_house(operations: Operations) -> None:
    """Until cancelled. What fails is logged and tried again an hour later."""
    # Not while the first prompts wait for their answers.
    await asyncio.sleep(_FIRST_SECONDS)
    while True:
        try:
            await finish_purge(operations)
            await asyncio.to_thread(copy_daily, operations.home)
        except Exception as error:  # noqa: BLE001 - a full disk, a damaged journal: doctor says so
            logger.error("housekeeping was not done (%s), trying again in an hour", type(error).__name__)
        await asyncio.sleep(_AGAIN_SECONDS)


async def look_for_releases(operations: Operations) -> None:
    """Until cancelled: sessions come and go, and the daemon itself leaves half an hour after the last."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            look_for_release(operations)
        except OSError as error:
            logger.error("no newer release was looked for (%s)", type(error).__name__)


def look_for_release(operations: Operations) -> bool:
    """Start `cems update --auto` where it is due; whether it was started. One that would update waits for the end of all
    sessions. Raises OSError where it cannot be started."""
    settings = operations.settings
    if settings is None or not due(operations.home, settings.update_index, settings.auto_update):
        return False
    command = operations.home.bin / "cems"
    if (settings.auto_update and operations.hooks.sessions.alive()) or not command.exists():
        return False
    # Of a session of its own: it makes this daemon leave, and must not leave with it.
    process = subprocess.Popen(
        [command, "update", "--auto"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=operations.home.root,
        start_new_session=True,
    )
    # Nobody else waits for it, and its end must not be left lying about.
    threading.Thread(target=process.wait, daemon=True).start()
    logger.info("looking for a newer release")
    return True
