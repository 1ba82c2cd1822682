"""The append-only event log of one run."""

from collections.abc import Callable

import anyio

from bascule.stream import Chunk

__all__ = ["LogReader", "RunLog"]


class RunLog:
    """Everything a run said, in order. One writer, any number of readers, each from the beginning.

    The writer never waits for a reader.
    """

    __slots__ = ("_changed", "_closed", "chunks")

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self._closed = False
        self._changed: anyio.Event | None = None

    @property
    def closed(self) -> bool:
        """Whether the last event has been written."""
        return self._closed

    def append(self, chunk: Chunk) -> None:
        """Write the next event."""
        self.chunks.append(chunk)
        if self._changed is not None:
            self._wake(self._changed)

    def close(self) -> None:
        """Say that no event follows."""
        self._closed = True
        if self._changed is not None:
            self._wake(self._changed)

    def _wake(self, changed: anyio.Event) -> None:
        changed.set()
        self._changed = None

    async def changed(self) -> None:
        """Wait until something was written, or the log was closed."""
        if self._closed:
            return
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    async def wait_closed(self) -> None:
        """Wait for the end of the run."""
        while not self._closed:
            await self.changed()

    def read(self, after: int = 0, *, first: Callable[[], None] | None = None) -> "LogReader":
        """Return an iterator over the events from position ``after`` on, those to come included.

        Args:
            after: how many events to pass over.
            first: called once, when the iterator is first used.
        """
        return LogReader(self, after, first)


class LogReader:
    """Reads a log to its end. Not a generator: it may be left at any point without a thing to clean up."""

    __slots__ = ("_first", "_log", "position")

    def __init__(self, log: RunLog, position: int, first: Callable[[], None] | None) -> None:
        self._log = log
        self._first = first
        self.position: int = position

    def __aiter__(self) -> "LogReader":
        return self

    async def __anext__(self) -> Chunk:
        if self._first is not None:
            self._first()
            self._first = None
        log = self._log
        while self.position >= len(log.chunks):
            if log.closed:
                raise StopAsyncIteration
            await log.changed()
        self.position += 1
        return log.chunks[self.position - 1]
