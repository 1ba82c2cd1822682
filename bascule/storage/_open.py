"""From a URL to a storage."""

from pathlib import Path
from urllib.parse import parse_qsl, unquote

from bascule.errors import SettingInvalid
from bascule.storage._protocol import Storage
from bascule.storage._sqlite import SqliteStorage, Synchronous

__all__ = ["open"]

_SUPPORTED = "This version stores in SQLite: sqlite:///path/to/file.db, or sqlite:// to keep everything in memory."


def open(url: str) -> Storage:
    """Return the storage at ``url``; nothing is opened or created before it is first used.

    Args:
        url: ``sqlite:///path`` (relative to the working directory, or absolute as in ``sqlite:////var/lib/app.db``),
            or ``sqlite://`` for a store that lives as long as the process. ``?sync=normal`` trades the last moments
            before a power failure for speed; the default ``?sync=full`` has every acknowledged write on the disk.

    Raises:
        SettingInvalid: the URL names no storage that this version supports.
    """
    scheme, separator, rest = url.partition("://")
    if scheme != "sqlite" or not separator:
        # Only the scheme is shown: the rest of a database URL may hold a password.
        given = f"the scheme {scheme!r}" if separator else "no scheme"
        raise SettingInvalid(f"The storage URL has {given}. {_SUPPORTED}")
    location, _, query = rest.partition("?")
    synchronous = _synchronous(query)
    if location in ("", "/:memory:"):
        return SqliteStorage(None, synchronous=synchronous)
    return SqliteStorage(_path(location), synchronous=synchronous)


def _path(location: str) -> Path:
    if not location.startswith("/"):
        raise SettingInvalid(f"The storage URL 'sqlite://{location}' lacks a slash; write 'sqlite:///{location}'.")
    name = unquote(location.removeprefix("/"))
    if not name or "\0" in name:
        raise SettingInvalid(f"The storage URL 'sqlite://{location}' names no file. {_SUPPORTED}")
    # Absolute from the start: a later change of the working directory must not lead to another database.
    return Path(name).expanduser().absolute()


def _synchronous(query: str) -> Synchronous:
    options = dict(parse_qsl(query, keep_blank_values=True))
    value = options.pop("sync", "full")
    if options:
        raise SettingInvalid(f"The storage URL has the unknown option {min(options)!r}; the options are: sync.")
    if value == "full":
        return "full"
    if value == "normal":
        return "normal"
    raise SettingInvalid(f"The storage URL has sync={value!r}; the choices are full and normal.")
