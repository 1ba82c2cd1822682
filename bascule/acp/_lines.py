"""Cuts a stream of bytes into lines, however the bytes arrive."""

from dataclasses import dataclass

__all__ = ["LineSplitter", "OversizedLine"]

HEAD = 4096


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """A line beyond the limit; what follows it is not affected.

    Attributes:
        size: how long it was.
        head: its first bytes, to see what it was about.
    """

    size: int
    head: bytes


class LineSplitter:
    """Collects bytes and gives whole lines; a line beyond ``limit`` is dropped while it arrives and reported.

    Args:
        limit: the longest line that is kept, in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._head = b""

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """Take the next bytes; returns the lines that they complete, without line ends, empty ones left out."""
        *ends, rest = data.split(b"\n")
        lines: list[bytes | OversizedLine] = []
        if ends:
            if self._size:
                self._keep(ends[0])
                lines.append(self._complete())
                del ends[0]
            limit = self._limit
            lines += [line if len(line) <= limit else OversizedLine(len(line), line[:HEAD]) for line in ends if line]
        if rest:
            self._keep(rest)
        return lines

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._limit:
            self._pieces.append(piece)
        elif not self._head:
            self._head = b"".join([*self._pieces, piece])[:HEAD]
            self._pieces.clear()

    def _complete(self) -> bytes | OversizedLine:
        line: bytes | OversizedLine
        line = OversizedLine(self._size, self._head) if self._head else b"".join(self._pieces)
        self._pieces.clear()
        self._size, self._head = 0, b""
        return line
