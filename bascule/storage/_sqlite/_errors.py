"""From SQLite's error codes to what a person can do about them."""

import sqlite3

from bascule.errors import StorageError

__all__ = ["explain"]

_REMEDIES = (
    ("SQLITE_NOTADB", "is not a SQLite database. Name another file; this one was left as it is"),
    ("SQLITE_CANTOPEN", "cannot be opened. Check that it is a file, and that this user may write it and its folder"),
    ("SQLITE_READONLY", "is not writable. Let this user write the file and its folder, or name another file"),
    ("SQLITE_PERM", "is not writable. Let this user write the file and its folder, or name another file"),
    ("SQLITE_BUSY", "is locked by another process. Close what holds it open for writing, then try again"),
    ("SQLITE_FULL", "cannot grow: the disk is full. Free some space, then try again"),
    ("SQLITE_CORRUPT", "is damaged. Restore a backup, or save what is readable with the command sqlite3 and .recover"),
    ("SQLITE_TOOBIG", "cannot hold a value of this size. Store large files elsewhere, and a link to them here"),
    ("SQLITE_IOERR", "cannot be read or written: the disk reports an error. Check the disk and its free space"),
)


def explain(error: BaseException, place: str) -> BaseException:
    """Return the error to raise for ``error``: a ``StorageError`` for SQLite's own, any other as it is.

    Args:
        error: what was raised while the database was used.
        place: the database, for the message.
    """
    if not isinstance(error, sqlite3.Error):
        return error
    name = getattr(error, "sqlite_errorname", "")
    remedy = next((text for prefix, text in _REMEDIES if name.startswith(prefix)), None)
    message = f"{place} {remedy}" if remedy else f"{place} cannot be used"
    explained = StorageError(f"{message} (SQLite: {error}).")
    explained.__cause__ = error
    return explained
