"""Joins the chunks of an HTTP/1.1 answer that came in one read of the network.

Servers that stream mostly send each event as a chunk of its own, and an HTTP library does its whole work for each of
them, several times what it takes to read the event. Joined before that work begins, ten chunks cost what one does.

This reads no more of HTTP than it must: the head of each answer, to see whether a chunked body follows, and the sizes
of its chunks. Everything else passes unchanged, and from the first thing that is not understood everything does, so the
HTTP library stays the judge. Nothing but the beginning of a line is held back: of a chunk that is not whole, what there
is passes as a chunk.
"""

from typing import Final, Literal, TypeAlias

__all__ = ["ChunkJoiner"]

_State: TypeAlias = Literal["head", "plain", "chunks", "aside"]

_MAX_HEAD: Final = 64 * 1024
_MAX_SIZE: Final = 16
_HEX: Final = b"0123456789abcdefABCDEF"
_LAST: Final = b"0\r\n\r\n"


class ChunkJoiner:
    """Takes what a connection reads, gives what the HTTP library is to read instead."""

    __slots__ = ("_held", "_left", "_line_end", "_state")

    def __init__(self) -> None:
        self._state: _State = "head"
        self._held = b""  # in a head: what has passed of it; in chunks: the beginning of a line, which has not
        self._left = 0  # bytes of the body or of the chunk that are still to come
        self._line_end = False  # whether the end of a chunk is to come, which is an empty line

    def feed(self, data: bytes) -> bytes:
        """Return what stands for the next bytes; nothing when more of them are needed."""
        out = b""
        while data and self._state != "aside":
            if self._state == "head":
                passed, data = self._head(data)
            elif self._state == "plain":
                passed, data = data[: self._left], data[self._left :]
                self._left -= len(passed)
                if not self._left:
                    self._state = "head"
            else:
                passed, data = self._chunks(data)
            out = out + passed if out else passed
        return out + data

    def close(self) -> bytes:
        """Return what was held back, when the connection ends."""
        held = self._held if self._state == "chunks" else b""
        self._state, self._held = "aside", b""
        return held

    def _head(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what belongs to the head of an answer, and the rest."""
        seen = self._held + data
        end = seen.find(b"\r\n\r\n") + 4
        if end < 4:
            self._held = seen
            if len(seen) > _MAX_HEAD:
                self._state, self._held = "aside", b""
            return data, b""
        cut = end - len(self._held)
        self._held = b""
        self._state, self._left = _kind_of(seen[: end - 4])
        return data[:cut], data[cut:]

    def _chunks(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the joined chunks, and what comes after the body."""
        data = self._held + data
        pieces: list[bytes] = []
        at = 0
        while at < len(data) and self._state == "chunks":
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._line_end = not self._left
            else:
                after = self._line(data, at)
                if after is None:
                    break
                at = after
        joined = b"".join(pieces)
        passed = b"%x\r\n%s\r\n" % (len(joined), joined) if joined else b""
        self._held, rest = (data[at:], b"") if self._state == "chunks" else (b"", data[at:])
        if self._state == "head":
            return passed + _LAST, rest[len(_LAST) :]
        if self._state == "aside" and self._line_end:
            passed += b"\r\n"  # the chunk was closed already, so an empty line tells the library that it was not
        return passed, rest

    def _line(self, data: bytes, at: int) -> int | None:
        """Return where the line ends that begins here, ``None`` when it is not whole; a state that ends stays at it."""
        if self._line_end:
            if data.startswith(b"\r\n", at):
                self._line_end = False
                return at + 2
            return self._stand_aside(at) if data[at:] != b"\r" else None
        end = data.find(b"\r\n", at, at + _MAX_SIZE + 2)
        if end < 0:
            return self._stand_aside(at) if len(data) - at > _MAX_SIZE else None
        size = data[at:end]
        if not size or size.strip(_HEX):
            return self._stand_aside(at)
        self._left = int(size, 16)
        if self._left:
            return end + 2
        if data.startswith(_LAST, at):
            self._state = "head"
            return at
        return None if _LAST.startswith(data[at:]) else self._stand_aside(at)

    def _stand_aside(self, at: int) -> int:
        self._state = "aside"
        return at


def _kind_of(head: bytes) -> tuple[_State, int]:
    """Return what follows a head, and the length of a plain body."""
    first, *lines = head.split(b"\r\n")
    status = first[9:12]
    if status.startswith(b"1") and status != b"101":
        return "head", 0
    fields = [(name.lower(), value.strip().lower()) for name, _, value in (line.partition(b":") for line in lines)]
    codings = [value for name, value in fields if name == b"transfer-encoding"]
    lengths = [value for name, value in fields if name == b"content-length"]
    if codings == [b"chunked"] and not lengths and first.startswith(b"HTTP/1.1 2"):
        return "chunks", 0
    if not codings and len(lengths) == 1 and lengths[0].isdigit() and status not in (b"101", b"204", b"304"):
        length = int(lengths[0])
        return ("plain", length) if length else ("head", 0)
    return "aside", 0
