"""Reads the description of a function and of its parameters from its docstring (Google, NumPy or Sphinx style)."""

import inspect
import re
from collections.abc import Callable

__all__ = ["describe"]

_SECTION = re.compile(
    r"^(args|arguments|parameters|params|returns?|raises|yields?|examples?|notes?|attributes|see also|warnings?):?\s*$",
    re.IGNORECASE,
)
_PARAMETERS = re.compile(r"^(args|arguments|parameters|params):?\s*$", re.IGNORECASE)
_GOOGLE_ITEM = re.compile(r"^\*{0,2}(\w+)(?:\s*\([^)]*\))?\s*:\s+(.*)$")
_NUMPY_ITEM = re.compile(r"^\*{0,2}(\w+)(?:\s*:\s*\S.*)?$")
_SPHINX_ITEM = re.compile(r"^:param(?:\s+[\w\[\], |.]+)?\s+(\w+):\s*(.*)$")


def describe(function: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """Return the function's description, without its sections, and the text of each parameter."""
    lines = (inspect.getdoc(function) or "").splitlines()
    summary: list[str] = []
    section: list[str] | None = None
    in_parameters = False
    parameters: list[str] = []
    sphinx: dict[str, str] = {}
    for position, line in enumerate(lines):
        found = _SPHINX_ITEM.match(line.strip())
        if found:
            sphinx[found[1]] = found[2]
            section = []
        elif _starts_section(lines, position):
            in_parameters = bool(_PARAMETERS.match(line.strip()))
            section = parameters if in_parameters else []
        elif section is not None:
            section.append(line)
        elif not line.strip().startswith(":"):
            summary.append(line)
    return "\n".join(summary).strip(), {**_items(parameters), **sphinx}


def _starts_section(lines: list[str], position: int) -> bool:
    line = lines[position]
    if line.startswith(" ") or not _SECTION.match(line):
        return False
    underlined = position + 1 < len(lines) and set(lines[position + 1].strip()) == {"-"}
    return underlined or line.rstrip().endswith(":")


def _items(lines: list[str]) -> dict[str, str]:
    """Read the parameter section: items at the smallest indent, their texts indented below or after a colon."""
    texts: dict[str, list[str]] = {}
    filled = [line for line in lines if line.strip() and set(line.strip()) != {"-"}]
    if not filled:
        return {}
    indent = min(len(line) - len(line.lstrip()) for line in filled)
    current: list[str] | None = None
    for line in filled:
        at_item = len(line) - len(line.lstrip()) == indent
        text = line.strip()
        google = _GOOGLE_ITEM.match(text) if at_item else None
        numpy = _NUMPY_ITEM.match(text) if at_item and not google else None
        if google and indent > 0:
            current = texts.setdefault(google[1], [google[2]])
        elif numpy is not None or google is not None:
            name = text.split(":")[0].split(" ")[0].lstrip("*")
            current = texts.setdefault(name, [])
        elif current is not None:
            current.append(text)
    return {name: " ".join(part).strip() for name, part in texts.items()}
