"""JSON of a stranger: one reading, or none."""

import json
from collections.abc import Iterable
from typing import NoReturn, cast

__all__ = ["strict_object"]

MAX_DEPTH = 100
"""How many arrays and objects may stand inside each other."""


def _unique(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    # With a repeated name, two parsers may see two different values (RFC 8725 section 2.6, RFC 7515 section 4).
    items = list(pairs)
    found = dict(items)
    if len(found) != len(items):
        raise ValueError("a name is repeated")
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _refuse_depth(value: object) -> None:
    """Refuse what is nested deeper than anything honest; how deep the parser itself goes depends on the Python."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise ValueError("nested too deeply")


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def strict_object(data: bytes) -> dict[str, object]:
    """Parse a JSON object in UTF-8.

    Raises:
        ValueError: not an object, not UTF-8, a repeated name, NaN or Infinity, lone surrogates, or too deep.
    """
    try:
        text = data.decode("utf-8")
        value: object = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    found = cast("dict[str, object]", value)
    _refuse_depth(found)
    return found
