"""Fills a tool's arguments from a plain text, guided by the tool's JSON schema.

What a text offers (quoted texts, numbers, dates, addresses, names) is read once into ``Facts``; the schema's
properties then take from it in order, required ones first, so that nothing is used twice.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from bascule.messages import JsonObject, JsonValue

__all__ = ["Filled", "fill_arguments", "neutral_value"]

_MAX_DEPTH = 6
_QUOTED = re.compile(r"\"([^\"]*)\"|“([^”]*)”|`([^`]*)`|(?<!\w)'([^']*)'(?!\w)|(?<!\w)\u2018([^\u2019]*)\u2019")
_FORMATS = {
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "uri": re.compile(r"[a-z][a-z0-9+.-]*://[^\s<>\"']+[^\s<>\"'.,;:!?)]", re.IGNORECASE),
    "date-time": re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"),
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "time": re.compile(r"\d\d:\d\d(?::\d\d)?"),
    "uuid": re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE),
}
_COUNTING = "zero one two three four five six seven eight nine ten eleven twelve"
_SPELLED = {word: value for value, word in enumerate(_COUNTING.split())}
_NUMBER = re.compile(rf"(?<![\w.])-?\d+(?:\.\d+)?(?![\d_])|(?<![-\d])\b(?:{'|'.join(_SPELLED)})\b", re.IGNORECASE)
_PREPOSITION = re.compile(r"\b(?:to|for|in|of|about|from|at|named|called|on|with)\s+(.+)$", re.IGNORECASE)
_PROPER = re.compile(r"(?<=[\w,;:] )[A-Z][\w'-]*(?: [A-Z][\w'-]*)*")
_COLON = re.compile(r":\s+(.+)$", re.DOTALL)
_FREE_TEXT = "prompt message question task input instruction instructions request text content body"
_WHOLE_TEXT = frozenset(_FREE_TEXT.split())
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Filled:
    """What came of filling a schema.

    Attributes:
        arguments: the values that were found.
        missing: required properties that the text says nothing about.
    """

    arguments: dict[str, JsonValue]
    missing: tuple[str, ...]


@dataclass(slots=True)
class _Facts:
    """What a text offers; values are taken out as they are used."""

    text: str
    topic: frozenset[str]
    quoted: list[str] = field(default_factory=list[str])
    numbers: list[int | float] = field(default_factory=list[int | float])
    formats: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    plain: str = ""
    phrase_used: bool = False


def fill_arguments(schema: JsonObject, text: str, *, topic: Iterable[str] = ()) -> Filled:
    """Fill an object schema from a text.

    Args:
        schema: a JSON schema with an object at its root.
        text: what the user wrote.
        topic: words of the text that chose the tool, so that they are not taken for values.
    """
    given = _given_json(schema, text)
    if given is not None:
        return Filled(given, tuple(name for name in _required(schema) if name not in given))
    missing: list[str] = []
    values = _fill_object(schema, schema, _read_facts(text, topic), missing, "", 0)
    return Filled(values, tuple(missing))


def _given_json(schema: JsonObject, text: str) -> dict[str, JsonValue] | None:
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        value: object = json.loads(text[start : end + 1])
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    given = cast("dict[str, JsonValue]", value)  # JSON objects have text keys and JSON values
    return given if given and given.keys() <= _properties(schema).keys() else None


def _read_facts(text: str, topic: Iterable[str]) -> _Facts:
    facts = _Facts(text, frozenset(topic))
    rest = text
    facts.quoted = [next(group for group in match.groups() if group is not None) for match in _QUOTED.finditer(rest)]
    rest = _QUOTED.sub(" ", rest)
    for name, pattern in _FORMATS.items():
        facts.formats[name] = pattern.findall(rest)
        if name != "time":
            rest = pattern.sub(" ", rest)
    facts.numbers = [_number(word) for word in _NUMBER.findall(_FORMATS["time"].sub(" ", rest))]
    facts.plain = " ".join(rest.split()).rstrip("?!. ")
    return facts


def _number(word: str) -> int | float:
    spelled = _SPELLED.get(word.lower())
    if spelled is not None:
        return spelled
    return float(word) if "." in word else int(word)


def _properties(schema: JsonObject) -> Mapping[str, JsonValue]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _required(schema: JsonObject) -> Sequence[str]:
    required = schema.get("required")
    if not isinstance(required, Sequence) or isinstance(required, str):
        return ()
    return [name for name in required if isinstance(name, str)]


def _resolve(schema: JsonValue, root: JsonObject) -> JsonObject:
    """Follow references and take the first branch that is not null."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            target: JsonValue = root
            for key in reference[2:].split("/"):
                target = target.get(key) if isinstance(target, Mapping) else None
            schema = target
            continue
        branches = schema.get("anyOf", schema.get("oneOf", schema.get("allOf")))
        if not isinstance(branches, Sequence) or isinstance(branches, str):
            return schema
        schema = next((item for item in branches if isinstance(item, Mapping) and item.get("type") != "null"), None)
    return {}


def _kind(schema: JsonObject) -> str:
    kind = schema.get("type")
    if isinstance(kind, Sequence) and not isinstance(kind, str):
        kind = next((item for item in kind if item != "null"), None)
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "string"


def _fill_object(
    schema: JsonObject, root: JsonObject, facts: _Facts, missing: list[str], path: str, depth: int
) -> dict[str, JsonValue]:
    properties, required = _properties(schema), _required(schema)
    values: dict[str, JsonValue] = {}
    for name in sorted(properties, key=lambda name: name not in required):  # stable: required ones first, in order
        needed = name in required
        field_schema = _resolve(properties[name], root)
        value = _fill_value(name, field_schema, root, facts, missing if needed else [], f"{path}{name}", needed, depth)
        if value is not _MISSING:
            values[name] = cast("JsonValue", value)  # every filler returns JSON values
        elif needed:
            missing.append(f"{path}{name}")
    return {name: values[name] for name in properties if name in values}


def _fill_value(
    name: str,
    schema: JsonObject,
    root: JsonObject,
    facts: _Facts,
    missing: list[str],
    path: str,
    needed: bool,
    depth: int,
) -> object:
    if "const" in schema:
        return schema["const"]
    options = schema.get("enum")
    if isinstance(options, Sequence) and not isinstance(options, str):
        return _option(options, facts)
    named = _named(name, facts.text)
    match _kind(schema):
        case "integer" | "number" as kind:
            return _take_number(named, facts, whole=kind == "integer")
        case "boolean":
            return _boolean(name, named, facts)
        case "array":
            return _array(_resolve(schema.get("items"), root), facts, needed=needed)
        case "object":
            if depth >= _MAX_DEPTH or not (needed or _properties(schema)):
                return _MISSING
            value = _fill_object(schema, root, facts, missing, f"{path}.", depth + 1)
            return value if value or needed else _MISSING
        case "null":
            return None
        case _:
            return _string(name, schema, named, facts, needed=needed)


def _named(name: str, text: str) -> str | None:
    """Return what the text gives under the parameter's own name: ``name=value`` or ``name: value``."""
    spelled = re.escape(name).replace("_", "[ _-]")
    found = re.search(rf"(?<!\w){spelled}\s*[:=]\s*(\"[^\"]*\"|'[^']*'|[^\s,;]+)", text, re.IGNORECASE)
    return found[1].strip("\"'") if found else None


def _option(options: Sequence[JsonValue], facts: _Facts) -> object:
    for option in sorted(options, key=lambda option: -len(str(option))):
        if re.search(rf"(?<!\w){re.escape(str(option)).replace('_', '[ _-]')}(?!\w)", facts.text, re.IGNORECASE):
            return option
    return _MISSING


def _take_number(named: str | None, facts: _Facts, *, whole: bool) -> object:
    if named is not None and _NUMBER.fullmatch(named):
        value = _number(named)
        if value in facts.numbers:
            facts.numbers.remove(value)
        return value if not whole or isinstance(value, int) else _MISSING
    for value in facts.numbers:
        if not whole or isinstance(value, int):
            facts.numbers.remove(value)
            return value
    return _MISSING


def _boolean(name: str, named: str | None, facts: _Facts) -> object:
    words = [named.lower()] if named is not None else re.findall(r"\w+", facts.plain.lower())
    for word in words:
        if word in (*_TRUE, "1") and (named is not None or word == "true"):
            return True
        if word in (*_FALSE, "0") and (named is not None or word == "false"):
            return False
    spelled = re.escape(name).replace("_", "[ _-]")
    found = re.search(rf"\b(no|not|without|don't)?\s*\b{spelled}\b", facts.plain, re.IGNORECASE)
    return found[1] is None if found else _MISSING


def _array(items: JsonObject, facts: _Facts, *, needed: bool) -> object:
    values: list[JsonValue]
    kind, options = _kind(items), items.get("enum")
    if isinstance(options, Sequence) and not isinstance(options, str):
        values = [option for option in options if _option([option], facts) is not _MISSING]
    elif kind in ("integer", "number"):
        values = [value for value in facts.numbers if kind == "number" or isinstance(value, int)]
        facts.numbers = []
    elif kind == "string":
        values = list(facts.quoted)
        facts.quoted = []
        colon = _COLON.search(facts.plain)
        if not values and needed and colon:
            values = [piece.strip() for piece in re.split(r",|\band\b", colon[1]) if piece.strip()]
    else:
        values = []
    return values or _MISSING


def _string(name: str, schema: JsonObject, named: str | None, facts: _Facts, *, needed: bool) -> object:
    text_format = schema.get("format")
    if isinstance(text_format, str) and text_format in _FORMATS:
        found = facts.formats[text_format]
        return found.pop(0) if found else _MISSING
    if named is not None:
        if named in facts.quoted:
            facts.quoted.remove(named)
        return named
    if facts.quoted:
        return facts.quoted.pop(0)
    for kind in ("email", "uri"):
        if facts.formats[kind] and name.lower() in (kind, "url", "link", "address", "recipient", "to"):
            return facts.formats[kind].pop(0)
    if not needed:
        return _MISSING
    if name.lower() in _WHOLE_TEXT:
        colon = _COLON.search(facts.text)
        return colon[1].strip() if colon else facts.text.strip() or _MISSING
    return _phrase(name, facts)


def _phrase(name: str, facts: _Facts) -> object:
    """Return the part of the text that an unquoted value most likely is; given out once."""
    if facts.phrase_used or not facts.plain:
        return _MISSING
    proper, tail = _PROPER.search(facts.plain), _PREPOSITION.search(facts.plain)
    after_topic = _after_topic(facts)
    candidates = [proper[0] if proper and proper[0] != "I" else None, tail[1] if tail else None, after_topic]
    if name.lower() in ("query", "q", "search", "term", "topic", "keywords"):
        candidates = [*candidates[1:], candidates[0]]
    chosen = next((candidate for candidate in candidates if candidate), None)
    if chosen is None:
        return _MISSING
    facts.phrase_used = True
    return chosen


def _after_topic(facts: _Facts) -> str | None:
    words = facts.plain.split()
    for position, word in enumerate(words):
        plain = word.casefold().strip(".,;:!?")
        if any(plain.startswith(topic) for topic in facts.topic):
            return " ".join(words[position + 1 :]) or None
    return None


def neutral_value(schema: JsonValue, root: JsonObject, depth: int = 0) -> JsonValue:
    """Return the plainest value that a schema allows, for properties a text says nothing about."""
    resolved = _resolve(schema, root)
    options = resolved.get("enum")
    if "default" in resolved:
        return resolved["default"]
    if "const" in resolved:
        return resolved["const"]
    if isinstance(options, Sequence) and options:
        return options[0]
    match _kind(resolved):
        case "integer" | "number":
            minimum = resolved.get("minimum", 0)
            return minimum if isinstance(minimum, int | float) and minimum > 0 else 0
        case "boolean":
            return False
        case "array":
            least = resolved.get("minItems", 0)
            count = least if isinstance(least, int) and depth < _MAX_DEPTH else 0
            return [neutral_value(resolved.get("items"), root, depth + 1) for _ in range(count)]
        case "object":
            properties = _properties(resolved)
            names = [name for name in _required(resolved) if name in properties] if depth < _MAX_DEPTH else []
            return {name: neutral_value(properties[name], root, depth + 1) for name in names}
        case "null":
            return None
        case _:
            return ""
