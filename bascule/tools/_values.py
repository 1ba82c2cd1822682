"""Turns what a tool returned into JSON values and into the text that a model reads."""

import json
from collections.abc import Sequence
from typing import cast

from pydantic_core import PydanticSerializationError, from_json, to_json

from bascule.messages import JsonValue
from bascule.tools._content import Audio, Content, EmbeddedResource, Image, ResourceLink

__all__ = ["content_of", "json_value", "model_text"]


def json_value(value: object) -> JsonValue:
    """Return a tool's result as JSON values; what JSON cannot say becomes its ``str``."""
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, Image | Audio | EmbeddedResource | ResourceLink):
        return _described(value)
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if any(isinstance(item, Content) for item in items):
            return [json_value(item) for item in items]
    try:
        return cast("JsonValue", from_json(to_json(value, inf_nan_mode="strings", fallback=str)))
    except (PydanticSerializationError, ValueError, RecursionError):
        return str(value)  # pyright: ignore[reportUnknownArgumentType]  # narrowed from object


def model_text(value: object) -> str:
    """Return a tool's result as the text that a model reads: a string as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    plain = json_value(value)
    if isinstance(plain, str):
        return plain
    try:
        return to_json(plain).decode()
    except (PydanticSerializationError, UnicodeEncodeError):
        return json.dumps(plain, default=str)


def content_of(value: object) -> Sequence[Content | str] | None:
    """Return a result's pieces when it is, or holds, pictures, sound or files; ``None`` for plain values."""
    if isinstance(value, Content):
        return (value,)
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if any(isinstance(item, Content) for item in items):
            return [item if isinstance(item, Content) else model_text(item) for item in items]
    return None


def _described(value: Content) -> JsonValue:
    if isinstance(value, Image | Audio):
        kind = type(value).__name__.lower()
        return {"type": kind, "mediaType": value.media_type, "data": value.base64}
    if isinstance(value, ResourceLink):
        return {"type": "resource_link", "uri": value.uri, "name": value.name}
    text = value.data if isinstance(value.data, str) else None
    return {"type": "resource", "uri": value.uri, "mediaType": value.media_type, "text": text}
