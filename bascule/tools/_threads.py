"""Runs blocking user code on daemon threads, so that a blocked tool cannot keep the process alive.

The event loop's own worker threads are not daemons: one that hangs makes the interpreter wait for ever at exit.
"""

import queue
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

import anyio
import anyio.from_thread
from anyio.lowlevel import EventLoopToken, current_token

from bascule.errors import ToolError

__all__ = ["MAX_THREADS", "run_in_daemon_thread"]

_T = TypeVar("_T")

MAX_THREADS = 64
"""How many threads there may be; further calls wait for a free one."""

QUEUE_TIMEOUT = 60.0
"""Seconds that a call waits for a free thread."""


class _Job:
    """One call on its way to a thread and back."""

    __slots__ = ("abandoned", "begun", "done", "error", "function", "token", "value")

    def __init__(self, function: Callable[[], object], token: EventLoopToken) -> None:
        self.function = function
        self.token = token
        self.done = anyio.Event()
        self.begun = False
        self.abandoned = False
        self.value: object = None
        self.error: BaseException | None = None


class Pool:
    """Threads that are started when all others are busy and end after a while without work."""

    IDLE = 30.0

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._free = 0
        """Threads that wait for a job and have not been promised one."""
        self._backlog = 0
        """Jobs that no thread has been promised to."""

    def submit(self, job: _Job) -> None:
        with self._lock:
            if self._free > 0:
                self._free -= 1
            elif self._threads < MAX_THREADS:
                self._threads += 1
                threading.Thread(target=self._work, name="bascule-tool", daemon=True).start()
            else:
                self._backlog += 1
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self.IDLE)
            except queue.Empty:
                with self._lock:
                    if self._free > 0:
                        self._free -= 1
                        self._threads -= 1
                        return
                continue  # a job has been promised to this thread
            self._do(job)
            with self._lock:
                if self._backlog > 0:
                    self._backlog -= 1
                else:
                    self._free += 1

    @staticmethod
    def _do(job: _Job) -> None:
        if job.abandoned:
            return  # whoever asked has gone before it began
        job.begun = True
        try:
            job.value = job.function()
        except KeyboardInterrupt as error:  # raised by the function itself: threads get no signals
            job.error = SystemExit(f"KeyboardInterrupt: {error}")
        except BaseException as error:  # noqa: BLE001  # handed to the caller, who raises it
            job.error = error
        try:
            anyio.from_thread.run_sync(job.done.set, token=job.token)
        except RuntimeError:
            return  # the event loop is gone; nobody waits


_pool = Pool()


async def run_in_daemon_thread(function: Callable[[], _T]) -> _T:
    """Call ``function`` in a daemon thread and return what it returns.

    When the awaiting task is cancelled, the call is abandoned: one that has begun goes on in its thread and its result
    is dropped, one that waits for a thread never begins.

    Args:
        function: called without arguments, with the caller's context variables.

    Raises:
        ToolError: no thread became free in time.
        Exception: whatever ``function`` raised.
    """
    context = copy_context()
    job = _Job(lambda: context.run(function), current_token())
    _pool.submit(job)
    try:
        with anyio.move_on_after(QUEUE_TIMEOUT):
            await job.done.wait()
        if not job.begun:
            raise ToolError(
                f"All {MAX_THREADS} threads for blocking functions have been busy for {QUEUE_TIMEOUT:g} seconds. "
                "A tool that blocks does not come back; make it async, or give it a timeout."
            )
        await job.done.wait()
    finally:
        job.abandoned = not job.begun
    if job.error is not None:
        raise job.error
    return job.value  # type: ignore[return-value]  # a job's value is what its function returned
