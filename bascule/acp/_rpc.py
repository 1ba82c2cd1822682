"""JSON-RPC as coding agents really speak it.

Programs print other things between the messages, echo ids in another type and write bytes that are no UTF-8. None of
that may end a session: what is no message is counted and kept for diagnosis, and the rest is read as far as it goes.
"""

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pydantic_core import from_json, to_json

from bascule.messages import JsonObject

__all__ = [
    "AUTH_REQUIRED",
    "CANCELLED",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "METHOD_NOT_FOUND",
    "RESOURCE_NOT_FOUND",
    "Diagnostics",
    "RequestId",
    "encode",
    "own_id",
    "parse_message",
]

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
RESOURCE_NOT_FOUND: Final = -32002

RequestId = int | str | float
"""The id of a request of the peer, echoed untouched."""


@dataclass(slots=True)
class Diagnostics:
    """What an agent wrote to stdout that was no message, and what it said that we do not know.

    Attributes:
        ignored_lines: how many lines were no JSON objects.
        samples: the last few of them, shortened.
        unknown_methods: how often each unknown method was used.
        unmatched_responses: answers to requests that nobody waits for.
    """

    ignored_lines: int = 0
    samples: deque[str] = field(default_factory=lambda: deque[str](maxlen=20))
    unknown_methods: dict[str, int] = field(default_factory=dict[str, int])
    unmatched_responses: int = 0

    def ignore(self, line: bytes) -> None:
        """Note a line that is no message."""
        self.ignored_lines += 1
        self.samples.append(line[:200].decode("utf-8", "replace"))

    def unknown(self, method: str) -> None:
        """Note a method that is not known; the first hundred names are kept apart."""
        if method not in self.unknown_methods and len(self.unknown_methods) >= 100:
            method = "(others)"
        self.unknown_methods[method] = self.unknown_methods.get(method, 0) + 1


def parse_message(line: bytes) -> dict[str, Any] | None:  # Any: the fields are checked where they are used
    """Return the JSON object in a line, ``None`` when there is none."""
    try:
        value = from_json(line, cache_strings="keys")
    except ValueError:
        value = _parse_with_repairs(line)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _parse_with_repairs(line: bytes) -> object:
    """Read what the strict parser refuses: bytes that are no UTF-8, and halves of surrogate pairs."""
    if b"{" not in line:
        return None
    try:
        value = json.loads(line.decode("utf-8", "replace"))
        return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def own_id(value: object) -> int | None:
    """Return which of our requests an answer belongs to: our ids are numbers, and some agents echo them as text."""
    if isinstance(value, int):
        return value
    if isinstance(value, str | float):
        try:
            return int(value)
        except (ValueError, OverflowError):
            return None
    return None


def encode(message: JsonObject) -> bytes:
    """Return a message as one line."""
    whole = {"jsonrpc": "2.0", **message}
    try:
        return to_json(whole, inf_nan_mode="null") + b"\n"
    except ValueError:  # half of a surrogate pair in a text of the caller
        return json.dumps(whole, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
