"""How events are framed: server-sent events for agents, separated JSON records for workflows."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from pydantic_core import PydanticSerializationError, to_json

from bascule.messages import JsonValue

__all__ = ["SSE_DONE", "SSE_HEADERS", "StreamResponse", "json_record", "sse_frame"]

SSE_DONE = b"data: [DONE]\n\n"
"""The frame that ends a stream."""

SSE_HEADERS: Mapping[str, str] = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
"""What a response with server-sent events says of itself, so that no proxy holds it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamResponse:
    """A response for a web route.

    Attributes:
        status: the status code.
        headers: its headers, in lower case.
        body: the bytes, as they come; it may be left at any point.
    """

    status: int
    headers: Mapping[str, str]
    body: AsyncIterator[bytes]


def sse_frame(value: Mapping[str, JsonValue]) -> bytes:
    r"""Return ``data: <JSON on one line>\n\n``."""
    return b"data: %b\n\n" % _json(value)


def json_record(value: Mapping[str, JsonValue]) -> bytes:
    """Return the JSON and the separator that ends a record (U+001E)."""
    return b"%b\x1e" % _json(value)


def _json(value: JsonValue) -> bytes:
    try:
        return to_json(value)
    except (PydanticSerializationError, UnicodeEncodeError):
        return to_json(_writable(value))


def _writable(value: JsonValue) -> JsonValue:
    """Return a value that can be written as UTF-8: half of a surrogate pair becomes a replacement character."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case Mapping():
            return {str(_writable(key)): _writable(item) for key, item in value.items()}
        case None | bool() | int() | float():
            return value
        case _:
            return [_writable(item) for item in value]
