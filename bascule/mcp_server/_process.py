"""A process that exists to serve: it ends in time, whatever its tools do.

Only a command may end its process, so only a command enters ``serving_process``. What serves inside the block finds it,
lets it hear of the end, and goes on as it would in a library.
"""

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["ServingProcess", "current_process", "on_signals", "serving_process"]

SLACK = 1.0
"""Seconds after the time allowed for calls in flight in which everything has to be closed."""


class ServingProcess:
    """Ends this process when it takes too long to end by itself.

    Attributes:
        parent: the process that started this one.
        ending: whether the end has begun.
    """

    def __init__(self) -> None:
        self.parent = os.getppid()
        self.ending = False

    def is_orphaned(self) -> bool:
        """Whether the process that started this one is gone."""
        return os.getppid() != self.parent

    def end_within(self, seconds: float) -> None:
        """See to it that the process has ended in ``seconds``; the first call counts. May be called in any thread."""
        if self.ending:
            return
        self.ending = True
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

    SIGTERM, SIGINT, SIGHUP and, over stdio, the end of stdin or of the parent process begin the end. Then the process
    ends with the block, or, when calls that do not stop hold it up, without it; the status is 0 either way. A second
    signal ends it at once.
    """
    process = _Current.process = ServingProcess()
    try:
        yield
    finally:
        _Current.process = None
    if process.ending:
        # Python's own way out waits for threads and takes every module apart: with large libraries, half a second.
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  # there is no other way
        end_now()


def end_now(status: int = 0) -> None:
    """End the process without asking anyone; what was printed is kept."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


@contextmanager
def on_signals(stop: Callable[[], None]) -> Generator[None]:
    """Call ``stop`` on the first of SIGTERM, SIGINT and SIGHUP inside the block, from a thread of its own.

    The second one ends the process at once when it exists to serve, and calls ``stop`` again otherwise. Does nothing
    outside the main thread, where Python delivers no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _SignalPipe(stop):
        yield


class _SignalPipe:
    """Hears of signals even while the main thread is blocked.

    The interpreter's handlers run in the main thread, and a signal that another thread receives does not wake it up. So
    the interpreter also writes the number of each signal to a pipe, at once, and a thread reads it. Event loops may
    claim that for themselves; then they do wake up, and the handler writes the number again with the top bit set.
    """

    NUMBERS = (signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if sys.platform != "win32" else []))

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._heard = {False: 0, True: 0}
        self._told = 0
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def __enter__(self) -> None:
        threading.Thread(target=self._listen, name="bascule-signals", daemon=True).start()
        self._handlers = {number: signal.signal(number, self._handle) for number in self.NUMBERS}
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def __exit__(self, *exc_info: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._writer)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            os.write(self._writer, bytes([number | 0x80]))

    def _listen(self) -> None:
        while received := os.read(self._reader, 64):
            for byte in received:
                if byte & 0x7F in self.NUMBERS:
                    self._hear(byte & 0x7F, again=bool(byte & 0x80))
        os.close(self._reader)

    def _hear(self, number: int, *, again: bool) -> None:
        self._heard[again] += 1
        if max(self._heard.values()) <= self._told:
            return
        self._told += 1
        if self._told > 1 and _Current.process is not None:
            end_now(128 + number)
        self._stop()
