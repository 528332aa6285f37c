"""Time, memory and disk, for the benchmarks of size."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np


def apart(function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """What a coroutine function gives in a process of its own, so that its memory is its own too."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_run, function, *arguments).result()


def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    return asyncio.run(function(*arguments))


async def timed(work: Awaitable[Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = await work
    return time.perf_counter() - began, result


async def seconds(work: Awaitable[Any]) -> float:
    return (await timed(work))[0]


def summary(seconds: Sequence[float]) -> dict[str, float]:
    return {
        "p50_ms": round(float(np.percentile(seconds, 50)) * 1000, 2),
        "p95_ms": round(float(np.percentile(seconds, 95)) * 1000, 2),
    }


def bare_ms() -> float:
    """The yardstick of this machine and minute: the median time of a bare interpreter."""
    seconds = []
    for _ in range(15):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        seconds.append(time.perf_counter() - began)
    return summary(seconds)["p50_ms"]


def disk_mib(folder: Path) -> float:
    total = 0
    for path in folder.rglob("*"):
        # Files come and go meanwhile.
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return round(total / 2**20, 1)


def rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def peak_mib() -> float:
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)
