"""The append-only event log of one run."""

from collections.abc import AsyncIterator

import anyio

from bascule.stream import Chunk

__all__ = ["RunLog"]


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
        self._wake()

    def close(self) -> None:
        """Say that no event follows."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
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

    async def read(self, after: int = 0) -> AsyncIterator[Chunk]:
        """Yield the events from position ``after`` on, those to come included."""
        while True:
            while after < len(self.chunks):
                yield self.chunks[after]
                after += 1
            if self._closed:
                return
            await self.changed()
