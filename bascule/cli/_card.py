"""Agents written as a card: a Markdown file whose front matter describes the agent and whose text instructs it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from bascule.agents import Agent
from bascule.errors import AppNotFound, BasculeError, ConfigurationError
from bascule.tools import Tool, safe_name

__all__ = ["agent_from_card"]

_FENCE = "---"
_TEXTS = ("id", "name", "description", "model")
_KEYS = (*_TEXTS, "tools")


def agent_from_card(path: Path, *, tools: Mapping[str, Tool[..., Any]]) -> Agent:
    """Return the agent that a card describes.

    The front matter knows ``id``, ``name``, ``description``, ``model`` and ``tools``; all may be left out. The id is
    then made of the file's name. The text below the front matter is what instructs the agent.

    Args:
        path: the Markdown file.
        tools: what the card may name, by name.

    Raises:
        AppNotFound: there is no such file.
        ConfigurationError: the card cannot be read, or names a tool that is not there.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise AppNotFound(f"There is no card {path}. Name an existing Markdown file.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The card {path} cannot be read: {error}. Name a Markdown file in UTF-8.") from error
    front, body = _split(text, path)
    values = _read(front, path)
    named = _tool_names(values.get("tools"), path)
    try:
        return Agent(
            values.get("id") or safe_name(path.stem),
            name=values.get("name"),
            description=values.get("description") or "",
            model=values.get("model"),
            instructions=body.strip(),
            tools=[_tool(name, tools, path) for name in named],
        )
    except BasculeError as error:
        raise type(error)(f"The card {path}: {error}") from error


def _split(text: str, path: Path) -> tuple[str, str]:
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        return "", text
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == _FENCE:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    raise ConfigurationError(f"The card {path} opens its front matter with --- and never closes it. Add a line ---.")


def _read(front: str, path: Path) -> dict[str, Any]:
    try:
        found: object = yaml.safe_load(front)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"The front matter of the card {path} is not YAML: {_place(error)}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigurationError(f"The front matter of the card {path} is no mapping. Write lines such as: id: tutor")
    values = cast("dict[str, Any]", found)  # Any: YAML; every value is checked below
    for key, value in values.items():
        if key not in _KEYS:
            raise ConfigurationError(f"The card {path} has the entry {key!r}; the entries are {', '.join(_KEYS)}.")
        if key in _TEXTS and not isinstance(value, str | None):
            raise ConfigurationError(f"The card {path} has {value!r} as its {key}; give a text, in quotes if need be.")
    return values


def _place(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        # The fence is the first line of the file, and marks count from 0.
        return f"line {error.problem_mark.line + 2}: {error.problem}. Mend the line."
    return f"{error}."


def _tool_names(value: object, path: Path) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    names = cast("list[object]", value) if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        raise ConfigurationError(f"The card {path} has {value!r} as its tools; give a list of names.")
    return [str(name) for name in names]


def _tool(name: str, tools: Mapping[str, Tool[..., Any]], path: Path) -> Tool[..., Any]:
    if name in tools:
        return tools[name]
    if tools:
        raise ConfigurationError(f"The card {path} names the tool {name!r}; the app has {', '.join(tools)}.")
    raise ConfigurationError(
        f"The card {path} names the tool {name!r}, and there are no tools. "
        "Serve it together with the file that has them: bascule serve FILE --agent CARD.md"
    )
