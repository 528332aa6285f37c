"""Test runs that an agent starts: what is tested asks which agents it runs under, and there would always be one."""

from __future__ import annotations

import os
import select
import signal
import time

_POLL_SECONDS = 0.1


def leave_agents() -> None:
    """Go on as the child of nobody, when this process runs under an agent; else do nothing.

    The process that was started stays behind, waits, and ends with the same status; the run ends when that one is ended.
    """
    from cems.core.service.ancestry import ancestor_agent

    if not hasattr(os, "fork") or not ancestor_agent():
        return
    told, tell = os.pipe()
    if os.fork():
        os.close(tell)
        # An interrupt reaches the tests themselves; their end is ours.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        status = os.read(told, 1)
        os._exit(status[0] if status else 1)
    os.close(told)
    between = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == between:
        time.sleep(0.001)
    tests = os.fork()
    if tests:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.write(tell, bytes([_wait(tests, tell)]))
        os._exit(0)
    os.close(tell)


def _wait(pid: int, pipe: int) -> int:
    """The exit status of `pid`, which is told to end when nobody reads `pipe` any more."""
    left = select.poll()
    left.register(pipe, 0)
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if left.poll(_POLL_SECONDS * 1_000):
            os.kill(pid, signal.SIGTERM)
            time.sleep(_POLL_SECONDS)
