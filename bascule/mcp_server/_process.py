"""A process that exists to serve: it ends in time, whatever its tools do.

Only a command may end its process, so only a command enters ``serving_process``. What serves inside the block finds it,
lets it hear of the end, and goes on as it would in a library.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["ServingProcess", "current_process", "on_signals", "serving_process"]

SLACK = 0.8
"""Seconds after the time allowed for calls in flight in which everything has to be closed."""


class ServingProcess:
    """Ends this process when it takes too long to end by itself.

    Attributes:
        parent: the process that started this one.
    """

    def __init__(self) -> None:
        self.parent = os.getppid()
        self._armed = False

    def is_orphaned(self) -> bool:
        """Whether the process that started this one is gone."""
        return os.getppid() != self.parent

    def end_within(self, seconds: float) -> None:
        """See to it that the process has ended in ``seconds``; the first call counts. May be called in any thread."""
        if self._armed:
            return
        self._armed = True
        timer = threading.Timer(seconds, end_now)
        timer.daemon = True
        timer.start()


class _Current:
    process: ServingProcess | None = None


def current_process() -> ServingProcess | None:
    """Return the process when it exists to serve, else ``None``."""
    return _Current.process


@contextmanager
def serving_process() -> Generator[None]:
    """Let what serves inside the block end this process in time; for commands.

    SIGTERM, SIGINT, SIGHUP and, over stdio, the end of stdin or of the parent process begin the end. When calls that
    do not stop hold it up, the process is ended with status 0. A second signal ends it at once.
    """
    _Current.process = ServingProcess()
    try:
        yield
    finally:
        _Current.process = None


def end_now(status: int = 0) -> None:
    """End the process without asking anyone; what was printed is kept."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


@contextmanager
def on_signals(stop: Callable[[], None]) -> Generator[None]:
    """Call ``stop`` on the first of SIGTERM, SIGINT and SIGHUP inside the block.

    The second one ends the process at once when it exists to serve, and calls ``stop`` again otherwise. Does nothing
    outside the main thread, where Python delivers no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count > 1 and _Current.process is not None:
            end_now(128 + number)
        stop()

    numbers = [signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if sys.platform != "win32" else [])]
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
