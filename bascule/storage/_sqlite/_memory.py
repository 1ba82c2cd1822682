"""Threads and messages in SQLite."""

import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol, TypeVar

from bascule.messages import JsonObject, Message
from bascule.storage._json import encode
from bascule.storage._protocol import MessageFilter, Order, Thread, ThreadOrder
from bascule.storage._sqlite._filters import message_condition, metadata_condition
from bascule.storage._sqlite._rows import (
    MESSAGE_COLUMNS,
    THREAD_COLUMNS,
    MessageRow,
    message_rows,
    messages_of,
    metadata_of,
    microseconds,
    thread_of,
)

__all__ = ["SqliteMemoryStore"]

T = TypeVar("T")

_FIND = "SELECT key, title, metadata, created_at, updated_at FROM threads WHERE owner = ? AND id = ?"
_CREATE = "INSERT INTO threads (owner, id, title, metadata, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)"
_TOUCH = "UPDATE threads SET updated_at = ? WHERE key = ?"
_CHANGE = "UPDATE threads SET title = ?, metadata = ?, updated_at = ? WHERE key = ?"
_SAVE_MESSAGE = """
INSERT INTO messages (thread, seq, id, role, content, metadata, created_at)
VALUES (?, (SELECT coalesce(max(seq), 0) + 1 FROM messages WHERE thread = ?), ?, ?, ?, ?, ?)
ON CONFLICT (thread, id) DO UPDATE SET role = excluded.role, content = excluded.content, metadata = excluded.metadata
"""
_LAST = f"""
SELECT {MESSAGE_COLUMNS} FROM messages
WHERE thread = (SELECT key FROM threads WHERE owner = ? AND id = ?) ORDER BY seq DESC LIMIT ?
"""
_DELETE_MESSAGE = "DELETE FROM messages WHERE id = ? AND thread = ?"
_DELETE_MESSAGE_ANYWHERE = "DELETE FROM messages WHERE id = ? AND thread IN (SELECT key FROM threads WHERE owner = ?)"

ALL = -1
"""SQLite's word for no limit."""


class Database(Protocol):
    """What the store needs of the storage it belongs to."""

    async def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Call ``function`` with a connection that only reads."""
        ...

    async def write(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Call ``function`` inside a transaction."""
        ...


class SqliteMemoryStore:
    """Threads and messages; the methods are those of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(
        self,
        thread_id: str,
        messages: Sequence[Message],
        *,
        owner: str,
        at: datetime,
        title: str | None = None,
        metadata: JsonObject | None = None,
    ) -> Thread:
        """Create the thread or touch it, and save messages in it, all in one transaction."""
        rows = message_rows(messages)
        now = microseconds(at, "The present moment")

        def write(connection: sqlite3.Connection) -> Thread:
            key, thread = _upsert(connection, thread_id, owner, now, title, metadata)
            _save(connection, key, rows)
            return thread

        return await self._database.write(write)

    async def append(self, thread_id: str, messages: Sequence[Message], *, owner: str, at: datetime) -> bool:
        """Save messages in a thread that exists; ``False`` when there is no such thread."""
        rows = message_rows(messages)
        now = microseconds(at, "The present moment")

        def write(connection: sqlite3.Connection) -> bool:
            found = connection.execute(_FIND, (owner, thread_id)).fetchone()
            if found is None:
                return False
            connection.execute(_TOUCH, (max(now, found[4]), found[0]))
            _save(connection, found[0], rows)
            return True

        return await self._database.write(write)

    async def get_thread(self, thread_id: str, *, owner: str) -> Thread | None:
        """Return a thread."""

        def read(connection: sqlite3.Connection) -> Thread | None:
            found = connection.execute(_FIND, (owner, thread_id)).fetchone()
            return None if found is None else thread_of((thread_id, *found[1:]), owner)

        return await self._database.read(read)

    async def list_threads(
        self,
        *,
        owner: str,
        metadata: Mapping[str, str | int | float | bool | None] | None = None,
        order_by: ThreadOrder = "created_at",
        order: Order = "desc",
        offset: int = 0,
        limit: int | None = None,
    ) -> tuple[tuple[Thread, ...], int]:
        """Return some of the owner's threads and how many match in all."""
        condition, parameters = metadata_condition(metadata)
        selection = f"FROM threads WHERE owner = ?{condition}"
        direction = _direction(order)
        ordered = f"ORDER BY {_column(order_by)} {direction}, key {direction} LIMIT ? OFFSET ?"

        def read(connection: sqlite3.Connection) -> tuple[tuple[Thread, ...], int]:
            with _snapshot(connection):
                (total,) = connection.execute(f"SELECT count(*) {selection}", (owner, *parameters)).fetchone()
                rows = connection.execute(
                    f"SELECT {THREAD_COLUMNS} {selection} {ordered}",
                    (owner, *parameters, ALL if limit is None else limit, offset),
                ).fetchall()
            return tuple(thread_of(row, owner) for row in rows), total

        return await self._database.read(read)

    async def update_thread(
        self,
        thread_id: str,
        *,
        owner: str,
        at: datetime,
        title: str | None = None,
        metadata: JsonObject | None = None,
    ) -> Thread | None:
        """Change the title, add metadata key by key; ``None`` when there is no such thread."""
        now = microseconds(at, "The present moment")

        def write(connection: sqlite3.Connection) -> Thread | None:
            if connection.execute(_FIND, (owner, thread_id)).fetchone() is None:
                return None
            return _upsert(connection, thread_id, owner, now, title, metadata)[1]

        return await self._database.write(write)

    async def delete_thread(self, thread_id: str, *, owner: str) -> bool:
        """Delete a thread with its messages; ``False`` when there is no such thread."""

        def write(connection: sqlite3.Connection) -> bool:
            done = connection.execute("DELETE FROM threads WHERE owner = ? AND id = ?", (owner, thread_id))
            return done.rowcount > 0

        return await self._database.write(write)

    async def last_messages(self, thread_id: str, *, owner: str, limit: int) -> tuple[Message, ...]:
        """Return the newest messages in chronological order; none when there is no such thread."""

        def read(connection: sqlite3.Connection) -> tuple[Message, ...]:
            rows: list[MessageRow] = connection.execute(_LAST, (owner, thread_id, limit)).fetchall()
            rows.reverse()
            return messages_of(rows, thread_id, owner)

        return await self._database.read(read)

    async def list_messages(
        self,
        thread_id: str,
        *,
        owner: str,
        where: MessageFilter | None = None,
        order: Order = "asc",
        offset: int = 0,
        limit: int | None = None,
    ) -> tuple[tuple[Message, ...], int] | None:
        """Return some of a thread's messages and how many match in all; ``None`` when there is no such thread."""
        condition, parameters = message_condition(where)
        selection = f"FROM messages WHERE thread = ?{condition}"
        ordered = f"ORDER BY seq {_direction(order)} LIMIT ? OFFSET ?"

        def read(connection: sqlite3.Connection) -> tuple[tuple[Message, ...], int] | None:
            with _snapshot(connection):
                found = connection.execute(_FIND, (owner, thread_id)).fetchone()
                if found is None:
                    return None
                (total,) = connection.execute(f"SELECT count(*) {selection}", (found[0], *parameters)).fetchone()
                rows: list[MessageRow] = connection.execute(
                    f"SELECT {MESSAGE_COLUMNS} {selection} {ordered}",
                    (found[0], *parameters, ALL if limit is None else limit, offset),
                ).fetchall()
            return messages_of(rows, thread_id, owner), total

        return await self._database.read(read)

    async def delete_messages(self, ids: Sequence[str], *, owner: str, thread_id: str | None = None) -> int:
        """Delete the owner's messages with these ids, in one thread or in all; returns how many there were."""

        def write(connection: sqlite3.Connection) -> int:
            if thread_id is None:
                return connection.executemany(_DELETE_MESSAGE_ANYWHERE, [(id_, owner) for id_ in ids]).rowcount
            found = connection.execute(_FIND, (owner, thread_id)).fetchone()
            if found is None:
                return 0
            return connection.executemany(_DELETE_MESSAGE, [(id_, found[0]) for id_ in ids]).rowcount

        return 0 if not ids else await self._database.write(write)


def _upsert(
    connection: sqlite3.Connection,
    thread_id: str,
    owner: str,
    now: int,
    title: str | None,
    metadata: JsonObject | None,
) -> tuple[int, Thread]:
    """Create a thread, or bring it up to date; returns its key and what it is now."""
    found = connection.execute(_FIND, (owner, thread_id)).fetchone()
    if found is None:
        values = (thread_id, title or "", encode(metadata or {}, "The thread's metadata"), now, now)
        key = connection.execute(_CREATE, (owner, *values)).lastrowid
        assert key is not None  # a rowid table
        return key, thread_of(values, owner)
    key, old_title, stored, created_at, updated_at = found
    now = max(now, updated_at)  # a clock that was set back does not reorder the list
    if title is None and not metadata:
        connection.execute(_TOUCH, (now, key))
        return key, thread_of((thread_id, old_title, stored, created_at, now), owner)
    new_title = old_title if title is None else title
    if metadata:
        stored = encode({**metadata_of(stored), **metadata}, "The thread's metadata")
    connection.execute(_CHANGE, (new_title, stored, now, key))
    return key, thread_of((thread_id, new_title, stored, created_at, now), owner)


def _save(connection: sqlite3.Connection, key: int, rows: Sequence[MessageRow]) -> None:
    connection.executemany(_SAVE_MESSAGE, [(key, key, *row) for row in rows])


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Generator[None]:
    """Let several statements see the same state; inside a transaction they do already."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def _direction(order: Order) -> str:
    return "ASC" if order == "asc" else "DESC"


def _column(order_by: ThreadOrder) -> str:
    return "created_at" if order_by == "created_at" else "updated_at"
