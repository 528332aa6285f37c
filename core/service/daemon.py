"""The daemon of one CEMS_HOME: lock, socket, hooks at once (stage one), everything else when it is loaded
(stage two).

Run as `python -I -c "... from cems.core.service.daemon import run; run()" --home <CEMS_HOME>` (see `launch`).
Only the standard library is imported at the top: a daemon that finds the lock taken must be gone quickly, and
one whose dependencies are broken must still be able to say so.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from cems import __version__
from cems.core.paths import Home
from cems.core.service.handover import may_hand_over, start_successor
from cems.core.service.launch import START_MARKER
from cems.core.service.listening import Listener
from cems.core.service.lock import DaemonLock
from cems.core.service.logs import (
    clear_start_failure,
    one_line,
    open_log,
    read_start_failure,
    record_start_failure,
    where,
)

if TYPE_CHECKING:
    from cems.core.service.asgi import FrontDoor
    from cems.core.service.hooks import HookService
    from cems.core.service.http_server import HttpServer
    from cems.core.service.runtime import Runtime

IDLE_VARIABLE = "CEMS_IDLE_SECONDS"
DEFAULT_IDLE_SECONDS = 1800.0
LONGEST_TICK = 5.0
CLOSE_SECONDS = 20.0

DIED = "the daemon died while it loaded its store and model"
MAX_DEATHS = 3
DEATH_WINDOW = 600.0

T = TypeVar("T")

logger = logging.getLogger("cems.daemon")


@dataclass(frozen=True, slots=True)
class Options:
    """The daemon's command line. `wait_lock`: seconds to wait for a running daemon to leave."""

    home: Path
    wait_lock: float = 0.0
    foreground: bool = False
    tcp: bool = sys.platform == "win32"


def parse(arguments: Sequence[str]) -> Options:
    """`--home DIR [--wait-lock SECONDS] [--foreground] [--tcp]`. Raises ValueError on anything else."""
    # By hand: importing argparse costs 15 ms before the socket is there.
    home: Path | None = None
    wait_lock = 0.0
    foreground, tcp = False, sys.platform == "win32"
    left = list(arguments)
    while left:
        name = left.pop(0)
        if name == "--home" and left:
            home = Path(left.pop(0)).absolute()
        elif name == "--wait-lock" and left:
            wait_lock = float(left.pop(0))
        elif name == "--foreground":
            foreground = True
        elif name == "--tcp":
            tcp = True
        else:
            raise ValueError(f"unknown argument {name}")
    if home is None:
        raise ValueError("--home is missing")
    return Options(home, wait_lock, foreground, tcp)


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Be the daemon until it leaves, then end the process: 0 after a clean end (also: another one runs), 1
    else.
    """
    options = parse(sys.argv[1:] if arguments is None else arguments)
    home = Home(options.home)
    _become_daemon(foreground=options.foreground)
    home.create()
    try:
        status = serve(home, options)
    except (SystemExit, KeyboardInterrupt):
        # Asked to leave before there was a loop to tell.
        status = 0
    except Exception as problem:  # noqa: BLE001 - nobody reads our stderr; leave the reason where it is looked for
        reason = one_line(problem)
        record_start_failure(home, reason)
        logger.error("the daemon could not start: %s (%s)", reason, where(problem))
        if options.foreground:
            print(f"cems: the daemon could not start: {reason}", file=sys.stderr)
        status = 1
    logging.shutdown()
    # Threads of native libraries may still run; the interpreter's own end would wait for them or crash with
    # them.
    os._exit(status)


def serve(home: Home, options: Options) -> int:
    """Hold the lock and answer until asked to stop. Returns the exit status; raises what stage one failed
    with.
    """
    lock = DaemonLock(home.lock)
    if options.wait_lock:
        # A successor is ready to answer the moment its predecessor leaves.
        import cems.core.service.hooks
        import cems.core.service.http_server  # noqa: F401
    if not lock.acquire(options.wait_lock):
        return 0
    try:
        open_log(home, foreground=options.foreground)
        listener = Listener(home, tcp=options.tcp)
        try:
            daemon = Daemon(home, lock, listener)
            daemon.run()
        finally:
            listener.close()
    finally:
        lock.release()
    return 0


class Daemon:
    """The process that holds the lock of a home: its server, its two stages and the reasons to leave."""

    def __init__(self, home: Home, lock: DaemonLock, listener: Listener) -> None:
        from cems.core.service.asgi import FrontDoor
        from cems.core.service.hooks import open_stage_one
        from cems.core.service.http_server import HttpServer

        self._home = home
        self._lock = lock
        self._listener = listener
        self._hooks: HookService = open_stage_one(home)
        self._front: FrontDoor = FrontDoor(
            self._hooks,
            token=listener.endpoint.token if listener.endpoint.kind == "tcp" else "",
            on_newer=self._hand_over,
            on_shutdown=self.stop,
        )
        self._server: HttpServer = HttpServer(self._front)
        self._runtime: Runtime | None = None
        self._background: asyncio.Task[None] | None = None
        self._leaving = False
        self._handing_over = False

    def run(self) -> None:
        """Answer until `stop`; then let running requests finish and close everything."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(self._run())

    def stop(self) -> None:
        """Leave: nobody new is let in, who is in is answered. A second call cuts running requests off."""
        if self._leaving:
            self._server.force_exit = True
        self._leaving = True
        self._listener.withdraw()
        self._server.should_exit = True

    async def _run(self) -> None:
        self._catch_signals()
        # Kept until here: a first stage that fails is not tried again by every hook at once.
        (self._home.root / START_MARKER).unlink(missing_ok=True)
        logger.info("daemon %s answers (pid %d)", __version__, os.getpid())
        stage_two = asyncio.create_task(self._load())
        watch = asyncio.create_task(self._watch())
        await self._server.serve(sockets=[self._listener.socket])
        self._listener.withdraw()
        for task in (watch, stage_two, self._background):
            if task:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
        await self._close()
        logger.info("daemon left")

    def _catch_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            if sys.platform == "win32":
                signal.signal(number, lambda *_: self.stop())
            else:
                asyncio.get_running_loop().add_signal_handler(number, self.stop)
        if sys.platform != "win32":
            # The terminal it was started from may close.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def _load(self) -> None:
        """Stage two: in a thread, because importing the store takes seconds, in which hooks are answered."""
        earlier = read_start_failure(self._home)
        deaths = 0
        if earlier and earlier[1].startswith(DIED) and time.time() - earlier[0] < DEATH_WINDOW:
            deaths = int(earlier[1].rpartition(" ")[2].strip("()") or 1)
        if deaths >= MAX_DEATHS:
            # Every hook would start it again, only to see it die again.
            self._give_up(f"{DIED} {deaths} times; it tries again in ten minutes, or after `cems daemon restart`")
            return
        # What kills a process outright (a signal, no memory) leaves no other trace.
        record_start_failure(self._home, f"{DIED} ({deaths + 1})")
        try:
            self._runtime = await _in_thread(self._open_runtime)
            await self._runtime.startup()
        except Exception as problem:  # noqa: BLE001 - hooks go on without the second stage, and doctor says why
            reason = one_line(problem)
            record_start_failure(self._home, reason)
            self._give_up(f"{reason} ({where(problem)})")
            return
        clear_start_failure(self._home)
        self._front.settle(self._runtime.app)
        self._listener.set_deadline(self._runtime.hook_deadline)
        self._background = asyncio.create_task(self._run_background(self._runtime))
        logger.info("daemon ready")

    def _give_up(self, reason: str) -> None:
        logger.error("the second stage failed: %s", reason)
        self._front.fail(f"The daemon could not load everything: {reason}. `cems doctor` says what to do.")

    def _open_runtime(self) -> Runtime:
        from cems.core.service.runtime import open_runtime

        return open_runtime(self._home, self._hooks)

    async def _run_background(self, runtime: Runtime) -> None:
        try:
            await runtime.run_background()
        except Exception as problem:  # noqa: BLE001 - reads go on; the log and `status` tell
            logger.error("the background work ended: %s", where(problem))

    async def _watch(self) -> None:
        """Notice that it is time to leave, or that something we stand on was taken away."""
        while not self._leaving:
            await asyncio.sleep(min(LONGEST_TICK, max(self._idle_seconds() / 2, 0.1)))
            try:
                self._look()
            except Exception as problem:  # noqa: BLE001 - one look that fails must not be the last one
                logger.error("housekeeping failed: %s", where(problem))

    def _look(self) -> None:
        if not self._lock.is_ours():
            logger.warning("the home was removed; leaving")
            self.stop()
        elif not self._listener.is_reachable():
            logger.warning("the socket was removed; leaving to a successor")
            start_successor(self._home)
            self.stop()
        elif self._is_idle():
            logger.info("nothing to do; leaving")
            self.stop()
        elif not self._listener.is_published():
            self._listener.publish()

    def _idle_seconds(self) -> float:
        if self._runtime is not None:
            return self._runtime.idle_seconds
        with contextlib.suppress(ValueError):
            return max(float(os.environ.get(IDLE_VARIABLE, "")), 0.1)
        return DEFAULT_IDLE_SECONDS

    def _is_idle(self) -> bool:
        if self._front.running or self._front.state == "keyword":
            return False
        if time.monotonic() - self._front.last_request < self._idle_seconds():
            return False
        return self._runtime is None or not self._runtime.busy()

    def _hand_over(self) -> None:
        """A caller of a higher version was answered: make way for the daemon of its install."""
        if self._handing_over or self._leaving:
            return
        self._handing_over = True
        try:
            if not may_hand_over(self._home):
                logger.warning("two versions take turns; staying. Remove one of them")
                return
            start_successor(self._home)
        except OSError as problem:
            logger.error("no successor could be started: %s", one_line(problem))
            return
        logger.info("a newer version takes over")
        self.stop()

    async def _close(self) -> None:
        failure = read_start_failure(self._home)
        if failure and failure[1].startswith(DIED):
            # It was asked to leave, which is no death; whoever asked wants the next one to try again.
            clear_start_failure(self._home)
        for part in (self._runtime, self._hooks):
            if part is None:
                continue
            try:
                await asyncio.wait_for(_in_thread(part.close), CLOSE_SECONDS)
            except Exception as problem:  # noqa: BLE001 - the journal is durable already; the other part still closes
                logger.error("closing failed: %s", where(problem))


async def _in_thread(work: Callable[[], T]) -> T:
    """The result of `work()`, run in a thread that the end of the process does not wait for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(deliver: Callable[[], None]) -> None:
        if not done.cancelled():
            deliver()

    def target() -> None:
        try:
            result = work()
        except BaseException as problem:  # noqa: BLE001 - handed to whoever waits
            deliver = functools.partial(done.set_exception, problem)
        else:
            deliver = functools.partial(done.set_result, result)
        # The loop may have been closed meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(finish, deliver)

    threading.Thread(target=target, daemon=True).start()
    return await done


def _become_daemon(*, foreground: bool) -> None:
    """Let go of whatever we were started with: files, session, folder, permissions for others."""
    os.umask(0o077)
    os.chdir("/")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if foreground or sys.platform == "win32":
        return
    with contextlib.suppress(PermissionError):
        os.setsid()
    # A pipe of the agent's kept open here would make it wait for us.
    for entry in list(Path("/dev/fd").iterdir()):
        with contextlib.suppress(OSError, ValueError):
            if int(entry.name) > 2:
                os.close(int(entry.name))
