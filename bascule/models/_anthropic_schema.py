"""Makes a JSON schema one that the server can hold a model to.

It wants every object closed, and knows no limits on sizes and values: those become part of the description, where the
model reads them, and are checked by whoever reads the answer.
"""

from collections.abc import Mapping, Sequence

from bascule.messages import JsonObject, JsonValue
from bascule.models._prompt import json_text

__all__ = ["answer_schema"]

_LIMITS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
)  # fmt: skip
_BY_NAME = ("properties", "$defs", "definitions")
_VALUES = ("enum", "const", "default", "examples", "required")


def answer_schema(schema: JsonObject) -> dict[str, JsonValue]:
    """Return the schema in the form that the server takes."""
    written: dict[str, JsonValue] = {}
    for key, value in schema.items():
        if key in _BY_NAME and isinstance(value, Mapping):
            written[key] = {name: _inner(inner) for name, inner in value.items()}
        elif key in _VALUES:
            written[key] = value
        elif key not in _LIMITS:
            written[key] = _inner(value)
    if schema.get("type") == "object" or "properties" in schema:
        written["additionalProperties"] = False
    limits = {key: schema[key] for key in _LIMITS if key in schema}
    if limits:
        said = schema.get("description")
        written["description"] = f"{said} {json_text(limits)}" if isinstance(said, str) else json_text(limits)
    return written


def _inner(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping):
        return answer_schema(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_inner(item) for item in value]
    return value
