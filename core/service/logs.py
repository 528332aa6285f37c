"""The daemon's log, and the one line a daemon that could not start leaves behind.

Nothing here ever holds a prompt, a memory or an environment: exceptions are logged by type and place, because
their messages quote what they choked on.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import time
from pathlib import Path

from cems.core.paths import PRIVATE_FILE, Home

LEVEL_VARIABLE = "CEMS_LOG_LEVEL"
MAX_LOG_BYTES = 1_000_000
KEPT_LOGS = 3
START_FAILURE = "last-start-failure"
MAX_REASON = 400

logger = logging.getLogger("cems")


def open_log(home: Home, level: str = "", *, foreground: bool = False) -> None:
    """Send log records to `<home>/logs/daemon.log` (0600, 1 MB, three older ones kept), and to stderr when
    asked.
    """
    path = home.logs / "daemon.log"
    # Made before the handler opens it, so that it is never readable by others, not even for a moment.
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE))
    path.chmod(PRIVATE_FILE)
    handlers: list[logging.Handler] = [
        logging.handlers.RotatingFileHandler(
            path, maxBytes=MAX_LOG_BYTES, backupCount=KEPT_LOGS, encoding="utf-8", errors="backslashreplace"
        )
    ]
    if foreground:
        handlers.append(logging.StreamHandler())
    form = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    for handler in handlers:
        handler.setFormatter(form)
        root.addHandler(handler)
    wanted = (level or os.environ.get(LEVEL_VARIABLE, "")).upper()
    root.setLevel(logging.getLevelNamesMapping().get(wanted, logging.INFO))
    # Other people's libraries may log what they are given.
    for name in ("asyncio", "uvicorn", "httpx", "httpcore", "mcp", "fastembed", "huggingface_hub", "lancedb"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.raiseExceptions = False


def where(problem: BaseException) -> str:
    """`Type at file:line (function)` of the innermost frame; never the message, which may quote a prompt."""
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(problem).__name__
    code = trace.tb_frame.f_code
    return f"{type(problem).__name__} at {Path(code.co_filename).name}:{trace.tb_lineno} ({code.co_name})"


def one_line(problem: BaseException) -> str:
    """Type and message on one line, for a failure to start. Values are not quoted: they may be what a memory
    says.
    """
    if isinstance(problem, ValueError) and not type(problem).__module__.startswith("cems."):
        return where(problem)
    message = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {message}"[:MAX_REASON] if message else type(problem).__name__


def record_start_failure(home: Home, reason: str) -> None:
    """Leave `<unix time> <reason>` where `cems doctor` and the next session's start find it."""
    path = home.logs / START_FAILURE
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    try:
        os.write(file, f"{int(time.time())} {reason}\n".encode("utf-8", "backslashreplace"))
    finally:
        os.close(file)


def clear_start_failure(home: Home) -> None:
    """The daemon works: forget why an earlier one did not."""
    (home.logs / START_FAILURE).unlink(missing_ok=True)


def read_start_failure(home: Home) -> tuple[float, str] | None:
    """When the last daemon failed to start and why; None when the last one did start."""
    try:
        text = (home.logs / START_FAILURE).read_text("utf-8", "replace")
        when, _, reason = text.strip().partition(" ")
        return float(when), reason
    except (OSError, ValueError):
        return None
