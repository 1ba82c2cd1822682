"""JSON as it is stored: what was saved comes back equal, whatever it holds.

pydantic-core is three times as fast as the standard library, but refuses lone surrogates and deep nesting. Those few
values go through the standard library, which writes a lone surrogate as an escape, so that the database only ever sees
valid UTF-8.
"""

import json

from pydantic_core import PydanticSerializationError, from_json, to_json

from bascule.errors import InputError
from bascule.messages import JsonValue

__all__ = ["decode", "encode"]


def encode(value: JsonValue, what: str) -> str:
    """Return ``value`` as JSON text.

    Args:
        value: what to store.
        what: its name for the error message.

    Raises:
        InputError: it is not JSON, or nested too deeply to be read again.
    """
    try:
        return to_json(value).decode()
    except (PydanticSerializationError, ValueError):
        pass
    try:
        text = json.dumps(value, separators=(",", ":"))
        json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{what} cannot be stored as JSON: {error}.") from error
    return text


def decode(text: str) -> JsonValue:
    """Return the value that ``encode`` made ``text`` from."""
    try:
        value: JsonValue = from_json(text, cache_strings="keys")
    except ValueError:
        value = json.loads(text)
    return value
