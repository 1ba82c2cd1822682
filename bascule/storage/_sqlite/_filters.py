"""From filters to SQL conditions with parameters."""

import re
from collections.abc import Mapping

from bascule.errors import InputError
from bascule.storage._protocol import MessageFilter
from bascule.storage._sqlite._rows import microseconds

__all__ = ["Condition", "message_condition", "metadata_condition"]

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_REFUSED_KEYS = frozenset({"__proto__", "constructor", "prototype"})
"""Names that mean something else to the JavaScript clients that read the same metadata."""

MAX_FILTER_KEYS = 32
"""Conditions in one filter."""

_INTEGERS = range(-(2**63), 2**63)

Condition = tuple[str, list[str | int | float]]
"""SQL text that begins with ``AND``, or is empty, and its parameters."""


def message_condition(where: MessageFilter | None) -> Condition:
    """Return the condition for the rows of messages.

    Raises:
        InputError: the filter has an unknown entry, key or value.
    """
    if not where:
        return "", []
    unknown = set(where) - {"metadata", "date_range"}
    if unknown:
        raise InputError(f"A message filter has no entry {min(unknown)!r}; the entries are metadata and date_range.")
    sql, parameters = metadata_condition(where.get("metadata"))
    span = where.get("date_range", {})
    unknown = set(span) - {"start", "end"}
    if unknown:
        raise InputError(f"date_range has no entry {min(unknown)!r}; the entries are start and end.")
    for name, operator in (("start", ">="), ("end", "<=")):
        at = span.get(name)
        if at is not None:
            sql += f" AND created_at {operator} ?"
            parameters.append(microseconds(at, f"date_range.{name}"))  # type: ignore[arg-type]  # a moment, or refused
    return sql, parameters


def metadata_condition(metadata: Mapping[str, str | int | float | bool | None] | None) -> Condition:
    """Return the condition for a JSON column ``metadata``.

    Raises:
        InputError: a key is no plain name, or a value no plain value.
    """
    if not metadata:
        return "", []
    if len(metadata) > MAX_FILTER_KEYS:
        raise InputError(f"A metadata filter has {len(metadata)} keys; at most {MAX_FILTER_KEYS} are allowed.")
    # Metadata may hold what Python calls JSON and SQLite does not (NaN): such a row matches nothing, and hurts nobody.
    parts = ["json_valid(metadata)"]
    parameters: list[str | int | float] = []
    for key, value in metadata.items():
        path = f"'$.{_checked(key)}'"
        kind, wanted = _comparison(key, value)
        parts.append(f"json_type(metadata, {path}) {kind}")
        if wanted is not None:
            parts.append(f"json_extract(metadata, {path}) = ?")
            parameters.append(wanted)
    # CASE, since AND does not promise the order in which it looks.
    return f" AND CASE WHEN {parts[0]} THEN {' AND '.join(parts[1:])} ELSE 0 END", parameters


def _checked(key: object) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key) or key in _REFUSED_KEYS:
        raise InputError(
            f"The metadata key {key!r} cannot be filtered by. A key is a letter or underscore, then letters, digits "
            "and underscores, at most 128 characters."
        )
    return key


def _comparison(key: str, value: object) -> tuple[str, str | int | float | None]:
    """Return the condition on the JSON type, and the value to compare with where the type does not tell all."""
    match value:
        case None:
            return "= 'null'", None
        case bool():
            return "= 'true'" if value else "= 'false'", None
        case int() if value in _INTEGERS:
            return "IN ('integer', 'real')", value
        case float() if value == value and abs(value) != float("inf"):
            return "IN ('integer', 'real')", value
        case str() if "\0" not in value and _encodable(value):
            return "= 'text'", value
        case _:
            raise InputError(
                f"The metadata filter for {key!r} is {value!r}; it can be a text, a finite number of at most 64 bits, "
                "a boolean or None."
            )


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
