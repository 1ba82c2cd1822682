"""Splits a server's event stream into JSON events.

Written for the one shape that model servers send, where nearly every event is one ``data:`` line with one JSON object:
such a line is parsed at once, without waiting for the blank line that ends the event. An event spread over several
``data:`` lines is joined. Comments, other fields and payloads that are no JSON object (signs of life) are skipped. An
object that is broken is an error, since text would be lost silently.
"""

from typing import Final, TypeAlias

from pydantic_core import from_json

__all__ = ["Json", "SseReader"]

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
"""A value fresh from the JSON parser."""

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
_SHOWN = 120


class SseReader:
    """Takes bytes in pieces of any size, gives JSON objects.

    Attributes:
        done: whether ``[DONE]`` was seen, or the stream cannot be read on; what follows is ignored.
        malformed: what cannot be read, ``None`` while all is well.
    """

    __slots__ = ("_held", "_held_size", "_is_error", "_open", "done", "malformed")

    def __init__(self) -> None:
        self.done = False
        self.malformed: str | None = None
        self._held: list[bytes] = []  # the beginning of a line whose end has not come yet
        self._held_size = 0
        self._open: list[bytes] = []  # data lines of an event that is not whole yet
        self._is_error = False

    def feed(self, data: bytes) -> list[dict[str, Json]]:
        """Return the events that became whole."""
        if self._held and (b"\n" in data or b"\r" in data or self._held[-1].endswith(b"\r")):
            data = self._take_held(data)
        # A carriage return at the very end may be the first half of a line end, so it waits.
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, max(0, len(data) - 1))) + 1
        if cut < len(data):
            self._hold(data[cut:])
        return self._lines(data[:cut].splitlines()) if cut else []

    def close(self) -> list[dict[str, Json]]:
        """Return the event of a last line that has no line end."""
        return self._lines(self._take_held(b"").splitlines())

    def _take_held(self, data: bytes) -> bytes:
        data = b"".join((*self._held, data))
        self._held, self._held_size = [], 0
        return data

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._held_size += len(data)
        if self._held_size > MAX_LINE_BYTES:
            self._fail(f"a line of more than {MAX_LINE_BYTES // 1024 // 1024} MiB")
            self._held, self._held_size = [], 0

    def _fail(self, what: str) -> None:
        self.malformed, self.done = what, True

    def _lines(self, lines: list[bytes]) -> list[dict[str, Json]]:
        events: list[dict[str, Json]] = []
        for line in lines:
            if self.done:
                break
            if line.startswith(b"data:"):
                event = self._data(line[5:])
                if event is not None:
                    events.append(event)
            elif not line:
                if self._open or self._is_error:
                    self._end_event()
            elif line.startswith(b"event:"):
                self._is_error = line[6:].strip() == b"error"
        return events

    def _data(self, payload: bytes) -> dict[str, Json] | None:
        if self._open:
            payload = b"\n".join((*self._open, payload))
        try:
            value: Json = from_json(payload)
        except ValueError:
            self._not_json(payload)
            return None
        self._open = []
        if not isinstance(value, dict):
            return None
        return {"error": value} if self._is_error and "error" not in value else value

    def _not_json(self, payload: bytes) -> None:
        text = payload.strip()
        if text.upper() == b"[DONE]":
            self.done = True
        elif text.startswith(b"{"):
            self._open = [payload]
        elif self._is_error and text:
            self._fail(f"an error: {text[:_SHOWN].decode(errors='replace')}")

    def _end_event(self) -> None:
        self._is_error = False
        if self._open:
            shown = b"\n".join(self._open).strip()[:_SHOWN].decode(errors="replace")
            self._open = []
            self._fail(f"an event that is not valid JSON: {shown!r}")
