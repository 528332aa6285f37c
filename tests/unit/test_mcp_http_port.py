"""The port for MCP clients, where the disk does not keep what belongs to it."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from cems.core.paths import Home
from cems.core.service.http_tokens import HttpTokens
from cems.core.service.mcp_http import McpHttp


async def _unused(*_: Any) -> None:
    """No request comes."""


def test_a_port_that_cannot_be_kept_is_said_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    http = McpHttp(HttpTokens(home), _unused)
    http.tokens.add("editor", "example.org/shop", "/shop")
    keep, full = HttpTokens.keep_port, True

    def kept(tokens: HttpTokens, port: int) -> None:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        keep(tokens, port)

    monkeypatch.setattr(HttpTokens, "keep_port", kept)

    async def work() -> None:
        nonlocal full
        running = asyncio.create_task(http.run())
        await http.apply()
        assert (http.url, "No space left" in http.failure) == ("", True)
        full = False
        await http.apply()
        assert http.url
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(work(), 60))
    assert HttpTokens(home).port
