"""Messages and threads as rows and back."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from bascule.errors import InputError
from bascule.messages import JsonObject, Message, Part, TextPart, content_from_wire, content_to_wire
from bascule.storage._json import decode, encode
from bascule.storage._protocol import Thread

__all__ = [
    "MESSAGE_COLUMNS",
    "THREAD_COLUMNS",
    "MessageRow",
    "ThreadRow",
    "message_rows",
    "messages_of",
    "metadata_of",
    "microseconds",
    "moment",
    "thread_of",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EXACT_IN_SECONDS = 4_000_000_000_000_000
"""Up to here a float of seconds tells microseconds apart."""

# Reading messages is the hottest path of a memory. The initialiser of a frozen dataclass goes through
# object.__setattr__ for each field and takes a third of the time of a recall; the slots' own setters take next to none.
_new = object.__new__
_set_role, _set_parts, _set_id, _set_created_at, _set_thread_id, _set_resource_id, _set_metadata = (
    getattr(Message, name).__set__
    for name in ("role", "parts", "id", "created_at", "thread_id", "resource_id", "metadata")
)

MessageRow: TypeAlias = tuple[str, str, str, str | None, int]
MESSAGE_COLUMNS = "id, role, content, metadata, created_at"

ThreadRow: TypeAlias = tuple[str, str, str, int, int]
THREAD_COLUMNS = "id, title, metadata, created_at, updated_at"


def microseconds(at: datetime, what: str) -> int:
    """Return ``at`` as microseconds since 1970.

    Raises:
        InputError: it has no time zone.
    """
    try:
        return (at - _EPOCH) // _MICROSECOND
    except TypeError as error:
        raise InputError(f"{what} is {at!r}; give it a time zone, for instance tzinfo=datetime.UTC.") from error


def moment(at: int) -> datetime:
    """Return microseconds since 1970 as a moment in UTC."""
    if 0 <= at < _EXACT_IN_SECONDS:
        return datetime.fromtimestamp(at / 1_000_000, UTC)  # half the time of the sum below
    return _EPOCH + at * _MICROSECOND


def message_rows(messages: Sequence[Message]) -> list[MessageRow]:
    """Return the rows of messages.

    Raises:
        InputError: one of them cannot be stored.
    """
    return [
        (
            message.id,
            message.role,
            encode(content_to_wire(message.parts), f"The content of message {message.id!r}"),
            None if message.metadata is None else encode(message.metadata, f"The metadata of message {message.id!r}"),
            microseconds(message.created_at, f"created_at of message {message.id!r}"),
        )
        for message in messages
    ]


def messages_of(rows: Sequence[MessageRow], thread_id: str, owner: str) -> tuple[Message, ...]:
    """Return the messages of rows of one thread."""
    found: list[Message] = []
    for id_, role, content, metadata, created_at in rows:
        message = _new(Message)
        _set_role(message, role)
        _set_parts(message, _parts(content))
        _set_id(message, id_)
        _set_created_at(message, moment(created_at))
        _set_thread_id(message, thread_id)
        _set_resource_id(message, owner)
        _set_metadata(message, None if metadata is None else decode(metadata))
        found.append(message)
    return tuple(found)


def _parts(content: str) -> tuple[Part, ...]:
    value = _object(content)
    parts = value["parts"]
    if len(parts) == 1 and parts[0]["type"] == "text":
        return (TextPart(parts[0]["text"]),)  # most messages, in a third of the time
    return content_from_wire(value)


def thread_of(row: ThreadRow, owner: str) -> Thread:
    """Return the thread of a row."""
    id_, title, metadata, created_at, updated_at = row
    return Thread(
        id=id_,
        resource_id=owner,
        title=title,
        metadata=metadata_of(metadata),
        created_at=moment(created_at),
        updated_at=moment(updated_at),
    )


def metadata_of(text: str) -> JsonObject:
    """Return a thread's metadata."""
    return {} if text == "{}" else _object(text)


def _object(text: str) -> dict[str, Any]:
    value: dict[str, Any] = decode(text)  # type: ignore[assignment]  # only objects are stored; Any: JSON of our own
    return value
