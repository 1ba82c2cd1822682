"""Reads lines from a file descriptor, and writes them to one, on daemon threads.

The event loop's own worker threads are not daemons: one that is blocked on a pipe keeps the process alive for ever.
"""

import contextlib
import os
import select
import threading
from collections.abc import Callable
from queue import SimpleQueue

import anyio
import anyio.from_thread
from anyio.abc import ObjectSendStream
from anyio.lowlevel import EventLoopToken, current_token

__all__ = ["LineReader", "LineWriter"]

CHUNK = 64 * 1024

LOOK_AROUND = 0.5
"""Seconds between two looks at whether the parent process is still there."""

HIGH_WATER = 4 * 1024 * 1024
"""Bytes that may wait for a slow reader before whoever writes has to wait too."""


class LineReader:
    """Reads a file descriptor to its end and hands on every batch of complete lines.

    Args:
        descriptor: where to read.
        send: takes the batches; closed at the end.
        orphaned: asked now and then; when it says yes, the end has come too.
        on_end: called in the reading thread when the end has come, even when the event loop is blocked.
    """

    def __init__(
        self,
        descriptor: int,
        send: ObjectSendStream[list[bytes]],
        *,
        orphaned: Callable[[], bool],
        on_end: Callable[[], None],
    ) -> None:
        self._descriptor = descriptor
        self._send = send
        self._orphaned = orphaned
        self._on_end = on_end
        self._token: EventLoopToken = current_token()
        self._lock = threading.Lock()
        self._stopper: int | None
        self._stopped, self._stopper = os.pipe()

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._work, name="bascule-stdin", daemon=True).start()

    def stop(self) -> None:
        """Let the end come now. May be called in any thread."""
        with self._lock:
            if self._stopper is not None:
                with contextlib.suppress(OSError):  # the reading thread has ended
                    os.write(self._stopper, b"x")

    def close(self) -> None:
        """Stop, and give back what reading took."""
        with self._lock:
            if self._stopper is not None:
                os.close(self._stopper)  # the reading thread sees the end of this pipe
            self._stopper = None

    def _work(self) -> None:
        try:
            self._read_all()
        except RuntimeError:
            return  # the event loop is gone
        finally:
            self._on_end()
            os.close(self._stopped)
        with contextlib.suppress(RuntimeError):
            anyio.from_thread.run(self._send.aclose, token=self._token)

    def _read_all(self) -> None:
        pieces: list[bytes] = []
        while chunk := self._read():
            *lines, rest = chunk.split(b"\n")
            if lines:
                lines[0] = b"".join((*pieces, lines[0]))
                pieces = []
                self._hand_on(lines)
            if rest:
                pieces.append(rest)
        if pieces:
            self._hand_on([b"".join(pieces)])

    def _read(self) -> bytes:
        while not self._orphaned():
            ready, _, _ = select.select([self._descriptor, self._stopped], [], [], LOOK_AROUND)
            if self._stopped in ready:
                break
            if ready:
                try:
                    return os.read(self._descriptor, CHUNK)
                except OSError:
                    break  # the peer is gone
        return b""

    def _hand_on(self, lines: list[bytes]) -> None:
        try:
            anyio.from_thread.run(self._send.send, lines, token=self._token)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise RuntimeError("nobody reads") from None


class LineWriter:
    """Writes lines to a file descriptor without blocking the event loop.

    Args:
        descriptor: where to write.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._token: EventLoopToken = current_token()
        self._waiting = 0
        self._lock = threading.Lock()
        self._drained: anyio.Event | None = None
        self._finished = anyio.Event()
        self.broken = False
        threading.Thread(target=self._work, name="bascule-stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write a line; waits while the peer is far behind. What a peer that is gone would have got is dropped."""
        with self._lock:
            self._waiting += len(line) + 1
            behind = self._waiting > HIGH_WATER
            if behind and self._drained is None:
                self._drained = anyio.Event()
            drained = self._drained
        self._queue.put(line + b"\n")
        if behind and drained is not None:
            await drained.wait()

    async def aclose(self, timeout: float) -> None:
        """Wait until everything is written, but no longer than ``timeout`` seconds."""
        self._queue.put(None)
        with anyio.move_on_after(timeout, shield=True):
            await self._finished.wait()

    def _work(self) -> None:
        try:
            while (line := self._queue.get()) is not None:
                self._write(line)
                self._written(len(line))
        finally:
            with contextlib.suppress(RuntimeError):  # the event loop is gone
                anyio.from_thread.run_sync(self._finished.set, token=self._token)

    def _write(self, line: bytes) -> None:
        if self.broken:
            return
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            self.broken = True

    def _written(self, size: int) -> None:
        with self._lock:
            self._waiting -= size
            if self._drained is None or self._waiting > HIGH_WATER // 2:
                return
            drained, self._drained = self._drained, None
        with contextlib.suppress(RuntimeError):
            anyio.from_thread.run_sync(drained.set, token=self._token)
