"""One call on its way from a task to a database thread and back.

The event loop is told through its own thread-safe call, once for all the calls that one transaction has settled. The
blocking form (a thread that waits until the loop has taken the news) would hold up the next transaction.
"""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar, cast

import anyio
from anyio.lowlevel import current_token

__all__ = ["Job", "settle"]

T = TypeVar("T")


class _AsyncioLoop(Protocol):
    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> object: ...


class _TrioToken(Protocol):
    def run_sync_soon(self, sync_fn: Callable[..., object], *args: object) -> None: ...


class Job(Generic[T]):
    """A function that a database thread calls with its connection.

    Attributes:
        function: what to call.
        error: why it failed, once it has.
    """

    __slots__ = ("_done", "_value", "error", "function", "loop")

    def __init__(self, function: Callable[[sqlite3.Connection], T]) -> None:
        self.function = function
        self.error: BaseException | None = None
        self.loop = current_token().native_token
        self._value: T | None = None
        self._done = anyio.Event()

    def run(self, connection: sqlite3.Connection) -> None:
        """Call the function and keep what comes of it."""
        try:
            self._value = self.function(connection)
        except BaseException as error:  # noqa: BLE001  # raised again in the task that waits for it
            self.error = error

    def wake(self) -> None:
        """Tell the task that waits; called in its event loop."""
        self._done.set()

    async def result(self) -> T:
        """Wait for the thread and return what the function returned.

        A task that is cancelled stops waiting; the job is carried out as a whole all the same.
        """
        await self._done.wait()
        if self.error is not None:
            raise self.error
        return cast("T", self._value)  # set by run() when there was no error


def settle(jobs: Iterable[Job[Any]]) -> None:  # Any: each job has a result type of its own
    """Wake the tasks that wait for ``jobs``; called in a database thread, when nothing can be undone any more."""
    by_loop: dict[object, list[Job[Any]]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, group in by_loop.items():
        try:
            _call_soon(loop, _wake, group)
        except RuntimeError:
            continue  # this event loop has ended: nobody waits


def _call_soon(loop: object, callback: Callable[..., object], *args: object) -> None:
    if hasattr(loop, "call_soon_threadsafe"):
        cast("_AsyncioLoop", loop).call_soon_threadsafe(callback, *args)
    else:
        cast("_TrioToken", loop).run_sync_soon(callback, *args)


def _wake(jobs: Iterable[Job[Any]]) -> None:
    for job in jobs:
        job.wake()
