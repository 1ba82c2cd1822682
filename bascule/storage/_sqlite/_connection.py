"""Opens connections to one database file."""

import os
import sqlite3
import time
from pathlib import Path
from typing import Literal

from bascule.errors import StorageError

__all__ = ["Synchronous", "connect_reader", "connect_writer"]

Synchronous = Literal["full", "normal"]

BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process that writes."""

_JOURNAL_LIMIT = 64 * 2**20
"""Bytes that the write-ahead log keeps after a burst."""


def connect_writer(path: Path | None, synchronous: Synchronous) -> sqlite3.Connection:
    """Open the connection that writes, creating the file and its folder; ``None`` is a database in memory.

    Raises:
        StorageError: the folder or the file cannot be made, or the file system is not fit for the write-ahead log.
        sqlite3.Error: the file cannot be opened or is no database.
    """
    if path is None:
        return _configure(_connect(":memory:"), synchronous)
    _create(path)
    connection = _connect(str(path))
    try:
        _use_write_ahead_log(connection, path)
        return _configure(connection, synchronous)
    except BaseException:
        connection.close()
        raise


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that only reads a database that ``connect_writer`` has opened."""
    connection = _connect(str(path))
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(database: str) -> sqlite3.Connection:
    # isolation_level=None: transactions begin and end where the code says so. Each connection is used by one thread,
    # but not always by the one that opened it.
    connection = sqlite3.connect(
        database, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _configure(connection: sqlite3.Connection, synchronous: Synchronous) -> sqlite3.Connection:
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    if synchronous == "full":
        # Reaches the medium and not only the drive's cache where the system tells the two apart (macOS).
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
    connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_LIMIT}")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _create(path: Path) -> None:
    """Make the folder, and the file readable by its owner alone: it holds conversations."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"The folder {path.parent} for the database {path.name} cannot be created ({error.strerror}). "
            "Create it, let this user write it, or name another path."
        ) from error
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return  # it exists, or SQLite says better what is wrong with it


def _use_write_ahead_log(connection: sqlite3.Connection, path: Path) -> None:
    # SQLite does not wait for others while it changes the mode: several processes that open a new file together
    # would fail without these attempts.
    deadline = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise StorageError(
                f"The file system of {path} does not support SQLite's write-ahead log (it stays in mode {mode!r}). "
                "Put the database on a local disk."
            )
        return
