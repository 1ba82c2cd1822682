"""What the request bodies of several model servers have in common."""

import base64
import binascii
import json
import re
from collections.abc import Collection, Mapping, Sequence

from bascule.messages import JsonObject, JsonValue
from bascule.models._prompt import json_text

__all__ = ["AUDIO_FORMATS", "arguments_text", "decoded_text", "named_schema", "options_of"]

AUDIO_FORMATS: Mapping[str, str] = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
"""OpenAI's name for the format of an audio file, by media type."""

_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z]+(?![a-z])|[A-Z])")


def named_schema(schema: JsonObject) -> dict[str, JsonValue]:
    """Return an answer's schema with the name that OpenAI wants, strict where the schema allows it."""
    title = schema.get("title")
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", title)[:64] if isinstance(title, str) else ""
    return {"name": name.strip("_") or "answer", "schema": schema, "strict": _allows_strict(schema)}


def _allows_strict(schema: JsonValue) -> bool:
    """Whether every object in a schema is closed and requires all its properties, as strict mode demands."""
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        if isinstance(properties, Mapping) or schema.get("type") == "object":
            required = schema.get("required")
            names = set[JsonValue](properties) if isinstance(properties, Mapping) else set[JsonValue]()
            listed = set(required) if isinstance(required, Sequence) else set[JsonValue]()
            if schema.get("additionalProperties") is not False or names != listed:
                return False
        return all(map(_allows_strict, schema.values()))
    return isinstance(schema, str) or not isinstance(schema, Sequence) or all(map(_allows_strict, schema))


def options_of(options: JsonObject | None, provider: str, *, without: Collection[str] = ()) -> dict[str, JsonValue]:
    """Return the options for a provider under the names that servers know, which are snake case.

    Args:
        options: options by provider name.
        provider: whose options are wanted.
        without: names to leave out.
    """
    chosen = options.get(provider) if options is not None else None
    if not isinstance(chosen, Mapping):
        return {}
    named = {_CAMEL.sub(lambda found: f"_{found[1].lower()}", key): value for key, value in chosen.items()}
    return {key: value for key, value in named.items() if key not in without}


def decoded_text(data: str) -> str:
    """Return the text in base64 data; data that is no base64 is returned as it is."""
    try:
        return base64.b64decode(data, validate=True).decode(errors="replace")
    except binascii.Error:
        return data


def arguments_text(args: JsonValue) -> str:
    """Return arguments as the text of a JSON object: servers parse it, and fail on what a model got wrong before."""
    if isinstance(args, Mapping):
        return json_text(args)
    if isinstance(args, str):
        try:
            if isinstance(json.loads(args), dict):
                return args
        except ValueError:
            pass
    return "{}" if args is None else json_text({"invalid_arguments": args})
