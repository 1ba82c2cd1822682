"""The log of a command: on stderr, and never in the way.

A host that starts a server with a pipe for stderr and does not read it would stop whoever writes when the pipe is full.
So the entries are written by a thread of their own, and when it cannot keep up the newest are dropped and counted.
"""

import logging
import queue
import sys
import threading

__all__ = ["start_log"]

ROOM = 1000
"""How many entries may wait to be written."""


class _Handler(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self._waiting: queue.Queue[str] = queue.Queue(ROOM)
        self._dropped = 0
        threading.Thread(target=self._write, name="bascule-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Hand an entry to the writing thread; drop it when that is stuck."""
        try:
            self._waiting.put_nowait(self.format(record))
        except queue.Full:
            self._dropped += 1
        except Exception:  # noqa: BLE001  # an entry that cannot be formatted is logging's to report
            self.handleError(record)

    def flush(self) -> None:
        """Wait a moment for what has been handed over."""
        deadline = threading.Event()
        for _ in range(20):
            if self._waiting.unfinished_tasks == 0:
                return
            deadline.wait(0.01)

    def _write(self) -> None:
        while True:
            text = self._waiting.get()
            dropped, self._dropped = self._dropped, 0
            if dropped:
                text = f"({dropped} entries were dropped: nobody read the log)\n{text}"
            try:
                print(text, file=sys.stderr, flush=True)
            except (OSError, ValueError):
                return
            finally:
                self._waiting.task_done()


def start_log(level: str) -> None:
    """Write the log to stderr from now on.

    Args:
        level: ``debug``, ``info``, ``warning``, ``error`` or ``critical``.
    """
    handler = _Handler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
