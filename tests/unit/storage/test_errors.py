import sqlite3

import pytest

from bascule.errors import InputError, StorageError
from bascule.storage._sqlite._errors import explain


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("SQLITE_READONLY_DIRECTORY", "Let this user write the file and its folder"),
        ("SQLITE_FULL", "Free some space"),
        ("SQLITE_CORRUPT_INDEX", "Restore a backup"),
        ("SQLITE_IOERR_WRITE", "Check the disk"),
        ("SQLITE_TOOBIG", "Store large files elsewhere"),
        ("SQLITE_MISUSE", "cannot be used"),
    ],
)
def test_an_error_of_the_database_names_it_and_what_to_do(name: str, remedy: str) -> None:
    error = sqlite3.OperationalError("words of SQLite")
    error.sqlite_errorname = name
    explained = explain(error, "The database 'x.db'")
    assert isinstance(explained, StorageError)
    assert str(explained).startswith("The database 'x.db' ")
    assert remedy in str(explained)
    assert "words of SQLite" in str(explained)
    assert explained.__cause__ is error


def test_other_errors_stay_what_they_are() -> None:
    error = InputError("no")
    assert explain(error, "x") is error
