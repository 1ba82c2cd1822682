"""Turns every form in which callers give messages into ``Message`` objects."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, cast, get_args

from bascule.errors import InputError
from bascule.messages._codec import part_from_wire
from bascule.messages._parts import JsonObject, Message, Part, Role, TextPart, new_id

__all__ = ["MessagesInput", "normalize"]

MessagesInput: TypeAlias = str | Message | JsonObject | Sequence[str | Message | JsonObject]
"""A text, a message, a mapping with ``role`` and ``content`` or ``parts``, or a sequence of those."""

_ROLES: tuple[str, ...] = get_args(Role)


def normalize(messages: MessagesInput) -> tuple[Message, ...]:
    """Return the messages that a caller gave, in one form; a repeated id counts once.

    Args:
        messages: a text, a ``Message``, a mapping, or a sequence of them.

    Raises:
        InputError: nothing was given, or an item is none of the accepted forms.
    """
    items: Iterable[object]
    items = messages if isinstance(messages, Sequence) and not isinstance(messages, str) else (messages,)
    found: dict[str, Message] = {}
    for position, item in enumerate(items):
        message = _one(item, position)
        found.setdefault(message.id, message)
    if not found:
        raise InputError("No message was given. Pass a text, or a list with at least one message.")
    return tuple(found.values())


def _one(item: object, position: int) -> Message:
    if isinstance(item, Message):
        return item
    if isinstance(item, str):
        return Message(role="user", parts=(TextPart(item),))
    if isinstance(item, Mapping):
        return _from_mapping(cast("JsonObject", item), position)
    raise InputError(
        f"Message {position} is {type(item).__name__}; pass a text, a Message, "
        "or a mapping with 'role' and 'content' or 'parts'."
    )


def _from_mapping(item: JsonObject, position: int) -> Message:
    role = item.get("role", "user")
    if role not in _ROLES:
        raise InputError(f"Message {position} has the role {role!r}; the roles are {', '.join(_ROLES)}.")
    parts = _parts(item, position)
    metadata = item.get("metadata")
    identity = item.get("id")
    return Message(
        id=identity if isinstance(identity, str) and identity else new_id(),
        role=cast("Role", role),
        parts=parts,
        metadata=metadata if isinstance(metadata, Mapping) else None,
    )


def _parts(item: JsonObject, position: int) -> tuple[Part, ...]:
    content = item.get("parts", item.get("content"))
    if isinstance(content, str):
        return (TextPart(content),)
    if isinstance(content, Mapping):  # stored form: {"format": 2, "parts": [...]}
        content = content.get("parts")
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = [part_from_wire(part) for part in content]
        return tuple(part for part in parts if part is not None)
    raise InputError(f"Message {position} has neither text nor a list of parts under 'content' or 'parts'.")
