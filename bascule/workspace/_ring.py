"""Keeps the last bytes of an endless stream."""

import threading

__all__ = ["TailBuffer"]


class TailBuffer:
    """The last ``size`` bytes that were written; may be used from several threads."""

    def __init__(self, size: int = 64 * 1024) -> None:
        self._size = size
        self._data = bytearray()
        self._lock = threading.Lock()
        self.total: int = 0

    def write(self, data: bytes) -> None:
        """Append ``data`` and forget what is too old."""
        with self._lock:
            self.total += len(data)
            self._data += data[-self._size :]
            del self._data[: -self._size]

    def text(self, lines: int | None = None) -> str:
        """Return what is kept as text, or its last ``lines`` lines."""
        with self._lock:
            text = self._data.decode("utf-8", "replace")
        kept = text.rstrip().splitlines()
        return "\n".join(kept if lines is None else kept[-lines:])
