"""Cuts a stream of bytes into lines, however the bytes arrive."""

from dataclasses import dataclass

__all__ = ["LineSplitter", "OversizedLine"]

HEAD = 4096


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """A line beyond the limit, reported as soon as that is known; what follows it is not affected.

    Attributes:
        size: how long it was by then.
        head: its first bytes, to see what it was about.
    """

    size: int
    head: bytes


class LineSplitter:
    """Collects bytes and gives whole lines; a line beyond ``limit`` is reported and dropped while it arrives.

    Args:
        limit: the longest line that is kept, in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._dropping = False

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """Take the next bytes; returns the lines that they complete, without line ends, empty ones left out."""
        *ends, rest = data.split(b"\n")
        lines: list[bytes | OversizedLine] = []
        if ends:
            if self._size or self._dropping:
                lines += self._keep(ends[0])
                lines += self._complete()
                del ends[0]
            limit = self._limit
            lines += [line if len(line) <= limit else OversizedLine(len(line), line[:HEAD]) for line in ends if line]
        if rest:
            lines += self._keep(rest)
        return lines

    def _keep(self, piece: bytes) -> list[OversizedLine]:
        if self._dropping:
            return []
        self._size += len(piece)
        self._pieces.append(piece)
        if self._size <= self._limit:
            return []
        head = b"".join(self._pieces)[:HEAD]
        found = OversizedLine(self._size, head)
        self._pieces.clear()
        self._size, self._dropping = 0, True
        return [found]

    def _complete(self) -> list[bytes]:
        line = [] if self._dropping else [b"".join(self._pieces)]
        self._pieces.clear()
        self._size, self._dropping = 0, False
        return line
