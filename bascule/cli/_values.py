"""Arguments from the command line: texts that a tool's schema turns into values."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from bascule.errors import InputError

__all__ = ["arguments_from", "describe_type"]

_Schema = Mapping[str, Any]  # JSON schema; read with defaults

_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
_EVERY_TYPE = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})
_NAMES: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


def arguments_from(words: Sequence[str], schema: _Schema, *, tool: str) -> dict[str, object]:
    """Return the arguments of a tool call.

    Args:
        words: ``key=value`` each, or one JSON object.
        schema: the tool's input schema.
        tool: its name, for error texts.

    Raises:
        InputError: a word is no argument of the tool, or its value has the wrong type.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return _object(words[0])
    properties = cast("Mapping[str, _Schema]", schema.get("properties", {}))
    found: dict[str, object] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise InputError(
                f"{word!r} is no argument. Write key=value, or one JSON object. {_takes(tool, properties)}"
            )
        if key not in properties and schema.get("additionalProperties", False) is False:
            raise InputError(
                f"The tool {tool!r} has no parameter {key!r}.{_near(key, properties)} {_takes(tool, properties)}"
            )
        if key in found:
            raise InputError(f"{key!r} is given twice. Give it once; several values are a list: {key}='[1, 2]'.")
        found[key] = _value(text, properties.get(key, {}), schema, key)
    return found


def describe_type(schema: _Schema, root: _Schema) -> str:
    """Return the type of a parameter in a few words."""
    schema = _resolved(schema, root)
    if "enum" in schema:
        return "|".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if schema.get("type") == "array" and "items" in schema:
        return f"[{describe_type(schema['items'], root)}]"
    return "|".join(dict.fromkeys(_types(schema, root))) or "any"


def _object(text: str) -> dict[str, object]:
    try:
        found: object = json.loads(text)
    except ValueError as error:
        raise InputError(f"The arguments are not JSON: {error}. Write them as key=value, or mend the JSON.") from error
    return cast("dict[str, object]", found)  # a text that begins with { is an object


def _value(text: str, schema: _Schema, root: _Schema, key: str) -> object:
    types = frozenset(_types(schema, root))
    if "string" in types:
        return text
    lowered = text.strip().lower()
    if lowered in _BOOLEANS and "boolean" in types:
        return _BOOLEANS[lowered]
    try:
        value: object = json.loads(text)
    except ValueError:
        value = text
    if not types or _type_of(value) in types or (_type_of(value) == "integer" and "number" in types):
        return value
    hint = f" Write it as JSON: {key}='[1, 2]'" if "array" in types else ""
    hint = f" Write it as JSON: {key}='{{\"a\": 1}}'" if "object" in types else hint
    raise InputError(f"{key} is {text!r}, and has to be {describe_type(schema, root)}.{hint}")


def _types(schema: _Schema, root: _Schema) -> Iterator[str]:
    schema = _resolved(schema, root)
    if "type" in schema:
        named = schema["type"]
        yield from [named] if isinstance(named, str) else named
        return
    for value in schema.get("enum", [schema["const"]] if "const" in schema else []):
        yield _type_of(value)
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _types(choice, root)


def _resolved(schema: _Schema, root: _Schema) -> _Schema:
    for _ in range(20):  # a schema may refer to itself
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found = root
        for part in reference[2:].split("/"):
            found = cast("_Schema", found.get(part.replace("~1", "/").replace("~0", "~"), {}))
        schema = found
    return schema


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    return "array" if isinstance(value, list) else _NAMES[type(value)]


def _takes(tool: str, properties: Mapping[str, _Schema]) -> str:
    return f"It takes {', '.join(properties)}." if properties else f"The tool {tool!r} takes no arguments."


def _near(key: str, properties: Mapping[str, _Schema]) -> str:
    near = difflib.get_close_matches(key, properties, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
