"""File access that cannot leave a folder.

A path is walked component by component from an open descriptor of the root, and no component is followed by the
operating system when it is a symbolic link: links are read and walked here, under the same rule. So there is no moment
between a check and its use in which a folder could be swapped for a link that leads outside. ``..`` goes back along the
descriptors that were opened; at the root there is nothing to go back to.

A file is replaced by renaming a finished copy over it. Whatever stands at the name by then, a link included, is
replaced and never written through, so a hard link to a file outside is safe as well.
"""

import errno
import os
import secrets
import stat
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from bascule.errors import NotFound, PathRefused

__all__ = ["ConfinedFiles"]

_T = TypeVar("_T")

MAX_LINKS = 40
_LINK_ERRORS = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ConfinedFiles:
    """Reads and writes text files below one folder, and nothing else.

    Symbolic links are followed as long as they stay inside. Only regular files are opened. Paths may be relative to
    the root or absolute.

    Args:
        root: the folder.
        max_read_bytes: the most that one call returns.
        max_write_bytes: the largest text that is written.

    Attributes:
        root: the folder; absolute and without links from the first use on.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        max_read_bytes: int = 10 * 2**20,
        max_write_bytes: int = 50 * 2**20,
    ) -> None:
        self.root: Path = Path(root)
        self._given: Path | None = None
        self._max_read = max_read_bytes
        self._max_write = max_write_bytes

    def __repr__(self) -> str:
        return f"<ConfinedFiles {str(self.root)!r}>"

    async def read_text(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        """Return a file's text, or some of its lines.

        Args:
            path: relative to the root, or absolute.
            line: the first line that is wanted, from 1.
            limit: how many lines.

        Raises:
            NotFound: there is no such file.
            PathRefused: the path leads outside, is no regular text file, or is too large.
        """
        return await to_thread.run_sync(partial(self.read_text_sync, path, line=line, limit=limit))

    async def write_text(self, path: str, text: str) -> str:
        """Create or replace a file, with the folders that lead to it; the old content stays until the new is complete.

        Args:
            path: relative to the root, or absolute.
            text: the whole new content.

        Returns:
            The file's path relative to the root.

        Raises:
            PathRefused: the path leads outside, is no regular file, is write-protected, or the text is too large.
        """
        return await to_thread.run_sync(self.write_text_sync, path, text)

    def read_text_sync(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        """Do what ``read_text`` does, in a thread that may block."""
        self._locate()
        with self._errors(path), self._parent(path, create=False) as (folder, name, _):
            self._require_file(path, os.lstat(name, dir_fd=folder))
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(descriptor, "rb") as file:
                info = os.fstat(descriptor)
                self._require_file(path, info)
                if line is None and limit is None:
                    if info.st_size > self._max_read:
                        raise self._too_large(path, info.st_size)
                    data = file.read(self._max_read + 1)
                    if len(data) > self._max_read:
                        raise self._too_large(path, len(data))
                else:
                    data = self._lines(path, file.readline, line or 1, limit)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise self._refused(path, "is not UTF-8 text") from None

    def write_text_sync(self, path: str, text: str) -> str:
        """Do what ``write_text`` does, in a thread that may block."""
        data = text.encode("utf-8", "replace")
        if len(data) > self._max_write:
            raise self._refused(path, f"would be {len(data)} bytes long, the limit is {self._max_write}")
        self._locate()
        with self._errors(path), self._parent(path, create=True) as (folder, name, relative):
            mode = 0o644
            with suppress(FileNotFoundError):
                info = os.lstat(name, dir_fd=folder)
                self._require_file(path, info)
                mode = stat.S_IMODE(info.st_mode)
                if not mode & 0o222:
                    raise self._refused(path, "is write-protected")
            self._replace(folder, name, data, mode)
        return relative

    def _locate(self) -> None:
        """Find out where the root is; not done on construction, which must not touch the disk."""
        if self._given is not None:
            return
        given = Path(os.path.abspath(self.root))  # noqa: PTH100  # lexical on purpose: links are compared as given
        root = Path(os.path.realpath(given))
        if not root.is_dir():
            raise PathRefused(
                f"The root {str(given)!r} is not a folder. Create it, or name another one.",
                path=str(given),
                root=str(given),
            )
        self.root, self._given = root, given

    @staticmethod
    def _replace(folder: int, name: str, data: bytes, mode: int) -> None:
        temporary = f".{secrets.token_hex(8)}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, mode)
                file.write(data)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def _lines(self, path: str, readline: Callable[[int], bytes], first: int, limit: int | None) -> bytes:
        kept: list[bytes] = []
        size, number = 0, 1
        while limit is None or number < first + limit:
            piece = readline(self._max_read + 1)
            if not piece:
                break
            if number >= first:
                kept.append(piece)
                size += len(piece)
                if size > self._max_read:
                    raise self._too_large(path, size)
            number += piece.endswith(b"\n")
        return b"".join(kept)

    # --- walking ---

    @contextmanager
    def _parent(self, path: str, *, create: bool) -> Generator[tuple[int, str, str]]:
        """Open the folder that holds ``path``; gives its descriptor, the file's name and its path below the root."""
        walk = _Walk(self, path, create=create)
        try:
            walk.start()
            yield walk.to_parent()
        finally:
            walk.close()

    def components(self, path: str, text: str) -> list[str]:
        """Split a path into names below the root.

        Args:
            path: what the caller asked for; for messages.
            text: the path or a link's target.

        Raises:
            PathRefused: it is absolute and not below the root.
        """
        if "\0" in text:
            raise self._refused(path, "contains a null character")
        if not os.path.isabs(text):  # noqa: PTH117  # a text, not a path object
            return text.split("/")
        for root in (self.root, self._given or self.root):
            prefix = str(root).rstrip("/")
            if text == prefix or text.startswith(prefix + "/"):
                return text[len(prefix) :].split("/")
        raise self.outside(path)

    def outside(self, path: str) -> PathRefused:
        """Return the error for a path that leads out of the root."""
        return self._refused(path, "leads outside")

    def _require_file(self, path: str, info: os.stat_result) -> None:
        if stat.S_ISDIR(info.st_mode):
            raise self._refused(path, "is a folder")
        if not stat.S_ISREG(info.st_mode):
            raise self._refused(path, "is not a regular file")

    def _too_large(self, path: str, size: int) -> PathRefused:
        return self._refused(
            path, f"has at least {size} bytes, the limit is {self._max_read}; ask for fewer lines with line and limit"
        )

    def _refused(self, path: str, reason: str) -> PathRefused:
        root = str(self.root)
        return PathRefused(f"The path {path!r} {reason}; access is confined to {root!r}.", path=path, root=root)

    @contextmanager
    def _errors(self, path: str) -> Generator[None]:
        try:
            yield
        except FileNotFoundError:
            raise NotFound(f"There is no file {path!r} in {str(self.root)!r}.") from None
        except OSError as error:
            raise self._refused(path, f"cannot be used ({error.strerror})") from error


class _Walk:
    """One walk from the root to the folder of a file."""

    def __init__(self, files: ConfinedFiles, path: str, *, create: bool) -> None:
        self._files = files
        self._path = path
        self._create = create
        self._open: list[int] = []
        self._names: list[str] = []
        self._left: deque[str] = deque(files.components(path, path))
        self._links = 0

    def start(self) -> None:
        self._open.append(os.open(self._files.root, _FOLDER))

    def close(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()

    def to_parent(self) -> tuple[int, str, str]:
        """Walk until one name is left that is not a link."""
        while True:
            name = self._next()
            if name is None:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not any(part not in ("", ".") for part in self._left):
                target = self._link(name)
                if target is None:
                    return self._open[-1], name, "/".join((*self._names, name))
                self._follow(target)
            else:
                self._enter(name)

    def _next(self) -> str | None:
        while self._left:
            name = self._left.popleft()
            if name == "..":
                if len(self._open) == 1:
                    raise self._files.outside(self._path)
                os.close(self._open.pop())
                self._names.pop()
            elif name not in ("", "."):
                return name
        return None

    def _enter(self, name: str) -> None:
        try:
            descriptor = self._open_folder(name)
        except OSError as error:
            target = self._link(name) if error.errno in _LINK_ERRORS else None
            if target is None:
                raise
            self._follow(target)
            return
        self._open.append(descriptor)
        self._names.append(name)

    def _open_folder(self, name: str) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=self._open[-1])
        except FileNotFoundError:
            if not self._create:
                raise
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=self._open[-1])
        return os.open(name, _FOLDER, dir_fd=self._open[-1])

    def _link(self, name: str) -> str | None:
        """Return a link's target, ``None`` when the name is no link or does not exist."""
        try:
            return os.readlink(name, dir_fd=self._open[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _follow(self, target: str) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        names = self._files.components(self._path, target)
        if target.startswith("/"):
            for descriptor in self._open[1:]:
                os.close(descriptor)
            del self._open[1:]
            self._names.clear()
        self._left.extendleft(reversed(names))
