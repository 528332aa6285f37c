"""What the daemon does on the side: finishes a purge that was cut short, and keeps a daily copy of the journal."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from cems.core.backups import copy_daily
from cems.core.service.purge_operations import finish_purge

if TYPE_CHECKING:
    from cems.core.service.operations import Operations

logger = logging.getLogger("cems.daemon")

_FIRST_SECONDS = 10.0
_AGAIN_SECONDS = 3_600.0


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
