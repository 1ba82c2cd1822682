"""The SQLite storage: a database that opens on first use and can be opened again."""

import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio

from bascule.errors import StorageError
from bascule.storage._protocol import MemoryStore
from bascule.storage._sqlite._connection import Synchronous
from bascule.storage._sqlite._job import Job
from bascule.storage._sqlite._memory import SqliteMemoryStore
from bascule.storage._sqlite._session import Session

__all__ = ["SqliteStorage"]

T = TypeVar("T")

CLOSE_TIMEOUT = 30.0
"""Seconds that closing waits for queued writes."""


class SqliteStorage:
    """Keeps everything in one SQLite file, or in memory.

    It may be used from several event loops, one after another or at the same time.

    Args:
        path: the file; ``None`` keeps everything in memory, until the storage is closed.
        synchronous: ``full`` puts every acknowledged write on the disk; ``normal`` leaves the last moments before a
            power failure to chance, and is as safe when only the process dies.
    """

    def __init__(self, path: Path | None, *, synchronous: Synchronous = "full") -> None:
        self._path = path
        self._synchronous: Synchronous = synchronous
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._closed = False
        self._memory = SqliteMemoryStore(self)

    @property
    def durable(self) -> bool:
        """Whether what is saved outlives the process."""
        return self._path is not None

    @property
    def memory(self) -> MemoryStore:
        """Threads and messages."""
        return self._memory

    async def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Call ``function`` with a connection that only reads.

        Raises:
            StorageError: the database cannot be opened or read.
        """
        job = Job(function)
        self._submit(job, write=False)
        return await job.result()

    async def write(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Call ``function`` inside a transaction, and return once that is on the disk.

        Whatever ``function`` raises undoes its changes. A cancelled caller stops waiting; the write is carried out
        as a whole all the same.

        Raises:
            StorageError: the database cannot be opened or written; nothing was changed.
        """
        job = Job(function)
        self._submit(job, write=True)
        return await job.result()

    async def aclose(self) -> None:
        """Carry out what is queued and close the files, within 30 seconds even if the task is cancelled.

        Raises:
            StorageError: the writes took longer than that; they go on.
        """
        with self._lock:
            session, self._session, self._closed = self._session, None, True
        if session is None:
            return
        job = Job(_nothing)
        if not session.stop(job):
            return
        with anyio.move_on_after(CLOSE_TIMEOUT, shield=True) as scope:
            await job.result()
        if scope.cancelled_caught:
            raise StorageError(f"{session.place} was not closed within {CLOSE_TIMEOUT:g} s: its writes take longer.")

    async def __aenter__(self) -> Self:
        with self._lock:
            self._closed = False
        await self.read(_nothing)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def _submit(self, job: Job[Any], *, write: bool) -> None:
        with self._lock:
            if self._closed:
                raise StorageError("This storage is closed. Enter it again (`async with storage:`), or open another.")
            if self._session is not None and self._session.submit(job, write=write):
                return
            session = Session(self._path, self._synchronous)
            session.submit(job, write=write)
            session.start()
            self._session = session
            # A storage that is dropped without being closed ends its threads; they hold the session, not the storage.
            weakref.finalize(self, session.stop).atexit = False


def _nothing(_: sqlite3.Connection) -> None:
    return
