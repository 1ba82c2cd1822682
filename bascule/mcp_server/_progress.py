"""Progress as the protocol wants it: every report is greater than the one before, and silence has a limit."""

from dataclasses import dataclass

__all__ = ["HEARTBEAT", "Progress", "Report"]

HEARTBEAT = 15.0
"""Seconds of silence after which a caller that gave a progress token hears that the call goes on."""

NUDGE = 0.001


@dataclass(frozen=True, slots=True)
class Report:
    """One progress notification."""

    done: float
    total: float | None
    message: str | None


class Progress:
    """Turns what a tool reports, what its runs do, and silence into reports that grow."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._total: float | None = None

    def report(self, done: float, total: float | None, message: str | None) -> Report:
        """Return the report of a tool's own progress."""
        self._total = total
        return Report(self._next(done), total, message)

    def step(self, message: str) -> Report:
        """Return the report of something that a run did: one more, of an unknown number."""
        if self._total is not None:
            return Report(self._next(self._last or 0), self._total, message)
        return Report(self._next((self._last or 0) + 1), None, message)

    def heartbeat(self, seconds: float) -> Report:
        """Return the report that says nothing but that the call goes on."""
        return Report(self._next(self._last or 0), self._total, f"Still working ({seconds:.0f} s)")

    def _next(self, done: float) -> float:
        if self._last is not None and done <= self._last:
            done = round(self._last + NUDGE, 6)
        self._last = done
        return done
