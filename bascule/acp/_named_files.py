"""Which file does an agent mean?

One file has many spellings: relative and absolute, with ``./`` and ``..``, through links, in another case where the
file system does not tell them apart. A decision about a file holds for the file. So spellings are kept as the agent
gave them and compared by where they lead at that moment. A denial also holds for another name of the same file; an
approval holds for the one place alone.
"""

import os
import sys
from collections.abc import Iterable, Mapping

from bascule.messages import JsonValue

__all__ = ["NamedFiles", "named_in"]

FOLDS_CASE = sys.platform in ("darwin", "win32")
_PATH_KEYS = frozenset(
    {"path", "file", "filename", "filepath", "file_path", "abs_path", "absolute_path", "target_file", "notebook_path"}
)


def named_in(arguments: JsonValue) -> list[str]:
    """Return the paths in a call's arguments, by the usual names of such arguments."""
    if not isinstance(arguments, Mapping):
        return []
    return [value for key, value in arguments.items() if key.lower() in _PATH_KEYS and isinstance(value, str) and value]


class NamedFiles:
    """Files that decisions were made about.

    Args:
        folders: what relative paths are relative to.
    """

    def __init__(self, *folders: str) -> None:
        self._folders = folders
        self._paths: dict[str, None] = {}

    def add(self, paths: Iterable[str]) -> None:
        """Add files as the agent names them."""
        self._paths.update(dict.fromkeys(paths))

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        return not self._paths

    def places(self, *, other_names: bool) -> frozenset[object]:
        """Return where the files are now; touches the disk.

        Args:
            other_names: whether another name of the same file counts as well.
        """
        return places_of(self._paths, self._folders, other_names=other_names)


def places_of(paths: Iterable[str], folders: Iterable[str], *, other_names: bool) -> frozenset[object]:
    """Return what identifies the files that ``paths`` lead to; touches the disk."""
    found: set[object] = set()
    for path in paths:
        for folder in folders:
            found |= _place(os.path.join(folder, path), other_names=other_names)  # noqa: PTH118  # a peer's text
    return frozenset(found)


def _place(path: str, *, other_names: bool) -> set[object]:
    try:
        place = os.path.realpath(path)
    except (OSError, ValueError):
        return {path}
    found: set[object] = {place.casefold() if FOLDS_CASE else place}
    if other_names:
        try:
            info = os.stat(place)  # noqa: PTH116  # a peer's text
        except OSError:
            return found
        found.add((info.st_dev, info.st_ino))
    return found
