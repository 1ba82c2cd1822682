"""A database while it is open: one thread that writes, one that reads.

The writer takes everything that waits and commits it in one transaction, so many tasks share one flush to the disk. A
write that fails is undone alone; a commit that fails fails every write in it. Nobody is told before the commit.

A database in memory has one connection, and the writer's thread reads too.
"""

import atexit
import os
import queue
import sqlite3
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bascule.storage._sqlite._connection import Synchronous, connect_reader, connect_writer
from bascule.storage._sqlite._errors import explain
from bascule.storage._sqlite._job import Job, settle
from bascule.storage._sqlite._migrate import migrate, migrations

__all__ = ["Session"]

MAX_BATCH = 500
"""How many writes share a transaction at most."""

_EXIT_GRACE = 5.0
"""Seconds that the end of the process waits for all sessions together."""

_Queue = queue.SimpleQueue[Job[Any] | None]  # Any: each job has a result type of its own; None: the end


class Session:
    """Opens the database in a thread of its own and works until it is told to stop."""

    def __init__(self, path: Path | None, synchronous: Synchronous) -> None:
        self._path = path
        self._synchronous: Synchronous = synchronous
        self._lock = threading.Lock()
        self._stopping = False
        self._ended = False
        self._process = os.getpid()
        self._writes: _Queue = queue.SimpleQueue()
        self._reads: _Queue = self._writes if path is None else queue.SimpleQueue()
        self._closed: list[Job[Any]] = []
        self._writer = threading.Thread(target=self._work, name="bascule-storage", daemon=True)

    def start(self) -> None:
        """Open the database; called after the first job was queued, so that it learns why that fails."""
        _sessions.add(self)
        self._writer.start()

    @property
    def place(self) -> str:
        """The database, for messages."""
        return "The database in memory" if self._path is None else f"The database {str(self._path)!r}"

    def submit(self, job: Job[Any], *, write: bool) -> bool:
        """Queue a job; ``False`` when this session takes no more."""
        if self._process != os.getpid():
            return False  # a fork: the threads stayed in the parent, and its connections must not be touched
        with self._lock:
            if not self._stopping:
                (self._writes if write else self._reads).put(job)
                return True
        return False

    def stop(self, job: Job[Any] | None = None) -> bool:
        """End after what is queued; ``job`` is settled when the files are closed, ``False`` if they already are."""
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._writes.put(None)
            if job is None or self._ended or self._process != os.getpid():
                return False
            self._closed.append(job)
        return True

    def join(self, timeout: float) -> None:
        """Wait for the writer's end, at most ``timeout`` seconds."""
        if self._process == os.getpid():
            self._writer.join(timeout)

    def _work(self) -> None:
        try:
            connection = connect_writer(self._path, self._synchronous)
            try:
                migrate(connection, self.place, migrations())
                reader = None if self._path is None else self._start_reader(self._path)
            except BaseException:
                connection.close()
                raise
        except BaseException as error:  # noqa: BLE001  # raised again in the tasks that wait
            self._refuse(error)
            return
        self._write_until_stopped(connection)
        if reader is not None:
            self._reads.put(None)
            reader.join()
        connection.close()
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._ended = True
        settle(self._closed)

    def _refuse(self, error: BaseException) -> None:
        """Fail whoever waits; the next use opens the database anew."""
        with self._lock:
            self._stopping = True
            waiting = [*_drain(self._writes), *_drain(self._reads)]
        for job in waiting:
            job.error = explain(error, self.place)
        settle(waiting)
        self._end()

    def _start_reader(self, path: Path) -> threading.Thread:
        connection = connect_reader(path)
        thread = threading.Thread(target=self._read_until_stopped, args=(connection,), name="bascule-read", daemon=True)
        thread.start()
        return thread

    def _read_until_stopped(self, connection: sqlite3.Connection) -> None:
        while (job := self._reads.get()) is not None:
            job.run(connection)
            if job.error is not None:
                job.error = explain(job.error, self.place)
            settle((job,))
        connection.close()

    def _write_until_stopped(self, connection: sqlite3.Connection) -> None:
        going = True
        while going:
            first = self._writes.get()
            if first is None:
                return
            batch = [first]
            while len(batch) < MAX_BATCH:
                try:
                    job = self._writes.get_nowait()
                except queue.Empty:
                    break
                if job is None:
                    going = False
                    break
                batch.append(job)
            self._commit(connection, batch)
            settle(batch)

    def _commit(self, connection: sqlite3.Connection, batch: Sequence[Job[Any]]) -> None:
        """Carry out ``batch`` in one transaction; afterwards a job without an error is on the disk."""
        try:
            connection.execute("BEGIN IMMEDIATE")
            if len(batch) == 1:
                batch[0].run(connection)
                connection.execute("COMMIT" if batch[0].error is None else "ROLLBACK")
            else:
                for job in batch:
                    _run_in_savepoint(connection, job)
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):  # the jobs fail either way, and the thread has to go on to say so
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            for job in batch:
                job.error = job.error or error
        for job in batch:
            if job.error is not None:
                job.error = explain(job.error, self.place)


def _run_in_savepoint(connection: sqlite3.Connection, job: Job[Any]) -> None:
    """Run one write of several; when it fails, only its own changes are undone.

    Raises:
        sqlite3.Error: the whole transaction is gone, as after a full disk.
    """
    connection.execute("SAVEPOINT job")
    job.run(connection)
    if job.error is not None:
        if isinstance(job.error, sqlite3.Error) and not connection.in_transaction:
            raise job.error
        connection.execute("ROLLBACK TO job")
    connection.execute("RELEASE job")


def _drain(jobs: _Queue) -> list[Job[Any]]:
    """Take what is queued, without the mark for the end."""
    found: list[Job[Any]] = []
    while True:
        try:
            job = jobs.get_nowait()
        except queue.Empty:
            return found
        if job is not None:
            found.append(job)


_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()


@atexit.register
def _close_at_exit() -> None:
    """Let the threads finish what is queued; they are daemons, and would be cut off in the middle of it."""
    deadline = time.monotonic() + _EXIT_GRACE
    sessions = list(_sessions)
    for session in sessions:
        session.stop()
    for session in sessions:
        session.join(max(0.0, deadline - time.monotonic()))
