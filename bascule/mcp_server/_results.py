"""From what a tool, prompt or resource returned to what is sent: plain JSON values in the protocol's spelling.

Pure functions. A result is text unless the tool declared an output schema: clients show a model either the text or the
structured content, never both, so everything that a model needs stands in whichever there is.

Python strings may hold halves of surrogate pairs: of file names that are not UTF-8, and of an emoji that was cut. No
JSON can be written with them, so ``sendable`` takes them out of everything that leaves here.
"""

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar, cast

from pydantic_core import to_jsonable_python

from bascule.messages import JsonValue
from bascule.tools import Audio, Content, EmbeddedResource, Image, ResourceLink, content_of, json_value, model_text

__all__ = [
    "Wire",
    "call_result",
    "content_block",
    "error_result",
    "present",
    "prompt_messages",
    "resource_contents",
    "sendable",
]

_Value = TypeVar("_Value")

Wire: TypeAlias = dict[str, Any]  # Any: JSON on its way to the wire, checked by the SDK against the schema

_STRUCTURED_TWICE = "The tool answered with {kind}, but its output schema describes an object."


def sendable(value: _Value) -> _Value:
    """Return a value with U+FFFD in place of every lone surrogate in its texts, mappings and lists; else unchanged."""
    changed: object = value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:  # two halves that stand side by side become whole
            changed = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    elif isinstance(value, dict):
        entries = cast("dict[object, object]", value)
        changed = {sendable(key): sendable(item) for key, item in entries.items()}
    elif isinstance(value, list):
        changed = [sendable(item) for item in cast("list[object]", value)]
    return cast("_Value", changed)


def call_result(value: object, *, structured: bool) -> Wire:
    """Return the result of a tool call.

    Args:
        value: what the tool returned.
        structured: whether the tool has an output schema.
    """
    with suppress(RecursionError):  # a value that contains itself
        value = sendable(value)
    return sendable(_call_result(value, structured=structured))


def _call_result(value: object, *, structured: bool) -> Wire:
    pieces = content_of(value)
    if pieces is not None:
        return {"content": [content_block(piece) for piece in pieces], "isError": False}
    if structured:
        plain = _plain(value)
        if not isinstance(plain, Mapping):
            return error_result(_STRUCTURED_TWICE.format(kind=type(value).__name__))
        return {"content": [text_block(model_text(plain))], "structuredContent": plain, "isError": False}
    if value is None:
        return {"content": [], "isError": False}
    return {"content": [text_block(model_text(value))], "isError": False}


def _plain(value: object) -> JsonValue:
    plain = json_value(value)
    if not isinstance(plain, str) or isinstance(value, str):
        return plain
    try:  # a text stands for what cannot be written; without lone surrogates it may be writable
        return json_value(sendable(to_jsonable_python(value, inf_nan_mode="strings", fallback=str)))
    except (ValueError, RecursionError):
        return plain


def error_result(text: str) -> Wire:
    """Return the result of a tool call that failed in a way that a model should read."""
    return {"content": [text_block(sendable(text))], "isError": True}


def text_block(text: str) -> Wire:
    """Return a block of text."""
    return {"type": "text", "text": text}


def content_block(piece: Content | str) -> Wire:
    """Return one block of a message or of a tool's result."""
    match piece:
        case str():
            return text_block(piece)
        case Image():
            return {"type": "image", "data": piece.base64, "mimeType": piece.media_type}
        case Audio():
            return {"type": "audio", "data": piece.base64, "mimeType": piece.media_type}
        case EmbeddedResource():
            return {"type": "resource", "resource": _contents(piece.uri, piece.data, piece.media_type)}
        case ResourceLink():
            link: Wire = {"type": "resource_link", "uri": piece.uri, "name": piece.name}
            if piece.description is not None:
                link["description"] = piece.description
            if piece.media_type is not None:
                link["mimeType"] = piece.media_type
            return link


def _contents(uri: str, data: str | bytes, media_type: str) -> Wire:
    if isinstance(data, str):
        return {"uri": uri, "mimeType": media_type, "text": data}
    return {"uri": uri, "mimeType": media_type, "blob": base64.b64encode(data).decode()}


def resource_contents(uri: str, value: object, media_type: str | None) -> list[Wire]:
    """Return the contents of a resource.

    Args:
        uri: the URI that was asked for.
        value: text, bytes, content objects or a sequence of them; other values are given as JSON text.
        media_type: what the resource declares, when it does.
    """
    return sendable(_resource_contents(uri, value, media_type))


def _resource_contents(uri: str, value: object, media_type: str | None) -> list[Wire]:
    several = _several(value)
    if several is not None:
        return [contents for item in several for contents in _resource_contents(uri, item, media_type)]
    match value:
        case str():
            return [_contents(uri, value, media_type or "text/plain")]
        case bytes():
            return [_contents(uri, value, media_type or "application/octet-stream")]
        case Image() | Audio():
            return [_contents(uri, value.data, value.media_type)]
        case EmbeddedResource():
            return [_contents(value.uri, value.data, value.media_type)]
        case _:
            return [_contents(uri, model_text(value), media_type or "application/json")]


def _several(value: object) -> Sequence[Content] | None:
    if not isinstance(value, list | tuple) or not value:
        return None
    items = cast("Sequence[object]", value)
    return cast("Sequence[Content]", items) if all(isinstance(item, Content) for item in items) else None


def prompt_messages(value: object) -> list[Wire]:
    """Return the messages of a prompt.

    Args:
        value: a text or content object (one message of the user), or a sequence of them and of mappings with ``role``
            and ``content``.
    """
    return sendable(_prompt_messages(value))


def _prompt_messages(value: object) -> list[Wire]:
    if isinstance(value, str | Content | Mapping):
        return _messages_of(cast("str | Content | Mapping[str, object]", value))
    if isinstance(value, list | tuple):
        return [message for item in cast("Sequence[object]", value) for message in _messages_of(item)]
    return _messages_of(model_text(value))


def _messages_of(item: object) -> list[Wire]:
    """One message for every block: the protocol has no message with several."""
    role, content = "user", item
    if isinstance(item, Mapping):
        message = cast("Mapping[str, object]", item)
        role, content = str(message.get("role", "user")), message.get("content", "")
    pieces = content_of(content)
    if pieces is None:
        pieces = [content if isinstance(content, str) else model_text(content)]
    return [{"role": role, "content": content_block(piece)} for piece in pieces]


def present(values: Mapping[str, JsonValue]) -> Wire:
    """Leave out what is ``None``, and lone surrogates."""
    return {key: sendable(value) for key, value in values.items() if value is not None}
