"""Brings a database to the schema that this version knows.

Migrations are the files ``NNNN_name.sql`` beside this module. All that are missing are applied in one transaction that
holds the write lock: of several processes that open an old database, one migrates and the others find it done.
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from bascule.errors import StorageError

__all__ = ["Migration", "migrate", "migrations"]

_TABLE = """
CREATE TABLE IF NOT EXISTS bascule_migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at INTEGER NOT NULL
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema.

    Attributes:
        number: its place, from 1 without gaps.
        name: what it does, for people.
        script: its SQL statements.
    """

    number: int
    name: str
    script: str


def migrations() -> tuple[Migration, ...]:
    """Return every migration of this version, in order."""
    found: list[Migration] = []
    for entry in (files("bascule.storage._sqlite") / "migrations").iterdir():
        stem, _, suffix = entry.name.rpartition(".")
        if suffix == "sql":
            number, _, name = stem.partition("_")
            found.append(Migration(number=int(number), name=name, script=entry.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.number))


def migrate(connection: sqlite3.Connection, place: str, steps: Sequence[Migration]) -> None:
    """Apply what is missing.

    Args:
        connection: a connection without a transaction.
        place: the database, for messages.
        steps: every migration that this version knows.

    Raises:
        StorageError: the database is newer than this version, or holds tables of another program.
        sqlite3.Error: the database cannot be read or written.
    """
    newest = steps[-1].number
    if _applied(connection, place, newest) == newest:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_TABLE)
        done = _applied(connection, place, newest)
        for step in steps:
            if step.number > done:
                _apply(connection, place, step)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _applied(connection: sqlite3.Connection, place: str, newest: int) -> int:
    """Return the number of the last migration that the database has had, 0 for none."""
    exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'bascule_migrations'").fetchone()
    (last,) = connection.execute("SELECT max(number) FROM bascule_migrations").fetchone() if exists else (None,)
    done: int = last or 0
    if done > newest:
        raise StorageError(
            f"{place} was written by a newer version of Bascule: it has migration {done}, this version knows "
            f"{newest}. Update Bascule, or name another file; this one was left as it is."
        )
    return done


def _apply(connection: sqlite3.Connection, place: str, step: Migration) -> None:
    for statement in _statements(step.script):
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as error:
            if "already exists" not in str(error):
                raise
            raise StorageError(
                f"{place} holds tables of another program ({error}). Name another file; this one was left as it is."
            ) from error
    connection.execute(
        "INSERT INTO bascule_migrations (number, name, applied_at) VALUES (?, ?, ?)",
        (step.number, step.name, time.time_ns() // 1000),
    )


def _statements(script: str) -> Iterator[str]:
    """Split a script; ``executescript`` would end the transaction that holds the lock."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
